"""The sdist and the wheel, installed where nothing else is, do the main job."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


@pytest.mark.slow
def test_contents(packages):
    names = zipfile.ZipFile(packages["wheel"]).namelist()
    for name in ("hf_sgpe/py.typed", "trainers/py.typed", "hub_cards/py.typed", "trainers/sample/si.txt", "hf_sgpe/cli.py"):
        assert name in names
    assert not [name for name in names if name.startswith(("tests", "scripts"))]
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    with tarfile.open(packages["sdist"]) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    for name in ("README.md", "LICENSE", "pyproject.toml", "scripts/test.sh", "tests/test_packaging.py"):
        assert name in inside


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_installs_and_works_in_an_empty_environment(packages, kind, tmp_path):
    script = 'root=$1; source "$1/scripts/environment.sh"; make_environment "$2" "$3"'
    run("bash", "-ec", script, "bash", ROOT, tmp_path / "venv", packages[kind], env={**os.environ, "PYTHON": sys.executable})
    python = tmp_path / "venv" / "bin" / "python"
    environment = {"PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    sample = run(python, "-c", "import trainers; print(trainers.SAMPLE)", cwd=tmp_path, env=environment).strip()
    assert sample.startswith(str(tmp_path))
    options = {"cwd": tmp_path, "env": environment}
    assert "3,000 tokens" in run("hf-sgpe", "train", sample, "--out", "out", "--vocab-size", 3000, **options)
    text = "ශ්‍රී ලංකාව\n"
    ids = run("hf-sgpe", "encode", "-t", "out", input=text, **options)
    assert run("hf-sgpe", "decode", "-t", "out", input=ids, **options) == text
    code = "from transformers import AutoTokenizer; print(*AutoTokenizer.from_pretrained('out')('ශ්‍රී ලංකාව')['input_ids'])"
    assert run(python, "-c", code, **options) == ids
