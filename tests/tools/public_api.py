#!/usr/bin/env python3
"""Print the public interfaces: the names and signatures of docs/api.md; all commands, their options and defaults.

To rewrite the file with which a test compares them:

    python tests/tools/public_api.py >tests/public_api.txt
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.commands import COMMANDS
from support.paths import ROOT

PACKAGES = ("hf_sgpe", "trainers", "hub_cards")


class Plain(str):
    """An annotation of the source, which is shown without quotes."""

    __repr__ = str.__str__


def main() -> None:
    for package in PACKAGES:
        print(*(f"{package}.{name}" for name in sorted(import_module(package).__all__)), sep="\n")
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for path in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE):
        module, _, name = path.rpartition(".")
        thing = getattr(import_module(module), name)
        print(f"\n{path}{signature(thing)}", *members(thing), sep="\n    .")
    for names, command in sorted(COMMANDS.items()):
        print(f"\n{' '.join(('hf-sgpe', *names))}")
        for one in (one for one in command.params if not one.hidden):
            value = "required" if one.required else one.default
            print(f"    {', '.join((*one.opts, *one.secondary_opts))}{' …' if one.multiple else ''}: {value}")


def members(thing: Any) -> Iterator[str]:
    """Yield the attributes of a class, and its methods with their signatures, also from base classes of these packages."""
    bases = [base for base in getattr(thing, "__mro__", ()) if base.__module__.startswith(PACKAGES)]
    for name in sorted({name for base in bases for name in vars(base) if not name.startswith("_")}):
        value = inspect.getattr_static(thing, name)
        function = getattr(value, "__func__", value)  # of a class method or static method
        yield name + (signature(function) if inspect.isfunction(function) else "")


def signature(function: Any) -> str:
    read = inspect.signature(function)
    parameters = [one.replace(annotation=plain(one.annotation)) for one in read.parameters.values()]
    read = read.replace(parameters=parameters, return_annotation=plain(read.return_annotation))
    text = re.sub(r" at 0x\w+", "", str(read))
    if len(text) > 90:  # one parameter on a line
        text = re.sub(rf" (?=\**({'|'.join(read.parameters)}): )", f"\n{' ' * 8}", text)
    return text


def plain(annotation: Any) -> Any:
    source = getattr(annotation, "__forward_arg__", annotation)
    return Plain(source) if isinstance(source, str) else source


if __name__ == "__main__":
    main()
