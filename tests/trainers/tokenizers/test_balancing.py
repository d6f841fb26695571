import json
import re
from dataclasses import replace

import pytest
from support.command import hf_sgpe

from hf_sgpe import SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.evaluation.fairness import gini
from trainers import Corpus, train_balanced
from trainers.tokenizers.balancing import Trial, balance_corpus

pytestmark = pytest.mark.kernels

CODES = ("si", "hi", "en")


@pytest.fixture(scope="module")
def config():
    return TrainingConfig(vocab_size=1500, scripts=("sinhala", "devanagari"))


@pytest.fixture(scope="module")
def lines(sample):
    """The same sentences in each language; English has six times the text."""
    return {code: sample[code].splitlines() for code in CODES}


@pytest.fixture(scope="module")
def counts(lines, config):
    repeats = {"si": 1, "hi": 1, "en": 6}
    return {f"{code}.txt": WordCounts.from_texts(lines[code][:240] * repeats[code], config) for code in CODES}


@pytest.fixture(scope="module")
def held_out(lines):
    return {f"eval-{code}": lines[code][240:] for code in CODES}


@pytest.fixture(scope="module")
def balanced(counts, held_out, config):
    return train_balanced(counts, held_out, config, price=0.1)


def test_weights_make_languages_pay_alike(balanced, counts, held_out):
    first, best = balanced.trials[0], balanced.best
    assert first.weights == dict.fromkeys(counts, 1.0)
    assert best.gini < 0.7 * first.gini
    assert best.total <= 1.1 * first.total
    assert best.weights["en.txt"] < 1 < best.weights["hi.txt"]
    assert balanced.languages == {f"eval-{code}": [f"{code}.txt"] for code in CODES}
    assert best.tokens == {name: sum(map(balanced.tokenizer.count_tokens, lines)) for name, lines in held_out.items()}
    # As many running words as before, so that min_frequency means the same.
    before, after = (sum(counts[name].total() * trial.weights[name] for name in counts) for trial in (first, best))
    assert after == pytest.approx(before, rel=0.01)


def test_the_weights_give_the_same_tokenizer_again(balanced, counts, config):
    weights = balanced.best.weights
    parts = [counts[name] * weight for name, weight in weights.items()]
    again = train_from_counts(sum(parts[1:], start=parts[0]), replace(config, weights=weights))
    assert again.merges == balanced.tokenizer.merges
    assert again.metadata["training"] == balanced.tokenizer.metadata["training"]
    assert balanced.tokenizer.metadata["balance"]["by"] == "weights"


def test_the_same_input_gives_the_same_trials(balanced, counts, held_out, config):
    assert train_balanced(counts, held_out, config, price=0.1).trials == balanced.trials


def test_a_parity_takes_the_fewest_tokens_that_reach_it(counts, held_out, config):
    found = train_balanced(counts, held_out, config, parity=1.25)
    assert found.best.parity <= 1.25
    assert all(trial.total >= found.best.total for trial in found.trials if trial.parity <= 1.25)
    with pytest.raises(SGPEError, match="best ratio is 1"):
        train_balanced(counts, held_out, config, parity=1)


def test_merges_in_parity(counts, held_out, config):
    found = train_balanced(counts, held_out, config, by="merges")
    assert found.best.gini < 0.01 < found.trials[0].gini
    assert found.best.weights == dict.fromkeys(counts, 1.0)
    assert found.tokenizer.vocab_size == 1500
    assert found.tokenizer.metadata["balance"]["by"] == "merges"
    text = held_out["eval-si"][0]
    assert found.tokenizer.decode(found.tokenizer.encode(text)) == text


def test_texts_that_are_no_translations_are_compared_with_learning_alone(counts, held_out, config):
    texts = {**held_out, "eval-en": held_out["eval-en"][:30]}
    found = train_balanced(counts, texts, config, price=0.1)
    # What a language pays beside having the vocabulary for itself.
    assert all(1 <= cost < 2 for cost in found.trials[0].costs.values())
    assert found.best.gini <= found.trials[0].gini


def test_a_corpus_of_no_language_keeps_its_weight(counts, held_out, config):
    code = {"code.txt": WordCounts.from_texts(["def f(x): return x + the"] * 50, config)}
    found = train_balanced(counts | code, held_out, config, price=0.1)
    assert found.best.weights["code.txt"] == 1
    assert all("code.txt" not in corpora for corpora in found.languages.values())


def test_given_weights_are_where_it_starts(counts, held_out, config):
    found = train_balanced(counts, held_out, replace(config, weights={"h*": 3}), price=0.1)
    assert found.trials[0].weights == {"si.txt": 1, "hi.txt": 3, "en.txt": 1}


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda texts: dict(list(texts.items())[:1]), {}, "held-out texts of at least two languages"),
        (lambda texts: {**texts, "empty": [" "]}, {}, "empty: no text to balance with"),
        (lambda texts: {**texts, "ta": ["தமிழ்"]}, {}, "ta: no corpus"),
        (lambda texts: {**texts, "again": texts["eval-si"]}, {}, "same language"),
        (lambda texts: {**texts, "ru": ["это не английский , 12 ."] * 60}, {}, "ru: no corpus"),
        (lambda texts: {**texts, "eval-si": "කා"}, {}, "eval-si: .* not one string"),
        (lambda texts: texts, {"price": 0.1, "parity": 1.1}, "price and parity exclude each other"),
        (lambda texts: texts, {"by": "magic"}, "'magic'"),
        (lambda texts: texts, {"price": -1}, "price .* -1"),
        (lambda texts: texts, {"parity": 0.5}, "parity .* 0.5"),
        (lambda texts: texts, {"by": "merges", "price": 0.1}, "is only for balancing by weights"),
        (lambda texts: texts, {"by": "merges", "parity": 1.1}, "is only for balancing by weights"),
        (lambda texts: {**texts, "eval-en": ["a"]}, {"by": "merges"}, "needs translations"),
    ],
)
def test_wrong_input_of_balancing_is_refused(counts, held_out, config, change, options, message):
    with pytest.raises(SGPEError, match=message):
        train_balanced(counts, change(held_out), config, **options)


