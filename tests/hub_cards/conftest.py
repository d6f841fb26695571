"""What is pushed: a card without its seal, ``unsealed``, with it, ``card``, and a ``folder`` with files of all kinds."""

from __future__ import annotations

import pytest
from support.hub import contents

from hub_cards.seal import CARD_MARK, seal


@pytest.fixture
def unsealed() -> str:
    """A card as it is before its seal."""
    return f"---\nlibrary_name: transformers\n---\n{CARD_MARK}\n# A tokenizer\n"


@pytest.fixture
def card(unsealed, tokenizer):
    """One that was generated."""
    return seal(unsealed, tokenizer)


@pytest.fixture
def folder(saved, card, tmp_path):
    """A tokenizer with a card, pictures, templates, and files of other kinds."""
    folder = tmp_path / "my tokenizer"
    for path, content in {
        **contents(saved),
        "README.md": card.encode(),
        "index.html": b"<!doctype html>",
        "pictures/compression.svg": b"<svg/>",
        "pictures/.hidden": b"",
        "pictures/holiday.jpg": b"",
        "chat_template.jinja": b"{{ messages }}",
        "additional_chat_templates/tools.jinja": b"{{ tools }}",
        "additional_chat_templates/notes.txt": b"",
        "notes.txt": b"not for others",
        "checkpoint-1/model.safetensors": b"",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder
