import subprocess
import sys

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
    assert not [name for name in loaded if name.startswith(("tokenizers", "regex", "numpy", "hf_sgpe."))]


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
