"""A picture of how well a vocabulary is used: used and unused tokens by script, and the gain from new tokens of an
extension.
"""

from __future__ import annotations

from collections.abc import Sequence

from hf_sgpe.evaluation.vocabulary_health import Cutoff, VocabularyHealth
from hub_cards.pictures.drawing import LINE, Panel, Picture, Row, bar, colour_of, curve, join, line, mark, text
from hub_cards.pictures.plots import thousands

_KINDS = {"used": "used", "only_steps": "steps of used tokens", "never_used": "never used"}
_SCRIPTS = 16


def draw_vocabulary(health: VocabularyHealth, name: str) -> Picture:
    """Draw how well a text uses a vocabulary. ``name`` is the name of the tokenizer."""
    panels = [_by_script(health)]
    if health.cutoffs and health.cutoffs[-1].share_of_gain is not None:
        panels.append(_by_cutoff(health.cutoffs))
    return Picture(tuple(panels), f"The {health.tokens:,} tokens of {name} by script, and their use")


def _by_script(health: VocabularyHealth) -> Panel:
    rows = []
    scripts = health.by_script()
    shown = dict(list(scripts.items())[:_SCRIPTS])
    if len(scripts) > len(shown):
        rest = [counts for script, counts in scripts.items() if script not in shown]
        shown["other scripts"] = {kind: sum(counts[kind] for counts in rest) for kind in rest[0]}
    most = max(counts["tokens"] for counts in shown.values())
    for script, counts in shown.items():
        shapes, left = [], 0.0
        for place, kind in enumerate(_KINDS):
            width = 88 * counts[kind] / most
            shapes.append(bar(left, 3, width, 14, f"{colour_of(place)} {'hollow' if kind == 'never_used' else 'solid'}"))
            left += width
        shapes.append(text(left + 1, 14, thousands(counts["tokens"]), "muted tiny"))
        rows.append(Row(join(shapes), 20, script, numbers=(f"{counts['used'] / counts['tokens']:.0%}",)))
    return Panel(
        "Tokens by script", "Right: share of the tokens that the text uses.", tuple(enumerate(_KINDS.values())), tuple(rows)
    )


def _by_cutoff(cutoffs: Sequence[Cutoff]) -> Panel:
    last, head, floor = cutoffs[-1].new_tokens, 12.0, 160.0
    points = [(0.0, 0.0), *((cutoff.new_tokens, cutoff.share_of_gain or 0.0) for cutoff in cutoffs)]
    low, high = min(0.0, *(share for _, share in points)), max(1.0, *(share for _, share in points))
    places = [(8 + 84 * size / last, floor - (floor - head) * (share - low) / (high - low)) for size, share in points]
    shapes = []
    for share in (0.0, 0.5, 1.0):
        y = floor - (floor - head) * (share - low) / (high - low)
        shapes += [line(8, y, 92, y), text(7, y + 4, f"{share:.0%}", anchor="end")]
    shapes += [curve(places, 0), *(mark(0, *place) for place in places[1:])]
    for cutoff, (x, _) in zip(cutoffs[-3:], places[-3:], strict=False):
        shapes.append(text(x, floor + LINE, thousands(cutoff.new_tokens), anchor="middle"))
    return Panel(
        "Gain of new tokens",
        "Tokens saved by the first new tokens, as a share of the tokens saved by all. Right: number of new tokens.",
        rows=(Row(join(shapes), floor + 2 * LINE),),
    )
