"""The version of the package, and lazy import of its public names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _version()


@cache
def _version() -> str:
    """Return the version of the installed package, which is the version in pyproject.toml."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hf-sgpe")
    except PackageNotFoundError:  # the source is imported without an installation
        return "0+unknown"


def lazily(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a ``__getattr__`` and a ``__dir__`` that let a package import its public names on first use.

    Args:
        package: Name of the package.
        names: Dict from each module to its public names, separated by spaces.
    """
    homes = {name: module for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: sorted({*vars(sys.modules[package]), *homes})


def named_above(name: str, caller: str) -> Callable[..., Any]:
    """Return the function to which an entry point of this package refers.

    In this way, a module can call code of a higher layer, such as the upload of a tokenizer, without importing it.

    Args:
        name: Name of the entry point.
        caller: Name of the calling function, for the error message.

    Raises:
        NotInstalledError: the package is not installed, and only its source is available.
    """
    from importlib.metadata import entry_points

    from hf_sgpe.errors import not_installed

    for entry_point in entry_points(group="hf_sgpe", name=name):
        function: Callable[..., Any] = entry_point.load()
        return function
    raise not_installed(f"{caller} needs the installed package, not only its source", "hf-sgpe")
