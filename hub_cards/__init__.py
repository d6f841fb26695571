"""What a tokenizer's page says about it: measurements, pictures, model cards, and pushing them to the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_sgpe.lazy import lazily

if TYPE_CHECKING:
    from hub_cards.comparison import compare
    from hub_cards.metrics import Evaluation, evaluate, load_measurable
    from hub_cards.model_card import write_card
    from hub_cards.playground import write_playground
    from hub_cards.results import Comparison
    from hub_cards.runtimes import RuntimeCheck, check_runtimes
    from hub_cards.same_ids import compare_ids
    from hub_cards.token_view import TokenView, tokens_html

__all__ = [
    "Comparison",
    "Evaluation",
    "RuntimeCheck",
    "TokenView",
    "check_runtimes",
    "compare",
    "compare_ids",
    "evaluate",
    "load_measurable",
    "tokens_html",
    "write_card",
    "write_playground",
]

# Writing and pushing a card must not need `trainers`, whose place a project's own folder of that name may take.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "comparison": "compare",
        "metrics": "Evaluation evaluate load_measurable",
        "model_card": "write_card",
        "playground": "write_playground",
        "results": "Comparison",
        "runtimes": "RuntimeCheck check_runtimes",
        "same_ids": "compare_ids",
        "token_view": "TokenView tokens_html",
    },
)
