"""Extended Unigram and WordPiece tokenizers: other text keeps its ids, and no text of the script is unknown any more."""

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st
from support.command import hf_sgpe
from support.other_scripts import TEXT
from support.piece_tokenizers import KINDS, piece_folder
from tokenizers import Tokenizer

from hf_sgpe import SGPEError
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.learning.extension.piece_extending import check_pieces
from hf_sgpe.vocabulary.confinement import Confinement
from hub_cards import evaluate, load_measurable
from trainers import extend

SINHALA = Confinement.to_scripts(["sinhala"])


@pytest.fixture(scope="module")
def bases(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    lines = [*sample["en"].splitlines(), *TEXT.splitlines()]
    return {kind: piece_folder(kind, lines, folder / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def extended(bases, sinhala_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("extended")
    return {kind: extend(bases[kind], sinhala_file, folder / kind, script=["si"], new_tokens=700) for kind in KINDS}


def opened(folder) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def pairs(bases, extended, tmp_path_factory):
    """The tokenizers before and after, in the library."""
    found = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        extended[kind].folder.write(folder)
        found[kind] = opened(bases[kind]), opened(folder)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_other_text_keeps_its_ids_and_text_of_the_script_becomes_known(kind, pairs, extended, sample):
    before, after = pairs[kind]
    for line in [*sample["en"].splitlines(), *sample["hi"].splitlines(), *TEXT.splitlines()]:
        assert before.encode(line).ids == after.encode(line).ids
    unknown = extended[kind].extension.base.unknown
    lines = sample["si"].splitlines()
    old, new = (sum(encoding.ids.count(unknown) for encoding in one.encode_batch(lines)) for one in (before, after))
    assert old > 1000
    assert new == 0


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(max_size=60))
def test_random_text_without_the_script_keeps_its_ids(kind, pairs, text):
    before, after = pairs[kind]
    if SINHALA.points.isdisjoint(map(ord, text)):
        text = text.encode(errors="replace").decode()
        assert before.encode(text).ids == after.encode(text).ids


@pytest.mark.parametrize("kind", KINDS)
def test_random_mixtures_with_the_script_keep_the_ids_of_other_words(kind, pairs, sample):
    """A word without a character of the script has the same ids as before, whatever is around it."""
    before, after = pairs[kind]
    random, words = Random(1), [*sample["en"].split(), *TEXT.split()]
    for _ in range(300):
        word = random.choice(words)
        text = f"{random.choice(sample['si'].split())} {word} {random.choice(sample['si'].split())}"
        ids = before.encode(word, add_special_tokens=False).ids
        mixed = after.encode(text, add_special_tokens=False).ids
        assert any(mixed[place : place + len(ids)] == ids for place in range(len(mixed)))


@pytest.mark.parametrize("kind", KINDS)
def test_old_pieces_and_added_tokens_keep_their_ids(kind, pairs, extended):
    before, after = pairs[kind]
    new = after.get_vocab()
    assert before.get_vocab().items() <= new.items()
    assert len(new) == len(before.get_vocab()) + 700
    assert sorted(new.values()) == list(range(len(new)))
    record = extended[kind].folder.settings["sgpe"]["extensions"][-1]
    assert record["new_ids"] == [[len(before.get_vocab()), len(new) - 1]]


def test_a_mask_after_the_last_piece_stays_where_it_is(bases, pairs):
    """Ids of Unigram are places in the list of pieces, so ``<mask>`` must become a piece."""
    before, after = pairs["Unigram"]
    content = json.loads((bases["Unigram"] / "tokenizer.json").read_text(encoding="utf-8"))
    mask = len(content["model"]["vocab"])
    for one in (before, after):
        assert one.token_to_id("<mask>") == mask
        assert mask in one.encode("a <mask> b").ids


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_tells_of_unknown_text(kind, bases, sinhala_file, tmp_path, extended):
    cost = extended[kind].cost
    assert cost.unknown == (1.0, 0.0)
    out = tmp_path / "out"
    done = hf_sgpe("extend", bases[kind], sinhala_file, "--script", "si", "--new-tokens", 300, "--out", out)
    assert "100.0% of these words contained unknown text; now 0.0% do" in done.stdout
    assert "AutoTokenizer loads the tokenizer as" in done.stdout
    shown = evaluate(load_measurable(bases[kind]), ["ශ්‍රී ලංකාව a"])
    assert shown.unknown_share > 0.5
    assert evaluate(load_measurable(out), ["ශ්‍රී ලංකාව a"]).unknown_share == 0


def test_the_class_of_the_base_is_kept_only_if_it_gives_the_same_ids(extended, bases):
    warned = hf_sgpe("info", bases["Unigram"]).stderr
    assert "builds the tokenizer from its class XLMRobertaTokenizer" in warned
    # transformers builds XLM-R's normalizer and pre-tokenizer by itself, and these differ from the file's.
    assert "PreTrainedTokenizerFast, because XLMRobertaTokenizer gives other ids" in extended["Unigram"].runs
    assert "as BertTokenizer, with the same ids" in extended["WordPiece"].runs


def test_joiners_that_the_normalizer_deletes_are_named(bases, sinhala_file, tmp_path, caplog):
    extend(bases["WordPiece"], sinhala_file, tmp_path / "out", script=["si"], new_tokens=300)
    assert "deletes U+200D zero width joiner" in caplog.text


def test_a_script_that_the_normalizer_destroys_is_refused(sample, sinhala_file, tmp_path):
    base = piece_folder("WordPiece", sample["en"].splitlines(), tmp_path / "uncased", uncased=True)
    with pytest.raises(SGPEError, match="cannot be written without them"):
        extend(base, sinhala_file, tmp_path / "out", script=["si"], new_tokens=300)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "option", [{"own_split": True}, {"reuse_ids": True}, {"replace_script": ["han"]}, {"runs_in": ["llama.cpp"]}]
)
def test_options_of_merging_tokenizers_are_refused(option, bases, sinhala_file, tmp_path):
    with pytest.raises(SGPEError, match=f"cannot be extended with {next(iter(option))}"):
        extend(bases["Unigram"], sinhala_file, tmp_path / "out", script=["si"], **option)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_promise_is_found(kind, extended):
    extension = extended[kind].extension
    base, tokenizer = extension.base, extension.tokenizer
    check_pieces(base, tokenizer, SINHALA)
    with pytest.raises(SGPEError, match="can occur in text of other scripts"):
        check_pieces(base, base.with_pieces({"zzqx": -5.0}, {}), SINHALA)
    with pytest.raises(SGPEError, match="differ in normalizer"):
        check_pieces(base, replace(tokenizer, content={**tokenizer.content, "normalizer": None}), SINHALA)
    if kind == "Unigram":
        with pytest.raises(SGPEError, match="scores"):
            check_pieces(base, base.with_pieces({"ක": -1000.0}, {}), SINHALA)


def test_the_first_new_tokens_are_those_of_a_smaller_extension(bases, sinhala_file, tmp_path, extended):
    whole = extended["Unigram"].extension
    smaller = whole.at(600)
    assert smaller.vocab_size == whole.base.vocab_size + 600
    assert smaller.vocab.items() <= whole.tokenizer.vocab.items()
    curve = hf_sgpe(
        *("extend", bases["Unigram"], sinhala_file, "--script", "si", "--new-tokens", 600, "--eval", sinhala_file),
        *("--out", tmp_path / "out"),
    )
    assert "si tokens/word" in curve.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_commands_read_the_tokenizer(kind, bases):
    facts = hf_sgpe("info", bases[kind], "--json", "--sample-text", "a ක").stdout
    assert json.loads(facts)["kind"].startswith(kind)
    assert json.loads(facts)["sample has unknown text"]
    line = json.loads(hf_sgpe("encode", bases[kind], "the word", "--json").stdout)
    assert line["ids"] == opened(bases[kind]).encode("the word", add_special_tokens=False).ids
    assert "".join(line["tokens"]) == " the word"
    refused = hf_sgpe("check", bases[kind], code=2)
    assert f"its model is {kind}, not BPE: it works only with" in refused.stderr


def test_damaged_vocabularies_are_one_line(bases, tmp_path):
    for vocab in ({"a": 1}, [["a"]], [1], None, "x"):
        content = json.loads((bases["Unigram"] / "tokenizer.json").read_text(encoding="utf-8"))
        content["model"]["vocab"] = vocab
        (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(SGPEError, match=r"tokenizer\.json"):
            PieceFolder.read(tmp_path)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("unk_id", None, "neither unk_id nor byte_fallback"),
        ("added_tokens", [{"id": 3}], "an added token lacks its content or its id"),
        ("added_tokens", [{"content": "<z>"}], "an added token lacks its content or its id"),
        ("added_tokens", [{"id": 900, "content": "<z>", "special": True}], "'<z>' has the id 900"),
    ],
)
def test_files_that_the_library_reads_otherwise_are_refused(part, value, message, bases, sinhala_file, tmp_path):
    content = json.loads((bases["Unigram"] / "tokenizer.json").read_text(encoding="utf-8"))
    if part == "added_tokens":
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        content[part] += [{**flags, **token} for token in value]
    else:
        content["model"][part] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    refused = hf_sgpe("extend", tmp_path, sinhala_file, "--script", "si", "--out", tmp_path / "out", code=2)
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_text_with_too_few_words_is_told(bases, sinhala_file, tmp_path, caplog):
    extend(bases["Unigram"], sinhala_file, tmp_path / "out", script=["si"], new_tokens=1_000_000)
    assert "of the 1000000 new tokens requested" in caplog.text
    with pytest.raises(SGPEError, match="the characters of sinhala alone need"):
        extend(bases["Unigram"], sinhala_file, tmp_path / "small", script=["si"], new_tokens=5)
    hint = hf_sgpe(
        "extend", bases["Unigram"], sinhala_file, "--base-split", "--script", "si", "--out", tmp_path / "x", code=2
    )
    assert "with --base-split" in hint.stderr


def test_the_letters_of_an_alphabet_get_pieces_and_its_name_is_asked_for(bases, tmp_path):
    file = tmp_path / "ka.txt"
    file.write_text("საქართველო არის ქვეყანა კავკასიაში\n" * 20, encoding="utf-8")
    extend(bases["WordPiece"], file, tmp_path / "out", script=["georgian"], new_tokens=60)
    ids = PieceFolder.read(tmp_path / "out").encode("ქართული კავკასია")
    assert PieceFolder.read(tmp_path / "out").unknown in ids  # the text has no უ
    assert PieceFolder.read(tmp_path / "out").unknown not in PieceFolder.read(tmp_path / "out").encode("კავკასია")
    asked = hf_sgpe("extend", bases["WordPiece"], file, "--out", tmp_path / "no", code=2)
    assert "name the script to add, such as --script georgian" in asked.stderr


def test_a_folder_with_only_a_list_of_pieces_names_the_command(sinhala_file, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n", encoding="utf-8")
    refused = hf_sgpe("extend", tmp_path, sinhala_file, "--script", "si", "--out", tmp_path / "out", code=2)
    assert "save a tokenizer.json first: python -c" in refused.stderr
