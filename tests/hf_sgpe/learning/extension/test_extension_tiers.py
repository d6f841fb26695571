import logging
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError, WordCounts
from hf_sgpe.learning.extension import extension_tiers
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.learning.extension.script_words import Words
from hf_sgpe.learning.observer import NOBODY
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.vocabulary.confinement import Confinement

ENGLISH = "It's “low”, lower—lowest… 1234 " * 3


@pytest.fixture(scope="module", params=["gpt2", "llama3", "o200k"])
def base(request):
    """A small tokenizer of English in which, as in real ones, the first bytes of Devanagari are merged."""
    return BPETokenizer.train_from_iterator([ENGLISH, "की। है॥ से० में"] * 3, 300, pattern=request.param, min_frequency=1)


def extended(base, script, text):
    config = ExtensionConfig([script], new_tokens=120)
    counts = WordCounts.from_texts([text], config.splitting_for(base))
    return BPETokenizer.of(extend_from_counts(base.data, counts, config).tokenizer)


@pytest.mark.parametrize(
    ("script", "text", "signs"),
    [
        ("ethiopic", "ሰላም ነው። ልጅ ነው፣ ቤት ፲፪ ", "።፣፲፪"),
        ("tibetan", "བོད་ཡིག།། ཁ་བ། ༡༢ ", "།༡༢"),
        ("khmer", "ភាសាខ្មែរ។ ១២៛ ", "។១២៛"),
        ("myanmar", "မြန်မာစာ။ ၁၂၊ ", "။၁၂၊"),
        ("devanagari", "हिन्दी भाषा। १२ ", "१२"),
        ("bengali", "বাংলা ভাষা ১২৳ ", "১২৳"),
        ("sinhala", "ලංකාව ෴ ෧෨ ", "෴෧෨"),
        ("thai", "ภาษาไทย ๑๒฿ ฯ ", "๑๒฿"),
        ("arabic", "اردو زبان ہے۔ ۱۲ ", "۔۱۲"),
    ],
)
def test_digits_and_punctuation_of_the_script_are_one_token(base, script, text, signs):
    new = extended(base, script, text * 20)
    for sign in signs:
        assert [new.token_bytes(id).decode() for id in new.encode(sign)] == [sign]
    assert new.decode(new.encode(text)) == text
    own = resolve_script(script).characters()
    for line in (ENGLISH, "।॥ ।", "১২ ১", "፣። ።", "၁၂။ ဗမာ", "٪ ۱۲ ؟", "๑๒", "abc 12"):
        if own.isdisjoint(line):
            assert new.encode(line) == base.encode(line)


def test_characters_shared_by_scripts_keep_their_ids(base):
    new = extended(base, "hindi", "भाषा। भाषा ।। भाषा॥ " * 30)
    for line in ("।", " ।", "।।", "॥ ।"):
        assert new.encode(line) == base.encode(line)


def test_digits_alone_are_no_text_in_a_script(base, caplog):
    with pytest.raises(SGPEError, match="the text has no word in thai"):
        extended(base, "thai", "12 ฿ ๑๒ " * 9)
    config = ExtensionConfig(["thai", "khmer"], new_tokens=100)
    counts = WordCounts.from_texts(["ไทย ១២ ។ " * 20], config.splitting_for(base))
    with caplog.at_level(logging.WARNING):
        words = Words.from_counts(counts, config)
    assert {word.decode().strip() for word in words.words} == {"ไทย"}
    assert "the text has no word in khmer" in caplog.text


def test_digits_and_punctuation_weigh_as_the_words_of_their_script(base):
    config = ExtensionConfig(["thai", "khmer"], new_tokens=100, balance=1.0)
    counts = WordCounts.from_texts([*["ไทย "] * 30, *["ខ្មែរ ។ "] * 10], config.splitting_for(base))
    words = Words.from_counts(counts, config)
    times = {word.decode().strip(): count for word, count in zip(words.words, words.times, strict=True)}
    assert times["។"] == times["ខ្មែរ"]


@pytest.mark.parametrize("scripts", [["thai"], ["thai", "khmer"]])
@pytest.mark.parametrize(("times", "is_learned"), [(7, False), (9, True)])
def test_merges_are_as_frequent_in_weighted_counts_as_in_plain_ones(base, scripts, times, is_learned):
    config = ExtensionConfig(scripts, new_tokens=100, min_frequency=4)
    counts = WordCounts.from_texts(["ไทย ខ្មែរ "] * times, config.splitting_for(base)) * 0.5
    assert counts.scale == 2
    extension = extend_from_counts(base.data, counts, config)
    assert (extension.new_tokens > extension.unit_tokens) == is_learned


def test_a_saving_is_a_share_of_the_tokens_that_are_left():
    gains = [5] * 1000 + [2] * 1000
    # After 1,000 tokens the text has 5,000 left, of which the next thousand save 2,000.
    assert extension_tiers._enough(gains, 10_000, least_saving=0.4) == 1100


def test_a_unit_that_is_a_letter_and_a_syllable_has_the_greater_worth(base):
    """A letter of many syllables can be rare as a syllable of its own."""
    config = ExtensionConfig(["sinhala"], new_tokens=100)
    counts = WordCounts.from_texts(["කි කිරි කිති කිමි කිවි කිසි " * 50], config.counting_splitting(base.data))
    learner = extension_tiers.TierLearner(base.data, Words.from_counts(counts, config), config, observer=NOBODY)
    as_letter, as_both = (
        learner._worth(SimpleNamespace(letters=["කි"], syllables=syllables)) for syllables in ([], ["කි", " කි"])
    )
    assert as_both["කි"] >= as_letter["කි"] > 0


@given(sequences=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=6), whole=st.booleans())
def test_learning_ignores_the_words_with_two_tokens_that_merge_elsewhere(sequences, whole):
    tokens = [b"a", b"b", "ක".encode(), "ක".encode()[:2], "ක".encode()[2:]]
    confinement = Confinement.to_scripts(["sinhala"])
    words = ["".join(map(str, sequence)).encode() for sequence in sequences]
    times = range(1, len(words) + 1)
    base = SimpleNamespace(ignore_merges=whole, vocab=set(words[:1]))
    learner = SimpleNamespace(words=SimpleNamespace(words=words, times=times), confinement=confinement, base=base)

    def merges_elsewhere(pair):
        return not any(map(confinement.holds, (*(tokens[id] for id in pair), b"".join(tokens[id] for id in pair))))

    ignored = [any(map(merges_elsewhere, pairwise(sequence))) for sequence in sequences]
    taught = [0 if ignored[word] else times[word] for word in range(len(words))]
    result, untaught = extension_tiers.TierLearner._times(learner, sequences, tokens)
    assert untaught == 1 - sum(taught) / sum(times)
    assert result == [0 if whole and words[word] == words[0] else taught[word] for word in range(len(words))]
