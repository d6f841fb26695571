import json
import unicodedata
from collections import Counter
from itertools import accumulate
from math import log

import pytest
import regex
from hypothesis import example, given, strategies as st
from support.corpora import corpus, held_out
from support.texts import texts

from hf_sgpe import BPETokenizer, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.evaluation.comparison import _bytes_per_token, _compression_sizes, _with_first_merges
from hf_sgpe.evaluation.fairness import gini
from hf_sgpe.evaluation.metrics import MEASURES, Evaluation, _renyi_entropy
from hf_sgpe.evaluation.results import Comparison
from hf_sgpe.evaluation.robustness import CHANGES, small_changes
from hf_sgpe.splitting.normalization import prepare
from hub_cards import evaluate, load_measurable


def ends_at(*ends):
    return lambda text: list(ends)


def test_measures_by_hand():
    # " ක්‍රි" is one syllable of one letter: ක ් ZWJ ර ි, 15 bytes; "න්ද" one of two letters, 9 bytes.
    text = "ක්‍රි න්ද x"
    assert len(text.encode()) == 15 + 1 + 9 + 1 + 1
    whole = evaluate(ends_at(15, 25, 27), [text])
    assert (whole.words, whole.tokens, whole.syllables, whole.letters) == (3, 3, 2, 3)
    assert (whole.cut_syllables, whole.cut_letters) == (0, 0)
    assert whole.tokens_per_word == 1
    assert whole.bytes_per_token == 9
    between_letters = evaluate(ends_at(15, 22, 25, 27), [text])
    assert (between_letters.cut_syllables, between_letters.cut_letters) == (1, 0)
    inside_a_letter = evaluate(ends_at(6, 16, 27), [text])
    assert (inside_a_letter.cut_syllables, inside_a_letter.cut_letters) == (1, 1)
    inside_a_character = evaluate(ends_at(1, 15, 27), [text])
    assert (inside_a_character.cut_syllables, inside_a_character.cut_letters) == (1, 1)


def test_clusters_of_every_script_are_cut_between_characters_or_bytes():
    # A Hebrew letter with a point, 4 bytes; a flag, 8; a letter with an accent, 2. Those of ASCII and dashes do not count.
    text = "שָ 🇱🇰 é a–1\r\n"
    assert evaluate(ends_at(4, 5, 13, 14, 16, 17, 18, 20, 21, 23), [text]).cut_cluster_share == 0
    for end in (1, 2, 3, 6, 9, 12, 15):
        result = evaluate(ends_at(end, 23), [text])
        assert (result.clusters, result.cut_clusters, result.syllables) == (3, 1, 0), end
    assert evaluate(ends_at(19), ["a–1 1️"]).clusters == 1  # for its mark
    assert evaluate(ends_at(2), ["an"]).cut_cluster_share is None


@given(st.lists(st.one_of(texts, st.text("🇱🇰👩\u200dé\u0301ක්ษำ가\u1100 a–1\r\n")), max_size=3))
def test_cut_clusters_are_those_of_a_slow_twin(tokenizer, lines):
    result = evaluate(tokenizer, lines)
    known = cut = 0
    for line in lines:
        text = prepare(line, "nfc")
        ends = set(accumulate(len(tokenizer.token_bytes(id)) for id in tokenizer.encode(text)))
        for cluster in regex.finditer(r"\X", text):
            counts = [regex.match(r"[\p{L}\p{M}\p{Extended_Pictographic}\p{RI}]", c) for c in cluster[0] if not c.isascii()]
            if any(counts):
                start, stop = len(text[: cluster.start()].encode()), len(text[: cluster.end()].encode())
                known += 1
                cut += not ends.isdisjoint(range(start + 1, stop))
    assert (result.clusters, result.cut_clusters) == (known, cut)


def test_clusters_take_time_that_grows_with_the_text():
    result = Evaluation()
    for text in ("\U0001f1f1" * 200_000, "é" + "\u0301" * 200_000, "👩\u200d" * 100_000):
        result._add_clusters(text, [])
    assert result.clusters == 100_002


@pytest.mark.parametrize("code", ["th", "km", "bo", "ko", "ar"])
def test_every_script_has_clusters_that_bytes_cut(code):
    lines = held_out(code, 20)
    text = unicodedata.normalize("NFC", "\n".join(lines))
    clusters = sum(any(c.isalpha() and not c.isascii() for c in cluster) for cluster in regex.findall(r"\X", text))
    by_bytes = evaluate(BPETokenizer.train_from_iterator(["a"], 256), lines)
    whole = evaluate(lambda text: list(accumulate(len(cluster.encode()) for cluster in regex.findall(r"\X", text))), lines)
    assert by_bytes.clusters == pytest.approx(clusters, rel=0.01)
    assert whole.cut_clusters == 0 and by_bytes.cut_cluster_share == 1


