"""Publishes a tokenizer's folder on the Hugging Face Hub, in one commit: the tokenizer, its card and its pictures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, CONFIG_FILE, TOKENIZER_FILE
from hf_sgpe.hub import HubUnreachableError, check_name, hub_errors
from hf_sgpe.json_files import read_json
from hf_sgpe.version import __version__
from hub_cards.metrics import load
from hub_cards.seal import CARD_FILE, PAGE_FILE, PICTURES, is_generated, is_measured, is_of_another

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo, HfApi
    from huggingface_hub.hf_api import RepoFile

LARGE = 10 * 2**20
"""The Hub stores files of more bytes as large files (LFS or Xet)."""

# Folders, and the patterns of the files in them that are uploaded.
_FOLDERS = {"additional_chat_templates": ("*.jinja",), "pictures": tuple(f"{name}.svg" for name in PICTURES)}


@dataclass(frozen=True)
class PushedFile:
    """A file of the folder, and what a push does with it.

    Attributes:
        path: In the folder and in the repository.
        size: In bytes.
        change: ``new``, ``changed`` or ``unchanged``; ``kept`` for a card that stays as it is in the repository; or
            ``not compared`` after a dry run without a network.
    """

    path: str
    size: int
    change: str

    @property
    def large(self) -> bool:
        """Whether the Hub stores it as a large file."""
        return self.size > LARGE


@dataclass(frozen=True)
class Pushed:
    """What a push did, or what a dry run would do.

    Attributes:
        repo_id: ``user/name``.
        url: Of the pull request, else of the commit; of the repository after a dry run.
        created: Whether the repository is new.
        new_branch: Whether the branch is new.
        files: Everything that belongs to the tokenizer.
        left_out: What else is in the folder; names of folders end in a slash.
        commit: The Hub's answer; the newest commit if nothing had changed, and None after a dry run.
        unreachable: Why a dry run could not reach the Hub; None if it could.
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
    """Uploads a tokenizer's folder to the Hub in one commit, and creates the repository and the branch if needed.

    Only what belongs to the tokenizer is uploaded: its own files, its card and page, and the ``pictures`` that `write_card`
    draws. Nothing in the repository is deleted. A link is uploaded as the file it points to, which must be in the folder and
    not hidden there, or, in a snapshot of the Hub's cache, one of that repository's blobs.

    Args:
        folder: Where the tokenizer was saved.
        repo_id: ``user/name``, or a name in the user's own namespace.
        private: Whether a repository that is created here is private; None for the user's own default.
        revision: Branch to commit to; a new one starts where ``main`` is.
        create_pr: Propose the commit as a pull request.
        token: As huggingface_hub takes it; None for ``HF_TOKEN``, or the one that ``hf auth login`` stored.
        commit_message: First line of the commit's message.
        commit_description: The rest of it.
        replace_card: Let a generated card replace a README.md that somebody wrote or changed, or one with measurements of
            the same tokenizer.
        dry_run: Compare, and send nothing. Without a network only the folder is looked at.

    Raises:
        SGPEError: the folder holds no valid tokenizer, or the card of another one, or a link that points out of it; the Hub
            refused something, or the connection failed. The commit is made as a whole or not at all.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    source = Path(folder)
    paths, left_out = _sort(source)
    api = HfApi(token=token, library_name="hf_sgpe", library_version=__version__)
    try:
        repo_id = full_name(repo_id, token=token)
        with hub_errors(f"{repo_id}:"):
            there = _look(api, repo_id, revision, paths)
    except HubUnreachableError as error:
        if not dry_run:
            raise
        files = tuple(PushedFile(path, (source / path).stat().st_size, "not compared") for path in paths)
        return Pushed(repo_id, f"{api.endpoint}/{repo_id}", False, False, files, left_out, None, str(error))
    with hub_errors(f"{repo_id}:"):
        files = tuple(_compared(source, path, there.files.get(path)) for path in paths)
        if not replace_card:
            files = _with_card_kept(files, api, source, repo_id, there.head)
        created = there.head is None
        if dry_run:
            return Pushed(repo_id, f"{api.endpoint}/{repo_id}", created, not there.has_branch, files, left_out, None)
        if created:
            api.create_repo(repo_id, private=private)
    with hub_errors(f"{repo_id}: the repository was created, but then" if created else f"{repo_id}:"):
        changed = [file.path for file in files if file.change in ("new", "changed")]
        new_branch = not there.has_branch and (bool(changed) or not create_pr)
        if new_branch:
            api.create_branch(repo_id, branch=str(revision), exist_ok=True)
        commit = api.create_commit(
            repo_id,
            [CommitOperationAdd(path, str(source / path)) for path in changed],
            commit_message=commit_message or "Upload tokenizer",
            commit_description=commit_description,
            revision=revision if there.has_branch or new_branch else None,
            create_pr=create_pr,
            # The Hub refuses if somebody else has committed since the comparison.
            parent_commit=there.head,
        )
    missing = _not_arrived(api, source, repo_id, commit.oid, changed)
    if missing:
        raise SGPEError(f"{repo_id}: the repository's .gitignore excludes {', '.join(missing)}: remove that entry there")
    return Pushed(repo_id, commit.pr_url or commit.commit_url, created, new_branch, files, left_out, commit)


def full_name(repo_id: str, *, token: bool | str | None = None) -> str:
    """Returns ``user/name``; the user's own namespace is added to a name alone.

    Raises:
        SGPEError: it is not a valid repository name, or it is not known who the user is.
    """
    from huggingface_hub import HfApi

    check_name(repo_id)
    if "/" in repo_id:
        return repo_id
    with hub_errors(f"{repo_id}:"):
        return f"{HfApi(token=token).whoami()['name']}/{repo_id}"


# ---------------------------------------------------------------- the folder


def _sort(folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Returns what in a tokenizer's folder belongs to the tokenizer, and what does not.

    Raises:
        SGPEError: it holds no tokenizer that loads, or the card of another; a file that the tokenizer needs is missing, or
            is a link to a place outside the folder.
    """
    if not folder.is_dir():
        raise SGPEError(f"{folder}: no such folder")
    tokenizer = load(folder)
    card = folder / CARD_FILE
    if card.is_file() and is_of_another(card.read_text(encoding="utf-8", errors="replace"), tokenizer):
        raise SGPEError(f"{card}: this card was written for another tokenizer: write a new one with hf-sgpe card")
    config = folder / CONFIG_FILE
    modules = list(_modules(read_json(config))) if config.exists() else []
    for module in modules:
        if not (folder / module).is_file():
            raise SGPEError(f"{folder}: has no {module}, which its {CONFIG_FILE} names: save the tokenizer again")
    wanted = {TOKENIZER_FILE, CONFIG_FILE, CHAT_TEMPLATE_FILE, CARD_FILE, PAGE_FILE, *modules}
    paths, left_out = [], []
    for entry in sorted(folder.iterdir()):
        inside = sorted(entry.iterdir()) if entry.name in _FOLDERS and entry.is_dir() else [entry]
        for path in inside:
            name = path.relative_to(folder).as_posix()
            belongs = name in wanted if path is entry else any(map(path.match, _FOLDERS[entry.name]))
            if belongs and path.is_file():
                _check_place(folder, name)
                paths.append(name)
            else:
                left_out.append(f"{name}/" if path.is_dir() else name)
    return paths, tuple(left_out)


