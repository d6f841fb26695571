import json
import os
import re
import shutil

import pytest
from support.command import benchmark, hf_sgpe
from support.paths import ROOT

from hf_sgpe.generation import GenerationOptions

if os.environ.get("HF_SGPE_ENGINES") != "all":
    pytest.skip("not all engines are asked for", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def here(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("here")
    shutil.copytree(models["tied"], folder / "my-model")
    return folder


def blocks():
    text = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8")
    return re.findall(r"<!-- engines -->\n```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_the_page_on_generating_runs(number, here, monkeypatch, capfd):
    code = blocks()[number].replace('generate("ශ්‍රී ලංකාව")', 'generate("ශ්‍රී ලංකාව", options)')
    monkeypatch.chdir(here)
    exec(code, {"options": GenerationOptions(max_new_tokens=5)})
    printed, errors = capfd.readouterr()
    assert printed.strip()
    assert errors == ""
    assert len(blocks()) == 2


@pytest.mark.parametrize("engine", ["mlx", "openvino", "llama.cpp", "transformers"])
def test_the_command_line_talks(engine, here):
    def chat(*arguments, stdin=""):
        options = ["--engine", engine, "--exact", "--temperature", 0, "--max-new-tokens", 8]
        done = hf_sgpe("chat", "my-model", *arguments, *options, cwd=here, stdin=stdin)
        assert done.stderr == ""
        return done.stdout

    said = chat("--prompt", "ශ්‍රී ලංකාව")
    lines = '{"prompt": "ශ්‍රී ලංකාව"}\n{"messages": [{"role": "user", "content": "ශ්‍රී ලංකාව"}]}\n'
    assert [json.loads(line)["text"] + "\n" for line in chat("--json", stdin=lines).splitlines()] == [said] * 2
    assert chat(stdin="ශ්‍රී ලංකාව\n") == said


def test_engines_are_listed(here):
    listed = hf_sgpe("engines").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["engine", "mlx", "openvino", "llama.cpp", "transformers"]
    found = json.loads(hf_sgpe("engines", "--json").stdout)
    assert [info["why_not"] for info in found] == [""] * 4


def test_export_says_whether_llama_splits_as_the_tokenizer_does(here):
    def to_gguf(*arguments, code=0):
        return hf_sgpe("export", "my-model", "--format", "gguf", *arguments, cwd=here, code=code)

    told = to_gguf("--out", "m.gguf", code=2)
    assert told.stdout == ""
    assert "add --pre-tokenizer nearest and pass ids" in told.stderr
    done = to_gguf("--pre-tokenizer", "nearest", "--out", "m.gguf")
    assert done.stderr == ""
    assert re.fullmatch(
        r"m\.gguf: [\d.]+ MB\. llama\.cpp's own tokenizer \(pre-tok.*\) returns other ids than this .*: pass ids .*\n",
        done.stdout,
    )
    refused = to_gguf("--out", "x.gguf", "--pattern", "gpt2", code=2)
    assert (refused.stdout, refused.stderr) == ("", "error: --pattern is for tiktoken, gpt2, not for folder\n")
    assert not (here / "x.gguf").exists()


def test_the_benchmark_measures_all(here):
    options = ["--layers", 1, "--width", 32, "--heads", 2, "--vocab-size", 320, "--tokens", 5, "--turns", 1]
    done = benchmark("engine_loops.py", *options, cwd=here)
    assert done.stdout.count("by its own loop") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("my-model --prompt x --json", "--prompt and --json"),
        ("my-model --prompt x --temperature -1", "temperature must be a number of at least 0"),
        ("my-model --prompt x --engine mlx --device cpu", "--device: mlx"),
        ("my-model --prompt x --engine openvino --device TPU", "'TPU'"),
        ("my-model --prompt x --engine transformers --device cuda", "device 'cuda': PyTorch cannot use it"),
        ("my-model --prompt x --engine transformers --device bogus", "device 'bogus': PyTorch cannot use it"),
        ("my-model --prompt x --engine llama.cpp --n-ctx 0", "--n-ctx"),
        ("my-model --prompt x --engine transformers --heal", "--heal"),
        ("my-model --prompt x --template nope", "--template nope: no such file"),
        ("other.gguf --prompt x --tokenizer my-model", r"other\.gguf: damaged or not a GGUF file"),
        ("broken --prompt x --tokenizer my-model --engine transformers", "broken: the model cannot be loaded"),
        ("broken --prompt x --tokenizer my-model --engine mlx", r"broken/model\.safetensors is damaged"),
        ("broken --prompt x --tokenizer my-model --engine openvino", "broken: the model cannot be loaded"),
        ("broken --prompt x --tokenizer my-model --engine llama.cpp", "broken"),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, here):
    (here / "other.gguf").write_bytes(b"GGUF and then nothing")
    (here / "broken").mkdir(exist_ok=True)
    shutil.copy(here / "my-model" / "config.json", here / "broken")
    (here / "broken" / "model.safetensors").write_bytes(b"nothing")
    errors = hf_sgpe("chat", *arguments.split(), cwd=here, code=2).stderr
    assert re.fullmatch(rf"error: .*({message}).*\n", errors)
