"""A playground: a static page that shows typed text as tokens of several tokenizers.

The tokenizers run in the browser, in tokenizers.js, which is a part of transformers.js and ships with this package. The page
makes no requests to other servers, so any web server can serve it. For example, it can be a static Space on the Hub. The
scripts of the page are in ``hub_cards/playground/page``. They show texts in the same way as `hub_cards.TokenView`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.measurable import foreign_backend, read_tokenizer
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.hub import hub_errors
from hf_sgpe.formats import loading, tokenizer_json
from hf_sgpe.package import __version__
from hf_sgpe.splitting.scripts.script import Ranges, Script, runs, shared_classes
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.cards.facts import SAMPLE, Facts
from hub_cards.markup import as_json, listed, render

PAGE, CARD = "index.html", "README.md"
_TOKENIZERS = "tokenizer-*.json"
_PAGE_FILES = files("hub_cards.playground").joinpath("page")


def write_playground(
    folder: str | os.PathLike[str],
    tokenizers: Mapping[str, Any],
    *,
    title: str = "Tokens as you type",
    text: str | None = None,
) -> list[str]:
    """Write a playground into a folder that any web server can serve.

    The folder gets ``index.html``, its scripts, the ``tokenizer.json`` of each tokenizer, and a ``README.md``, so that it
    can be a static Space on the Hub.

    Args:
        folder: Output folder. If it exists, it must be empty or have a playground, which is replaced.
        tokenizers: Tokenizers, keyed by the name to show. A tokenizer is a `BPETokenizer`, a fast tokenizer of transformers,
            a tokenizer from the ``tokenizers`` package, or a file, folder or Hub repository with a ``tokenizer.json``.
        text: Initial text of the page; None for a few words in the first tokenizer's script.

    Returns:
        The names of the files.
    """
    if not tokenizers:
        raise SGPEError("no tokenizer to show: give at least one")
    target = Path(folder)
    if target.suffix in (".html", ".htm"):
        raise SGPEError(
            f"{target}: the page is a folder of files: give the name of a folder, such as {target.with_suffix('')}"
        )
    if target.is_dir() and any(target.iterdir()) and not _is_playground(target):
        raise SGPEError(f"{target} is not empty and has no playground: give a new folder")
    loaded = {name: _loaded(tokenizer) for name, tokenizer in tokenizers.items()}
    names = {name: f"tokenizer-{number}.json" for number, name in enumerate(loaded, 1)}
    if text is None:
        first = next(bpe for _, bpe in loaded.values())
        text = Facts(first).sample if first else SAMPLE
    data = {
        "tokenizers": [{"name": name, "file": file} for name, file in names.items()],
        "scripts": [_script(script) for script in SCRIPTS.values()],
        "shared": _in_ranges(shared_classes()),
    }
    page = render(
        "playground.html.jinja",
        title=title,
        names=listed(loaded),
        data=data,
        text=text,
        examples=[(script.name.capitalize(), script.greeting) for script in SCRIPTS.values() if script.greeting],
    )
    written = {PAGE: page, CARD: render("playground.md.jinja", title=title, page=PAGE)}
    written |= {file: as_json(loaded[name][0], separators=(",", ":")) for name, file in names.items()}
    written |= {each.name: each.read_text(encoding="utf-8") for each in _PAGE_FILES.iterdir()}
    with atomic_directory(target) as there:
        for name, content in written.items():
            (there / name).write_text(content, encoding="utf-8", newline="\n")
    for file in target.glob(_TOKENIZERS):
        if file.name not in written:
            file.unlink()  # files of an earlier playground
    return sorted(written)


def push_playground(
    folder: str | os.PathLike[str], repo_id: str, *, private: bool | None = None, token: bool | str | None = None
) -> str:
    """Upload a playground to the Hub as a static Space, in one commit. If the Space does not exist, create it. Return its
    address. The arguments are those of `hub_cards.publishing.uploading.push`.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    names = playground_files(folder)
    api = HfApi(token=token, library_name="hf_sgpe", library_version=__version__)
    with hub_errors(f"Space {repo_id}:"):
        url = api.create_repo(repo_id, repo_type="space", space_sdk="static", private=private, exist_ok=True)
        there = api.list_repo_files(repo_id, repo_type="space")
        if PAGE in there and not _is_playground(Path(api.hf_hub_download(repo_id, PAGE, repo_type="space")).parent):
            raise SGPEError(f"Space {repo_id} has a page that is not a playground: give another name")
        old = [name for name in there if fnmatch(name, _TOKENIZERS) and name not in names]
        changes = [CommitOperationAdd(name, str(Path(folder) / name)) for name in names]
        removals = [CommitOperationDelete(name) for name in old]
        api.create_commit(repo_id, [*changes, *removals], repo_type="space", commit_message="Upload playground")
    return str(url)


def playground_files(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of the files that belong to the playground in a folder."""
    if not _is_playground(Path(folder)):
        raise SGPEError(f"{folder} has no playground: write one with hf-sgpe playground")
    tokenizers = (file.name for file in Path(folder).glob(_TOKENIZERS))
    return sorted([PAGE, CARD, *(each.name for each in _PAGE_FILES.iterdir()), *tokenizers])


def _is_playground(folder: Path) -> bool:
    page = folder / PAGE
    return page.is_file() and 'id="playground"' in page.read_text(encoding="utf-8", errors="replace")[:100_000]


def _loaded(tokenizer: Any) -> tuple[dict[str, Any], BPETokenizer | None]:
    """Return the content of a ``tokenizer.json``, and the `BPETokenizer`, or None for a tokenizer of another kind."""
    known = read_tokenizer(tokenizer)
    if not isinstance(known, BPETokenizer):
        foreign_backend(*known)  # raises an error for a file that no browser could read
        return json.loads(known.content), None
    if isinstance(tokenizer, (str, os.PathLike)) and (path := loading.find(tokenizer)).suffix.lower() != ".gguf":
        return loading.contents_of(path)[0], known
    return tokenizer_json.to_dict(known.data), known


def _script(script: Script) -> dict[str, Any]:
    """Return the data that the page needs to find syllables of a script, as JSON values."""
    classes = script.classes()
    return {
        "name": script.name,
        "isSpaced": script.spaced,
        "classes": _in_ranges({character: classes[character] for character in script.letters_and_marks()}),
        "grammar": script.syllable,
        "ends": None if script.ends is None else sorted(script.ends),
    }


def _in_ranges(classes: Mapping[str, str]) -> dict[str, Ranges]:
    """Return the characters of each class as ranges of code points."""
    members: dict[str, list[int]] = {}
    for character, letter in classes.items():
        members.setdefault(letter, []).append(ord(character))
    return {letter: runs(points) for letter, points in members.items()}
