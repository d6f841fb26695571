"""Rows of a model that look untrained, because they are similar to the rows of ids that no text uses.

The indicators are those of Land and Bartolo, "Fishing for Magikarp: Automatically Detecting Under-trained Tokens in Large
Language Models" (arXiv 2405.05417). Training moves the output rows of all unused tokens in the same direction, and leaves
the input rows of these tokens as they were or shrinks them. The paper verifies its candidates with prompts; this module does
not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.weights.model_loading import load_predicting_model
from trainers.model_rows.token_tables import tables_of

if TYPE_CHECKING:
    import torch

_LEAST = 5
_SHARE = 0.9


@dataclass(frozen=True)
class _Indicator:
    """An indicator has a value for each row of a model, and a low value indicates an untrained row.

    Attributes:
        limit: 90th percentile of the values of the rows that are known to be unused.
        untrained: Values of at most ``limit``, ascending and keyed by id, without tokens that are known to be unused.
        used: Share of the distinct tokens in the text that have a value of at most ``limit``. If this share is more than a
            few per cent, the indicator does not distinguish untrained rows from trained rows in this model.
    """

    limit: float
    untrained: Mapping[int, float]
    used: float


@dataclass(frozen=True)
class UntrainedRows:
    """The tokens of a model that look untrained.

    Attributes:
        known: Number of rows that are known to be unused.
        indicators: ``distance`` is the cosine distance between the output row and the mean of the unused output rows, after
            the mean of all rows is subtracted. ``norm`` is the Euclidean length of the input row.
    """

    rows: int
    known: int
    indicators: Mapping[str, _Indicator]

    def in_all(self) -> list[int]:
        """Return the ids of the tokens that look untrained by every indicator, in the order of the first indicator."""
        first, *others = (indicator.untrained for indicator in self.indicators.values())
        return [id for id in first if all(id in other for other in others)]

    def to_dict(self) -> dict[str, Any]:
        indicators = {
            name: {"limit": one.limit, "used_share": one.used, "untrained": list(one.untrained)}
            for name, one in self.indicators.items()
        }
        return {"rows": self.rows, "known_unused": self.known, "indicators": indicators, "in_all": self.in_all()}


def untrained_rows(model: str, tokens: Collection[int], unused: Collection[int], used: Collection[int]) -> UntrainedRows:
    """Find tokens of a model that look untrained, by comparing their rows with the rows of ids that no text uses.

    Args:
        tokens: Ids of all tokens, including special tokens. Rows of any other ids are known to be unused.
        unused: Ids of tokens that no text uses.
        used: Ids of tokens that the text uses.
    """
    import torch

    with torch.no_grad():
        tables = tables_of(load_predicting_model(model, dtype="auto"))
        inputs, outputs = tables[0], next((one for one in tables[1:2] if one.shape == tables[0].shape), tables[0])
        rows = len(inputs)
        known = sorted((set(range(rows)) - set(tokens)) | {id for id in unused if id < rows})
        if (highest := max(used, default=0)) >= rows:
            raise SGPEError(f"{model} has {rows:,} rows, but the text has the id {highest}: give the tokenizer's own model")
        if len(known) < _LEAST:
            raise SGPEError(
                f"{model}: {len(known)} rows are known to be unused, but the indicators need {_LEAST}: leave out --model"
            )
        values = {"distance": _distances(outputs.float(), known), "norm": inputs.float().norm(dim=1)}
        others = sorted(set(tokens).intersection(range(rows)).difference(known))
        return UntrainedRows(rows, len(known), {name: _indicator(one, known, others, used) for name, one in values.items()})


def _distances(rows: torch.Tensor, known: list[int]) -> torch.Tensor:
    import torch

    rows = rows - rows.mean(dim=0)
    return 1 - torch.nn.functional.cosine_similarity(rows, rows[known].mean(dim=0, keepdim=True))


def _indicator(values: torch.Tensor, known: list[int], others: list[int], used: Collection[int]) -> _Indicator:
    limit = float(values[known].sort().values[int(_SHARE * (len(known) - 1))])
    low = {id: value for id, value in zip(others, values[others].tolist(), strict=True) if value <= limit}
    in_text = set(used).intersection(others)
    share = len(in_text.intersection(low)) / len(in_text) if in_text else 0.0
    return _Indicator(limit, dict(sorted(low.items(), key=lambda item: item[1])), share)
