#!/usr/bin/env python3
"""Count the lines, the public names and the dense places of the project's Python files, for each top-level folder.

Example:
    python scripts/size.py
"""

from __future__ import annotations

import argparse
import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG = 60  # lines of a function, with its docstring
SUITE = "tests"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
COLUMNS = ("lines", "code", "docstrings", "public names", "long functions", "walruses", "nested")


def _main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    folders: dict[str, Counter[str]] = {}
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            folders.setdefault(name.split("/")[0], Counter()).update(_counts_of((ROOT / name).read_text(encoding="utf-8")))
    package = sum((counts for folder, counts in folders.items() if folder != SUITE), Counter())
    print("".join(f"{title:>15}" for title in ("", *COLUMNS)))
    for folder, counts in [*folders.items(), (f"without {SUITE}", package)]:
        print(f"{folder:>15}" + "".join(f"{counts[column]:>15,}" for column in COLUMNS))
    print(f"docstring lines for 100 lines of code, without {SUITE}: {100 * package['docstrings'] / package['code']:.1f}")


def _counts_of(source: str) -> Counter[str]:
    """Return the counts for `COLUMNS` of a program. A line of code is neither empty, nor a comment, nor in a docstring."""
    tree = ast.parse(source)
    lines = source.splitlines()
    documented = set(_docstring_lines(tree))
    counts = Counter({"lines": len(lines), "docstrings": len(documented)})
    for number, line in enumerate(lines, 1):
        counts["code"] += number not in documented and line.strip() != "" and not line.lstrip().startswith("#")
    for node in ast.walk(tree):
        counts["walruses"] += isinstance(node, ast.NamedExpr)
        counts["nested"] += isinstance(node, ast.stmt) and _is_nested(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            counts["long functions"] += (node.end_lineno or node.lineno) - node.lineno >= LONG
    counts["public names"] = sum(1 for _ in _public_names(tree))
    return counts


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the number of each line of a docstring, including those of attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _public_names(node: ast.AST) -> Iterator[str]:
    """Yield the classes, functions and methods without a leading underscore, but not those inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DEFINITIONS):
            if not child.name.startswith("_"):
                yield child.name
                if isinstance(child, ast.ClassDef):
                    yield from _public_names(child)
        elif isinstance(child, ast.stmt):
            yield from _public_names(child)


def _is_nested(statement: ast.stmt) -> bool:
    """Return whether a statement holds a comprehension inside a comprehension, or a conditional inside a conditional."""
    return any(
        isinstance(outer, kinds) and any(isinstance(inner, kinds) for inner in ast.walk(outer) if inner is not outer)
        for outer in _expressions(statement)
        for kinds in (COMPREHENSIONS, ast.IfExp)
    )


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield all expressions of a statement, but not those of the statements that it holds."""
    waiting = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


if __name__ == "__main__":
    _main()
