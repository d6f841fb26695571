import re

import pytest

from hf_sgpe import BPETokenizer, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.evaluation.runtimes import EXACT, RUNTIMES, find_runtimes, verdict_of
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.learning.extension.extension_config import ExtensionConfig
from hf_sgpe.splitting.splitting import Splitting
from trainers import train
from trainers.tokenizers import recipes
from trainers.tokenizers.recipes import _check_recipe, choose_recipe, choose_split, find_scripts, where_it_runs


def chosen(texts, scripts=("sinhala",), **options):
    choice = choose_recipe(texts, scripts, **options)
    return choice.recipe, choice.pattern


def test_a_pattern_that_does_not_cut_numbers_is_taken_only_if_a_runtime_is_named(sample):
    texts = [sample["si"], sample["en"]]
    choice = choose_recipe(texts, ["sinhala"])
    assert (choice.recipe, choice.pattern, choice.is_exact) == ("hybrid", "o200k", False)
    assert choice == choose_recipe(texts[::-1], ["sinhala"])
    assert re.fullmatch(
        r"recipe hybrid with pattern o200k: .*; --runs-in llama\.cpp selects recipe portable with pattern bloom, with an "
        r"estimated \d\.\d\d% (more|fewer) tokens and 0\.00% more cut syllables",
        str(choice),
    )
    choice = choose_recipe(texts, ["sinhala"], runs_in=["llama.cpp"])
    assert (choice.recipe, choice.pattern, choice.is_exact) == ("portable", "bloom", True)
    config = TrainingConfig(2000, recipe=choice.recipe, pattern=choice.pattern)
    learned = train_from_counts(WordCounts.from_texts(texts, config), config)
    assert verdict_of(learned, "llama.cpp").what == EXACT
    # The usual pattern does for Hindi, and runs in more programs.
    assert chosen([sample["hi"]], ["devanagari"]) == ("portable", "o200k")


def test_a_pattern_that_costs_more_is_not_taken(sample, monkeypatch):
    monkeypatch.setattr(recipes, "more_tokens", lambda texts, pattern, instead_of: 0.006)
    choice = choose_recipe([sample["si"]], ["sinhala"])
    assert (choice.recipe, choice.pattern, choice.is_exact) == ("hybrid", "o200k", False)
    assert str(choice) == (
        "recipe hybrid with pattern o200k: llama.cpp itself does not produce the same ids, so use hf-sgpe serve; "
        "--runs-in llama.cpp selects recipe portable with pattern bloom, with an estimated 0.60% more tokens and "
        "0.00% more cut syllables"
    )
    assert chosen([sample["si"]], runs_in=["llama.cpp"]) == ("portable", "bloom")


def test_a_pattern_that_is_given_is_the_only_one(sample):
    assert chosen([sample["si"]], pattern="o200k") == ("hybrid", "o200k")
    assert chosen([sample["si"]], pattern="bloom") == ("portable", "bloom")
    choice = choose_recipe([sample["si"]], ["sinhala"], pattern="tekken")
    assert str(choice).endswith("so use hf-sgpe serve, or leave --pattern out")
    with pytest.raises(SGPEError, match=r"tekken .* llama\.cpp"):
        choose_recipe([sample["si"]], ["sinhala"], pattern="tekken", runs_in=["llama.cpp"])


def test_runtimes_that_are_asked_for_are_a_condition(sample):
    text = [sample["si"]]
    assert chosen(text, runs_in=["tokenizers-1.0"]) == ("portable", "o200k")
    assert chosen(text, runs_in=["llama.cpp,gigatoken"]) == ("portable", "o200k")
    assert chosen(text, runs_in=["transformers.js", "fastokens"]) == ("hybrid", "o200k")
    assert chosen(text, runs_in=["tiktoken"])[0] == "portable"  # which does not normalize
    assert chosen(text, runs_in=["tiktoken"], normalization="nfc")[0] == "hybrid"
    assert chosen(["tiếng Việt"], ["latin"], runs_in=["llama.cpp"]) == ("portable", "o200k")
    assert chosen(["tiếng Việt"], ["latin"], pattern="tekken") == ("portable", "tekken")  # as hybrid would cut it
    with pytest.raises(SGPEError, match=r"'llama': .* tokenizers-1\.0, .*llama\.cpp"):
        choose_recipe(text, ["sinhala"], runs_in=["llama"])
    for name in (runtime.name for runtime in RUNTIMES):
        assert find_runtimes([name.upper()]) == find_runtimes(name) == (name,)
        assert choose_recipe(text, ["sinhala"], runs_in=[name]).is_exact


