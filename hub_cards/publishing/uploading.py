"""Publishing of tokenizers and models: a folder is uploaded to the Hub with its card and pictures, in one commit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.measurable import load
from hf_sgpe.files.folder_contents import module_folders, why_no_model
from hf_sgpe.files.hub import PUBLISHED_MODEL_FILES, HubUnreachableError, check_name, hub_errors
from hf_sgpe.files.json_files import read_json
from hf_sgpe.formats.piece_folder import read_pieces
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE
from hf_sgpe.formats.tokenizer_files import model_rows
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, TOKENIZER_FILE
from hf_sgpe.package import __version__
from hf_sgpe.terminal.progress import bars_on_terminals_only, somebody_watches
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.weights.safetensors_files import weight_files
from hub_cards.cards.card_of_model import MODEL_CONFIG_FILE, holds_model
from hub_cards.cards.evaluation_results import BENCHMARK_FOLDER
from hub_cards.cards.seal import CARD_FILE, PAGE_FILE, PICTURES, is_generated, is_measured, is_of_another

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo, HfApi
    from huggingface_hub.hf_api import RepoFile

    _State = tuple[str | None, bool, Mapping[str, RepoFile]]

LARGE = 10 * 2**20  # bytes
_MODULE_FILES = ("*.json", "*.safetensors")
# Patterns of the files to upload, keyed by subfolder.
_FOLDERS = {
    "additional_chat_templates": ("*.jinja",),
    "pictures": tuple(f"{name}.svg" for name in PICTURES),
    BENCHMARK_FOLDER: ("*.yaml",),
}


@dataclass(frozen=True)
class PushedFile:
    """A file of the folder, and how a push changes this file on the Hub.

    Attributes:
        size: Size in bytes.
        change: ``new``, ``changed`` or ``unchanged``. ``kept`` means that the repository keeps its own version of a card.
            ``not compared`` is set by a dry run without a network.
    """

    path: str
    size: int
    change: str

    @property
    def large(self) -> bool:
        """True if the Hub stores this file as a large file (LFS or Xet)."""
        return self.size > LARGE


@dataclass(frozen=True)
class Pushed:
    """The result of a push or a dry run.

    Attributes:
        repo_id: ``user/name``.
        url: URL of the pull request or of the commit. After a dry run, URL of the repository.
        created: Whether the repository is new.
        new_branch: Whether the branch is new.
        files: All files that belong to the tokenizer or the model.
        left_out: Other entries of the folder. Names of folders end in a slash.
        commit: The new commit. If nothing had changed, the newest commit of the repository. After a dry run, None.
        unreachable: The reason why a dry run could not reach the Hub; None if the Hub was reached.
    """

    repo_id: str
    url: str
    created: bool
    new_branch: bool
    files: tuple[PushedFile, ...]
    left_out: tuple[str, ...]
    commit: CommitInfo | None
    unreachable: str | None = None


def push(
    folder: str | os.PathLike[str],
    repo_id: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    token: bool | str | None = None,
    commit_message: str | None = None,
    commit_description: str | None = None,
    replace_card: bool = False,
    dry_run: bool = False,
) -> Pushed:
    """Upload the folder of a tokenizer or of a model to the Hub in one commit.

    The repository and the branch are created if they do not exist. The upload includes the tokenizer's own files, the
    model's weights (safetensors), configuration and licence, the card and its page, and the ``pictures`` of `write_card`.
    If an upload is interrupted, call `push` again: it sends only the large files that are missing. Nothing in the
    repository is deleted. If a file is a link, its target is uploaded. The target must be in the folder, and must not be
    hidden. In a snapshot in the Hub's cache, the target may also be a blob of the same repository.

    Args:
        repo_id: ``user/name``, or a name in the user's own namespace.
        private: Whether a new repository is private; None for the user's default.
        revision: Branch to commit to; a new branch starts from ``main``.
        create_pr: Whether to open a pull request with the commit, instead of committing to the branch.
        token: As in huggingface_hub; None for ``HF_TOKEN`` or the token that ``hf auth login`` stored.
        replace_card: Whether a generated card may replace a README.md that a person wrote or changed, or a card with
            measurements of the same tokenizer.
        dry_run: Whether to send nothing, and only compare the folder with the repository. If there is no network, the folder
            is checked but not compared.

    Raises:
        SGPEError: the folder cannot be published, the Hub refused a request, or the connection failed. The commit is made as
            a whole or not at all.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    source = Path(folder)
    paths, left_out = _sort(source)
    api = HfApi(token=token, library_name="hf_sgpe", library_version=__version__)
    try:
        repo_id = full_name(repo_id, token=token)
        with hub_errors(f"{repo_id}:"):
            head, has_branch, there = _look(api, repo_id, revision, paths)
    except HubUnreachableError as error:
        if not dry_run:
            raise
        files = tuple(PushedFile(path, (source / path).stat().st_size, "not compared") for path in paths)
        return Pushed(repo_id, f"{api.endpoint}/{repo_id}", False, False, files, left_out, None, str(error))
    with hub_errors(f"{repo_id}:"):
        files = tuple(_compared(source, paths, there))
        if not replace_card:
            files = _with_card_kept(files, api, source, repo_id, head)
        created = head is None
        if dry_run:
            return Pushed(repo_id, f"{api.endpoint}/{repo_id}", created, not has_branch, files, left_out, None)
        if created:
            api.create_repo(repo_id, private=private)
    what = "Upload model and tokenizer" if holds_model(source) else "Upload tokenizer"
    start = f"{repo_id}: the repository was created, but then" if created else f"{repo_id}:"
    with hub_errors(start), bars_on_terminals_only():
        changed = [file.path for file in files if file.change in ("new", "changed")]
        new_branch = not has_branch and (bool(changed) or not create_pr)
        if new_branch:
            api.create_branch(repo_id, branch=str(revision), exist_ok=True)
        commit = api.create_commit(
            repo_id,
            [CommitOperationAdd(path, str(source / path)) for path in changed],
            commit_message=commit_message or what,
            commit_description=commit_description,
            revision=revision if has_branch or new_branch else None,
            create_pr=create_pr,
            # The Hub refuses this commit if another commit was made since the comparison.
            parent_commit=head,
        )
    missing = _not_arrived(api, source, repo_id, commit.oid, changed)
    if missing:
        raise SGPEError(
            f"{repo_id}: the repository's .gitignore excludes {', '.join(missing)}: remove this entry from the .gitignore"
        )
    return Pushed(repo_id, commit.pr_url or commit.commit_url, created, new_branch, files, left_out, commit)


