import json
import re
import unicodedata

import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError, SGPETokenizerFast
from hf_sgpe.corpora.held_out import HeldOut, read_held_out
from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.evaluation.comparison import compare, texts_of
from hub_cards import evaluate
from trainers import TokenizerExtender


def test_texts_keep_their_line_ends_and_lines_do_not(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\r\n\n  \ntwo words\n")
    (tmp_path / "b.jsonl").write_text('{"body": "three\\nfour\\n"}\n{"body": "five"}\n', encoding="utf-8")
    held_out = HeldOut((tmp_path / "a.txt", tmp_path / "b.jsonl"), text_field="body")
    assert held_out.texts() == ["one\r\n\n  \ntwo words\n", "three\nfour\n", "five"]
    assert [*held_out] == [*held_out] == ["one", "two words", "three", "four", "five"]


def test_held_out_text_is_in_nfc(tmp_path):
    decomposed = unicodedata.normalize("NFD", "é ক়")
    (tmp_path / "a.txt").write_text(f"{decomposed}\n", encoding="utf-8")
    held_out = HeldOut((tmp_path / "a.txt",))
    composed = unicodedata.normalize("NFC", decomposed)
    assert [*held_out] == [composed] == [normalized(decomposed)]
    assert held_out.texts() == [f"{composed}\n"]
    assert words_of(composed) == composed.split(" ")


def test_a_text_of_white_space_is_named(tmp_path):
    (tmp_path / "a.txt").write_text(" \n\n", encoding="utf-8")
    with pytest.raises(SGPEError, match=r"a\.txt has no text to measure"):
        HeldOut((tmp_path / "a.txt",)).texts()


def test_names_come_from_the_value_or_from_the_file(tmp_path):
    for name in ("x/en.txt", "y/en.txt", "y/si.txt", "a=b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text\n", encoding="utf-8")
    x, y = tmp_path / "x", tmp_path / "y"
    assert read_held_out([f"news={x / 'en.txt'}", f"news={y}", str(y / "si.txt")]) == {
        "news": HeldOut((x / "en.txt", y / "en.txt", y / "si.txt")),
        "si.txt": HeldOut((y / "si.txt",)),
    }
    same = [str(tmp_path / "*" / "en.txt"), str(x / "en.txt")]
    assert list(read_held_out(same)) == [str(x / "en.txt"), str(y / "en.txt")]
    assert list(read_held_out([str(tmp_path / "a=b.txt")])) == ["a=b.txt"]
    with pytest.raises(SGPEError, match=r"none\.txt: no such file or folder"):
        read_held_out(["si=none.txt"])


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        *((read_held_out, value, "NAME=FILE") for value in ("={file}", "a.b={file}", "si=", "=")),
        (texts_of, "news={file}", "'news' is not a language code"),
    ],
)
def test_a_value_without_a_name_a_file_or_a_language_is_refused(tmp_path, read, value, message):
    (tmp_path / "en.txt").write_text("text\n", encoding="utf-8")
    with pytest.raises(SGPEError, match=message):
        read([value.format(file=tmp_path / "en.txt")])


@pytest.fixture(scope="module")
def workplace(tmp_path_factory, sample):
    """A model with a tokenizer that does not normalize, one extended from it, and text that is not in NFC everywhere."""
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch accelerate")
    pytest.importorskip("accelerate", reason="models train by accelerate: pip install torch accelerate")
    from support.models import train_llama

    folder = tmp_path_factory.mktemp("held-out")
    lines = sample["si"].splitlines()
    english = sample["en"][:20_000]
    bpe = BPETokenizer.train_from_iterator(
        [english], 500, pattern="gpt2", normalization="none", special_tokens=["<|endoftext|>"]
    )
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    train_llama(folder / "old", bpe, [english], steps=20, **shape, num_key_value_heads=2, vocab_size=512)
    config = ExtensionConfig(scripts=["sinhala"], new_tokens=200)
    TokenizerExtender(config).extend(folder / "old", text="\n".join(lines[:80])).save_pretrained(folder / "new")
    held_out = [*lines[80:110], unicodedata.normalize("NFD", lines[110]), "", "a café"]
    assert "".join(held_out) != normalized("".join(held_out))
    (folder / "text.txt").write_text("\n".join(held_out) + "\n", encoding="utf-8", newline="\n")
    (folder / "si.txt").write_text("\n".join(lines[:80]) + "\n", encoding="utf-8", newline="\n")
    return folder


def test_every_command_has_the_same_numbers_of_a_file(workplace):
    text = workplace / "text.txt"
    printed = hf_sgpe("transplant", "old", "-t", "new", "-o", "model", "--eval", "si=text.txt", cwd=workplace).stdout
    report = json.loads((workplace / "model" / "transplant.json").read_text(encoding="utf-8"))["texts"]["si"]
    assert re.search(r"^si +\d", printed, re.MULTILINE)

    pairs = ["--baseline", "old=old", "--model", "model", "--model", "old=old"]
    rows = json.loads(hf_sgpe("evaluate", "model", "text.txt", *pairs, "--json", cwd=workplace).stdout)
    for row, measured in zip(rows, (report["after"], report["before"]), strict=True):
        for name in ("tokens_per_word", "bits_per_byte"):
            assert row[name] == measured[name], name
    shown = hf_sgpe("evaluate", "model", "text.txt", "--model", "model", cwd=workplace).stdout
    per_word, bits = f"{report['after']['tokens_per_word']:.3f}", f"{report['after']['bits_per_byte']:.4f}"
    assert per_word in shown.split()
    assert bits in shown.split()
    assert f"→ {per_word}" in printed
    assert f"→ {bits}" in printed

    hf_sgpe("extend", "old", "si.txt", "--new-tokens", 200, "--eval", "si=text.txt", "-o", "again", cwd=workplace)
    curve = json.loads((workplace / "again" / "extension.json").read_text(encoding="utf-8"))["tokens_per_word"]["si"]
    assert [curve[0], curve[-1]] == [round(report[when]["tokens_per_word"], 4) for when in ("before", "after")]

    compared = compare(BPETokenizer.from_pretrained(workplace / "new"), texts_of([f"si={text}"]))
    assert compared.measure("tokens_per_word", "si", compared.name) == report["after"]["tokens_per_word"]
    alone = evaluate(SGPETokenizerFast.from_pretrained(workplace / "new"), text.read_text(encoding="utf-8").split("\n"))
    assert alone.tokens_per_word == report["after"]["tokens_per_word"]

    # Rows of 16 tokens, and yet the model is measured as everywhere.
    options = ["si.txt", "--model", "model", "--length", "16", "--batch-size", "2", "--steps", "2", "--eval", "si=text.txt"]
    printed = hf_sgpe("finetune", *options, "--out", "trained", cwd=workplace).stdout
    (before, after), *_ = re.findall(r"^si: ([\d.]+) bits per byte before, ([\d.]+) after$", printed, re.MULTILINE)
    assert before == bits
    assert after in hf_sgpe("evaluate", "trained", "text.txt", "--model", "trained", cwd=workplace).stdout.split()
