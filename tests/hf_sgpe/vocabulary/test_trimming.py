import json
import re
import sys
import unicodedata
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.sentencepiece_like import KINDS, content
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer, SGPEError, __version__
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.splitting.normalization import NFC
from hf_sgpe.vocabulary.trimming import PARTS, check_trimmed, confined_to, keeps_old_ids, rows_in, scripts_except, trimmed

TEXTS = [
    "the low lower lowest newer 123 été ½ — 😀 ",
    "ශ්‍රී ලංකාව ලංකාවේ ක්‍රම ",
    "Привет мир миру мира вниз ",
    "中文 中国 国中 漢字。",
    "한국어 한국 ",
    "नमस्ते दुनिया ",
]
SOME = ["\u2581", "\u200d", "\u0301", "\u0dca", " ", "\n", "the", "low", "é", "😀", "ශ්‍රී", "ලං", "мир", "При", "в"]
SOME += ["中", "国", "한", "न", "½", "。", "<end>"]
CHARACTERS = st.characters(exclude_categories=["Cs"])
strings = st.lists(st.one_of(st.sampled_from(SOME), CHARACTERS), max_size=16).map("".join)
DROPPED = ["cyrillic", "han,hangul"]
PATTERNS = ("gpt2", "o200k", "qwen2")


@cache
def base_of(kind, **parts):
    if kind in PATTERNS:
        normalization = "nfc" if kind == "qwen2" else "none"
        tokenizer = BPETokenizer.train_from_iterator(
            [text * 9 for text in TEXTS], 460, pattern=kind, normalization=normalization, special_tokens=["<end>", "<漢>"]
        )
        return replace(tokenizer.data, **parts)
    return tokenizer_json.from_dict(content(TEXTS, 150, kind, {"<end>": True, "漢": False, "한국": False}))


@cache
def trimming_of(kind, ids, **parts):
    return trimmed(base_of(kind, **parts), DROPPED, ids=ids)


@pytest.fixture(scope="module", params=[*PATTERNS, *KINDS, "cut at spaces", "NFKC", "lower case"])
def kind(request):
    return request.param


def test_without_tokens_for_bytes_characters_stay():
    for trimming in (trimming_of("unknown, fused", "compact"), by_use_of("unknown, fused", "the low")):
        old, new = BPETokenizer.of(trimming.base), BPETokenizer.of(trimming.tokenizer)
        assert {token for token in trimming.base.vocab if len(token.decode()) == 1} <= trimming.tokenizer.vocab.keys()
        assert len(new) < len(old)
        for text in (*TEXTS, "ꯀ x ꯀ"):
            assert new.decode(new.encode(text)) == old.decode(old.encode(text))


@given(text=strings, tokens=st.integers(300, 440))
def test_a_tokenizer_of_any_size_keeps_the_tokens_of_text_that_needs_no_other(text, tokens):
    for kind in ("gpt2", "unknown, fused"):
        base = base_of(kind)
        size = len(base.ids) - (460 - tokens) // 4
        use = np.bincount(BPETokenizer.of(base).encode(" ".join(TEXTS)), minlength=1 + base.highest_id)
        trimming = trimmed(base, (), ids="compact", use=use.tolist(), tokens=size)
        assert len(trimming.ids) == trimming.tokenizer.vocab_size == size
        old, new = BPETokenizer.of(base), BPETokenizer.of(trimming.tokenizer)
        moved = [trimming.ids.get(id) for id in old.encode(text)]
        assert new.encode(text) == moved or None in moved
        needs = [trimming.need[token] for token in trimming.need if token in trimming.tokenizer.vocab]
        assert min(needs) >= max(trimming.need[token] for token in trimming.need if token not in trimming.tokenizer.vocab)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ids", ["keep", "compact"])
@given(text=strings)
def test_other_text_has_its_old_tokens_and_all_text_is_encoded(kind, ids, text):
    trimming = trimming_of(kind, ids)
    old, new = BPETokenizer.of(trimming.base), BPETokenizer.of(trimming.tokenizer)
    before, after = (one.encode(text, allowed_special="all") for one in (old, new))
    assert new.decode(after) == old.decode(before)
    if not _holds(trimming, text):
        assert after == [trimming.ids[id] for id in before]
    library = _library(kind, ids)
    assert library.encode(text, add_special_tokens=False).ids == after


@cache
def by_use_of(kind, corpus, scripts=(), **parts):
    base = base_of(kind, **parts)
    ids = BPETokenizer.of(base).encode(corpus)
    return trimmed(base, scripts, ids="compact", use=np.bincount(ids, minlength=1 + max(base.bytes_by_id())).tolist())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("scripts", [(), ("cyrillic",)], ids=len)
