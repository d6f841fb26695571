"""Every block of code in the documentation runs, alone.

A block runs in a folder that holds what its page speaks of: texts, a tokenizer, a model with one, and the scripts. All are
small, and so are the numbers that a block asks for. One that is not run says in a comment before it why not.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.command import hf_sgpe, process, script
from support.other_scripts import LINES as OTHER
from support.pages import ROOT, Block, blocks

from hf_sgpe import BPETokenizer, SGPETokenizerFast, WordCounts
from trainers import ExtensionConfig, TokenizerExtender, TokenizerTrainer, TrainingConfig

SHORT = (
    (r"(--vocab-size) \d+", r"\1 1500"),
    (r"(--new-tokens) \d+", r"\1 200"),
    (r"(hf-sgpe finetune .*)", r"\1 --steps 2 --length 16 --batch-size 2"),
    (r"(hf-sgpe finetune (?!.*--model ).*)", r"\1 --layers 1 --width 16 --heads 2"),
    (r"(hf-sgpe finetune-seq2seq .*)", r"\1 --steps 2 --layers 1 --width 16 --heads 2 --batch-size 2"),
    (r"(benchmarks/models_by_tokenizer\.py .*)", r"\1 --steps 2 --layers 1 --width 16 --heads 2 --length 16 --batch 32"),
    (r"vocab_size=32_000", "vocab_size=1_500"),
    (r"new_tokens=16_000", "new_tokens=200"),
    (r"max_steps=1000", "max_steps=2"),
    (r"pack\(text, tokenizer, 256\)", "pack(text, tokenizer, 16)"),
)
RUN = [block for block in blocks() if not block.remark]
EXTENDING = next(block for block in RUN if block.page == "extend.md" and "finetune" in block.code)
# Pipes; other programs; what adds to the tables of the process that it runs in, or starts others.
QUICK = ("README.md", "CONTRIBUTING.md", "quickstart.md")
"""Pages whose blocks are quick tests."""
NEEDS_A_PROCESS = re.compile(r"^[^#]* [|] |^python -c|\badd_\w+\(|__main__", re.MULTILINE)


@pytest.fixture(scope="module")
def workplace(sample, tmp_path_factory):
    torch = pytest.importorskip("torch", reason="models are of PyTorch: pip install torch accelerate")
    pytest.importorskip("accelerate", reason="models train by accelerate: pip install torch accelerate")
    from transformers import LlamaForCausalLM

    from trainers.language_models.language_model import small_llama
    from trainers.model_rows.transplanting import transplant

    folder = tmp_path_factory.mktemp("workplace")
    texts = {"si.txt": sample["si"], "en.txt": sample["en"], "held-out.txt": sample["si"][:2000]}
    texts |= {f"{code}-eval.txt": "\n".join(sample[code].splitlines()[-40:]) for code in ("si", "en")}
    texts["en.jsonl"] = '{"text": "one two three"}\n' * 20
    texts["pairs.tsv"] = "one two\tthree four\n" * 200
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    both = [sample["en"], OTHER * 10]
    english = BPETokenizer.train_from_iterator(both, 500, pattern="qwen2", special_tokens=["<|endoftext|>"])
    base = SGPETokenizerFast.from_bpe(english)
    texts = [sample["si"], sample["en"]]
    mine, talking = (
        TokenizerTrainer(TrainingConfig(1500, scripts=("sinhala",), chat_template=template)).train(iterator=texts)
        for template in (None, "chatml")
    )
    torch.manual_seed(1)
    for name, tokenizer in (("base-model", base), ("small-model", base), ("my-model", talking)):
        tokenizer.save_pretrained(folder / name)
        shape = small_llama(-(-len(tokenizer) // 64) * 64, layers=1, width=16, heads=2, length=64)
        shape.eos_token_id = tokenizer.eos_token_id
        LlamaForCausalLM(shape).save_pretrained(folder / name)
    mine.save_pretrained(folder / "my-tokenizer")
    padded = TrainingConfig(1500, special_tokens=("<|endoftext|>", "<|pad|>"), pad_token="<|pad|>")
    TokenizerTrainer(padded).train(iterator=[sample["en"]]).save_pretrained(folder / "with-pad")
    extension = ExtensionConfig(scripts=["sinhala"], new_tokens=200)
    TokenizerExtender(extension).extend(folder / "base-model", text=sample["si"]).save_pretrained(folder / "base-model-si")
    for name, transplanted in (("base-model", "my-base-si"), ("small-model", "my-draft-si")):
        transplant(folder / name, folder / "base-model-si", folder / transplanted)
    for name in ("scripts", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture
def here(workplace, tmp_path):
    return shutil.copytree(workplace, tmp_path / "here", symlinks=True)


def run(block: Block, folder: Path) -> list[str]:
    code = block.code.replace("\\\n", " ")
    for written in re.findall(r'(?:--out |(?<!\.)\b(?:transplant|extend|train)\(.*, ")([\w.-]+)', code):
        path = folder / written
        (shutil.rmtree if path.is_dir() else Path.unlink)(path) if path.exists() else None
    for long, short in SHORT:
        code = re.sub(long, short, code)
    if block.language == "bash":
        done = [run_command(command, folder) for command in code.splitlines()]
    elif NEEDS_A_PROCESS.search(code):
        done = [process(sys.executable, "-c", code, cwd=folder)]
    else:
        (folder / "block.py").write_text(code, encoding="utf-8", newline="\n")
        done = [script(str(folder / "block.py"), cwd=folder)]
    for one in done:
        assert "Traceback" not in one.stderr
    return [one.stdout for one in done]


def run_command(command: str, folder: Path) -> CompletedProcess[str]:
    if NEEDS_A_PROCESS.search(command):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return process("bash", "-euo", "pipefail", "-c", command, cwd=folder, PATH=path)
    program, *words = shlex.split(command, comments=True)
    if program == "hf-sgpe":
        return hf_sgpe(*words, cwd=folder)
    assert program == "python"
    return script(str(ROOT / words[0]), *words[1:], cwd=folder)


def alone(block: Block):
    is_quick = block.page in QUICK and not NEEDS_A_PROCESS.search(block.code)
    marks = () if is_quick else pytest.mark.slow
    return pytest.param(block, id=f"{block.page}-{block.line}", marks=marks)


@pytest.mark.parametrize("block", [alone(block) for block in RUN if block != EXTENDING])
def test_every_block_runs_alone(block, here):
    run(block, here)


def test_blocks_that_are_not_run_say_why():
    for block in blocks():
        assert not block.remark or block.remark == "engines" or re.match(r"not run here: \w+", block.remark), block
    assert len(RUN) > 25


def test_the_page_on_extending_goes_from_a_corpus_to_a_model_that_knows_its_new_tokens(here, sample):
    from transformers import LlamaForCausalLM

    extended, compared, transplanted, trained = run(EXTENDING, here)
    assert "200 tokens more than base-model" in extended
    lines = len([line for line in sample["en"].splitlines() if line.strip()])
    assert f"{lines:,} of {lines:,} lines have the same ids" in compared
    assert "200 started from their pieces" in transplanted
    assert re.search(r"^en\.txt +[\d.]+ → [\d.]+ ", transplanted, re.MULTILINE)
    assert "700 rows kept" in trained
    assert "20.0% of the rows come from --keep" in trained
    assert "held-out.txt" in trained
    for name in ("my-base-si", "my-sinhala-model"):
        assert len(LlamaForCausalLM.from_pretrained(here / name).get_input_embeddings().weight) == 700
    before, after = (BPETokenizer.from_pretrained(here / name) for name in ("base-model", "base-model-si"))
    assert after.encode(sample["en"]) == before.encode(sample["en"])


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
