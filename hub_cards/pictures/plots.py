"""The pictures of a card. The first tokenizer is the one that the card describes; the others are baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, floor, log2
from typing import TypeVar

from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.results import FERTILITY, PER_CHARACTER, Comparison
from hub_cards.pictures.drawing import (
    LEAST_WIDTH,
    LINE,
    Panel,
    Picture,
    Row,
    bar,
    colour_of,
    curve,
    join,
    line,
    mark,
    text,
    tick,
)

_LONGEST = 12
"""Tokens with at least this number of characters share one bar."""

_TOUCHING = 10
"""The least distance, in pixels, at which two marks do not touch."""

_UNITS = {
    "tokens per word": "Words are separated by spaces",
    "tokens per character": "Languages without spaces between words",
}
_BINS = (None, *range(1, _LONGEST + 1))

T = TypeVar("T")


def draw(comparison: Comparison) -> dict[str, Picture]:
    """Return the pictures of a comparison, keyed by file name without extension. For languages without spaces between words,
    they show tokens per character instead of tokens per word.
    """
    fertility: dict[str, dict[str, dict[str, float]]] = {FERTILITY.key: {}, PER_CHARACTER.key: {}}
    lengths: dict[str, Counter[int | None]] = {name: Counter() for name in comparison.tokenizers}
    baselines: dict[str, dict[str, tuple[int, float]]] = {}
    for code, row in comparison.evaluations.items():
        for name, evaluation in row.items():
            for key, values in fertility.items():
                value = comparison.measure(key, code, name)
                if value is not None:
                    values.setdefault(code, {})[name] = value
            lengths[name].update(evaluation.token_lengths)
            lengths[name][None] += evaluation.fallback_tokens
            if name != comparison.name and evaluation.vocab_size and evaluation.bytes_per_token:
                baselines.setdefault(code, {})[name] = (evaluation.vocab_size, evaluation.bytes_per_token)
    words, characters = fertility.values()
    pictures = {"tokens_per_word": _tokens_per_word(words, characters)} if words or characters else {}
    pictures["token_lengths"] = _token_lengths(lengths)
    pictures["compression"] = _compression(comparison.compression, baselines)
    return pictures


def _tokens_per_word(
    values: Mapping[str, Mapping[str, float]], per_character: Mapping[str, Mapping[str, float]] | None = None
) -> Picture:
    """Draw tokens per word, keyed by language code and then by the tokenizer's name: a row for each language, with a plot
    marker and a number for each tokenizer. Tokens per character are drawn below, with a separate scale.
    """
    groups = groups_by_unit(values, per_character or {})
    names = list(next(iter(groups[0][1].values())))
    panels: list[Panel] = []
    for what, rows, low in groups:
        about = f"Fewer is better. {_UNITS[what]}; the scale is logarithmic."
        keys = () if panels else tuple(enumerate(names))
        panels.append(Panel(what.capitalize(), about, keys, _costs(rows, names, low, what)))
    titles = " and ".join(what for what, *_ in groups).capitalize()
    languages = sum(len(rows) for _, rows, _ in groups)
    return Picture(tuple(panels), f"{titles} in {languages} languages: {', '.join(names)}")


def groups_by_unit(words: Mapping[str, T], characters: Mapping[str, T]) -> list[tuple[str, Mapping[str, T], float]]:
    """Return the unit, the rows and the low end of the scale of tokens per word and of tokens per character, if any."""
    groups = [("tokens per word", words, 1.0), ("tokens per character", characters, 0.5)]
    return [group for group in groups if group[1]]


def _costs(values: Mapping[str, Mapping[str, float]], names: Sequence[str], low: float, what: str) -> tuple[Row, ...]:
    costs = [value for row in values.values() for value in row.values()]
    least, most = 0.93 * min(low, *costs), 1.06 * max(2 * low, *costs)
    powers = range(ceil(log2(least)), floor(log2(most)) + 1)
    # The labels of small fractions are long.
    step = ceil((8 * max(len(f"{2**power:g}") for power in powers) + 8) * log2(most / least) / LEAST_WIDTH)
    labels = {2.0**power: f"{2**power:g}" for power in range(-(-powers[0] // step) * step, powers[-1] + 1, step)}

    def x_of(value: float) -> float:
        return 100 * log2(value / least) / log2(most / least)

    rows = []
    for code in sorted(values, key=lambda code: (values[code][names[0]], code)):
        known, costs = language(code), [values[code][name] for name in names]
        offsets = _offsets([x_of(cost) * LEAST_WIDTH / 100 for cost in costs])
        height = max(24, _TOUCHING * (max(offsets) + 1) + 10)
        shapes = [line(x_of(2.0**power), 0, x_of(2.0**power), height) for power in powers]
        shapes.append(line(x_of(min(costs)), height / 2, x_of(max(costs)), height / 2, "faint", 4))
        for place, (cost, offset) in enumerate(zip(costs, offsets, strict=True)):
            shapes.append(mark(place, x_of(cost), height / 2 + _TOUCHING * (offset - max(offsets) / 2)))
        native = known.native if known.native != known.english else ""
        rows.append(Row(join(shapes), height, known.english, native, code, tuple(f"{cost:.2f}" for cost in costs)))
    scale = [tick(x_of(value), LINE - 4, label) for value, label in labels.items()]
    return (*rows, Row(join([*scale, text(50, 2 * LINE - 4, what, anchor="middle")]), 2 * LINE))


def _offsets(places: Sequence[float]) -> list[int]:
    """Return a vertical offset for each plot marker in a row: the first at which it touches no earlier marker.

    >>> _offsets([10, 15, 30, 17])
    [0, 1, 0, 2]
    """
    offsets: list[int] = []
    for number, place in enumerate(places):
        taken = {offset for offset, other in zip(offsets, places, strict=False) if abs(place - other) < _TOUCHING}
        offsets.append(next(offset for offset in range(number + 1) if offset not in taken))
    return offsets


def _token_lengths(lengths: Mapping[str, Mapping[int | None, int]]) -> Picture:
    """Draw numbers of tokens in running text, keyed by the tokenizer's name and then by token length in characters: a panel
    for each tokenizer, with a bar for each length. Tokens that are only a part of a character have the length None.
    """
    shares: dict[str, dict[int | None, float]] = {name: dict.fromkeys(_BINS, 0.0) for name in lengths}
    for name, counts in lengths.items():
        total = sum(counts.values())
        for length, count in counts.items():
            # Some tokenizers have a token without characters, for the start of a text.
            shares[name][length if length is None else min(max(length, 1), _LONGEST)] += count / total
    most = max(share for row in shares.values() for share in row.values())
    about = "Per cent of all tokens, by length in characters. Hollow: tokens that are only a part of a character."
    step = 100 / len(_BINS)
    panels = []
    for place, (name, row) in enumerate(shares.items()):
        # All panels have the same scale; each panel is as high as its highest bar.
        floor = LINE + 95 * max(row.values()) / most
        shapes = []
        for number, share in enumerate(row.values()):
            height, left = 95 * share / most, step * number
            # Parts of characters are hollow, because nobody can read them.
            look = f"{colour_of(place)} {'solid' if number else 'hollow'}"
            shapes.append(bar(left + 0.1 * step, floor - height, 0.8 * step, height, look))
            tone, middle = "ink" if share else "muted", left + step / 2
            shapes.append(text(middle, floor - height - 4, _percent(share), f"{tone} tiny", anchor="middle"))
            label = f"{number}{'+' * (number == _LONGEST)}" if number else "part"
            shapes.append(text(middle, floor + LINE - 3, label, "muted tiny", anchor="middle"))
        shapes.append(line(0, floor, 100, floor))
        title, what = ("", "") if place else ("Length of tokens", about)
        panels.append(Panel(title, what, ((place, name),), (Row(join(shapes), floor + LINE),)))
    return Picture(tuple(panels), f"Share of the tokens by length in characters: {', '.join(shares)}")


def _percent(share: float) -> str:
    """Format a share in per cent, with at most three characters, because thirteen bars are side by side.

    >>> _percent(0.123), _percent(0.0123), _percent(0.0001), _percent(0)
    ('12', '1.2', '0.0', '0')
    """
    return f"{100 * share:.{0 if share >= 0.0995 or not share else 1}f}"


def _compression(
    curves: Mapping[str, Mapping[int, float]], baselines: Mapping[str, Mapping[str, tuple[int, float]]] | None = None
) -> Picture:
    """Draw a panel for each language: a curve of bytes per token against vocabulary size, and a point for each baseline.

    ``curves`` has bytes per token, keyed by language code and then by vocabulary size.
    """
    baselines = baselines or {}
    names = list(dict.fromkeys(name for row in baselines.values() for name in row))
    points = [point for curve in curves.values() for point in curve.items()]
    points += [point for row in baselines.values() for point in row.values()]
    smallest, largest = min(size for size, _ in points), max(size for size, _ in points)
    highest = ceil(max(value for _, value in points))
    rung = next(rung for rung in (1, 2, 5, 10, 20, 50, 100) if highest / rung <= 4)
    powers_of_4 = (1000 * 4**power for power in range(-2, 8))
    sizes = [size for size in powers_of_4 if smallest <= size <= largest] or [largest]
    head, floor = 12, 100

    def place_of(point: tuple[int, float]) -> tuple[float, float]:
        part = log2(point[0] / smallest) / log2(largest / smallest) if largest > smallest else 0.5
        return 12 + 82 * part, floor - (floor - head) * point[1] / highest

    about = "Up: bytes per token, more is better. Right: tokens in the vocabulary."
    title = Panel("Compression by vocabulary size", about + " Points: baselines." * bool(names), tuple(enumerate(names, 1)))
    panels = [title]
    for code, values in curves.items():
        shapes = []
        for height in range(0, highest + 1, rung):
            y = place_of((smallest, height))[1]
            shapes += [line(10, y, 100, y), text(8, y + 4, f"{height}", anchor="end")]
        shapes += [tick(place_of((size, 0))[0], floor + LINE - 2, thousands(size)) for size in sizes]
        shapes += [curve(map(place_of, values.items()), 0), mark(0, *place_of([*values.items()][-1]))]
        for place, name in enumerate(names, 1):
            if name in baselines.get(code, {}):
                # The marks are hollow, so that two marks at the same place are both visible.
                shapes.append(mark(place, *place_of(baselines[code][name]), "hollow"))
        known, last = language(code), [*values.values()][-1]
        label = str(known) if len(str(known)) <= 14 else known.english
        panels.append(Panel(label, rows=(Row(join(shapes), floor + LINE + 6),), value=f"{last:.2f}", is_small=True))
    return Picture(
        tuple(panels), f"Bytes per token against the number of tokens in the vocabulary, in {len(curves)} languages"
    )


def thousands(size: int) -> str:
    """Format a number of tokens for a scale, in thousands from 1,000 on."""
    return f"{size / 1000:.3g}k" if size >= 1000 else f"{size}"
