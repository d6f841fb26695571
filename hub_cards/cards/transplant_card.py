"""The report on a model that was given another tokenizer: numbers as transplant.json, and the model's card, README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.held_out import HeldOut
from hf_sgpe.evaluation.metrics import Evaluation, evaluate
from hf_sgpe.formats.tokenizer_json import from_transformers
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.cards.card_of_model import REPORT_FILE, ModelCard, inherited_metadata, table_of
from hub_cards.cards.seal import CARD_FILE
from trainers.language_models.scoring import Score, score_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from trainers.model_rows.transplanting import Transplant


@dataclass(frozen=True)
class Measured:
    """What was measured on one text.

    Attributes:
        model: What the model makes of it.
        tokenizer: What the tokenizer does, as ``hf-sgpe evaluate`` measures it.
    """

    model: Score
    tokenizer: Evaluation

    def to_dict(self) -> dict[str, Any]:
        """Return the sums of the model, and the ratios of both, as JSON values."""
        ratios = ("tokens_per_word", "tokens_per_character", "characters_per_token")
        return self.model.to_dict() | {name: getattr(self.tokenizer, name) for name in ratios}


def measure(
    model: str, tokenizer: PreTrainedTokenizerBase, held_out: Mapping[str, HeldOut], *, watched: Sequence[int] = ()
) -> dict[str, Measured]:
    """Measure a model, of a folder or of the Hub, and its tokenizer on texts by name.

    Args:
        watched: As for `trainers.language_models.scoring.score_texts`.

    Raises:
        SGPEError: as `trainers.language_models.scoring.score_model`, or the tokenizer is not byte-level BPE.
    """
    if not held_out:
        return {}
    texts = {name: one.texts() for name, one in held_out.items()}
    scores = score_model(model, tokenizer, texts, watched=watched)
    bpe = BPETokenizer.of(from_transformers(tokenizer))
    return {name: Measured(scores[name], evaluate(bpe, one)) for name, one in held_out.items()}


@dataclass(frozen=True)
class TransplantCard:
    """The report and the card of a model with another tokenizer.

    Attributes:
        base: The base model, as the user called it.
        tokenizer: The new tokenizer, as the user called it.
        init: How new rows were started.
        done: What became of the model.
        measured: Name of a text → what was measured on it before and after.
    """

    base: str
    tokenizer: str
    init: str
    done: Transplant
    measured: Mapping[str, tuple[Measured, Measured]]

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
        return inherited_metadata(self.base, self.measured)

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
            "texts": {name: {"before": old.to_dict(), "after": new.to_dict()} for name, (old, new) in self.measured.items()},
        }

    def table(self) -> list[list[str]]:
        """Return the measurements: a heading, and a row for each text."""
        return table_of(self.to_dict()["texts"])


def _published_name(source: str) -> str:
    """Return the name of a source without the place of a folder on this machine, which is nobody else's business."""
    return Path(source).resolve().name if Path(source).exists() else source
