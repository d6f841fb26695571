"""The package itself: its version, and names that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("hf-sgpe")
    """The tag of the repository that the package was built from."""
except PackageNotFoundError:  # the source is imported where it is, without an installation
    __version__ = "0+unknown"


def lazily(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Args:
        names: Module → its names that are public in the package, with spaces between.
    """
    homes = {name: module for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: sorted({*vars(sys.modules[package]), *homes})


def named_above(name: str, caller: str) -> Callable[..., Any]:
    """Return the function that an entry point of this package names.

    A module that must not import what is built on it, such as a tokenizer that offers to upload itself, finds it so.

    Raises:
        NotInstalledError: the package is not installed, only its source is there.
    """
    from importlib.metadata import entry_points

    from hf_sgpe.errors import not_installed

    for entry_point in entry_points(group="hf_sgpe", name=name):
        function: Callable[..., Any] = entry_point.load()
        return function
    raise not_installed(f"{caller} needs the installed package, not only its source", "hf-sgpe")
