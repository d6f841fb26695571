"""The script that adapts a model on a rented GPU: its metadata as hf reads it, and a run on this machine."""

import subprocess
import sys

import pytest
from huggingface_hub import metadata_load
from packaging.requirements import Requirement
from support.hub import of_the_client
from support.paths import ROOT

from hf_sgpe import BPETokenizer, SGPETokenizerFast

SCRIPT = ROOT / "examples" / "adapt_on_a_gpu.py"


def metadata_of(script):
    """Return the metadata of a script, by the reference implementation in PEP 723."""
    import re

    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    pattern = r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$"
    (match,) = re.finditer(pattern, script.read_text(encoding="utf-8"))
    assert match["type"] == "script"
    return tomllib.loads(
        "".join(line[2:] if line.startswith("# ") else line[1:] for line in match["content"].splitlines(True))
    )


def test_its_metadata_names_this_package_and_the_gpu():
    metadata = metadata_of(SCRIPT)
    package, trackio = map(Requirement, metadata["dependencies"])
    assert (package.name, package.extras, trackio.name) == ("hf-sgpe", {"train"}, "trackio")
    reader = pytest.importorskip("huggingface_hub.cli._uv_script_header", reason="an older hf has no [tool.hf-jobs]")
    header = reader.parse_uv_script_header(SCRIPT.read_text(encoding="utf-8"))
    assert (header.flavor, header.timeout, header.secrets) == ("a10g-small", "12h", ["HF_TOKEN"])


def run(hub, *arguments, cwd, **more):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=hub.environment(**more), capture_output=True, text=True)


def test_a_token_that_cannot_write_is_found_before_the_training(hub, tmp_path):
    done = run(hub, "--push", "me/si", "base", "si.txt", cwd=tmp_path, HF_TOKEN="hf_read")
    assert done.returncode == 2
    assert done.stderr.startswith("error: me/si: ")
    assert done.stderr.count("\n") == 1
    assert "--push" in run(hub, "base", "si.txt", cwd=tmp_path).stderr
    assert "--private" in run(hub, "--help", cwd=tmp_path).stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@of_the_client
def test_it_adapts_and_pushes_the_model_with_its_card(hub, sample, tmp_path):
    pytest.importorskip("accelerate", reason="models train by accelerate: pip install torch accelerate")
    from support.small_models import saved_model  # needs PyTorch

    english = BPETokenizer.train_from_iterator([sample["en"]], 400, pattern="gpt2", special_tokens=["<|endoftext|>"])
    SGPETokenizerFast.from_bpe(english).save_pretrained(tmp_path / "tok")
    base = saved_model("smollm", tmp_path / "tok", tmp_path / "base")
    (tmp_path / "si.txt").write_text(sample["si"][:12_000], encoding="utf-8")
    (tmp_path / "held-out.txt").write_text(sample["si"][12_000:13_000], encoding="utf-8")
    small = ["--new-tokens", 100, "--length", 32, "--batch-size", 2, "--budget", 320, "--lines", "--eval", "si=held-out.txt"]
    done = run(hub, base, "si.txt", *small, "--push", "me/si", "--private", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = hub.files("me/si")
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= files.keys()
    assert hub.repositories["me/si"].private
    assert 'AutoModelForCausalLM.from_pretrained("me/si")' in files["README.md"].decode()
    metadata = metadata_load(tmp_path / "adapted" / "model" / "README.md")
    assert metadata["language"] == ["si"]
    assert metadata["model-index"][0]["results"][0]["metrics"][0]["type"] == "bits_per_byte"
