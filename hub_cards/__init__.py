"""Measurements, pictures and cards of tokenizers and models, and uploads to the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hf_sgpe.package import lazily

if TYPE_CHECKING:
    from hf_sgpe.evaluation.comparison import compare
    from hf_sgpe.evaluation.measurable import load_measurable
    from hf_sgpe.evaluation.metrics import Evaluation, evaluate
    from hf_sgpe.evaluation.results import Comparison
    from hf_sgpe.evaluation.runtimes import RuntimeCheck, check_runtimes
    from hf_sgpe.evaluation.same_ids import compare_ids
    from hub_cards.cards.tokenizer_card import write_card
    from hub_cards.playground.playground_site import write_playground
    from hub_cards.token_views.token_view import TokenView, tokens_html

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

# Code that writes and pushes a card must not import `trainers`, because the user's project may have a folder of this name.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "hf_sgpe.evaluation.comparison": "compare",
        "hf_sgpe.evaluation.measurable": "load_measurable",
        "hf_sgpe.evaluation.metrics": "Evaluation evaluate",
        "hub_cards.cards.tokenizer_card": "write_card",
        "hub_cards.playground.playground_site": "write_playground",
        "hf_sgpe.evaluation.results": "Comparison",
        "hf_sgpe.evaluation.runtimes": "RuntimeCheck check_runtimes",
        "hf_sgpe.evaluation.same_ids": "compare_ids",
        "hub_cards.token_views.token_view": "TokenView tokens_html",
    },
)
