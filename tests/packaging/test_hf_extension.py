"""The package as an extension of the ``hf`` command: ``hf sgpe …``."""

import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from support.command import hf_sgpe, process
from support.paths import ROOT

extensions = pytest.importorskip("huggingface_hub.cli.extensions", reason="an older hf has no extensions")


def test_hf_installs_the_repository_as_a_python_package():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    _, _, name = extensions._normalize_repo_id("owner/hf-sgpe")
    # hf prefers a file of this name to the package, and needs a program of this name.
    assert not (ROOT / f"hf-{name}").exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extensions._get_executable_name(name).removesuffix(".exe") in project["scripts"]


def test_hf_runs_this_package_as_its_command(tmp_path):
    program = Path(sys.executable).with_name("hf-sgpe")
    names = {"owner": "owner", "repo": "hf-sgpe", "repo_id": "owner/hf-sgpe", "short_name": "sgpe", "type": "python"}
    manifest = extensions.ExtensionManifest(**names, executable_path=str(program), installed_at=datetime.now(timezone.utc))
    manifest.save(tmp_path / ".local" / "share" / "hf" / "extensions" / "hf-sgpe")
    there = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
    done = process(Path(sys.executable).with_name("hf"), "sgpe", "--version", **there)
    assert done.stdout == hf_sgpe("--version").stdout
    assert "owner/hf-sgpe" in process(Path(sys.executable).with_name("hf"), "--help", **there).stdout
