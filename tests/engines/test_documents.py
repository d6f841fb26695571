"""What the documentation says of engines, the demo and the command line, as a user runs them."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hf_sgpe.generation import GenerationOptions

pytestmark = [
    pytest.mark.skipif(os.environ.get("HF_SGPE_ENGINES") != "all", reason="not all engines are asked for"),
    pytest.mark.filterwarnings("ignore"),
]

ROOT = Path(__file__).parents[2]


def call(*arguments, cwd, text=""):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=text)


@pytest.fixture
def call_here(here, monkeypatch, capfd):
    """Calls the command line in this process, since importing PyTorch takes seconds: gives exit code, output and errors."""
    from hf_sgpe.cli import main

    def called(*arguments, text=""):
        monkeypatch.chdir(here)
        monkeypatch.setattr(sys, "argv", ["hf-sgpe", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capfd.readouterr()

    return called


@pytest.fixture(scope="module")
def here(models, tmp_path_factory):
    """A folder with a model in it."""
    folder = tmp_path_factory.mktemp("here")
    shutil.copytree(models["tied"], folder / "my-model")
    return folder


def blocks():
    text = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8")
    return re.findall(r"<!-- engines -->\n```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("number", range(6))
def test_the_page_on_generating_runs(number, here, monkeypatch, capfd):
    code = blocks()[number].replace('generate("ශ්‍රී ලංකාව")', 'generate("ශ්‍රී ලංකාව", options)')
    monkeypatch.chdir(here)
    exec(code, {"options": GenerationOptions(max_new_tokens=5)})
    printed, errors = capfd.readouterr()
    assert printed.strip()
    assert errors == ""
    assert len(blocks()) == 6


@pytest.mark.parametrize("engine", ["mlx", "openvino", "llama.cpp", "transformers"])
def test_the_command_line_talks(engine, here, call_here):
    options = ["--engine", engine, "--exact", "--temperature", 0, "--max-new-tokens", 8]
    done = call("-m", "hf_sgpe", "chat", "my-model", "--prompt", "ශ්‍රී ලංකාව", *options, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    lines = '{"prompt": "ශ්‍රී ලංකාව"}\n{"messages": [{"role": "user", "content": "ශ්‍රී ලංකාව"}]}\n'
    code, several, errors = call_here("chat", "my-model", "--json", *options, text=lines)
    assert (code, errors) == (0, "")
    assert [json.loads(line)["text"] + "\n" for line in several.splitlines()] == [done.stdout] * 2
    assert call_here("chat", "my-model", *options, text="ශ්‍රී ලංකාව\n") == (0, done.stdout, "")


def test_engines_are_listed(call_here):
    code, listed, errors = call_here("engines")
    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in listed.splitlines()] == [
        "engine",
        "mlx",
        "openvino",
        "llama.cpp",
        "transformers",
    ]
    found = json.loads(call_here("engines", "--format", "json")[1])
    assert [info["why_not"] for info in found] == [""] * 4


def test_export_says_whether_llama_splits_as_the_tokenizer_does(here, call_here):
    told = call_here("export", "my-model", "--format", "gguf", "--out", "m.gguf")
    assert told[:2] == (2, "")
    assert "add --pre-tokenizer nearest and give it ids" in told[2]
    code, said, errors = call_here("export", "my-model", "--format", "gguf", "--pre-tokenizer", "nearest", "--out", "m.gguf")
    assert (code, errors) == (0, "")
    assert re.fullmatch(
        r"m\.gguf: [\d.]+ MB\. llama\.cpp itself \(pre-tok.*\) gives other ids than this .* give it ids.*\n", said
    )
    refused = call_here("export", "my-model", "--format", "gguf", "--out", "x.gguf", "--pattern", "gpt2")
    assert refused == (2, "", "error: --pattern is for tiktoken, not for folder\n")
    assert not (here / "x.gguf").exists()


def test_the_demo_says_the_same_everywhere(here):
    done = call(ROOT / "scripts" / "demo_generation.py", "--steps", 20, "--max-new-tokens", 10, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same ids") == 4


def test_the_benchmark_measures_all(here):
    options = ["--layers", 1, "--width", 32, "--heads", 2, "--vocab-size", 320, "--tokens", 5, "--turns", 1]
    done = call(ROOT / "scripts" / "benchmark_engines.py", *options, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("by its own loop") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("my-model --prompt x --json", "--prompt and --json: give one of them"),
        ("my-model --prompt x --temperature -1", "temperature must be at least 0"),
        ("my-model --prompt x --engine mlx --device cpu", "mlx has no setting 'device': it has none"),
        ("my-model --prompt x --engine openvino --device TPU", "device 'TPU': OpenVINO has CPU and AUTO here"),
        ("my-model --prompt x --engine transformers --device cuda", "device 'cuda': PyTorch does not have it"),
        ("my-model --prompt x --engine transformers --device bogus", "device 'bogus': PyTorch does not have it"),
        ("my-model --prompt x --engine llama.cpp --n-ctx 0", "n_ctx must be a whole number of at least 1"),
        ("my-model --prompt x --engine transformers --heal", "--heal is for going on from text, and this tokenizer has"),
        ("my-model --prompt x --template nope", "--template nope: no such file"),
        ("other.gguf --prompt x --tokenizer my-model", r"other\.gguf: damaged: not a GGUF file"),
        ("broken --prompt x --tokenizer my-model --engine transformers", "broken: no model that can be loaded"),
        ("broken --prompt x --tokenizer my-model --engine mlx", r"broken/model\.safetensors: damaged"),
        ("broken --prompt x --tokenizer my-model --engine openvino", "broken: no model that can be loaded"),
        ("broken --prompt x --tokenizer my-model --engine llama.cpp", "broken"),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, here, call_here):
    (here / "other.gguf").write_bytes(b"GGUF and then nothing")
    (here / "broken").mkdir(exist_ok=True)
    shutil.copy(here / "my-model" / "config.json", here / "broken")
    (here / "broken" / "model.safetensors").write_bytes(b"nothing")
    code, _, errors = call_here("chat", *arguments.split())
    assert code == 2
    assert re.fullmatch(rf"error: .*({message}).*\n", errors)
