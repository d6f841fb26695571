"""Functions that run the command line and the scripts, in this process or in a new one.

A new process takes seconds to start, so most tests run commands in their own process, with separate streams, folder,
environment and warnings. Signals, terminals, pipes and memory are tested in new processes, and each command once.
"""

import logging
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import IO

from support.paths import ROOT

SCRIPTS, TOOLS = ROOT / "scripts", ROOT / "tests" / "tools"
COMMAND = [sys.executable, "-m", "hf_sgpe"]
"""The beginning of a command line that runs ``hf-sgpe`` in a new process."""


def hf_sgpe(
    *arguments: object, cwd: Path | None = None, stdin: str | bytes = "", code: int | None = 0, **environment: str
) -> CompletedProcess[str]:
    """Run ``hf-sgpe`` in this process.

    Args:
        *arguments: The arguments of the command line.
        cwd: The folder to run in.
        stdin: The standard input.
        code: The expected exit code; None accepts any.
        **environment: Variables to set.
    """
    from hf_sgpe.cli import main

    return _checked(_run_here(main, ["hf-sgpe", *map(str, arguments)], cwd, stdin, environment), code)


def script(
    name: str | Path,
    *arguments: object,
    cwd: Path | None = None,
    stdin: str | bytes = "",
    code: int | None = 0,
    **environment: str,
) -> CompletedProcess[str]:
    """Run a script in ``scripts/``, or at any path, in this process, with the arguments of `hf_sgpe`."""
    path = SCRIPTS / name

    def work() -> None:
        sys.path.insert(0, str(path.parent))  # as Python does
        runpy.run_path(str(path), run_name="__main__")

    return _checked(_run_here(work, [str(path), *map(str, arguments)], cwd, stdin, environment), code)


def benchmark(name: str, *arguments: object, cwd: Path | None = None, code: int | None = 0) -> CompletedProcess[str]:
    return script(str(ROOT / "benchmarks" / name), *arguments, cwd=cwd, code=code)


def check_refusal(
    program: Callable[..., CompletedProcess[str]], folder: Path, name: str, arguments: list[object], message: str
) -> None:
    """Run a script or a benchmark in a folder, and check that it ends with one line and leaves nothing behind."""
    before = sorted(folder.rglob("*"))
    done = program(name, "--out", "refused", *arguments, cwd=folder, code=2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def process(
    *command: object, cwd: Path | None = None, stdin: str = "", code: int | None = 0, **environment: str
) -> CompletedProcess[str]:
    """Run a command in a new process, with the arguments of `hf_sgpe`."""
    done = run(
        list(map(str, command)), input=stdin, capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}
    )
    return _checked(done, code)


def _checked(done: CompletedProcess[str], code: int | None) -> CompletedProcess[str]:
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def _run_here(
    work: Callable[[], object], argv: list[str], cwd: Path | None, stdin: str | bytes, environment: dict[str, str]
) -> CompletedProcess[str]:
    code: object = 0
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin.encode() if isinstance(stdin, str) else stdin)
        files[0].seek(0)
        stack.enter_context(_state_kept(argv, cwd, environment))
        try:
            with _streams(files):
                work()
        except SystemExit as ending:
            code = ending.code
        for file in files:
            file.seek(0)
        stdout, stderr = (file.read().decode("utf-8", "replace") for file in files[1:])
    if isinstance(code, str):
        code, stderr = 1, f"{stderr}{code}\n"
    assert code is None or isinstance(code, int)
    return CompletedProcess(argv, code or 0, stdout, stderr)


@contextmanager
def _streams(files: list[IO[bytes]]) -> Iterator[None]:
    """Replace the standard streams by files, for Python, native code and child processes."""
    names = ("stdin", "stdout", "stderr")
    before = [getattr(sys, name) for name in names]
    kept = [os.dup(number) for number in range(3)]
    for stream in before[1:]:
        stream.flush()
    for number, (name, file) in enumerate(zip(names, files, strict=True)):
        os.dup2(file.fileno(), number)
        setattr(sys, name, open(number, "rw"[number > 0], encoding="utf-8", closefd=False))  # noqa: SIM115
    try:
        yield
    finally:
        for number, (name, stream) in enumerate(zip(names, before, strict=True)):
            if number:
                getattr(sys, name).flush()
            setattr(sys, name, stream)
            os.dup2(kept[number], number)
            os.close(kept[number])


@contextmanager
def _state_kept(argv: list[str], cwd: Path | None, environment: dict[str, str]) -> Iterator[None]:
    """Set the folder, environment, arguments, log and warnings of a command, and afterwards restore all that it changes."""
    import signal

    from hf_sgpe import kernels
    from hf_sgpe.terminal import progress

    folder, variables, arguments, path = Path.cwd(), dict(os.environ), sys.argv, list(sys.path)
    on_end = signal.getsignal(signal.SIGTERM)
    library = sys.modules.get("transformers.utils.logging")
    verbosity = library.get_verbosity() if library else None
    if library:
        library.set_verbosity_error()  # as `quiet_libraries` has it where transformers is imported later
    slow = kernels._slow_characters
    kernels._slow_characters = 0
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []  # so that the command sets them up
    sys.argv = argv
    os.environ.update(environment)
    os.chdir(cwd or folder)
    try:
        with warnings.catch_warnings():
            # As Python prints them by default; the filters of the tests turn them into errors.
            warnings.resetwarnings()
            for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)
            warnings.showwarning = lambda *about: print(warnings.formatwarning(*about[:4]), end="", file=sys.stderr)
            yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv = arguments
        sys.path[:] = path
        kernels._slow_characters = slow
        progress.be_quiet(False)
        signal.signal(signal.SIGTERM, on_end)
        root.handlers[:] = handlers
        root.setLevel(level)
        if library:
            library.set_verbosity(verbosity)