def test_gini_and_parity_of_a_trial():
    trial = Trial({}, {"a": 1, "b": 3}, {"a": 1, "b": 3})
    assert (trial.gini, trial.parity, trial.total) == (gini([1, 3]), 3, 4)


@pytest.fixture
def files(tmp_path, lines):
    """The folder of a text of each language and its held-out text."""
    for code in CODES:
        (tmp_path / f"{code}.txt").write_text("\n".join(lines[code][:240]), encoding="utf-8")
        (tmp_path / f"held-{code}.txt").write_text("\n".join(lines[code][240:]), encoding="utf-8")
    return tmp_path


def test_a_weight_can_be_given_by_the_path_of_its_file(files, config):
    corpus, held_out = (Corpus.of([files / f"{kind}{code}.txt" for code in CODES]) for kind in ("", "held-"))
    found = balance_corpus(corpus, held_out, replace(config, weights={str(files / "hi.txt"): 3}), price=0.1)
    assert found.trials[0].weights == {"si.txt": 1, "hi.txt": 3, "en.txt": 1}


def test_balancing_on_the_command_line(files):
    corpora, texts = ([f"{kind}{code}.txt" for code in CODES] for kind in ("", "held-"))
    size = ["--vocab-size", "1200"]
    done = hf_sgpe("train", *corpora, "--balance", *texts, "--balance-price", "0.1", *size, "-o", "one", cwd=files)
    assert done.stderr == ""
    assert re.search(r"^balanced: [+-][\d.]+% tokens; Gini [\d.]+ → [\d.]+; ", done.stdout, re.MULTILINE)
    weights = re.search(r"^the same result without balancing: (.*)$", done.stdout, re.MULTILINE)[1].split()
    hf_sgpe("train", *corpora, *weights, *size, "-o", "two", cwd=files)
    one, two = (json.loads((files / name / "tokenizer.json").read_bytes()) for name in ("one", "two"))
    assert one["model"] == two["model"]
    assert '"by": "weights"' in hf_sgpe("info", "one", cwd=files).stdout
    options = [f"--balance={text}" for text in texts]
    done = hf_sgpe("train", *options, *corpora, "--balance-by", "merges", *size, "-o", "three", "--json", cwd=files)
    assert json.loads(done.stdout)["balance"]["by"] == "merges"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["si.txt", "--balance", "-o", "x"], "--balance needs at least one file"),
        (["si.txt", "-o", "x", "--balance"], "--balance needs at least one file"),
        (["si.txt", "--balance-by", "merges", "-o", "x"], "--balance-by needs --balance"),
        (["--dataset", "d", "--balance", "a", "b", "-o", "x"], "--balance takes files"),
        (["--balance", "a", "b", "si.txt", "-o", "x"], "nothing to train on"),
    ],
)
def test_bad_command_lines(arguments, message, tmp_path):
    done = hf_sgpe("train", *arguments, cwd=tmp_path, code=2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_parity_of_parts_whose_fractions_cancel(held_out, config):
    """Half of a corpus, twice, is the corpus: the sum has no halves left."""
    small = replace(config, vocab_size=800)
    lines = held_out["eval-si"]
    half = WordCounts.from_texts(lines, small) * 0.5
    text = WordCounts.from_texts(lines, small)
    found = train_from_counts(half + half, small, languages=[(half, text), (half, text * 0.5)])
    assert len(found.merges) > 400  # until no pair occurs twice in its language


def test_a_corpus_of_no_language_cannot_choose_merges(counts, held_out, config):
    foreign = {"zz.txt": WordCounts.from_texts(["zzqx qqzz"], config)}
    with pytest.raises(SGPEError, match=r"zz\.txt"):
        train_balanced(counts | foreign, held_out, config, by="merges")
    assert train_balanced(counts | foreign, held_out, config).best.weights["zz.txt"] == 1


def test_corpora_of_the_same_name(files, lines):
    (files / "more").mkdir()
    for code, length in (("si", 120), ("en", 240)):
        (files / "more" / f"{code}.txt").write_text("\n".join(lines[code][:length]), encoding="utf-8")
    corpora = ["si.txt", "more/si.txt", "hi.txt", "en.txt", "more/en.txt"]
    texts = [f"held-{code}.txt" for code in CODES]
    size = ["--vocab-size", "1200"]
    done = hf_sgpe("train", *corpora, *size, "-o", "one", "--json", "--balance", *texts, cwd=files)
    weights = json.loads(done.stdout)["weights"]
    assert set(weights) == set(corpora)
    options = [f"--weight={name}={weight}" for name, weight in weights.items()]
    hf_sgpe("train", *corpora, *size, *options, "-o", "two", cwd=files)
    one, two = (json.loads((files / name / "tokenizer.json").read_bytes()) for name in ("one", "two"))
    assert one["model"] == two["model"]
