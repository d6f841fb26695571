"""What several files of tests look at.

``plain``, ``held_out``, ``found``, ``card_folder`` and ``readme`` are a card with measurements; ``unsealed``, ``card`` and
``folder`` are what is pushed.
"""

from __future__ import annotations

import pytest
from support.cards import PICTURES
from support.hub import contents

from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
from hub_cards import compare, write_card
from hub_cards.cards.seal import CARD_MARK, seal


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


@pytest.fixture(scope="session")
def held_out(sample):
    """Language → lines that are measured."""
    return {code: [line for line in sample[code].splitlines() if line.strip()][:60] for code in ("en", "si", "ta", "hi")}


@pytest.fixture(scope="session")
def plain(sample):
    """A tokenizer of recipe bpe that is trained on English."""
    config = TrainingConfig(vocab_size=2000, recipe="bpe")
    return train_from_counts(WordCounts.from_texts([sample["en"]], config), config)


@pytest.fixture(scope="session")
def found(tokenizer, plain, held_out):
    return compare(tokenizer, held_out, name="tok", baselines={"pla|in<&>": plain})


@pytest.fixture(scope="session")
def card_folder(tokenizer, found, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards") / "tok"
    tokenizer.save(folder)
    written = write_card(
        folder,
        tokenizer,
        name="me/tok",
        evaluations=found,
        license="apache-2.0",
        datasets=["me/news:2024.si"],  # the Hub's metadata has no place for configurations
        tags=["mine"],
    )
    assert written == ["README.md", "index.html", *PICTURES]
    return folder


@pytest.fixture(scope="session")
def readme(card_folder):
    return (card_folder / "README.md").read_text(encoding="utf-8")
