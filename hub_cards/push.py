"""Publishing a tokenizer's folder on the Hugging Face Hub, in one commit: the tokenizer, its card and its pictures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe import __version__
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, CONFIG_FILE, TOKENIZER_FILE, read_json
from hf_sgpe.hub import HubUnreachableError, check_name, conversation
from hub_cards import seal
from hub_cards.metrics import load
from hub_cards.plots import PICTURES

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo, HfApi
    from huggingface_hub.hf_api import RepoFile

CARD_FILE, PAGE_FILE = "README.md", "index.html"

LARGE = 10 * 2**20
"""The Hub keeps files of more bytes beside git, as large files (LFS or Xet)."""

# Folders of which files go: the patterns of their names.
_FOLDERS = {"additional_chat_templates": ("*.jinja",), "pictures": tuple(f"{name}.svg" for name in PICTURES)}


@dataclass(frozen=True)
class PushedFile:
    """A file of the folder and what a push does with it.

    Attributes:
        path: Where it lies, in the folder and in the repository.
        size: Bytes.
        change: ``new``, ``changed`` or ``unchanged``; ``kept``: a card, which stays as it is in the repository; or, after a
            dry run without a network, ``not compared``.
    """

    path: str
    size: int
    change: str

    @property
    def large(self) -> bool:
        """Whether it goes as a large file."""
        return self.size > LARGE


@dataclass(frozen=True)
class Pushed:
    """What a push did, or, if it was a dry run, would do.

    Attributes:
        repo_id: ``user/name``.
        url: Of the pull request, else of the commit; of the repository after a dry run.
        created: Whether the repository was not there before.
        new_branch: Whether the branch was not.
        files: Everything that belongs to the tokenizer.
        left_out: What else lies in the folder; names of folders end in a slash.
        commit: The Hub's answer; the newest commit there was if nothing had changed, and None after a dry run.
        unreachable: Why a dry run could not ask the Hub what is there; None if it could.
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
    """Uploads a tokenizer's folder to the Hub in one commit, and creates the repository and the branch if need be.

    What belongs to the tokenizer goes (its own files, its card's page, and of ``pictures`` those that `write_card` draws),
    nothing else in the folder does, and nothing that is in the repository is deleted. A link goes as the file it leads to,
    which must lie in the folder and not be hidden there; in a snapshot of the Hub's cache it may be one of that repository's
    blobs.

    Args:
        folder: Where the tokenizer was saved.
        repo_id: ``user/name``, or a name in the user's own namespace.
        private: Whether a repository that is created here is private; None for the user's own default.
        revision: Branch to commit to; one that is not there starts where ``main`` is.
        create_pr: Propose the commit as a pull request.
        token: As huggingface_hub takes it; None for ``HF_TOKEN``, or the one that ``hf auth login`` stored.
        commit_message: First line of the commit's message.
        commit_description: The rest of it.
        replace_card: Put a generated card in the place of a README.md that somebody wrote or changed, or of one with
            measurements of the very same tokenizer.
        dry_run: Only look, and send nothing. Without a network it looks at the folder alone.

    Raises:
        SGPEError: the folder holds no sound tokenizer, or another one's card, or a link that leads out of it where a file
            should be; the Hub refused something, or the connection failed. The commit is made as a whole or not at all.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    source = Path(folder)
    paths, left_out = _sort(source)
    api = HfApi(token=token, library_name="hf_sgpe", library_version=__version__)
    try:
        repo_id = full_name(repo_id, token=token)
        with conversation(f"{repo_id}:"):
            there = _look(api, repo_id, revision, paths)
    except HubUnreachableError as error:
        if not dry_run:
            raise
        files = tuple(PushedFile(path, (source / path).stat().st_size, "not compared") for path in paths)
        return Pushed(repo_id, f"{api.endpoint}/{repo_id}", False, False, files, left_out, None, str(error))
    with conversation(f"{repo_id}:"):
        files = tuple(_compared(source, path, there.files.get(path)) for path in paths)
        if not replace_card:
            files = _with_card_kept(files, api, source, repo_id, there.head)
        created = there.head is None
        if dry_run:
            return Pushed(repo_id, f"{api.endpoint}/{repo_id}", created, not there.has_branch, files, left_out, None)
        if created:
            api.create_repo(repo_id, private=private)
    with conversation(f"{repo_id}: the repository was created, but then" if created else f"{repo_id}:"):
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
            # What was compared is what is replaced: if somebody else was faster, the Hub refuses.
            parent_commit=there.head,
        )
    missing = _not_arrived(api, source, repo_id, commit.oid, changed)
    if missing:
        raise SGPEError(f"{repo_id}: the .gitignore of the repository keeps out {', '.join(missing)}: take it away there")
    return Pushed(repo_id, commit.pr_url or commit.commit_url, created, new_branch, files, left_out, commit)


def full_name(repo_id: str, *, token: bool | str | None = None) -> str:
    """``user/name``, also of a repository in the user's own namespace that is given by its name alone.

    Raises:
        SGPEError: it is no name of a repository, or there is no telling who the user is.
    """
    from huggingface_hub import HfApi

    check_name(repo_id)
    if "/" in repo_id:
        return repo_id
    with conversation(f"{repo_id}:"):
        return f"{HfApi(token=token).whoami()['name']}/{repo_id}"


# ---------------------------------------------------------------- the folder


def _sort(folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """What in a tokenizer's folder belongs to the tokenizer, and what does not.

    Raises:
        SGPEError: it holds no tokenizer that loads, or the card of another, or lacks a file that the tokenizer needs, or one
            that belongs to it leads elsewhere.
    """
    if not folder.is_dir():
        raise SGPEError(f"{folder}: no such folder")
    tokenizer = load(folder)  # which says for itself what is wrong with it
    card = folder / CARD_FILE
    if card.is_file() and seal.is_of_another(card.read_text(encoding="utf-8", errors="replace"), tokenizer):
        raise SGPEError(f"{card}: the card of another tokenizer than now lies there: make it anew by hf-sgpe card")
    config = folder / CONFIG_FILE
    modules = list(_modules(read_json(config))) if config.exists() else []
    for module in modules:
        if not (folder / module).is_file():
            raise SGPEError(f"{folder}: holds no {module}, which its {CONFIG_FILE} names: save the tokenizer again")
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
    """Makes sure that a file of a folder is no link to what the folder's owner may not know to be in it.

    Folders are copied and cloned with their links, so that one can lead to a password on this machine or to ``.git/config``.

    Raises:
        SGPEError: it is one.
    """
    home = folder.resolve()
    place = (home / name).resolve()
    if home.parent.name == "snapshots" and place.parent == home.parent.parent / "blobs":
        return
    if not place.is_relative_to(home) or any(part.startswith(".") for part in place.relative_to(home).parts):
        raise SGPEError(f"{folder / name}: a link to {place}, which is not to be published: put a file in its place")


def _modules(settings: Mapping[str, Any]) -> Iterator[str]:
    """The Python files that ``auto_map`` of a tokenizer's configuration names, but for those of other repositories."""
    auto_map = settings.get("auto_map")
    classes = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    for name in classes if isinstance(classes, list) else [classes]:
        if isinstance(name, str) and "--" not in name:
            yield f"{name.partition('.')[0]}.py"


