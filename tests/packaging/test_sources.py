import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import process
from support.paths import ROOT

KERNELS = ROOT / "hf_sgpe" / "csrc"


def test_kernels_are_standard_cpp_without_python(tmp_path):
    compilers = {Path(path).resolve() for name in ("c++", "g++", "clang++") if (path := shutil.which(name))}
    if not compilers:
        pytest.skip("needs GCC or Clang")
    source = tmp_path / "all.cpp"
    source.write_text("".join(f'#include "{header.name}"\n' for header in sorted(KERNELS.glob("*.h"))), newline="\n")
    strict = ["-std=c++20", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    for compiler in compilers:
        done = subprocess.run([compiler, *strict, "-I", KERNELS, source], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_one_header_knows_the_compilers():
    # GCC and Clang accept their own extensions however strict they are; other compilers do not.
    own = re.compile(
        r"\b(__builtin_\w+|__attribute__|__int128|__forceinline|__extension__|__restrict\w*|_MSC_VER|__GNUC__|__SSE2__)\b"
    )
    users = {file.name for file in KERNELS.rglob("*.*") if own.search(file.read_text(encoding="utf-8"))}
    assert users == {"compiler.h"}


WITHOUT_UNIX = """
import importlib, pkgutil, sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for package in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["hf_sgpe", "trainers", "hub_cards"])
def test_modules_are_imported_without_the_modules_of_unix(package):
    process(sys.executable, "-c", WITHOUT_UNIX, package)


def test_text_is_written_with_the_same_line_ends_on_every_system():
    # Windows writes \r\n for \n in text unless the call says newline="\n".
    def is_wrong(call):
        name = getattr(call.func, "attr", getattr(call.func, "id", None))
        modes = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        is_method = isinstance(call.func, ast.Attribute)  # the function write_text is hf_sgpe.files.atomic's
        writes_text = (
            (name == "write_text" and is_method)
            or name == "TextIOWrapper"
            or (
                name in ("open", "fdopen", "NamedTemporaryFile", "TemporaryFile")
                and any(re.fullmatch("[wax]t?[+]?", mode) for mode in modes)
            )
        )
        newlines = [
            word.value.value for word in call.keywords if word.arg == "newline" and isinstance(word.value, ast.Constant)
        ]
        return writes_text and newlines != ["\n"]

    wrong = []
    for folder in ("hf_sgpe", "trainers", "hub_cards", "scripts", "benchmarks"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            calls = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
            wrong += [f"{file.relative_to(ROOT)}:{call.lineno}" for call in calls if is_wrong(call)]
    assert not wrong