def test_measures_without_a_basis_are_none():
    result = evaluate(ends_at(1), ["x"])
    assert result.cut_syllable_share is None
    assert json.loads(json.dumps(result.to_dict()))["cut_letter_share"] is None
    assert evaluate(ends_at(), []).tokens_per_word is None


def test_a_trained_tokenizer_cuts_less_than_a_plain_one(tmp_path):
    lines = held_out("si", 100)
    shares = {}
    for recipe in ("hybrid", "bpe"):
        config = TrainingConfig(vocab_size=8000, recipe=recipe)
        tokenizer = train_from_counts(WordCounts.from_texts([corpus("si", 800_000)], config), config)
        tokenizer.save(tmp_path / recipe)
        assert isinstance(tokenizer, BPETokenizer)
        result = evaluate(load_measurable(tmp_path / recipe), lines)
        shares[recipe] = (result.cut_syllable_share, result.cut_letter_share, result.tokens_per_word)
    assert shares["hybrid"][0] < 0.03
    assert shares["hybrid"][1] < 0.005
    assert all(hybrid < plain for hybrid, plain in zip(shares["hybrid"], shares["bpe"], strict=True))


def is_text(token):
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.lists(texts, max_size=4))
def test_measures_are_those_of_a_slow_twin(tokenizer, lines):
    lines = [prepare(line, "nfc") for line in lines]
    result = evaluate(tokenizer, lines)
    ids = [id for line in lines for id in tokenizer.encode(line)]
    tokens = [tokenizer.token_bytes(id) for id in ids]
    whole = [token.decode() for token in tokens if is_text(token)]
    assert result.tokens == len(ids)
    assert result.token_counts == Counter(ids)
    assert result.fallback_tokens == len(tokens) - len(whole)
    assert result.token_lengths == Counter(map(len, whole))
    assert result.vocab_size == tokenizer.vocab_size
    if ids:
        assert result.fallback_rate == (len(tokens) - len(whole)) / len(tokens)
        assert result.vocabulary_used == len(set(ids)) / tokenizer.vocab_size
        assert result.characters_per_token == sum(map(len, lines)) / len(ids)
        shares = [ids.count(id) / len(ids) for id in set(ids)]
        entropy = -2 / 3 * log(sum(share**2.5 for share in shares))
        assert result.renyi_efficiency == pytest.approx(entropy / log(tokenizer.vocab_size), abs=1e-12)


def test_words_that_are_one_token():
    text = 'The "ශ්‍රී" ලංකාව, x'
    # "The", and "ලංකාව" with the space before it; "ශ්‍රී" is cut, and "x" has a token of its own after a space of its own.
    quote, cut = len(b'The "'), len('The "ශ්'.encode())
    closing, island = len('The "ශ්‍රී"'.encode()), len('The "ශ්‍රී" ලංකාව'.encode())
    ends = [3, quote, cut, closing - 1, closing, island, island + 1, island + 2, island + 3]
    result = evaluate(ends_at(*ends), [text])
    assert (result.whole_words, result.single_words) == (4, 3)
    assert result.single_token_words == 0.75
    assert evaluate(ends_at(), [""]).single_token_words is None


@given(st.lists(texts, max_size=3))
def test_words_that_are_one_token_are_those_of_a_slow_twin(tokenizer, lines):
    result = evaluate(tokenizer, lines)
    single = 0
    for line in lines:
        tokens = [tokenizer.token_bytes(id) for id in tokenizer.encode(line)]
        spans = {(sum(map(len, tokens[:place])), sum(map(len, tokens[: place + 1]))) for place in range(len(tokens))}
        text = prepare(line, "nfc")
        for word in regex.finditer(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}\u200C\u200D]*", text):
            start, stop = len(text[: word.start()].encode()), len(text[: word.end()].encode())
            single += (start, stop) in spans or (text[: word.start()].endswith(" ") and (start - 1, stop) in spans)
    assert result.single_words == single


def test_tokens_that_change_with_small_changes(tokenizer, sample):
    lines = [line for line in sample["si"].splitlines() if line.strip()][:50]
    result = evaluate(tokenizer, lines)
    by = result.to_dict()["changed_by"]
    assert set(by) == set(CHANGES)
    assert 0 < result.changed_tokens < 0.5
    assert all(0 < share < 0.5 for share in by.values())
    assert evaluate(tokenizer, lines).changed == result.changed
    # Where every character is a token, swapping two leaves the same tokens, and a joiner or space is one.
    bare = BPETokenizer.train_from_iterator(lines, 256 + 0)
    assert evaluate(bare, lines).changed["typing error"] == 0
    assert evaluate(lambda text: [len(text.encode())], lines).changed_tokens is None