def full_name(repo_id: str, *, token: bool | str | None = None) -> str:
    """Return the full name of a repository, ``user/name``. If it has no user, add the user who is logged in."""
    from huggingface_hub import HfApi

    check_name(repo_id)
    if "/" in repo_id:
        return repo_id
    with hub_errors(f"{repo_id}:"):
        return f"{HfApi(token=token).whoami()['name']}/{repo_id}"


# ---------------------------------------------------------------- the folder


def _sort(folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Return the files of a folder that belong to its tokenizer and model, and all other entries. Check the folder."""
    if not folder.is_dir():
        raise SGPEError(f"{folder}: {'a file: give its folder' if folder.is_file() else 'no such folder'}")
    if adapter := why_no_model(folder):
        raise SGPEError(f"{folder} has no model{adapter}")
    tokenizer = load(folder)
    if not (folder / TOKENIZER_FILE).is_file():
        name = quote(str(folder))
        raise SGPEError(
            f"{folder} has a tokenizer but no {TOKENIZER_FILE}, which push needs: write this file with "
            f"hf-sgpe export {name} --out NEW-FOLDER, and copy the files of NEW-FOLDER into {name}"
        )
    card = folder / CARD_FILE
    sealed = tokenizer if isinstance(tokenizer, BPETokenizer) else read_pieces(folder)
    if card.is_file() and is_of_another(card.read_text(encoding="utf-8", errors="replace"), sealed):
        raise SGPEError(f"{card}: this card was written for another tokenizer: write a new card with hf-sgpe card")
    config = folder / CONFIG_FILE
    modules = {config: list(_modules(read_json(config), "AutoTokenizer"))} if config.exists() else {}
    wanted = [TOKENIZER_FILE, CONFIG_FILE, CHAT_TEMPLATE_FILE, CARD_FILE, PAGE_FILE]
    if holds_model(folder):
        wanted += [*PUBLISHED_MODEL_FILES, *(file.name for file in weight_files(folder))]
        modules[folder / MODEL_CONFIG_FILE] = list(_modules(read_json(folder / MODEL_CONFIG_FILE)))
        _check_rows(folder, tokenizer)
    for config, names in modules.items():
        for module in names:
            if not (folder / module).is_file():
                raise SGPEError(
                    f"{config} refers to {module}, but the folder has no such file: save the tokenizer or the model again"
                )
        wanted += names
    inner = {**_FOLDERS, **dict.fromkeys(module_folders(folder), _MODULE_FILES)}
    paths, left_out = [], []
    for entry in sorted(folder.iterdir()):
        inside = sorted(entry.iterdir()) if entry.name in inner and entry.is_dir() else [entry]
        for path in inside:
            name = path.relative_to(folder).as_posix()
            if path.is_file() and any(map(path.match, wanted if path is entry else inner[entry.name])):
                _check_place(folder, name)
                paths.append(name)
            else:
                left_out.append(f"{name}/" if path.is_dir() else name)
    return paths, tuple(left_out)


def _check_place(folder: Path, name: str) -> None:
    """Check that a file of a folder is not a link to a hidden file or to a file outside the folder.

    Otherwise, a link in a copied or cloned folder could publish a secret of this machine, such as a file with a password, or
    ``.git/config``.
    """
    home = folder.resolve()
    place = (home / name).resolve()
    in_cache = home.parent.name == "snapshots" and place.parent == home.parent.parent / "blobs"
    if in_cache or place == home / name:  # not a link
        return
    if not place.is_relative_to(home) or any(part.startswith(".") for part in place.relative_to(home).parts):
        raise SGPEError(
            f"{folder / name} is not published, because it is a link to a file that is hidden or outside the folder "
            f"({place}): remove the link, or put a regular file in its place"
        )


def _modules(settings: Mapping[str, Any], *classes: str) -> Iterator[str]:
    """Yield the Python files of this folder to which ``auto_map`` in a configuration refers, if given only those of
    ``classes``.
    """
    auto_map = settings.get("auto_map")
    named = auto_map if isinstance(auto_map, dict) else dict.fromkeys(classes, auto_map)
    for kind in classes or named:
        names = named.get(kind)
        for name in names if isinstance(names, list) else [names]:
            if isinstance(name, str) and "--" not in name:
                yield f"{name.partition('.')[0]}.py"


def _check_rows(folder: Path, tokenizer: object) -> None:
    """Check that the embedding of the model has the rows that its tokenizer needs."""
    rows = model_rows(read_json(folder / MODEL_CONFIG_FILE))
    if rows is None or not isinstance(tokenizer, BPETokenizer):
        return
    if (needed := tokenizer.rows_needed) > rows:
        raise SGPEError(
            f"{folder}: the tokenizer has the id {needed - 1:,}, but the model has only {rows:,} rows: "
            f"add rows with hf-sgpe transplant, or publish the tokenizer from a folder without the model"
        )


# ---------------------------------------------------------------- the repository


def _look(api: HfApi, repo_id: str, revision: str | None, paths: list[str]) -> _State:
    """Return the newest commit of a repository (None for a new repository), whether the branch exists, and those of
    ``paths`` that exist there, keyed by path. A new branch has the state of ``main``.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    may_be_new = revision is None or not revision.startswith("refs/")
    try:
        head = api.model_info(repo_id, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT).sha
    except RevisionNotFoundError:
        if revision is None or not may_be_new:
            raise
        head, _, files = _look(api, repo_id, None, paths)
        return head, False, files
    except RepositoryNotFoundError as error:
        if isinstance(error, GatedRepoError) or not may_be_new:
            raise
        return None, revision in (None, "main"), {}
    return head, True, _listed(api, repo_id, head, paths)


def _listed(api: HfApi, repo_id: str, commit: str | None, paths: list[str]) -> dict[str, RepoFile]:
    """Return those of ``paths`` that exist in a commit, keyed by path."""
    from huggingface_hub.hf_api import RepoFile

    listed = api.get_paths_info(repo_id, paths, revision=commit) if paths else []
    return {file.path: file for file in listed if isinstance(file, RepoFile)}


def _compared(folder: Path, paths: Sequence[str], there: Mapping[str, RepoFile]) -> Iterator[PushedFile]:
    """Yield each file with its change. Files that are new to the repository are not read."""
    sizes = {path: (folder / path).stat().st_size for path in paths}
    read = sum(size for path, size in sizes.items() if path in there)
    hide = read < LARGE or not somebody_watches()
    with tqdm(total=read, desc="Comparing", unit="B", unit_scale=True, disable=hide, leave=False) as bar:
        for path, size in sizes.items():
            change = "new"
            if path in there:
                change = "unchanged" if _is_same(folder / path, size, there[path], bar.update) else "changed"
            yield PushedFile(path, size, change)


def _is_same(file: Path, size: int, there: RepoFile, on_read: Callable[[int], object]) -> bool:
    """Return whether a local file has the content of a file on the Hub, according to the Hub's hash."""
    # Git's blob id is a hash of the size and the content.
    digest = hashlib.sha256() if there.lfs else hashlib.sha1(b"blob %d\0" % size)
    with file.open("rb") as content:
        for block in iter(partial(content.read, 1 << 20), b""):
            digest.update(block)
            on_read(len(block))
    return digest.hexdigest() == (there.lfs.sha256 if there.lfs else there.blob_id)


def _with_card_kept(
    files: tuple[PushedFile, ...], api: HfApi, folder: Path, repo_id: str, head: str | None
) -> tuple[PushedFile, ...]:
    """Keep the card on the Hub if the new card would overwrite edits or measurements."""
    changes = {file.path: file.change for file in files}
    if changes.get(CARD_FILE) != "changed":
        return files
    paths = folder / CARD_FILE, Path(api.hf_hub_download(repo_id, CARD_FILE, revision=head))
    ours, theirs = (path.read_text(encoding="utf-8", errors="replace") for path in paths)
    unmeasured = is_measured(theirs) and not is_measured(ours) and changes.get(TOKENIZER_FILE) == "unchanged"
    if not is_generated(ours) or (is_generated(theirs) and not unmeasured):
        return files
    kept = (CARD_FILE, PAGE_FILE) if unmeasured else (CARD_FILE,)
    return tuple(replace(file, change="kept") if file.path in kept else file for file in files)


def _not_arrived(api: HfApi, folder: Path, repo_id: str, commit: str, paths: list[str]) -> list[str]:
    """Return the files that are missing from the commit: the Hub skips those that the repository's .gitignore excludes."""
    try:
        with hub_errors(f"{repo_id}:"):
            listed = _listed(api, repo_id, commit, paths)
    except SGPEError:
        return []  # the Hub has confirmed the commit
    return [file.path for file in _compared(folder, paths, listed) if file.change != "unchanged"]
