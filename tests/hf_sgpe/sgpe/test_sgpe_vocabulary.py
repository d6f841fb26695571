from itertools import accumulate

import pytest
from hypothesis import given, strategies as st
from support import sgpe_document
from support.corpora import conjunct_words, corpus, data_file
from support.texts import indic, texts

from hf_sgpe import (
    BPETokenizer,
    LinguisTrie,
    SGPEEncoder,
    SGPEError,
    SGPEVocabulary,
    TrainingConfig,
    WordCounts,
    train_from_counts,
)
from hf_sgpe.learning.sgpe_learning import learn_vocabulary
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from trainers import read_texts
from trainers.tokenizers.sgpe_trainer import _read_checkpoint

pytestmark = pytest.mark.kernels


def config(*, vocab_size=2000, prune_freq=1, min_freq=1, **options):
    """The document's settings, by its names."""
    return TrainingConfig(vocab_size, "sgpe", min_unit_frequency=prune_freq, min_frequency=min_freq, **options)


WORDS = config()


def learn(text, **options):
    counts = WordCounts.from_texts(text if isinstance(text, list) else [text], WORDS)
    return learn_vocabulary(counts, config(**options))


@pytest.fixture(scope="module")
def real():
    """Trained on much Sinhala, with rare syllables pruned."""
    return learn([corpus("si", 2_000_000)], vocab_size=9000, prune_freq=8, min_freq=2)


@pytest.fixture(scope="module")
def encoder(real):
    return SGPEEncoder(real)


@pytest.fixture(scope="module")
def real_bpe(real):
    return BPETokenizer.of(real.to_data())


def check_learned(texts, **options):
    learned = learn(texts, **options)
    expected = sgpe_document.train(texts, **options)
    assert [list(pair) for pair in learned.merges] == expected["merges"]
    assert list(learned.vocab.items()) == list(expected["vocab"].items())
    return learned


@given(
    texts=st.lists(indic | st.text("කරමි් \u200da.", max_size=30), max_size=4).filter(any),
    vocab_size=st.integers(5, 60),
    prune_freq=st.integers(1, 4),
    min_freq=st.integers(1, 3),
)
def test_learns_what_the_document_says(texts, vocab_size, prune_freq, min_freq):
    check_learned(texts, vocab_size=vocab_size, prune_freq=prune_freq, min_freq=min_freq)


def test_learns_what_the_document_says_from_running_text():
    assert len(check_learned([corpus("si", 10_000)], vocab_size=500, prune_freq=3, min_freq=4).merges) > 50


def test_the_budget_counts_special_tokens_and_symbols():
    text = "කරම කරම කරම"  # symbols: ක, " ක", ර, ම
    assert [len(learn(text, vocab_size=size).merges) for size in (5, 8, 9, 10, 11)] == [0, 0, 0, 1, 2]
    assert len(learn(text, vocab_size=5).vocab) == 9  # symbols are never left out


def test_a_pair_as_frequent_as_the_least_frequency_still_merges():
    assert [len(learn("කර." * 3, min_freq=frequency).merges) for frequency in (1, 2, 3, 4)] == [1, 1, 1, 0]


def test_a_pruned_syllable_parts_its_neighbours():
    vocabulary = learn("කමල " * 5 + "කෂිල " * 4, prune_freq=5, min_freq=1)
    assert "ෂි" not in vocabulary.vocab
    assert (" ක", "ල") not in vocabulary.merges


def test_ids_are_special_tokens_then_the_most_frequent():
    vocabulary = learn("කර කර කර ම ම, ම ල", vocab_size=100)
    tokens = list(vocabulary.vocab)
    assert tokens[:5] == sgpe_document.SPECIAL_TOKENS
    assert tokens[5:7] == [" ම", " කර"]  # three times and twice; " ම" has the smaller symbol of those
    assert list(vocabulary.vocab.values()) == list(range(len(tokens)))
    assert tokens[-2:] == ["ක", "ර"]  # wholly inside longer tokens, in the order of their symbols


def test_weights_and_empty_text():
    counts = WordCounts.from_texts(["කර " * 3], WORDS)
    assert learn_vocabulary(counts * 0.5, config(vocab_size=99, min_freq=2)).merges == []
    with pytest.raises(SGPEError, match="corpus is empty"):
        train_from_counts(WordCounts.from_texts([], WORDS), config())


def test_a_vocabulary_of_devanagari_gives_the_text_back(sample):
    settings = config(vocab_size=3000, min_freq=2, scripts=("devanagari",))
    vocabulary = learn_vocabulary(WordCounts.from_texts([sample["hi"]], settings), settings)
    encoder = SGPEEncoder(vocabulary)
    assert encoder.decode(encoder.encode(sample["hi"])) == sample["hi"]
    assert len(vocabulary.merges) > 500