def test_a_recipe_that_was_chosen_must_fit():
    _check_recipe(Splitting("portable"), "portable", ["llama.cpp", "gigatoken"])
    _check_recipe(Splitting("portable", normalization="nfc"), "portable", ["llama.cpp"], nfc=True)
    with pytest.raises(SGPEError, match=r"hybrid .* o200k .* --pattern one of gpt2, cl100k"):
        _check_recipe(Splitting(), "hybrid", ["llama.cpp"])
    with pytest.raises(SGPEError, match=r"si\.parquet: .* --recipe portable"):
        _check_recipe(Splitting(), "hybrid", ["llama.cpp"], counted="si.parquet")
    assert str(_check_recipe(Splitting("sgpe"), "sgpe", ["tiktoken"])).startswith("recipe sgpe: the same ids in tiktoken")


def test_scripts_that_a_recipe_does_not_use_are_refused():
    with pytest.raises(SGPEError, match="leave --script out"):
        find_scripts(Corpus.of(text="a"), ["si"], "bpe")


def test_a_corpus_without_files_has_no_words(tmp_path):
    with pytest.raises(SGPEError, match=r"^the corpus: no words"):
        train([], tmp_path / "new")


@pytest.fixture(scope="module")
def bases(sample):
    return {
        name: BPETokenizer.train_from_iterator([sample["en"]], 500, pattern=name) for name in ("o200k", "llama3", "tekken")
    }


def extended(base, config, text):
    return extend_from_counts(base.data, WordCounts.from_texts([text], config.splitting_for(base)), config)


def test_an_extension_keeps_the_split_that_a_runtime_knows(bases, sample):
    config = ExtensionConfig(["sinhala"], new_tokens=300)
    base = bases["llama3"]
    asked = choose_split(base, config, ["llama.cpp"])
    assert asked.own_split is False
    extension = extended(base, asked, sample["si"])
    assert verdict_of(extension.tokenizer, "llama.cpp").what == EXACT
    said = where_it_runs(extension, asked, ["llama.cpp"], [sample["si"]])
    price = (
        r", which cuts a word of sinhala into 2\.\d\d pieces on average, each at least one token; "
        "with a new split before the old one, a word can be one token"
    )
    assert re.fullmatch(
        rf"The extended tokenizer has the same ids in llama\.cpp\. The price is the old split{price}\.", said
    )
    assert where_it_runs(extension, asked, ["llama.cpp"], []) == "The extended tokenizer has the same ids in llama.cpp."
    usual = extended(base, config, sample["si"])
    said = where_it_runs(usual, config, [], [sample["si"]])
    assert re.fullmatch(
        r"llama\.cpp itself does not produce the same ids\. Use hf-sgpe serve, which sends ids to the model, or extend with "
        rf"--runs-in llama\.cpp\. That option keeps the old split{price}\. "
        r"In gigatoken, tokenizers 1\.0, the base has the same ids, but the extended tokenizer does not\.",
        said,
    )
    with pytest.raises(SGPEError, match=r"hf-sgpe serve"):
        where_it_runs(usual, config, ["llama.cpp"], [])


def test_an_extension_that_cannot_have_the_same_ids_says_what_to_do(bases, sample):
    config = ExtensionConfig(["tamil"], new_tokens=300)
    do = "use hf-sgpe serve, which sends ids to the model, or extend a tokenizer with the split of "
    do += "o200k or qwen35 or bloom"
    with pytest.raises(SGPEError, match=f"llama.cpp .*: {do}"):
        choose_split(bases["tekken"], config, ["llama.cpp"])
    said = where_it_runs(extended(bases["tekken"], config, sample["ta"]), config, [], [sample["ta"]])
    assert said == f"llama.cpp itself does not produce the same ids: {do}."
    own = ExtensionConfig(["tamil"], own_split=True)
    with pytest.raises(SGPEError, match=r"--own-split"):
        choose_split(bases["o200k"], own, ["llama.cpp"])
    # The old split stays anyway, and a new split does no harm in runtimes that run any split.
    assert choose_split(bases["o200k"], config, ["llama.cpp"]) is config
    assert choose_split(bases["o200k"], own, ["transformers.js"]) is own
    said = where_it_runs(extended(bases["o200k"], config, sample["ta"]), config, [], [sample["ta"]])
    assert said == "The extended tokenizer has the same ids in llama.cpp."


def test_a_choice_names_the_form_of_text_that_it_holds_for():
    choice = choose_recipe(["नमस्ते दुनिया"], ["devanagari"], normalization="nfc", runs_in=["llama.cpp"])
    assert choice.nfc_only
    assert "the same ids in llama.cpp, for text in NFC only" in str(choice)
    assert "NFC only" not in str(choose_recipe(["नमस्ते दुनिया"], ["devanagari"], runs_in=["llama.cpp"]))
    chosen = _check_recipe(Splitting("portable", ("devanagari",), "o200k", "nfc"), "portable", ["tiktoken"], nfc=True)
    assert "for text in NFC only" in str(chosen)
