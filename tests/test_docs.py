"""The documentation: it builds without a warning, names all that there is, and every block of code in it runs, alone.

A block runs in a folder that holds what its page speaks of: texts, a tokenizer, a model with one, and the scripts. All are
small, and so are the numbers that a block asks for. One that is not run says in a comment before it why not.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from hf_sgpe import BPETokenizer, SGPETokenizerFast, WordCounts
from trainers import ExtensionConfig, TokenizerExtender, TokenizerTrainer, TrainingConfig

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINE = 140
SHORT = (
    (r"(--vocab-size) \d+", r"\1 1500"),
    (r"(--new-tokens) \d+", r"\1 200"),
    (r"(scripts/train_lm\.py .*)", r"\1 --steps 2 --length 16 --batch-size 2"),
    (r"(scripts/train_lm\.py (?!.*--model ).*)", r"\1 --layers 1 --width 16 --heads 2"),
    (r"(scripts/train_seq2seq\.py .*)", r"\1 --steps 2 --layers 1 --width 16 --heads 2 --batch-size 2"),
    (r"(scripts/compare_tokenizers\.py .*)", r"\1 --steps 2 --layers 1 --width 16 --heads 2 --length 16 --batch 32"),
    (r"vocab_size=32_000", "vocab_size=1_500"),
    (r"new_tokens=16_000", "new_tokens=200"),
)


class Block(NamedTuple):
    page: str
    line: int
    remark: str
    language: str
    code: str


def blocks():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = r"(?:<!-- ((?:(?!-->).)*) -->\n)?^```(python|bash)\n(.*?)^```$"
        for found in re.finditer(blocks, text, re.DOTALL | re.MULTILINE):
            yield Block(page.name, text.count("\n", 0, found.start(2)) + 1, found[1] or "", found[2], found[3])


RUN = [block for block in blocks() if not block.remark]


@pytest.fixture(scope="module")
def workplace(sample, tmp_path_factory):
    torch = pytest.importorskip("torch", reason="models are of PyTorch: pip install torch accelerate")
    pytest.importorskip("accelerate", reason="models train by accelerate: pip install torch accelerate")
    pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib: pip install matplotlib")
    from transformers import LlamaForCausalLM

    from trainers.language_model import small_llama

    folder = tmp_path_factory.mktemp("workplace")
    texts = {"si.txt": sample["si"], "en.txt": sample["en"], "held-out.txt": sample["si"][:2000]}
    texts |= {f"{code}-eval.txt": "\n".join(sample[code].splitlines()[-40:]) for code in ("si", "en")}
    texts["en.jsonl"] = '{"text": "one two three"}\n' * 20
    texts["pairs.tsv"] = "one two\tthree four\n" * 200
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    english = BPETokenizer.train_from_iterator([sample["en"]], 500, pattern="qwen2", special_tokens=["<|endoftext|>"])
    base = SGPETokenizerFast.from_bpe(english)
    texts = [sample["si"], sample["en"]]
    mine, talking = (
        TokenizerTrainer(TrainingConfig(1500, scripts=("sinhala",), chat_template=template)).train(iterator=texts)
        for template in (None, "chatml")
    )
    torch.manual_seed(1)
    for name, tokenizer in (("base-model", base), ("my-model", talking)):
        tokenizer.save_pretrained(folder / name)
        shape = small_llama(-(-len(tokenizer) // 64) * 64, layers=1, width=16, heads=2, length=64)
        shape.eos_token_id = tokenizer.eos_token_id
        LlamaForCausalLM(shape).save_pretrained(folder / name)
    mine.save_pretrained(folder / "my-tokenizer")
    padded = TrainingConfig(1500, special_tokens=("<|endoftext|>", "<|pad|>"), pad_token="<|pad|>")
    TokenizerTrainer(padded).train(iterator=[sample["en"]]).save_pretrained(folder / "with-pad")
    extension = ExtensionConfig(scripts=["sinhala"], new_tokens=200)
    TokenizerExtender(extension).extend(folder / "base-model", text=sample["si"]).save_pretrained(folder / "base-model-si")
    (folder / "scripts").symlink_to(ROOT / "scripts")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("block", RUN, ids=[f"{block.page}-{block.line}" for block in RUN])
def test_every_block_runs_alone(block, workplace, tmp_path):
    folder = shutil.copytree(workplace, tmp_path / "here", symlinks=True)
    code = block.code.replace("\\\n", " ")
    for written in re.findall(r"--out (\S+)", code):
        path = folder / written
        (shutil.rmtree if path.is_dir() else Path.unlink)(path) if path.exists() else None
    for long, short in SHORT:
        code = re.sub(long, short, code)
    command = ["bash", "-euo", "pipefail", "-c", code] if block.language == "bash" else [sys.executable, "-c", code]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_blocks_that_are_not_run_say_why():
    for block in blocks():
        assert not block.remark or block.remark == "engines" or re.match(r"not run here: \w+", block.remark), block
    assert len(RUN) > 25


def test_lines_are_short():
    """But for tables, which Markdown has in one line, and code."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        long = [line for line in text.splitlines() if len(line) > LINE and not line.startswith("|")]
        assert long == [], page
    readme = PAGES[0].read_text(encoding="utf-8").splitlines()
    assert len(readme) <= 150
    assert max(map(len, readme)) <= LINE


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site is built by MkDocs: pip install mkdocs-material 'mkdocstrings[python]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = {page.parent.name: page.read_text(encoding="utf-8") for page in (tmp_path / "site").glob("*/index.html")}
    assert len(pages) >= 16
    for name in ("train", "tokenize", "extend", "transplant", "evaluate", "push", "counts add"):
        assert f"hf-sgpe {name}" in pages["cli"]
    assert "[bold]" not in pages["cli"]
    assert "merge_init" not in pages["api"]
    for name in ("BPETokenizer.encode_streaming", "transplant", "LinguisTrie.tokenize"):
        assert re.search(rf'id="[\w.]+\.{re.escape(name)}"', pages["api"]), name
    # Nothing is asked of others when a page is opened.
    for name, page in pages.items():
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page), name


