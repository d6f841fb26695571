import os
import subprocess
import sys
from pathlib import Path

import pytest

import hf_sgpe


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("statement", ["import hf_sgpe", "import trainers", "import hub_cards"])
def test_importing_pulls_in_no_heavy_package(statement):
    heavy = run(
        f"import sys; {statement}; print([name for name in ('torch', 'transformers', 'pyarrow') if name in sys.modules])"
    )
    assert heavy.strip() == "[]"


def test_importing_the_library_loads_nothing_but_itself():
    loaded = run("import sys; before = set(sys.modules); import hf_sgpe; print(*sorted(set(sys.modules) - before))").split()
    ours = {"hf_sgpe", "hf_sgpe.lazy", "hf_sgpe.version"}
    assert not [name for name in loaded if name.startswith(("tokenizers", "regex", "numpy", "hf_sgpe")) and name not in ours]


def test_every_public_name_is_there():
    for name in hf_sgpe.__all__:
        assert getattr(hf_sgpe, name) is not None
    assert set(hf_sgpe.__all__) <= set(dir(hf_sgpe))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hf_sgpe.nothing


def test_python_dash_m_runs_the_command_line():
    assert "train" in run(
        "import runpy, sys; sys.argv = ['hf-sgpe', '--help']; runpy.run_module('hf_sgpe', run_name='__main__')"
    )


@pytest.mark.parametrize("installed", ["beside", "in the path"])
def test_a_project_with_packages_of_the_same_names_breaks_nothing(tmp_path, sample, installed):
    for name in ("trainers", "hub_cards"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("NAME = 'of the project'", encoding="utf-8", newline="\n")
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8", newline="\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)} if installed == "in the path" else None

    def run_there(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    train = ("train", "si.txt", "--out", "tokenizer", "--vocab-size", "1500", "--workers", "2")
    assert "1,500 tokens" in run_there("-m", "hf_sgpe", *train)
    assert "tokens/word" in run_there("-m", "hf_sgpe", "evaluate", "tokenizer", "si.txt")
    code = "import hf_sgpe; print(hf_sgpe.SGPETokenizerFast.from_pretrained('tokenizer')('ක').input_ids)"
    assert run_there("-c", code).startswith("[")


def test_pushing_needs_no_package_whose_name_a_project_may_use():
    assert "trainers" not in run("import sys; import hub_cards.publish; print(*sys.modules)").split()


def test_the_command_line_is_found_before_a_projects_own_package(tmp_path):
    # as where the packages are installed and not linked to
    root = Path(hf_sgpe.__file__).parents[1]
    code = (
        f"import sys; sys.meta_path[:] = [finder for finder in sys.meta_path if 'ditable' not in type(finder).__module__];"
        f"sys.path[:0] = [{str(tmp_path)!r}]; sys.path.append({str(root)!r});"
        "import hf_sgpe.cli; import trainers; print(trainers.__file__)"
    )
    (tmp_path / "trainers").mkdir()
    (tmp_path / "trainers" / "__init__.py").touch()
    assert Path(run(code).strip()).is_relative_to(root)