@given(text=strings)
def test_a_corpus_keeps_its_tokens_and_all_other_text_is_encoded(kind, scripts, text):
    corpus = f"{TEXTS[0]} the {TEXTS[2]} low"
    trimming = by_use_of(kind, corpus, scripts)
    old, new = BPETokenizer.of(trimming.base), BPETokenizer.of(trimming.tokenizer)
    assert 0 < trimming.unused < len(old)
    if not scripts:
        assert new.encode(corpus) == [trimming.ids[id] for id in old.encode(corpus)]
    first = TEXTS[0] + " the"
    assert new.encode(first) == [trimming.ids[id] for id in old.encode(first)]
    before, after = (one.encode(text, allowed_special="all") for one in (old, new))
    assert new.decode(after) == old.decode(before)
    library = _library_by_use(kind, corpus, scripts)
    assert library.encode(text, add_special_tokens=False).ids == after


@cache
def _library_by_use(kind, corpus, scripts):
    return Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(by_use_of(kind, corpus, scripts).tokenizer)))


def test_a_word_that_is_a_token_is_kept_without_its_parts():
    text = " ".join(TEXTS[:2])
    trimming = by_use_of("gpt2", text, ignore_merges=True)
    old, new = BPETokenizer.of(trimming.base), BPETokenizer.of(trimming.tokenizer)
    assert new.encode(text) == [trimming.ids[id] for id in old.encode(text)]
    (note,) = trimming.tokenizer.metadata["trimmed"]
    assert note == {"scripts": [], "ids": "compact", "unused": trimming.unused, "version": __version__}


def _holds(trimming, text):
    points = confined_to(DROPPED, trimming.base.normalization).points
    return not points.isdisjoint(map(ord, text))


@cache
def _library(kind, ids):
    return Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(trimming_of(kind, ids).tokenizer)))


def test_a_word_that_is_a_token_stays_one():
    trimming = trimming_of("gpt2", "compact", ignore_merges=True)
    old, new = BPETokenizer.of(trimming.base), BPETokenizer.of(trimming.tokenizer)
    for text in TEXTS:
        assert new.decode(new.encode(text)) == text
        if not _holds(trimming, text):
            assert new.encode(text) == [trimming.ids[id] for id in old.encode(text)]


def test_all_but_tokens_of_the_scripts_stays(kind):
    kept, compact = (trimming_of(kind, ids) for ids in ("keep", "compact"))
    base, new = kept.base, kept.tokenizer
    assert {token: id for token, id in base.vocab.items() if token in new.vocab} == new.vocab
    gone = base.vocab.keys() - new.vocab.keys()
    assert sum(kept.dropped.values()) == len(gone) > 30
    assert {"cyrillic", "han", "hangul"} <= kept.dropped.keys() <= {"cyrillic", "han", "hangul", PARTS}
    assert new.added_ids == base.added_ids
    assert new.byte_tokens == base.byte_tokens
    assert all(old == new for old, new in kept.ids.items())
    ids = [*compact.tokenizer.vocab.values(), *compact.tokenizer.byte_tokens, *compact.tokenizer.added_ids.values()]
    assert set(ids) == set(range(compact.tokenizer.vocab_size))
    assert any(old != new for old, new in compact.ids.items())
    for first, last, new_first in compact.runs_of_ids():
        assert [compact.ids[id] for id in range(first, last + 1)] == [*range(new_first, new_first + last - first + 1)]
    assert sorted(compact.ids) == sorted(kept.ids)
    assert [*compact.ids.values()] == sorted(compact.ids.values())
    assert list(compact.tokenizer.added_ids) == list(base.added_ids)
    if base.by_characters:
        assert "м".encode() in base.vocab
        assert "м".encode() not in new.vocab
        assert "漢" in new.added_tokens
    else:
        assert all(bytes([byte]) in new.vocab for byte in range(256) if bytes([byte]) in base.vocab)


def test_the_metadata_tells_which_ids_are_free():
    base = replace(base_of("gpt2"), metadata={"extensions": [{"new_ids": [[256, 300]]}]})
    kept, compact = (trimmed(base, DROPPED, ids=ids) for ids in ("keep", "compact"))
    assert rows_in(kept.tokenizer.metadata) == base.rows_needed
    assert rows_in(trimmed(base, DROPPED, rows=999).tokenizer.metadata) == 999
    assert keeps_old_ids(kept.tokenizer.metadata)
    assert not keeps_old_ids(compact.tokenizer.metadata)
    assert not keeps_old_ids(base.metadata)
    twice = trimmed(trimmed(base, ["han"], ids="compact").tokenizer, ["cyrillic"])
    assert keeps_old_ids(twice.tokenizer.metadata)
    assert rows_in(twice.tokenizer.metadata) == twice.base.rows_needed
    for one in (kept, compact):
        ranges = one.tokenizer.metadata["extensions"][0]["new_ids"]
        ids = [id for first, last in ranges for id in range(first, last + 1)]
        assert ids == [one.ids[id] for id in range(256, 301) if id in one.ids]


