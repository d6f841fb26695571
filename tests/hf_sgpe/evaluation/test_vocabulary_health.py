from dataclasses import replace

import pytest
from support.operations import calls_in
from support.sentencepiece_like import content
from support.small_tokenizers import BYTES

from hf_sgpe import BPETokenizer, ExtensionConfig, Splitting, WordCounts
from hf_sgpe.evaluation.vocabulary_health import NO_SCRIPT, _new_tokens_of, health_of, scripts_of, unreachable_ids
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.vocabulary.trimming import PARTS


@pytest.fixture
def small():
    """A tokenizer in which ``abc`` needs ``ab``; ``bc``, ``xy z`` and a part of no character are never reached."""
    tokens = [b"ab", b"abc", b"bc", b"xy", b"xy z", b"\xe0\xb6", b"\xf5\x80", b" ab", b"AB"]
    merges = [(b"a", b"b"), (b"ab", b"c"), (b"x", b"y"), (b"\xe0", b"\xb6"), (b"\xf5", b"\x80"), (b" ", b"ab"), (b"A", b"B")]
    vocab = BYTES | {token: 256 + place for place, token in enumerate(tokens)}
    return BPETokenizer(vocab, merges, splitting=Splitting("bpe", pattern="gpt2"), special_tokens={"<s>": 300}).data


def tokens_of(data, ids):
    bytes_of = data.bytes_by_id()
    return sorted(bytes_of[id] for id in ids if len(bytes_of[id]) > 1)


def test_each_token_is_of_one_kind(small, tmp_path):
    (tmp_path / "a.txt").write_text("abc abc ක ab", encoding="utf-8")
    health = health_of(small, [tmp_path / "a.txt"])
    assert tokens_of(small, health.used) == [b" ab", b"abc", b"\xe0\xb6"]
    assert tokens_of(small, health.only_steps) == [b"ab"]
    assert tokens_of(small, health.never_used) == [b"AB", b"bc", b"xy", b"xy z", b"\xf5\x80"]
    assert tokens_of(small, health.unreachable) == [b"bc", b"xy z", b"\xf5\x80"]
    assert health.used | health.only_steps | health.never_used == set(range(256 + 9))
    assert {id for id in health.unreachable if id < 256} == {0xC0, 0xC1, *range(0xF5, 0x100)}
    assert (health.tokens, health.added, health.tokens_in_text) == (265, 1, 7)
    assert health.parts_of_characters == 128 + 2
    assert health.alike == {"case": 27, "space": 1, "either": 28}
    rows = health.by_script()
    assert rows["latin"] == {"tokens": 52 + 7, "used": 2, "only_steps": 4, "never_used": 53, "unreachable": 2}
    assert sum(row["tokens"] for row in rows.values()) == health.tokens
    assert {"latin", PARTS, NO_SCRIPT} == rows.keys()
    facts = health.to_dict()
    assert facts["ids"]["only_steps"] == [list(run) for run in facts["ids"]["only_steps"]]
    assert sum(last - first + 1 for first, last in facts["ids"]["never_used"]) == facts["never_used"]


def test_a_token_that_a_text_has_is_reachable(small, tmp_path):
    (tmp_path / "a.txt").write_text("bc", encoding="utf-8")
    whole_words = replace(small, ignore_merges=True)
    assert small.vocab[b"bc"] in unreachable_ids(small)
    assert small.vocab[b"bc"] not in unreachable_ids(whole_words)
    assert small.vocab[b"bc"] in health_of(whole_words, [tmp_path / "a.txt"]).used


def test_unreachable_tokens_of_a_tokenizer_that_joins_characters():
    data = tokenizer_json.from_dict(content(["low lower lowest ලංකාව"], 60, "metaspace-first"))
    unreachable = unreachable_ids(data)
    texts = {id: token.decode() for token, id in data.vocab.items() if id not in data.added_ids.values()}
    inside = BPETokenizer.of(data.inside_text())
    assert {id for id, text in texts.items() if inside.encode(text) != [id]} == unreachable & texts.keys()
    # Bytes of characters that have a token, and bytes that no text has.
    lone = unreachable - texts.keys()
    assert lone == {
        id for byte, id in enumerate(data.byte_tokens) if bytes([byte]) in data.vocab or byte in (0xC0, 0xC1) or byte >= 0xF5
    }


def test_the_script_of_a_token_is_that_of_its_first_letter():
    tokens = [" මa", "1 Ж", "…", "漢字", "😀", "é"]
    scripts = list(scripts_of([token.encode() for token in tokens]))
    assert scripts == ["sinhala", "cyrillic", NO_SCRIPT, "han", "emoji", "latin"]


def test_the_gain_of_new_tokens_by_cutoff(sample, tmp_path):
    base = BPETokenizer.train_from_iterator([sample["en"][:20_000]], 400, pattern="gpt2").data
    config = ExtensionConfig(new_tokens=400, scripts=("sinhala",), own_split=False)
    counts = WordCounts.from_texts([sample["si"][:60_000]], config.counting_splitting(base))
    extension = extend_from_counts(base, counts, config)
    (tmp_path / "a.txt").write_text(sample["si"][-9000:], encoding="utf-8", newline="\n")
    new = _new_tokens_of(extension.tokenizer)
    assert set(new) == extension.tokenizer.vocab.keys() - base.vocab.keys()
    for size in (extension.unit_tokens, 399):
        assert set(new[:size]) == extension.at(size).vocab.keys() - base.vocab.keys()
    cutoffs = health_of(extension.tokenizer, [tmp_path / "a.txt"]).cutoffs
    assert [cutoff.new_tokens for cutoff in cutoffs] == [50, 100, 200, 400]
    shares = [cutoff.share_of_gain for cutoff in cutoffs]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    text = sample["si"][-9000:]
    tokenizers = map(BPETokenizer.of, (base, extension.at(200), extension.tokenizer))
    before, at_200, after = (len(tokenizer.encode(text)) for tokenizer in tokenizers)
    assert extension.unit_tokens <= 200
    assert cutoffs[2].tokens_in_text == at_200
    assert cutoffs[3].tokens_in_text == after
    assert shares[2] == pytest.approx((before - at_200) / (before - after), abs=0.02)
    assert cutoffs[0].used <= cutoffs[1].used <= cutoffs[3].used <= 400
    assert health_of(base, [tmp_path / "a.txt"]).cutoffs == ()


def test_time_grows_linearly_with_the_text(small, tmp_path):
    for name, times in (("short", 200), ("long", 2000)):
        (tmp_path / f"{name}.txt").write_text("abc ab xy " * times, encoding="utf-8")
    short, long = (calls_in(lambda name=name: health_of(small, [tmp_path / f"{name}.txt"])) for name in ("short", "long"))
    assert long < 10 * short
