"""``push``: upload tokenizers and models to the Hub."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sgpe.cli.application import Json, command
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option
from hf_sgpe.terminal.printing import report

if TYPE_CHECKING:
    from hub_cards.publishing.uploading import Pushed


@dataclass(frozen=True, kw_only=True)
class _PushOptions:
    folder: str = argument("Folder with a tokenizer, or a model and its tokenizer.")
    repository: str = argument("Repository on the Hub, user/name; it is created if it does not exist.")
    private: bool = option("If the repository is created, make it private.", False)
    revision: str | None = option("Branch to push to (default: main). A new branch starts at main.")
    pull_request: bool = option("Open a pull request instead of committing to the branch.", False)
    token: str | None = option(
        "Hub token with write access. Process lists and your shell history show it: it is safer to log in once with "
        "'hf auth login', or to set HF_TOKEN."
    )
    message: str | None = option("Commit message (default: a message that names the upload).", None, "-m")
    space: str | None = option(
        "Also upload this folder, written by hf-sgpe playground, as a static Space with the repository's name "
        "(branch main).",
        None,
        "--playground",
    )
    dry_run: bool = option("Compare the folder with the repository and show what would be uploaded; upload nothing.", False)
    replace_card: bool = option(
        "If the README.md on the Hub was written or edited by hand, replace it with a generated card.", False
    )


@command(epilog="Example: hf-sgpe push my-tokenizer user/name --dry-run")
def push(given: _PushOptions, as_json: Json = False) -> None:
    """Upload a tokenizer, or a model with its tokenizer, to the Hugging Face Hub in one commit, with card and charts."""
    import warnings
    from shlex import quote

    from hub_cards.cards.card_of_model import missing_metadata
    from hub_cards.markup import listed
    from hub_cards.playground.playground_site import playground_files, push_playground
    from hub_cards.publishing.uploading import push as upload

    # Fail before anything is sent if the folder has no playground.
    files = playground_files(given.space) if given.space else []
    with warnings.catch_warnings(record=True) as remarks:
        pushed = upload(
            given.folder,
            given.repository,
            private=given.private or None,
            revision=given.revision,
            create_pr=given.pull_request,
            token=given.token,
            commit_message=given.message,
            replace_card=given.replace_card,
            dry_run=given.dry_run,
        )
    for remark in remarks:
        logging.warning(" ".join(str(remark.message).split()))
    if missing := missing_metadata(Path(given.folder)):
        logging.warning(
            f"the model's card has no {listed(missing)}: hf-sgpe card {quote(given.folder)} --help shows how to add it"
        )
    changed = sum(file.change in ("new", "changed") for file in pushed.files)
    if pushed.unreachable:
        done = "nothing was sent, and the repository could not be read"
    elif given.dry_run:
        # Without read access, a private repository looks like a missing one.
        done = "nothing was sent" + (
            "; no such repository is visible to you, so it would be created" if pushed.created else ""
        )
    elif pushed.created:
        done = "created and pushed"
    else:
        done = "pushed" if changed else "the branch was created; no file has changed"
        if not changed and not pushed.new_branch:
            done = "nothing has changed"
    lines = [*_lines(pushed), f"{pushed.url}: {done}"]
    if given.space:
        shown = f"Space {pushed.repo_id}"
        if not given.dry_run:
            shown = push_playground(given.space, pushed.repo_id, private=given.private or None, token=given.token)
        lines.append(f"{shown}: {'nothing was sent of ' if given.dry_run else 'pushed '}{len(files)} files of {given.space}")
    report(
        "\n".join(lines),
        {
            "url": pushed.url,
            "done": done,
            "files": [{"path": file.path, "bytes": file.size, "change": file.change} for file in pushed.files],
            "left_out": pushed.left_out,
            "playground": shown if given.space else None,
        },
        as_json,
        is_asked_for=given.dry_run,
    )
    if pushed.unreachable:
        raise SGPEError(f"{given.repository}: the repository could not be read ({pushed.unreachable})")


def _lines(pushed: Pushed) -> Iterator[str]:
    """Yield a line for each file, with its size and what changes. If files were left out, the last line lists them."""
    width = max(len(file.path) for file in pushed.files)
    for file in pushed.files:
        large = ", as a large file (LFS)" if file.large else ""
        kept = ": the card on the Hub was edited by hand or has measurements: add --replace-card to replace it"
        change = file.change + kept if file.change == "kept" else file.change
        yield f"{file.path:{width}}  {file.size / 1000:10,.1f} kB  {change}{large}"
    if pushed.left_out:
        yield f"left out: {', '.join(pushed.left_out)}"
