"""The report on a model that was given another tokenizer: numbers as transplant.json, and the model's card, README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.hub import split_name
from hub_cards.languages import language, language_in_name
from hub_cards.markup import render

if TYPE_CHECKING:
    from trainers.scoring import Score
    from trainers.transplant import Transplant

REPORT_FILE, CARD_FILE = "transplant.json", "README.md"


@dataclass(frozen=True)
class TransplantCard:
    """What the card says, and the template asks for.

    Attributes:
        base: The model that was begun from, as the user called it.
        tokenizer: The new tokenizer, as the user called it.
        init: How new rows were started.
        done: What became of the model.
        scores: Name of a text → what the model made of it before and after.
    """

    base: str
    tokenizer: str
    init: str
    done: Transplant
    scores: Mapping[str, tuple[Score, Score]]

    def files(self) -> dict[str, str]:
        """What belongs beside the model: name → text."""
        return {REPORT_FILE: json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n", CARD_FILE: self.readme()}

    def readme(self) -> str:
        path = self.done.out.as_posix()
        return render("transplant.md.jinja", card=self, rows=self.done.row_map, path=path, name=self.done.out.resolve().name)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        row_map = self.done.row_map
        return {
            "base": self.base,
            "tokenizer": self.tokenizer,
            "init": self.init,
            "rows": row_map.rows,
            "rows_kept": len(row_map.kept),
            "new_rows": len(row_map.pieces),
            "tables": list(self.done.tables),
            "modules_to_save": self.done.modules_to_save,
            "ensure_weight_tying": self.done.tied,
            "texts": {name: {"before": old.to_dict(), "after": new.to_dict()} for name, (old, new) in self.scores.items()},
        }

    def yaml(self) -> str:
        """The metadata that the Hub reads."""
        from huggingface_hub import ModelCardData

        data = ModelCardData(
            library_name="transformers",
            tags=["hf_sgpe", "vocabulary-extension"],
            base_model=None if Path(self.base).exists() else split_name(self.base)[0],
            **self._of_the_base(),
        )
        return data.to_yaml().strip()

    def _of_the_base(self) -> dict[str, Any]:
        """Languages and licence, as the card of the model that was begun from says them."""
        from huggingface_hub import metadata_load

        file = Path(self.base) / CARD_FILE
        try:
            known = (metadata_load(file) if file.is_file() else None) or {}
        except (ValueError, OSError):  # not a card of the Hub's form
            return {}
        return {name: known[name] for name in ("language", "license", "license_name", "license_link") if name in known}

    def table(self) -> list[list[str]]:
        """The measurements: a heading, and a row for each text."""
        heading = (
            "text",
            "bits per byte",
            "tokens per word",
            "characters per token",
            "reading, s",
            "cache, MB",
            "on new tokens",
        )
        return [[*heading], *(_row(name, *pair) for name, pair in self.scores.items())]


def _row(name: str, old: Score, new: Score) -> list[str]:
    def pair(form: str, before: float | None, after: float | None) -> str:
        return " → ".join("–" if value is None else format(value, form) for value in (before, after))

    code = language_in_name(name)
    # Where words have no spaces between them, characters per token say it alone.
    per_word = (old.tokens_per_word, new.tokens_per_word) if code is None or language(code).spaced else (None, None)
    cache = [None if score.cache_bytes is None else score.cache_bytes / 1e6 for score in (old, new)]
    return [
        name,
        pair(".4f", old.bits_per_byte, new.bits_per_byte),
        pair(".3f", *per_word),
        pair(".2f", old.characters_per_token, new.characters_per_token),
        pair(".2f", old.seconds, new.seconds),
        pair(".2f", *cache),
        f"{new.watched:.3%}",
    ]
