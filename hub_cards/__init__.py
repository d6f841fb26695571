"""What a tokenizer's page says about it: measurements, and in time pictures, model cards and pushing."""

from __future__ import annotations

from hub_cards.metrics import Evaluation, evaluate, load_measurable

__all__ = ["Evaluation", "evaluate", "load_measurable"]
