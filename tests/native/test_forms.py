import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
KERNELS = FOLDER.parents[1] / "hf_sgpe" / "csrc"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    path = tmp_path_factory.mktemp("native") / "forms"
    flags = ["-O2", "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fno-strict-aliasing", f"-I{KERNELS}"]
    subprocess.run([compiler, *flags, FOLDER / "forms.cpp", "-o", path], check=True)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["", "HF_SGPE_PORTABLE"])
def test_the_forms_of_the_kernels_agree(program, variable):
    environment = {**os.environ, variable: "1"} if variable else None
    done = subprocess.run([program, "5000", "1"], env=environment, capture_output=True, text=True)
    assert re.fullmatch(r"(vectors|portable): [0-9]{6,} words, no difference\n", done.stdout), done.stdout
    if variable:
        assert done.stdout.startswith("portable")
