"""Pictures of what was measured, as SVG whose text stays text: the reader's browser shapes every script with its own fonts.

The same input gives the same bytes on every machine: places are worked out in inches and with the font that comes with
matplotlib, and no date or random name is written. Colours are told apart by colour-blind readers too, and each tokenizer has
a marker of its own. The tokenizer that a picture is about is the first; the others are baselines.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from math import ceil, log2
from typing import Any

from hf_sgpe.errors import SGPEError
from hub_cards.languages import language

_NOTO = ("Sinhala", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam")
_ELSEWHERE = ("system-ui", "'Segoe UI'", "'Nirmala UI'", "'Helvetica Neue'", "Arial", "sans-serif")
FONTS = ", ".join(("'Noto Sans'", *(f"'Noto Sans {script}'" for script in _NOTO), *_ELSEWHERE))
"""The families of fonts that a browser looks through for each character."""

PICTURES = {
    "tokens_per_word": "Tokens per word by language",
    "token_lengths": "Length of tokens in characters",
    "compression": "Bytes per token by size of the vocabulary",
}
"""Name of each picture's file, without its ending → what it shows."""

INK, MUTED, FAINT, PAPER = "#1b2330", "#5b6675", "#dfe4ea", "#fffefc"
OURS, BASELINES = "#0b5fc4", ("#c2410c", "#0f7b5f", "#a3419a", "#8a6100", "#56606d")
COLOURS = {INK: "ink", MUTED: "muted", FAINT: "faint", PAPER: "paper", OURS: "ours"}
COLOURS |= {colour: f"baseline-{number}" for number, colour in enumerate(BASELINES, 1)}
"""Colour → the custom property of CSS that takes its place in a page (`for_page`)."""

LONGEST = 12
"""Tokens of so many characters and more share a bar."""

_MARKERS = "Ds^vP"
_WIDTH, _MARGIN = 8.6, 0.25
_FONT = "DejaVu Sans"


