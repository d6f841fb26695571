"""The report on a transplanted model. The numbers are in transplant.json, and the model's card is README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.held_out import HeldOut
from hf_sgpe.evaluation.measurable import load, tokenizer_in
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.files.hub import public_name
from hub_cards.cards.card_of_model import REPORT_FILE, inherited_metadata, model_readme
from hub_cards.cards.seal import CARD_FILE
from trainers.language_models.scoring import beginning_of, score_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from trainers.model_rows.transplanting import Transplant


def measure(
    model: str,
    tokenizer: PreTrainedTokenizerBase,
    held_out: Mapping[str, HeldOut],
    *,
    watched: Sequence[int] = (),
    minutes: float = 0,
    like: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Measure a model (from a folder or from the Hub) and its tokenizer on named texts.

    Args:
        watched: As in `trainers.language_models.scoring.score_model`, like ``minutes``.
        like: Measurements of another model. This model then reads the same text.

    Returns:
        The measurements of each text as JSON values, keyed by the text's name. They are sums and ratios for the model, and
        ratios for the tokenizer.
    """
    if not held_out:
        return {}
    texts: dict[str, list[str]] = {name: one.texts() for name, one in held_out.items()}
    if like:
        texts = {name: beginning_of(some, like[name]["characters"]) for name, some in texts.items()}
    scores = score_model(model, tokenizer, texts, watched=watched, minutes=minutes)
    form = load(tokenizer)
    measured = {name: evaluate(form, one) for name, one in held_out.items()}
    ratios = ("tokens_per_word", "tokens_per_character", "characters_per_token")
    return {
        name: scores[name].to_dict() | {ratio: getattr(one, ratio) for ratio in ratios} for name, one in measured.items()
    }


def report_on(
    base: str,
    tokenizer: str,
    init: str,
    done: Transplant,
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the report on a transplanted model as JSON values. The measurements were made ``before`` with the old
    tokenizer, and ``after`` with the new one.
    """
    row_map = done.row_map
    return {
        "base": public_name(base),
        "tokenizer": public_name(tokenizer),
        "init": init,
        "summary": str(row_map),
        "rows": row_map.rows,
        "rows_kept": len(row_map.kept),
        "new_rows": len(row_map.pieces),
        "size": {when: vars(size) for when, size in zip(("before", "after"), done.sizes or (), strict=False)},
        "tables": [*done.tables, *done.drafts],
        "modules_to_save": done.modules_to_save,
        "ensure_weight_tying": done.tied,
        "lora": done.lora,
        "metadata": inherited_metadata(base, before),
        "texts": {name: {"before": old, "after": after[name]} for name, old in before.items()},
    }


def report_files(report: Mapping[str, Any], out: Path, auto_class: str, tokenizer: str) -> dict[str, str]:
    """Return the contents of transplant.json and README.md for the model's folder ``out``, keyed by file name."""
    card = model_readme(out.resolve().name, out.as_posix(), auto_class, tokenizer_in(tokenizer), report, report["metadata"])
    return {REPORT_FILE: json.dumps(report, indent=1, ensure_ascii=False) + "\n", CARD_FILE: card}
