import re

import pytest
from support.paths import ROOT

from hf_sgpe import ExtensionConfig, Splitting
from hf_sgpe.learning.extension.extension_config import keeps_words
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.splitting.scripts.script_tables import TEN
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

PAGE = ROOT / "docs" / "extend.md"
PATTERNS = {
    "GPT-2": "gpt2",
    "Llama 3": "llama3",
    "Qwen 2": "qwen2",
    "Qwen 3": "qwen2",
    "o200k": "o200k",
    "Qwen 3.5": "qwen35",
    "Tekken": "tekken",
    "BLOOM": "bloom",
}


def rows():
    """Each split that the page has a row for, and the scripts that it stays for."""
    table = PAGE.read_text(encoding="utf-8").partition("| old split | stays for |\n")[2]
    for line in re.findall(r"^\| (.+?) \| (.+?) \|$", table.partition("\n\n")[0], re.MULTILINE):
        names = [] if line[1] == "none" else line[1].split(", ")
        yield from ((split, names) for split in line[0].split(", "))


def of_bytes(splitting):
    return TokenizerData({bytes([byte]): byte for byte in range(256)}, [], splitting=splitting)


def test_the_page_has_all_splits():
    assert sorted(split for split, _ in rows()) == sorted(PATTERNS)


@pytest.mark.parametrize(("split", "names"), list(rows()))
def test_a_split_stays_for_the_scripts_that_the_page_names(split, names):
    splitting = Splitting("bpe", pattern=PATTERNS[split], normalization="none", special_tokens=())
    assert [script.name for script in TEN if keeps_words(splitting, script)] == [resolve_script(name).name for name in names]
    base = of_bytes(splitting)
    for script in TEN:
        stays = ExtensionConfig([script.name]).splitting_for(base) == splitting
        assert stays == (script.name in [resolve_script(name).name for name in names])


@pytest.mark.parametrize("script", [script.name for script in TEN])
def test_a_split_of_their_own_keeps_words_whole(script):
    base = of_bytes(Splitting("bpe", pattern="gpt2", normalization="none", special_tokens=()))
    assert keeps_words(ExtensionConfig([script]).splitting_for(base), resolve_script(script))