def check_matplotlib() -> None:
    """Makes sure that pictures can be drawn.

    Raises:
        SGPEError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SGPEError("pictures need matplotlib: pip install matplotlib") from None


def tokens_per_word(values: Mapping[str, Mapping[str, float]]) -> str:
    """A row for each language, a dot for each tokenizer, and their numbers beside them.

    Args:
        values: Code of a language → name of a tokenizer → tokens per word.

    Returns:
        SVG, as the other pictures.
    """
    names = list(next(iter(values.values())))
    rows = sorted(values, key=lambda code: (values[code][names[0]], code))
    column = 0.25 + 0.085 * max(5, *map(len, names))
    ends = [_WIDTH - _MARGIN - column * place for place in reversed(range(len(names)))]
    left, right = 2.55, ends[0] - column
    top, step = 1.42, 0.3
    bottom = top + step * len(rows)
    most = max(2.0, *(value for row in values.values() for value in row.values()))

    def x_of(value: float) -> float:
        return left + (right - left) * log2(value / 0.93) / log2(most * 1.06 / 0.93)

    with _canvas(bottom + 0.65) as (axis, svg):
        _title(axis, "Tokens per word", "Fewer is better. A word is what stands between spaces; the scale is logarithmic.")
        for power in range(int(log2(most)) + 1):
            axis.plot([x_of(2**power)] * 2, [top, bottom], color=FAINT, lw=0.8)
            axis.text(x_of(2**power), bottom + 0.2, f"{2**power}", ha="center", color=MUTED, fontsize=9)
        axis.text((left + right) / 2, bottom + 0.42, "tokens per word", ha="center", color=MUTED, fontsize=9)
        for place, name in enumerate(names):
            colour, marker = _style(place)
            axis.plot(ends[place] - 0.07, top - 0.37, marker, ms=7, color=colour)
            axis.text(ends[place], top - 0.12, name, ha="right", color=colour, weight="bold", fontsize=9)
        for number, code in enumerate(rows):
            row = values[code]
            y = top + step * (number + 0.5)
            known = language(code)
            axis.text(_MARGIN, y + 0.05, known.english, color=INK, fontsize=10)
            if str(known) != known.english:
                axis.text(_MARGIN + 1.1, y + 0.05, known.native, color=MUTED, fontsize=10)
            axis.plot([x_of(min(row.values())), x_of(max(row.values()))], [y, y], color=FAINT, lw=3.5)
            # The first comes last, to lie above the others.
            for place, name in reversed([*enumerate(names)]):
                colour, marker = _style(place)
                axis.plot(x_of(row[name]), y, marker, ms=6 if place else 8.5, mfc=colour, mec=PAPER, mew=0.9)
                look = {"color": MUTED} if place else {"color": INK, "weight": "bold"}
                axis.text(ends[place], y + 0.05, f"{row[name]:.2f}", ha="right", fontsize=10, **look)
        return svg("tokens-per-word", f"Tokens per word in {len(rows)} languages: {', '.join(names)}")


def token_lengths(lengths: Mapping[str, Mapping[int | None, int]]) -> str:
    """How long the tokens of running text are: for each tokenizer the share of its tokens by their length in characters.

    Args:
        lengths: Name of a tokenizer → length in characters → number of tokens, with None for mere parts of a character.
    """
    bins = [None, *range(1, LONGEST + 1)]
    bar = (_WIDTH - 2 * _MARGIN) / (len(bins) + 0.6)
    shares = {name: _shares(counts) for name, counts in lengths.items()}
    most = max(share for row in shares.values() for share in row.values())
    # One scale for all, and for each as much room as its highest bar takes.
    floors = [*accumulate((0.7 + 1.3 * max(row.values()) / most for row in shares.values()), initial=0.92)][1:]

    def x_of(place: int) -> float:
        return _MARGIN + bar * (place + 0.5 + 0.6 * (place > 0))

    with _canvas(floors[-1] + 0.65) as (axis, svg):
        _title(axis, "Length of tokens", "Share of the tokens of all texts, by their length in characters.")
        for place, ((name, row), floor) in enumerate(zip(shares.items(), floors, strict=True)):
            colour, marker = _style(place)
            head = floor - 1.3 * max(row.values()) / most - 0.35
            axis.plot(_WIDTH - _MARGIN - 0.07, head, marker, ms=7, color=colour)
            axis.text(_WIDTH - _MARGIN - 0.22, head + 0.05, name, ha="right", color=colour, weight="bold", fontsize=10)
            axis.plot([_MARGIN, _WIDTH - _MARGIN], [floor, floor], color=FAINT, lw=0.8)
            for number, length in enumerate(bins):
                share = row[length]
                height = 1.3 * share / most
                # Parts of characters are hatched: nobody can read them.
                look: dict[str, Any] = {"fc": "none", "ec": colour, "hatch": "////"} if length is None else {"fc": colour}
                axis.bar(x_of(number), -height, bottom=floor, width=0.8 * bar, **look)
                tone = INK if share else MUTED
                axis.text(x_of(number), floor - height - 0.06, _percent(share), ha="center", color=tone, fontsize=8)
        bottom = floors[-1]
        for number, length in enumerate(bins):
            label = "part of a" if length is None else f"{length}" if length < LONGEST else f"≥ {length}"
            axis.text(x_of(number), bottom + 0.2, label, ha="center", color=MUTED, fontsize=9)
        axis.text(x_of(0), bottom + 0.36, "character", ha="center", color=MUTED, fontsize=9)
        axis.text(x_of(6), bottom + 0.42, "characters in a token", ha="center", color=MUTED, fontsize=9)
        return svg("token-lengths", f"Share of the tokens by length in characters: {', '.join(shares)}")


def _percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.{0 if share >= 0.0995 or not share else 1}f} %"


def _shares(counts: Mapping[int | None, int]) -> dict[int | None, float]:
    total = sum(counts.values())
    shares: dict[int | None, float] = dict.fromkeys([None, *range(1, LONGEST + 1)], 0.0)
    for length, count in counts.items():
        # A token of no character at all exists in some tokenizers: it stands for the start of a text.
        shares[length if length is None else min(max(length, 1), LONGEST)] += count / total
    return shares


def compression(
    curves: Mapping[str, Mapping[int, float]], baselines: Mapping[str, Mapping[str, tuple[int, float]]] | None = None
) -> str:
    """A panel for each language: bytes per token against the size of the vocabulary, and where the baselines are.

    Args:
        curves: Code of a language → number of tokens in the vocabulary → bytes per token (`hub_cards.metrics.compression`).
        baselines: Code of a language → name of a tokenizer → its number of tokens, and its bytes per token.
    """
    baselines = baselines or {}
    names = list(dict.fromkeys(name for row in baselines.values() for name in row))
    points = [point for curve in curves.values() for point in curve.items()]
    points += [point for row in baselines.values() for point in row.values()]
    smallest, largest = min(size for size, _ in points), max(size for size, _ in points)
    highest = ceil(max(value for _, value in points))
    line = next(line for line in (1, 2, 5, 10, 20, 50, 100) if highest / line <= 4)
    columns = min(4, len(curves))
    width, step, top = (_WIDTH - 2 * _MARGIN) / columns, 1.95, 1.5 if names else 1.15

    with _canvas(top + step * ceil(len(curves) / columns)) as (axis, svg):
        points_are = " Points: baselines." if names else ""
        about = f"Up: bytes per token, more is better. Right: tokens in the vocabulary.{points_are}"
        _title(axis, "Compression, by size of the vocabulary", about)
        end = _MARGIN
        for place, name in enumerate(names, 1):
            colour, marker = _style(place)
            axis.plot(end + 0.07, top - 0.45, marker, ms=6.5, color=colour)
            axis.text(end + 0.22, top - 0.4, name, color=colour, weight="bold", fontsize=9)
            end += 0.6 + 0.09 * len(name)
        for number, (code, curve) in enumerate(curves.items()):
            left, right = (_MARGIN + width * (number % columns + part) for part in (0.09, 0.86))
            head = top + step * (number // columns)
            floor = head + step - 0.5

            def x_of(size: int, left: float = left, right: float = right) -> float:
                return left + (right - left) * (
                    log2(size / smallest) / log2(largest / smallest) if largest > smallest else 0.5
                )

            def y_of(value: float, floor: float = floor) -> float:
                return floor - (step - 0.88) * value / highest

            axis.text(left - 0.15, head + 0.02, str(language(code)), color=INK, fontsize=10, weight="bold")
            for height in range(0, highest + 1, line):
                axis.plot([left, right], [y_of(height)] * 2, color=FAINT, lw=0.8)
                axis.text(left - 0.05, y_of(height) + 0.04, f"{height}", ha="right", color=MUTED, fontsize=8)
            for size in _ticks(smallest, largest):
                axis.text(x_of(size), floor + 0.17, _in_thousands(size), ha="center", color=MUTED, fontsize=8)
            for place, name in enumerate(names, 1):
                if name in baselines.get(code, {}):
                    size, value = baselines[code][name]
                    colour, marker = _style(place)
                    axis.plot(x_of(size), y_of(value), marker, ms=6, mfc=colour, mec=PAPER, mew=0.8)
            axis.plot([*map(x_of, curve)], [*map(y_of, curve.values())], color=OURS, lw=1.8)
            size, value = list(curve.items())[-1]
            axis.plot(x_of(size), y_of(value), "o", ms=7, mfc=OURS, mec=PAPER, mew=0.8)
            axis.text(right, head + 0.2, f"{value:.2f}", ha="right", color=OURS, weight="bold", fontsize=9)
        return svg(
            "compression", f"Bytes per token against the number of tokens in the vocabulary, in {len(curves)} languages"
        )


def _ticks(smallest: int, largest: int) -> list[int]:
    """A few round sizes between two, each four times the one before."""
    return [size for size in (1000 * 4**power for power in range(-2, 8)) if smallest <= size <= largest] or [largest]


def _in_thousands(size: int) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else f"{size}"


def _style(place: int) -> tuple[str, str]:
    """Colour and marker of a tokenizer by its place; there are five for baselines, and more share them."""
    other = (place - 1) % len(BASELINES)
    return (BASELINES[other], _MARKERS[other]) if place else (OURS, "o")


def _title(axis: Any, title: str, about: str) -> None:
    axis.text(_MARGIN, 0.42, title, color=INK, weight="bold", fontsize=15)
    axis.text(_MARGIN, 0.68, about, color=MUTED, fontsize=10)


@contextmanager
def _canvas(height: float) -> Iterator[tuple[Any, Callable[[str, str], str]]]:
    """A paper to draw on, measured in inches from its upper left corner, and a function that gives it as SVG.

    The figure belongs to nobody else: no state of matplotlib is changed for longer than the block lasts.
    """
    check_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": "hf_sgpe",
        "font.family": _FONT,
        "text.parse_math": False,
        "hatch.linewidth": 0.8,
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever the machine's own settings are
        matplotlib.rcParams.update(settings)
        # It is the reader's browser that needs the glyphs.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = Figure(figsize=(_WIDTH, height), facecolor=PAPER)
        FigureCanvasSVG(figure)
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set_axis_off()
        # What is drawn must not move the corners.
        axis.set_autoscale_on(False)
        axis.set_xlim(0, _WIDTH)
        axis.set_ylim(height, 0)

        def svg(name: str, description: str) -> str:
            file = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(file, format="svg", facecolor=PAPER, metadata=nothing)
            return _tidy(file.getvalue(), name, description)

        yield axis, svg


def _tidy(svg: str, name: str, description: str) -> str:
    """What matplotlib wrote, made fit to stand beside others in one page: nothing in it reaches outside."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r' xmlns:xlink="[^"]*"| version="1.1"', "", svg)
    # Names of its own for everything that is referred to, and none for what is not.
    svg = svg.replace('xlink:href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if f"{name}-{match[1]}" in used else "", svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", svg).replace(f"'{_FONT}'", FONTS)
    root = f'<svg role="img" aria-label="{html.escape(description)}" stroke-linejoin="round" stroke-linecap="butt" '
    return svg.replace("<svg ", root, 1)


def for_page(svg: str) -> str:
    """A picture to be put into a page: as wide as its place, and in the colours that the page gives (`COLOURS`).

    >>> for_page('<svg width="9pt" height="9pt"><path style="fill: #0b5fc4"/></svg>')
    '<svg><path style="fill: var(--ours)"/></svg>'
    """
    for colour, name in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
