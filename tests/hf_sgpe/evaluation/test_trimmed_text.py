"""Checks of trimmed tokenizers on the text of a corpus."""

import json
from dataclasses import replace

import pytest
from support.character_tokenizers import character_tokenizer
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.evaluation.token_use import use_of_tokens
from hf_sgpe.evaluation.trimmed_text import check_corpus
from hf_sgpe.vocabulary.token_parts import without_tokens
from hf_sgpe.vocabulary.trimming import confined_to, trimmed

TEXT = "the low lower lowest newer\nПривет мир миру the lowest\n\n\nlow wide "


@pytest.fixture
def base(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT * 20, encoding="utf-8", newline="\n")
    return BPETokenizer.train_from_iterator([TEXT * 9, "other newest wider tokens " * 9], 320, pattern="gpt2").data


@pytest.mark.parametrize("scripts", [(), ("cyrillic",)], ids=len)
def test_a_token_that_is_missing_is_found_in_lines_without_dropped_scripts(base, tmp_path, scripts):
    files = [tmp_path / "a.txt"]
    [use] = use_of_tokens([base], files, **({"without": confined_to(scripts).points} if scripts else {}))
    trimming = trimmed(base, scripts, use=use)
    lines = [line for line in (TEXT * 20).splitlines(keepends=True) if "м" not in line] if scripts else [TEXT * 20]
    compared = check_corpus(trimming, files)
    assert compared == sum(len(BPETokenizer.of(base).encode(line)) for line in lines)
    assert scripts or compared == use.sum()
    wrong = replace(trimming, tokenizer=without_tokens(trimming.tokenizer, {b" lowest"}))
    with pytest.raises(SGPEError, match=r"a\.txt: .* 'the low"):
        check_corpus(wrong, files)


BASES = {
    "bytes": lambda texts: BPETokenizer.train_from_iterator(texts, 320, pattern="cl100k"),
    "characters": lambda texts: character_tokenizer(texts, "metaspace-prefix"),
}


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_each_line_keeps_its_tokens_too(kind, name, tmp_path):
    """At the beginning of a line, and before its end, a word can have other tokens than inside a text."""
    lines = ["Walls are old?!", "Second walls?!\r", "old walls are?!", "", "x" * 40 + " old"]
    base = BASES[kind](["old walls?!\n" * 9 + "Walls are old?! Second walls?! other tokens " * 3]).data
    document = "\n".join(lines)
    content = document if name == "a.txt" else json.dumps({"text": document}) + "\n" + json.dumps({"text": "Walls"}) + "\n"
    (tmp_path / name).write_text(content, encoding="utf-8", newline="\n")
    BPETokenizer.of(base).save(tmp_path / "base")
    done = hf_sgpe(
        *("trim", tmp_path / "base", "--unused-in", tmp_path / name, "--out", tmp_path / "trimmed"),
        *("--eval", tmp_path / name, "--json"),
    )
    [result] = json.loads(done.stdout)["eval"].values()
    assert result["same_lines"] == result["kept_lines"] >= 4
    new = BPETokenizer.from_pretrained(tmp_path / "trimmed")
    for text in [document, *lines, *(line.strip() for line in lines)]:
        assert new.encode(text) == BPETokenizer.of(base).encode(text)
