import json

import pytest
from hypothesis import given
from support.command import hf_sgpe
from support.kernels import readable_only
from support.texts import texts
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer, LinguisTrie, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.learning.portable_cost import cost_of_one_split, more_tokens
from hf_sgpe.splitting.splitting import Splitting

SCRIPTS = ("devanagari", "sinhala", "tamil")


def portable(sample, **options):
    config = TrainingConfig(**{"vocab_size": 4000, "recipe": "portable", "scripts": SCRIPTS, **options})
    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


@pytest.fixture(scope="module")
def tokenizer(sample):
    return portable(sample)


def pieces(tokenizer, text):
    return [tokenizer.token_bytes(id).decode() for id in tokenizer.encode(text)]


def test_words_are_those_of_the_pattern_and_text_stays_as_it_is(tokenizer):
    assert tokenizer.splitting == Splitting("bpe", pattern="o200k")
    assert Splitting("portable", SCRIPTS, "o200k") == tokenizer.splitting
    assert tokenizer.normalization == "none"
    assert tokenizer.metadata["training"]["scripts"] == list(SCRIPTS)


@given(texts)
def test_a_plain_tokenizer_json_gives_the_same_ids(tokenizer, tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp() / "portable"
    if not folder.exists():
        tokenizer.save(folder)
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids == tokenizer.encode(text)
    assert BPETokenizer.from_pretrained(folder).encode(text) == tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_syllables_stay_whole_also_behind_other_characters(sample, tokenizer):
    plain = portable(sample, recipe="bpe")
    trie = LinguisTrie(SCRIPTS)

    def cut(which, text):
        ends, at = set(), 0
        for piece in which.encode(text):
            ends.add(at := at + len(which.token_bytes(piece)))
        syllables, at = 0, 0
        for unit in trie.tokenize(text, leading_space=True):
            size = len(unit.encode())
            syllables += any(at < end < at + size for end in ends)
            at += size
        return syllables

    text = sample["hi"][:4000]
    assert cut(tokenizer, text) * 5 < cut(plain, text)
    behind = "".join(f"({word}" for word in text.split()[:200])
    assert cut(tokenizer, behind) * 5 < cut(plain, behind)


def test_halves_of_a_conjunct_that_the_pattern_cuts_are_tokens(sample, tokenizer):
    assert "ශ්" in pieces(tokenizer, "ශ්‍රී ලංකාව")
    assert pieces(tokenizer, "ශ්‍රී")[0] == "ශ්"
    whole = portable(sample, pattern="bloom")
    assert "ශ්‍රී" in pieces(whole, "ශ්‍රී")


def test_the_readable_kernels_learn_the_same(sample):
    small = {language: text[:4000] for language, text in sample.items()}
    native = portable(small, vocab_size=1200)
    with readable_only():
        readable = portable(small, vocab_size=1200)
    assert readable.merges == native.merges


def test_the_recipe_portable_needs_scripts_and_its_own_word_counts():
    with pytest.raises(SGPEError, match="the recipe portable needs a script"):
        TrainingConfig(vocab_size=1000, recipe="portable", scripts=())
    config = TrainingConfig(vocab_size=1000, recipe="portable")
    counts = WordCounts.from_texts(["ලංකාව"], Splitting())
    with pytest.raises(SGPEError, match=r"'hybrid', .* 'bpe'"):
        train_from_counts(counts, config)


def test_the_cost_of_a_single_split(sample):
    def cost(language, script, pattern="o200k"):
        splitting = Splitting("hybrid", (script,), pattern, "none")
        return cost_of_one_split(WordCounts.from_texts([sample[language]], splitting))

    assert cost("hi", "devanagari").is_small
    assert cost("ta", "tamil").is_small
    sinhala = cost("si", "sinhala")
    assert not sinhala.is_small
    assert sinhala.tokens > 0.02
    assert sinhala.cuts > 0.01
    assert sinhala.pieces > 1.02
    assert cost("si", "sinhala", "bloom") == (0, 0, sinhala.respelled, 1)
    both = Splitting("hybrid", ("sinhala",), "o200k", "none")
    words = WordCounts.from_texts([sample["si"]], both)
    assert cost_of_one_split(words, "bloom")[:2] == (0, 0)
    assert cost_of_one_split(words, "llama3").size > 100
    respelled = Splitting("hybrid", ("bengali",), "o200k", "none")
    found = cost_of_one_split(WordCounts.from_texts(["\u09dc \u09a1\u09bc কক"], respelled))
    assert found == (0, 0, 1 / 3, 1)
    assert not found.is_small
    assert cost_of_one_split(WordCounts.from_texts([], respelled)) == (0, 0, 0, 1)


def test_another_pattern_is_priced_by_learning(sample):
    texts, hybrid = [sample["si"], sample["en"]], Splitting("hybrid", ("sinhala",))
    bloom, o200k = (more_tokens(texts, pattern, hybrid) for pattern in ("bloom", "o200k"))
    assert abs(bloom) < 0.02
    assert o200k > bloom + 0.005
    assert more_tokens(texts[::-1], "bloom", hybrid) == bloom
    assert more_tokens(["ශ්‍රී\n"], "bloom", hybrid) == 0  # too little to hold a line out
    # What the lines of one script pay is not made up for by what others gain.
    scattered = "".join(f"{word}\n" for word in sample["hi"].split())
    by_letters = r"\p{Deva}|[^\p{Deva}]+"
    assert more_tokens([scattered, sample["en"] * 20], by_letters, Splitting("hybrid", ("devanagari",))) > 0.5


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("language", "recipe"), [("hi", "portable"), ("si", "hybrid")])
def test_the_command_line_takes_it_where_it_costs_next_to_nothing(sample, tmp_path, language, recipe):
    (tmp_path / "text.txt").write_text(sample[language], encoding="utf-8", newline="\n")

    def train(*arguments, code=0):
        options = ("--out", "new", "--overwrite", "--vocab-size", 1500, "--json")
        done = hf_sgpe("train", *arguments, *options, cwd=tmp_path, code=code)
        return json.loads(done.stdout) if code == 0 else done.stderr

    assert train("text.txt")["recipe"] == recipe
    assert json.loads(hf_sgpe("info", "new", "--json", cwd=tmp_path).stdout)["recipe"] == recipe
    assert train("text.txt", "--pattern", "tekken")["recipe"] == "hybrid"  # which llama.cpp does not know
    assert train("text.txt", "--pattern", "bloom")["recipe"] == "portable"
    asked = train("text.txt", "--runs-in", "llama.cpp")
    assert (asked["recipe"], asked["pattern"]) == ("portable", {"hi": "o200k", "si": "bloom"}[language])
    assert "leave --recipe and --pattern out" in train("text.txt", "--recipe", "hybrid", "--runs-in", "llama.cpp", code=2)
    assert train("text.txt")["recipe"] == recipe
    assert BPETokenizer.from_pretrained(tmp_path / "new").metadata["training"]["recipe"] == recipe
    hf_sgpe("count", "text.txt", "--out", "words.parquet", "--recipe", "portable", cwd=tmp_path)
    found = train("--counts", "words.parquet", "--recipe", "portable")
    assert found["scripts"] == [{"hi": "devanagari", "si": "sinhala"}[language]]
    assert (
        "words.parquet: these words can be used with two recipes: choose one with --recipe portable or --recipe bpe"
        in train("--counts", "words.parquet", code=2)
    )