def test_only_tokens_of_kept_scripts_stay():
    scripts = scripts_except(["latin,sinhala", "hi"])
    assert {"latin", "sinhala", "devanagari", "emoji"}.isdisjoint(scripts)
    new = trimmed(base_of("metaspace"), scripts).tokenizer
    text = "".join(token.decode() for token in new.vocab)
    assert {*"theශ।न½—😀。0"}.intersection("".join(TEXTS)) <= {*text}
    assert {*"мПв中国文"}.isdisjoint(text)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scripts", [["emoji"], ["greek", "han"], ["hangul"], scripts_except(["latin", "si"])], ids=len)
def test_no_other_text_becomes_text_of_a_script_by_normalization(scripts):
    points = confined_to(scripts, NFC).points
    for point in range(sys.maxunicode + 1):
        apart = unicodedata.normalize("NFD", chr(point))
        if apart != chr(point):
            if point in points:
                assert not points.isdisjoint(map(ord, apart)), hex(point)
            else:
                assert points.isdisjoint(map(ord, unicodedata.normalize("NFC", chr(point)))), hex(point)


@pytest.mark.parametrize(
    ("scripts", "ids", "message"),
    [
        (["ethiopic"], "keep", "the tokenizer has no tokens of ethiopic: name other scripts"),
        ([], "keep", "the tokenizer has no tokens of these scripts"),
        (
            ["thai", "lao", "khmer", "hebrew", "ethiopic"],
            "keep",
            "no tokens of thai, lao, khmer and 2 more scripts: name other",
        ),
        (["hann"], "keep", "unknown script 'hann'"),
        (["han"], "none", "ids 'none': choose from keep, compact"),
    ],
)
def test_wrong_scripts_and_ids_are_refused(scripts, ids, message):
    with pytest.raises(SGPEError, match=re.escape(message)):
        trimmed(base_of("gpt2"), scripts, ids=ids)


def test_a_tokenizer_that_breaks_the_promise_is_refused():
    trimming = trimming_of("gpt2", "keep")
    base, new, ids = trimming.base, trimming.tokenizer, trimming.ids
    last = new.merges[-1]
    other = {token: id for token, id in new.vocab.items() if token != last[0] + last[1]}
    holder = max(base.vocab.keys() - new.vocab.keys())
    for changed, message in (
        (replace(new, ignore_merges=True), "differ in ignore merges"),
        (replace(new, special_tokens={"<end>": new.special_tokens["<end>"]}), "differ in splitting"),
        (replace(new, special_tokens={**new.special_tokens, "<end>": 9_000}), "differ in special tokens"),
        (replace(new, vocab={**new.vocab, b"zzz": 9_000}), "has the token b'zzz', which its base does not have"),
        (replace(new, vocab={**new.vocab, holder: 9_000}), f"the token {holder!r} has the id 9000 in the trimmed"),
        (replace(new, vocab=other, merges=new.merges[:-1]), "can occur in text of other scripts"),
        (replace(new, merges=new.merges[:-1]), "of the base is missing or has another rank"),
        (replace(new, merges=[new.merges[-1], *new.merges[:-1]]), "of the base is missing or has another rank"),
    ):
        with pytest.raises(SGPEError, match=re.escape(message)):
            check_trimmed(base, changed, DROPPED, ids)
    by_use = by_use_of("gpt2", TEXTS[0])
    unused = base.vocab.keys() - by_use.tokenizer.vocab.keys()
    token, part = next(
        (left + right, left) for left, right in base.merges if left in unused and left + right in unused and len(left) > 1
    )
    with_token = replace(by_use.tokenizer, vocab={**by_use.tokenizer.vocab, token: 9_000})
    with pytest.raises(SGPEError, match=re.escape(f"lacks the token {part!r}, from which {token!r} is built")):
        check_trimmed(base, with_token, (), {**by_use.ids, base.vocab[token]: 9_000}, unused)
    with pytest.raises(SGPEError, match=r"lacks the token"):
        check_trimmed(base, by_use.tokenizer, (), by_use.ids, unused - {token})
    with pytest.raises(SGPEError, match="of the base is missing or has another rank"):
        check_trimmed(base, replace(by_use.tokenizer, merges=by_use.tokenizer.merges[1:]), (), by_use.ids, unused)
    whole = [1] * len(base.bytes_by_id())
    with pytest.raises(SGPEError, match="corpus needs all tokens"):
        trimmed(base, (), use=whole)
    with pytest.raises(SGPEError, match="2 tokens of the base have the id"):
        check_trimmed(base, new, DROPPED, {**ids, max(ids): min(ids)})
