"""The report on a model that was given another tokenizer: numbers as transplant.json, and the model's card, README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.card_of_model import REPORT_FILE, ModelCard, inherited_metadata, table_of
from hub_cards.seal import CARD_FILE

if TYPE_CHECKING:
    from trainers.scoring import Score
    from trainers.transplant import Transplant


@dataclass(frozen=True)
class TransplantCard:
    """The report and the card of a model with another tokenizer.

    Attributes:
        base: The base model, as the user called it.
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
        """Return the files to write into the model's folder: name → text."""
        return {REPORT_FILE: json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n", CARD_FILE: self.readme()}

    def readme(self) -> str:
        """Return the model's card, as Markdown."""
        card = ModelCard(
            self.done.out.resolve().name,
            self.done.out.as_posix(),
            self.done.auto_class,
            BPETokenizer.from_pretrained(self.tokenizer),
            self.to_dict(),
            self.metadata,
        )
        return card.readme()

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata that the model has from its base model."""
        return inherited_metadata(self.base, self.scores)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        row_map = self.done.row_map
        return {
            "base": _published_name(self.base),
            "tokenizer": _published_name(self.tokenizer),
            "init": self.init,
            "summary": str(row_map),
            "rows": row_map.rows,
            "rows_kept": len(row_map.kept),
            "new_rows": len(row_map.pieces),
            "tables": list(self.done.tables),
            "modules_to_save": self.done.modules_to_save,
            "ensure_weight_tying": self.done.tied,
            "lora": self.done.lora,
            "metadata": self.metadata,
            "texts": {name: {"before": old.to_dict(), "after": new.to_dict()} for name, (old, new) in self.scores.items()},
        }

    def table(self) -> list[list[str]]:
        """Return the measurements: a heading, and a row for each text."""
        return table_of(self.to_dict()["texts"])


def _published_name(source: str) -> str:
    """Return the name of a source without the place of a folder on this machine, which is nobody else's business."""
    return Path(source).resolve().name if Path(source).exists() else source
