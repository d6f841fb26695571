"""The pictures of a card. The tokenizer that a picture is about is the first; the others are baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, floor, log2
from typing import Any

from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.results import FERTILITY, PER_CHARACTER, Comparison
from hub_cards.pictures.drawing import (
    FAINT,
    INK,
    MARGIN,
    MUTED,
    OURS,
    PAPER,
    WIDE,
    Paper,
    canvas,
    check_matplotlib as check_matplotlib,
    room_of,
    shortened,
    style_of,
)

LONGEST = 12
"""Tokens of this many characters and more share a bar."""

_LANE = 0.14
"""Markers whose middles are as far apart as this do not touch."""


def draw(comparison: Comparison, paper: Paper = WIDE) -> dict[str, str]:
    """Draws the pictures of a comparison: name → SVG. Languages without spaces have tokens per character, not per word."""
    fertility: dict[str, dict[str, dict[str, float]]] = {FERTILITY.key: {}, PER_CHARACTER.key: {}}
    lengths: dict[str, Counter[int | None]] = {name: Counter() for name in comparison.tokenizers}
    baselines: dict[str, dict[str, tuple[int, float]]] = {}
    for code, row in comparison.evaluations.items():
        for name, evaluation in row.items():
            for key, values in fertility.items():
                if (value := comparison.measure(key, code, name)) is not None:
                    values.setdefault(code, {})[name] = value
            lengths[name].update(evaluation.token_lengths)
            lengths[name][None] += evaluation.fallback_tokens
            if name != comparison.name and evaluation.vocab_size and evaluation.bytes_per_token:
                baselines.setdefault(code, {})[name] = (evaluation.vocab_size, evaluation.bytes_per_token)
    words, characters = fertility.values()
    pictures = {"tokens_per_word": tokens_per_word(words, paper, characters)} if words or characters else {}
    pictures["token_lengths"] = token_lengths(lengths, paper)
    pictures["compression"] = compression(comparison.compression, baselines, paper)
    return pictures


def tokens_per_word(
    values: Mapping[str, Mapping[str, float]],
    paper: Paper = WIDE,
    per_character: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """Draws a row for each language, a marker for each tokenizer, and the numbers beside them if there is room, else above.

    Args:
        values: Code of a language → name of a tokenizer → tokens per word.
        per_character: The same in tokens per character, for languages without spaces between words: they stand below the
            others, with a scale of their own.

    Returns:
        SVG, like the other pictures.
    """
    groups = [
        (what, rows, low, about)
        for what, rows, low, about in (
            ("tokens per word", values, 1.0, "A word is what stands between spaces"),
            ("tokens per character", per_character or {}, 0.5, "Languages without spaces between words"),
        )
        if rows
    ]
    names = list(next(iter(groups[0][1].values())))
    line, column = 1.5 * paper.size / 72, 0.15 + room_of("88.88", paper.size)
    beside = paper.inner - 2.4 - column * len(names) >= 2.0
    if beside:
        left, right = 2.65, paper.width - MARGIN - column * len(names) - 0.1
        columns, first, key, side = len(names), right + 0.1, 0.25, "right"
    else:
        left, right = MARGIN + 0.1, paper.width - MARGIN - 0.1  # half a marker or number may stand out
        column += 0.15  # for a marker at each number
        columns, first, key, side = max(1, int(paper.inner / column)), MARGIN - column + 0.18, 0.11, "left"
    # The height above the markers of a row.
    head = 0.0 if beside else line * (1 + ceil(len(names) / columns)) + 0.16

    def place_of(place: int, y: float) -> tuple[float, float]:
        """Returns where the ``side`` of a tokenizer's number is, if the first line of numbers stands at ``y``."""
        return first + column * (place % columns + 1), y + line * (place // columns)

    with canvas(paper) as picture:
        axis = picture.axis

        def keys(y: float) -> None:
            """Draws the markers that say whose numbers they are."""
            for place in range(len(names)):
                colour, marker = style_of(place)
                x, base = place_of(place, y)
                axis.plot(x - key, base - 0.05, marker, ms=6.5, color=colour)

        def group(y: float, what: str, values: Mapping[str, Mapping[str, float]], low: float) -> float:
            """Draws the rows of some languages and the scale below them; returns where the next line stands."""
            rows = sorted(values, key=lambda code: (values[code][names[0]], code))
            costs = [value for row in values.values() for value in row.values()]
            least, most = 0.93 * min(low, *costs), 1.06 * max(2 * low, *costs)
            powers = range(ceil(log2(least)), floor(log2(most)) + 1)
            labels = {power: f"{2**power:g}" for power in powers}
            widest = max(room_of(f"{label} ", paper.size) for label in labels.values())
            step = ceil(widest * log2(most / least) / (right - left))  # small fractions are long

            def x_of(value: float) -> float:
                return left + (right - left) * log2(value / least) / log2(most / least)

            if beside:
                keys(y + 0.15)
                y += 0.2
            for code in rows:
                row, known = values[code], language(code)
                lanes = _lanes([x_of(row[name]) for name in names])
                strip = max(0.2, _LANE * (max(lanes) + 1)) + 0.08
                middle = y + head + strip / 2
                base = middle + 0.05 if beside else y + line + 0.08
                numbers = base if beside else base + line
                weight = "normal" if beside else "bold"
                axis.text(MARGIN, base, known.english, color=INK, fontsize=paper.size, weight=weight)
                if str(known) != known.english:
                    native = MARGIN + max(1.1 if beside else 0, room_of(f"{known.english} ", paper.size, bold=not beside))
                    axis.text(native, base, known.native, color=MUTED, fontsize=paper.size)
                for power in powers:
                    axis.plot([x_of(2**power)] * 2, [y + head, y + head + strip], color=FAINT, lw=0.8, zorder=1)
                ends = [x_of(min(row.values())), x_of(max(row.values()))]
                axis.plot(ends, [middle, middle], color=FAINT, lw=3.5, zorder=1)
                if not beside:
                    keys(numbers)
                for place, name in enumerate(names):
                    colour, marker = style_of(place)
                    lane = middle + _LANE * (lanes[place] - max(lanes) / 2)
                    axis.plot(x_of(row[name]), lane, marker, ms=6 if place else 8.5, mfc=colour, mec=PAPER, mew=0.9)
                    look = {"color": MUTED} if place else {"color": INK, "weight": "bold"}
                    axis.text(*place_of(place, numbers), f"{row[name]:.2f}", ha=side, fontsize=paper.size, **look)
                y += head + strip
            for power in range(-(-powers[0] // step) * step, powers[-1] + 1, step):
                axis.text(x_of(2**power), y + line, labels[power], ha="center", color=MUTED, fontsize=paper.size)
            y += 2 * line
            axis.text((left + right) / 2, y, what, ha="center", color=MUTED, fontsize=paper.size)
            return y

        y = -0.13
        for number, (what, rows, low, about) in enumerate(groups):
            y = picture.title(what.capitalize(), f"Fewer is better. {about}; the scale is logarithmic.", y + 0.55)
            y = group(y if number else picture.legend(y, names, 0), what, rows, low)
        titles = " and ".join(what for what, *_ in groups).capitalize()
        languages = sum(len(rows) for _, rows, *_ in groups)
        return picture.svg("tokens-per-word", f"{titles} in {languages} languages: {', '.join(names)}", y + MARGIN)


def _lanes(places: Sequence[float]) -> list[int]:
    """Returns for each marker in a row the lowest lane in which it touches no earlier one.

    >>> _lanes([1.0, 1.05, 2.0, 1.1])
    [0, 1, 0, 2]
    """
    lanes: list[int] = []
    for number, place in enumerate(places):
        taken = {lane for lane, other in zip(lanes, places[:number], strict=False) if abs(place - other) < _LANE}
        lanes.append(next(lane for lane in range(number + 1) if lane not in taken))
    return lanes


def token_lengths(lengths: Mapping[str, Mapping[int | None, int]], paper: Paper = WIDE) -> str:
    """Draws how long the tokens of running text are: for each tokenizer the share of its tokens by length in characters.

    Args:
        lengths: Name of a tokenizer → length in characters → number of tokens, with None for parts of a character.
    """
    bins = [None, *range(1, LONGEST + 1)]
    bar = paper.inner / (len(bins) + 0.6)
    shares = {name: _shares(counts) for name, counts in lengths.items()}
    most = max(share for row in shares.values() for share in row.values())
    line = 1.5 * paper.size / 72

    def x_of(place: int) -> float:
        return MARGIN + bar * (place + 0.5 + 0.6 * (place > 0))

    with canvas(paper) as picture:
        axis = picture.axis
        about = "Per cent of the tokens of all texts, by their length in characters. Hatched: only a part of one."
        y = picture.title("Length of tokens", about)
        for place, (name, row) in enumerate(shares.items()):
            y = picture.legend(y, [name], place)
            # One scale for all, and for each as much room as its highest bar takes.
            y += line + 1.3 * max(row.values()) / most
            axis.plot([MARGIN, paper.width - MARGIN], [y, y], color=FAINT, lw=0.8)
            colour, _ = style_of(place)
            for number, length in enumerate(bins):
                share = row[length]
                height = 1.3 * share / most
                # Parts of characters are hatched: nobody can read them.
                look: dict[str, Any] = {"fc": "none", "ec": colour, "hatch": "////"} if length is None else {"fc": colour}
                axis.bar(x_of(number), -height, bottom=y, width=0.8 * bar, **look)
                tone = INK if share else MUTED
                axis.text(x_of(number), y - height - 0.06, _percent(share), ha="center", color=tone, fontsize=paper.size)
            y += 0.25
        for number, length in enumerate(bins):
            label = "part" if length is None else f"{length}" if length < LONGEST else f"{length}+"
            axis.text(x_of(number), y, label, ha="center", color=MUTED, fontsize=paper.size)
        y += line
        axis.text(x_of(6), y, "characters in a token", ha="center", color=MUTED, fontsize=paper.size)
        return picture.svg("token-lengths", f"Share of the tokens by length in characters: {', '.join(shares)}", y + MARGIN)


def _percent(share: float) -> str:
    """Formats a share in per cent with at most three characters, since thirteen stand side by side.

    >>> _percent(0.123), _percent(0.0123), _percent(0.0001), _percent(0)
    ('12', '1.2', '0.0', '0')
    """
    return f"{100 * share:.{0 if share >= 0.0995 or not share else 1}f}"


def _shares(counts: Mapping[int | None, int]) -> dict[int | None, float]:
    total = sum(counts.values())
    shares: dict[int | None, float] = dict.fromkeys([None, *range(1, LONGEST + 1)], 0.0)
    for length, count in counts.items():
        # Some tokenizers have a token without characters, for the start of a text.
        shares[length if length is None else min(max(length, 1), LONGEST)] += count / total
    return shares


def compression(
    curves: Mapping[str, Mapping[int, float]],
    baselines: Mapping[str, Mapping[str, tuple[int, float]]] | None = None,
    paper: Paper = WIDE,
) -> str:
    """Draws a panel for each language: bytes per token by the size of the vocabulary, and where the baselines are.

    Args:
        curves: Code of a language → number of tokens in the vocabulary → bytes per token.
        baselines: Code of a language → name of a tokenizer → its number of tokens, and its bytes per token.
    """
    baselines = baselines or {}
    names = list(dict.fromkeys(name for row in baselines.values() for name in row))
    points = [point for curve in curves.values() for point in curve.items()]
    points += [point for row in baselines.values() for point in row.values()]
    smallest, largest = min(size for size, _ in points), max(size for size, _ in points)
    highest = ceil(max(value for _, value in points))
    rung = next(rung for rung in (1, 2, 5, 10, 20, 50, 100) if highest / rung <= 4)
    columns = min(int(paper.inner / 1.8), len(curves))
    width, step = paper.inner / columns, 2.1
    line = 1.5 * paper.size / 72

    with canvas(paper) as picture:
        axis = picture.axis
        points_are = " Points: baselines." if names else ""
        about = f"Up: bytes per token, more is better. Right: tokens in the vocabulary.{points_are}"
        top = picture.title("Compression by vocabulary size", about)
        top = picture.legend(top, names, 1) + 0.25
        for number, (code, curve) in enumerate(curves.items()):
            corner = MARGIN + width * (number % columns)
            left, right = corner + room_of("88", paper.size) + 0.05, corner + width - 0.22
            head = top + step * (number // columns)
            floor = head + step - 2 * line

            def x_of(size: int, left: float = left, right: float = right) -> float:
                part = log2(size / smallest) / log2(largest / smallest) if largest > smallest else 0.5
                return left + (right - left) * part

            def y_of(value: float, floor: float = floor, head: float = head) -> float:
                return floor - (floor - head - 0.25) * value / highest

            known = language(code)
            number_room = room_of("88.88 ", paper.size, bold=True)
            fits = room_of(str(known), paper.size, bold=True) + number_room <= right - corner
            title = str(known) if fits else shortened(known.english, right - corner - number_room, paper.size)
            axis.text(corner, head + 0.02, title, color=INK, fontsize=paper.size, weight="bold")
            for height in range(0, highest + 1, rung):
                axis.plot([left, right], [y_of(height)] * 2, color=FAINT, lw=0.8)
                axis.text(left - 0.05, y_of(height) + 0.04, f"{height}", ha="right", color=MUTED, fontsize=paper.size)
            for size in _ticks(smallest, largest):
                label = f"{size / 1000:g}k" if size >= 1000 else f"{size}"
                axis.text(x_of(size), floor + line, label, ha="center", color=MUTED, fontsize=paper.size)
            axis.plot([*map(x_of, curve)], [*map(y_of, curve.values())], color=OURS, lw=1.8)
            size, value = list(curve.items())[-1]
            axis.plot(x_of(size), y_of(value), "o", ms=6, mfc=OURS, mec=PAPER, mew=0.8)
            axis.text(right, head + 0.02, f"{value:.2f}", ha="right", color=OURS, weight="bold", fontsize=paper.size)
            for place, name in enumerate(names, 1):
                if name in baselines.get(code, {}):
                    size, value = baselines[code][name]
                    colour, marker = style_of(place)
                    # Hollow, so that two at one place are both seen.
                    axis.plot(x_of(size), y_of(value), marker, ms=8, mfc="none", mec=colour, mew=1.5)
        description = f"Bytes per token against the number of tokens in the vocabulary, in {len(curves)} languages"
        return picture.svg("compression", description, top + step * ceil(len(curves) / columns))


def _ticks(smallest: int, largest: int) -> list[int]:
    """Returns a few round sizes, each four times the one before."""
    return [size for size in (1000 * 4**power for power in range(-2, 8)) if smallest <= size <= largest] or [largest]