@given(texts)
@example(" \u200c")
@example("මේ ශ්‍රී")
def test_small_changes_are_small_and_always_the_same(text):
    changes = dict(small_changes(text))
    assert changes == dict(small_changes(text))
    words = len(text.split())
    for name, changed in changes.items():
        if name == "typing error":
            assert sorted(changed) == sorted(text)
            assert 0 < sum(one != other for one, other in zip(changed, text, strict=True)) <= 2 * max(1, words // 10)
        else:
            lost = Counter(text) - Counter(changed)
            assert not Counter(changed) - Counter(text)
            assert set(lost) <= ({" "} if name == "missing space" else {"\u200c", "\u200d"})
            assert lost.total() >= 1


@given(st.integers(2, 50), st.integers(1, 9))
def test_even_use_of_a_vocabulary_has_the_entropy_of_its_size(size, times):
    assert _renyi_entropy([times] * size, 2.5) == pytest.approx(log(size))
    assert _renyi_entropy([times + 1, *[times] * (size - 1)], 2.5) < log(size)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
def test_gini_is_the_double_sum(costs):
    mean = sum(costs) / len(costs)
    if not mean:
        assert gini(costs) is None
        return
    differences = sum(abs(one - other) for one in costs for other in costs)
    assert gini(costs) == pytest.approx(differences / (2 * len(costs) ** 2 * mean), abs=1e-12)


def test_languages_are_compared_where_they_have_as_many_lines():
    english = Evaluation(lines=2, tokens=10)
    assert Evaluation(lines=2, tokens=15).parity(english) == 1.5
    assert Evaluation(lines=3, tokens=15).parity(english) is None
    assert Evaluation(lines=2, tokens=15).parity(Evaluation(lines=2)) is None
    for others, expected in ([Evaluation(lines=2, tokens=30)], 0.25), ([Evaluation(lines=3, tokens=30)], None), ([], None):
        rows = {str(code): {"mine": one} for code, one in enumerate([english, *others])}
        assert Comparison({}, evaluations=rows).gini("mine") == expected
    assert gini([]) is None


def test_measures_of_ids_are_none_without_ids():
    result = evaluate(ends_at(1, 3), ["\u0d9a"])
    assert (result.fallback_tokens, result.token_lengths) == (2, {})
    assert result.vocabulary_used is None
    assert result.renyi_efficiency is None


def test_everything_but_counts_of_ids_is_in_json(saved, sample):
    row = json.loads(json.dumps(evaluate(load_measurable(saved), sample["ta"].splitlines()).to_dict()))
    assert set(MEASURES) < set(row)
    assert "token_counts" not in row
    assert sum(row["token_lengths"].values()) + row["fallback_tokens"] == row["tokens"]


@pytest.mark.parametrize("vocab_size", [257, 400, 1000, 2000])
def test_a_smaller_vocabulary_is_the_first_merges(tokenizer, vocab_size):
    smaller = _with_first_merges(tokenizer, vocab_size)
    assert smaller.merges == tokenizer.merges[: len(smaller.merges)]
    assert len(smaller.vocab) == vocab_size - len(tokenizer.special_tokens)
    assert smaller.vocab.items() <= tokenizer.vocab.items()
    # No further merge would do without a further token.
    left, right = tokenizer.merges[len(smaller.merges)]
    assert left + right not in smaller.vocab


@pytest.mark.parametrize("special", [{}, {"<s>": 259}])
@pytest.mark.parametrize("added", [{}, {"<a>": 260, "<b>": 261}])
def test_a_smaller_vocabulary_has_its_size_with_added_tokens_of_every_kind(special, added):
    vocab = {**{bytes([byte]): byte for byte in range(256)}, b"ab": 256, b"abc": 257, b"abcd": 258}
    merges = [(b"a", b"b"), (b"ab", b"c"), (b"abc", b"d")]
    tokenizer = BPETokenizer(vocab, merges, special_tokens=special, added_tokens=added)
    for vocab_size in range(256 + len(special) + len(added), tokenizer.vocab_size + 1):
        smaller = _with_first_merges(tokenizer, vocab_size)
        assert len(smaller.vocab) == vocab_size - len(special) - len(added)
        assert (smaller.special_tokens, smaller.added_tokens) == (special, added)


def test_bytes_per_token_is_that_of_an_evaluation(tokenizer, sample):
    lines = sample["si"].splitlines()[:50]
    for vocab_size in _compression_sizes(tokenizer.vocab_size):
        smaller = _with_first_merges(tokenizer, vocab_size)
        assert _bytes_per_token(smaller, lines) == evaluate(smaller, lines).bytes_per_token
    assert smaller is tokenizer
    assert _bytes_per_token(tokenizer, []) is None


def test_merges_that_make_the_same_token_cost_no_room():
    tokenizer = BPETokenizer(
        {**{bytes([byte]): byte for byte in range(256)}, b"ab": 256, b"bc": 257, b"abc": 258},
        [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")],
    )
    assert _with_first_merges(tokenizer, 258).merges == tokenizer.merges[:2]
    assert _with_first_merges(tokenizer, 259).merges == tokenizer.merges
