"""Publishing of a tokenizer with its card, for `SGPETokenizerFast.push_to_hub`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hf_sgpe.errors import NotByteLevelError
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.cards.tokenizer_card import write_card
from hub_cards.publishing.uploading import full_name, push


def publish(folder: str, repo_id: str, *, tags: Sequence[str] = (), token: bool | str | None = None, **options: Any) -> Any:
    """Write a card into the folder of a tokenizer, if possible, and upload the folder to the Hub. ``options`` are passed to
    `hub_cards.publishing.uploading.push`. Return the commit, as huggingface_hub's ``CommitInfo``.
    """
    repo_id = full_name(repo_id, token=token)
    with suppress(NotByteLevelError):  # with some added tokens, a card is not possible
        write_card(folder, BPETokenizer.from_pretrained(folder), name=repo_id, tags=tags)
    return push(folder, repo_id, token=token, **options).commit