def test_traced_example_of_the_document():
    vocab = {token: id for id, token in enumerate(["[PAD]", "[UNK]", "ශ්‍රී", " ලං", "කා", "ව", " ලංකා", " ලංකාව"])}
    encoder = SGPEEncoder(SGPEVocabulary(vocab, [(" ලං", "කා"), (" ලංකා", "ව")]))
    assert encoder.tokenize("ශ්‍රී ලංකාව") == ["ශ්‍රී", " ලංකාව"]
    assert encoder.encode("ශ්‍රී ලංකාව") == [2, 7]
    assert encoder.encode("ක්‍රා ලංකාව x") == [1, 7, 1]
    assert encoder.tokenize("ක්‍රා ලංකාව x") == ["[UNK]", " ලංකාව", " x"]
    assert encoder.decode([2, 7, 99]) == "ශ්‍රී ලංකාව"


@given(text=texts)
def test_encodes_as_the_document_does_on_random_text(real, encoder, text):
    tokens = sgpe_document.tokenize(text, real.vocab, real.merges)
    assert encoder.tokenize(text) == tokens
    assert encoder.encode(text) == [real.vocab.get(token, 1) for token in tokens]


@pytest.mark.parametrize("language", ["si", "pi_sinh", "si_noisy_pdf", "en"])
def test_encodes_as_the_document_does_on_running_text(real, encoder, language):
    text = corpus(language, 100_000)
    tokens = encoder.tokenize(text)
    assert tokens == sgpe_document.tokenize(text, real.vocab, real.merges)
    assert ("[UNK]" in tokens) == (language != "en")


@given(text=texts)
def test_byte_level_tokens_are_the_same_where_no_unit_is_unknown(real, encoder, real_bpe, text):
    assert real_bpe.decode(real_bpe.encode(text)) == text
    known = "".join(unit for unit in LinguisTrie().tokenize(text, leading_space=True) if unit in real.vocab)
    for part in (text, known):
        ids = encoder.encode(part)
        if encoder.unk_id not in ids:
            assert real_bpe.encode(part) == ids
            assert encoder.decode(ids) == part


@pytest.mark.parametrize("characters", [400_000, pytest.param(2_000_000, marks=pytest.mark.data)])
def test_running_text_has_the_same_tokens_and_round_trips(encoder, real_bpe, characters):
    same, lines = 0, corpus("si", characters).splitlines()
    for line in lines:
        ids = encoder.encode(line)
        if encoder.unk_id not in ids:
            same += 1
            assert real_bpe.encode(line) == ids
            assert encoder.decode(ids) == line
    assert same > len(lines) / 3


@pytest.mark.data
@pytest.mark.parametrize("language", ["si", "pi_sinh"])
def test_round_trip_over_all_of_a_corpus(real_bpe, language):
    characters = 0
    for text in read_texts(data_file(f"corpora/{language}.txt.xz")):
        assert real_bpe.decode(real_bpe.encode(text)) == text
        characters += len(text)
    assert characters > {"si": 30_000_000, "pi_sinh": 2_000_000}[language]


def test_the_folder_loads_everywhere_with_the_template(real, encoder, real_bpe, tmp_path):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    real_bpe.save(tmp_path)
    text = "ශ්‍රී ලංකාව, 2024 😀"
    ids = encoder.encode("ශ්‍රී ලංකාව, 2024 ")
    cls, sep = real.vocab["[CLS]"], real.vocab["[SEP]"]
    for found in (
        BPETokenizer.from_pretrained(tmp_path).encode(text, add_special_tokens=True),
        Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids,
        AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"],
    ):
        assert found[0] == cls
        assert found[-1] == sep
        assert found[1 : len(ids)] == ids[:-1]  # the last space belongs to the emoji
    pair = AutoTokenizer.from_pretrained(tmp_path)("ක", "ම")["input_ids"]
    assert pair == [cls, real.vocab["ක"], sep, real.vocab["ම"], sep]


def test_vocabularies_without_leading_space_encode_but_do_not_export():
    vocabulary = SGPEVocabulary({"[UNK]": 0, "ක": 1, " ": 2, "කක": 3}, [("ක", "ක")], leading_space=False)
    assert SGPEEncoder(vocabulary).encode("කක කx") == [3, 2, 1, 0]
    with pytest.raises(SGPEError, match="leading_space"):
        vocabulary.to_data()


SINHALA = SCRIPTS["sinhala"]
CLASSES = {letter: [c for c, found in SINHALA.document_classes().items() if found == letter] for letter in "CVSM"}
HAL, ZWJ = "\u0dca", "\u200d"


