"""What a tokenizer's page says about it: measurements, pictures, model cards, and pushing them to the Hub."""

from __future__ import annotations

from hub_cards.comparison import Comparison, compare
from hub_cards.metrics import Evaluation, evaluate, load_measurable
from hub_cards.model_card import write_card
from hub_cards.token_view import TokenView, tokens_html

__all__ = [
    "Comparison",
    "Evaluation",
    "TokenView",
    "compare",
    "evaluate",
    "load_measurable",
    "tokens_html",
    "write_card",
]
