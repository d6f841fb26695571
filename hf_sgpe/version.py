"""The version of the package: the tag of the repository that it was built from, as its installation says."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("hf-sgpe")
except PackageNotFoundError:  # used where it lies, without an installation
    __version__ = "0+unknown"