def test_no_conjunct_formation_is_cut():
    trie = LinguisTrie()
    formations = 0
    for first in CLASSES["C"]:
        for second in CLASSES["C"]:
            for joint in (HAL + ZWJ, HAL):
                for ending in ("", HAL, *CLASSES["S"]):
                    syllable = first + joint + second + ending
                    formations += 1
                    assert trie.tokenize(syllable) == [syllable]
                    assert trie.tokenize(f"ක {syllable}{CLASSES['M'][0]}ම", leading_space=True)[1:-1] == [
                        f" {syllable}{CLASSES['M'][0]}"
                    ]
    assert formations == 45 * 45 * 2 * 21


def ends_of_tokens(tokenizer, text):
    return {*accumulate(len(tokenizer.token_bytes(id)) for id in tokenizer.encode(text))}


def test_no_conjunct_formation_is_cut_by_any_token(real, real_bpe):
    """Formations that the vocabulary has as syllables, and that no consonant joins, stay whole between any neighbours."""
    trie = LinguisTrie()
    known = [u for u in real.vocab if trie.tokenize(u) == [u] and HAL + ZWJ in u and not u.endswith((HAL, ZWJ))]
    assert len(known) > 40
    for syllable in known:
        for text in (syllable, f"ක{syllable}ම", f" {syllable}", f"x{syllable}."):
            start = text.encode().index(syllable.encode())
            assert ends_of_tokens(real_bpe, text).isdisjoint(range(start + 1, start + len(syllable.encode())))


def test_conjuncts_of_three_consonants_and_more():
    trie = LinguisTrie()
    for length in range(2, 9):
        for joint in (HAL + ZWJ, HAL):
            cluster = joint.join("කෂණයරවම"[:length]) + "ී"
            assert trie.tokenize(cluster) == [cluster]


def test_no_known_syllable_of_the_word_list_is_cut(real, real_bpe):
    trie = LinguisTrie()
    units = known = 0
    for word in conjunct_words():
        ends, stop = ends_of_tokens(real_bpe, word), 0
        for unit in trie.tokenize(word, leading_space=True):
            start, stop = stop, stop + len(unit.encode())
            units += 1
            if unit in real.vocab:
                known += 1
                assert ends.isdisjoint(range(start + 1, stop)), word
        assert stop == max(ends)
    assert known > 0.6 * units


def test_vocab_json_has_the_documents_form_and_survives(real, tmp_path):
    import json

    path = tmp_path / "vocab.json"
    real.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert list(content) == [
        "version",
        "vocab_size",
        "special_tokens",
        "num_merges",
        "prune_freq",
        "leading_space",
        "merges",
        "vocab",
    ]
    assert content["version"] == "sgpe_v1.0.0"
    assert content["vocab_size"] == len(content["vocab"]) == 9000
    assert content["num_merges"] == len(content["merges"])
    assert content["prune_freq"] == 8
    assert content["leading_space"] is True
    assert SGPEVocabulary.load(path) == real


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ("{}", "'vocab' does not map"),
        ('{"vocab": {"a": "1"}}', "'vocab' does not map"),
        ('{"vocab": {"a": 1, "b": 1}, "merges": [], "special_tokens": []}', "have the id 1"),
        ('{"vocab": {"a": 1}, "merges": []}', "'special_tokens' must be a list"),
        ('{"vocab": {"a": 1}, "special_tokens": []}', "the list 'merges' is missing"),
        ('{"vocab": {"a": 1}, "merges": [], "special_tokens": [], "num_merges": 3}', "num_merges is 3"),
        ('{"vocab": {"a": 1}, "merges": [], "special_tokens": [], "vocab_size": "x"}', "its vocab_size is 'x'"),
        ('{"vocab": {"a": 1}, "merges": [], "special_tokens": [], "leading_space": 1}', "leading_space must be true"),
        ('{"vocab": {"a": 1}, "merges": [["a"]], "special_tokens": []}', "merge 0 must be two tokens"),
        ('{"vocab": {"a": 1}, "merges": [["a", "a"]], "special_tokens": []}', "merge 0 uses 'aa'"),
        ('{"vocab": {"a": 1}, "merges": [], "special_tokens": "x"}', "'special_tokens' must be a list"),
        ('{"vocab": {"a": 1}, "merges": [], "special_tokens": [], "prune_freq": "x"}', "prune_freq"),
        ('{"vocab": {"a": 1}, "merges": [], "special_tokens": [], "scripts": ["klingon"]}', "unknown script 'klingon'"),
    ],
)
def test_damaged_vocabularies_are_named(tmp_path, content, message):
    path = tmp_path / "vocab.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(SGPEError, match=message) as caught:
        SGPEVocabulary.load(path)
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not valid JSON"),
        ('{"step": 1}', "list 'merges' is missing"),
        ('{"step": 2, "merges": [["a", "b"]]}', "damaged"),
    ],
)
def test_damaged_checkpoints_are_named(tmp_path, content, message):
    path = tmp_path / "checkpoint_1.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(SGPEError, match=message):
        _read_checkpoint(path)