def _check_place(folder: Path, name: str) -> None:
    """Makes sure that a file of a folder is not a link to a file outside it or to a hidden one.

    Folders are copied and cloned with their links, so one may point to a password on this machine or to ``.git/config``.

    Raises:
        SGPEError: it is such a link.
    """
    home = folder.resolve()
    place = (home / name).resolve()
    if home.parent.name == "snapshots" and place.parent == home.parent.parent / "blobs":
        return
    if not place.is_relative_to(home) or any(part.startswith(".") for part in place.relative_to(home).parts):
        raise SGPEError(f"{folder / name}: a link to {place}, which must not be published: replace the link with a file")


def _modules(settings: Mapping[str, Any]) -> Iterator[str]:
    """The Python files that ``auto_map`` of a tokenizer's configuration names, except those of other repositories."""
    auto_map = settings.get("auto_map")
    classes = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    for name in classes if isinstance(classes, list) else [classes]:
        if isinstance(name, str) and "--" not in name:
            yield f"{name.partition('.')[0]}.py"


# ---------------------------------------------------------------- the repository


@dataclass(frozen=True)
class _There:
    """What is in a repository: its newest commit, None if there is no repository, and some of its files by path."""

    head: str | None
    has_branch: bool
    files: Mapping[str, RepoFile]


def _look(api: HfApi, repo_id: str, revision: str | None, paths: list[str]) -> _There:
    """Looks up ``paths`` in a revision, or in ``main`` if it is a branch that does not exist yet."""
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    may_be_new = revision is None or not revision.startswith("refs/")
    try:
        head = api.model_info(repo_id, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT).sha
    except RevisionNotFoundError:
        if revision is None or not may_be_new:
            raise
        return replace(_look(api, repo_id, None, paths), has_branch=False)
    except RepositoryNotFoundError as error:
        if isinstance(error, GatedRepoError) or not may_be_new:
            raise
        return _There(None, revision in (None, "main"), {})
    return _There(head, True, _listed(api, repo_id, head, paths))


def _listed(api: HfApi, repo_id: str, commit: str | None, paths: list[str]) -> dict[str, RepoFile]:
    """Returns those of ``paths`` that a commit has."""
    from huggingface_hub.hf_api import RepoFile

    listed = api.get_paths_info(repo_id, paths, revision=commit) if paths else []
    return {file.path: file for file in listed if isinstance(file, RepoFile)}


def _compared(folder: Path, path: str, there: RepoFile | None) -> PushedFile:
    content = (folder / path).read_bytes()
    if there is None:
        change = "new"
    elif there.lfs:
        change = "unchanged" if there.lfs.sha256 == hashlib.sha256(content).hexdigest() else "changed"
    else:
        # Git's name for a file's content.
        same = there.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        change = "unchanged" if same else "changed"
    return PushedFile(path, len(content), change)


def _with_card_kept(
    files: tuple[PushedFile, ...], api: HfApi, folder: Path, repo_id: str, head: str | None
) -> tuple[PushedFile, ...]:
    """Marks a generated card as kept if it would replace one that somebody changed, or drop measurements."""
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
    """Returns the files that the commit lacks: the Hub silently skips what the repository's .gitignore names."""
    try:
        with hub_errors(f"{repo_id}:"):
            listed = _listed(api, repo_id, commit, paths)
    except SGPEError:
        return []  # the Hub said that it made the commit
    return [path for path in paths if _compared(folder, path, listed.get(path)).change != "unchanged"]