def test_links_between_pages_lead_somewhere():
    """In the files as they lie in the repository, where MkDocs does not look at README.md."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)


def test_all_that_there_is_has_a_name_in_the_documentation():
    from hf_sgpe.formats.registry import FORMATS
    from hf_sgpe.generation.engines import ENGINES
    from hf_sgpe.splitting.patterns import PATTERNS
    from hf_sgpe.splitting.scripts import SCRIPTS
    from hf_sgpe.splitting.splitting import RECIPES
    from trainers.token_files import TOKEN_FORMATS

    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in (*FORMATS, *TOKEN_FORMATS, *PATTERNS, *RECIPES) if f"`{name}`" not in text]
    missing += [name for name in (*SCRIPTS, *ENGINES) if name not in text.lower()]
    assert missing == []


def test_words_are_counted_for_spark(sample):
    pa = pytest.importorskip("pyarrow")
    (block,) = (block for block in blocks() if "mapInArrow" in block.code)
    # Up to where Spark is needed, which calls the function with Arrow batches.
    code = block.code[: block.code.index("spark = ")].replace("from pyspark.sql import SparkSession, functions\n", "")
    names = {}
    exec(code, names)
    lines = sample["si"].splitlines()
    batches = [pa.RecordBatch.from_pydict({"text": part}) for part in (lines[:50], [None, *lines[50:]])]
    counted = pa.Table.from_batches(names["words"](batches))
    assert counted.schema == pa.schema({"word": pa.binary(), "count": pa.int64()})
    expected = WordCounts.from_texts(lines, names["splitting"])
    assert dict(zip(counted["word"].to_pylist(), counted["count"].to_pylist(), strict=True)) == dict(expected.items())