# ---------------------------------------------------------------- the repository


@dataclass(frozen=True)
class _There:
    """What a repository holds: its newest commit, None if there is no repository, and files of it by path."""

    head: str | None
    has_branch: bool
    files: Mapping[str, RepoFile]


def _look(api: HfApi, repo_id: str, revision: str | None, paths: list[str]) -> _There:
    """What of ``paths`` a revision holds, or would hold if it is a branch that is still to be made."""
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    may_be_made = revision is None or not revision.startswith("refs/")
    try:
        head = api.model_info(repo_id, revision=revision, timeout=constants.HF_HUB_ETAG_TIMEOUT).sha
    except RevisionNotFoundError:
        if revision is None or not may_be_made:
            raise
        return replace(_look(api, repo_id, None, paths), has_branch=False)
    except RepositoryNotFoundError as error:
        if isinstance(error, GatedRepoError) or not may_be_made:
            raise
        return _There(None, revision in (None, "main"), {})
    return _There(head, True, _listed(api, repo_id, head, paths))


def _listed(api: HfApi, repo_id: str, commit: str | None, paths: list[str]) -> dict[str, RepoFile]:
    """Which of ``paths`` a commit holds."""
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
        # The name that git has for a file's content.
        same = there.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        change = "unchanged" if same else "changed"
    return PushedFile(path, len(content), change)


def _with_card_kept(
    files: tuple[PushedFile, ...], api: HfApi, folder: Path, repo_id: str, head: str | None
) -> tuple[PushedFile, ...]:
    """The files, with the card as kept if it is generated and would replace one that somebody wrote or changed, or what was
    measured of the very same tokenizer by nothing."""
    changes = {file.path: file.change for file in files}
    if changes.get(CARD_FILE) != "changed":
        return files
    paths = folder / CARD_FILE, Path(api.hf_hub_download(repo_id, CARD_FILE, revision=head))
    ours, theirs = (path.read_text(encoding="utf-8", errors="replace") for path in paths)
    unmeasured = seal.is_measured(theirs) and not seal.is_measured(ours) and changes.get(TOKENIZER_FILE) == "unchanged"
    if not seal.is_generated(ours) or (seal.is_generated(theirs) and not unmeasured):
        return files
    kept = (CARD_FILE, PAGE_FILE) if unmeasured else (CARD_FILE,)
    return tuple(replace(file, change="kept") if file.path in kept else file for file in files)


def _not_arrived(api: HfApi, folder: Path, repo_id: str, commit: str, paths: list[str]) -> list[str]:
    """Which files the commit does not hold as they are in the folder.

    The Hub has answered that it made the commit, and it makes it as a whole, so that much is taken on trust. But it passes
    over what the repository's .gitignore names without a word.
    """
    try:
        with conversation(f"{repo_id}:"):
            listed = _listed(api, repo_id, commit, paths)
    except SGPEError:
        return []
    return [path for path in paths if _compared(folder, path, listed.get(path)).change != "unchanged"]
