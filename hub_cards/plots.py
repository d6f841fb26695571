"""Pictures of what was measured, as SVG whose text stays text: the reader's browser shapes every script with its own fonts.

The same input gives the same bytes on every machine: places are worked out in inches and with the font that comes with
matplotlib, and no date or random name is written. Colours are told apart by colour-blind readers too, and each tokenizer has
a marker of its own. The tokenizer that a picture is about is the first; the others are baselines.
"""

from __future__ import annotations

import html
import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil, log2
from typing import Any, NamedTuple

from hf_sgpe.errors import not_installed
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
_MARGIN = 0.25
_LANE = 0.14
"""Markers whose middles are as far apart as this do not touch."""
_FONT = "DejaVu Sans"


class Paper(NamedTuple):
    """What a picture is drawn on.

    Attributes:
        suffix: What the names of parts of the picture end in, so that pictures on several papers can stand in one page.
        width: In inches.
        size: Of labels, the smallest text there is, in points.
    """

    suffix: str
    width: float
    size: float

    @property
    def inner(self) -> float:
        """The width between the margins."""
        return self.width - 2 * _MARGIN


WIDE, NARROW = Paper("", 8.6, 10.0), Paper("-narrow", 4.2, 12.0)
"""For README.md and wide windows, and for narrow ones."""


def check_matplotlib() -> None:
    """Makes sure that pictures can be drawn.

    Raises:
        SGPEError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise not_installed("pictures need matplotlib", "matplotlib", extra="plots") from None


def tokens_per_word(values: Mapping[str, Mapping[str, float]], paper: Paper = WIDE) -> str:
    """A row for each language, a marker for each tokenizer, and their numbers: beside them if there is room, else above.

    Args:
        values: Code of a language → name of a tokenizer → tokens per word.

    Returns:
        SVG, as the other pictures.
    """
    names = list(next(iter(values.values())))
    rows = sorted(values, key=lambda code: (values[code][names[0]], code))
    most = max(2.0, *(value for row in values.values() for value in row.values()))
    line, column = 1.5 * paper.size / 72, 0.15 + _room("88.88", paper.size)
    beside = paper.inner - 2.4 - column * len(names) >= 2.0
    if beside:
        left, right = 2.65, paper.width - _MARGIN - column * len(names) - 0.1
        columns, first, key, side = len(names), right + 0.1, 0.25, "right"
    else:
        left, right = _MARGIN + 0.1, paper.width - _MARGIN - 0.1  # half a marker or number may stand out
        column += 0.15  # for a marker at each number
        columns, first, key, side = max(1, int(paper.inner / column)), _MARGIN - column + 0.18, 0.11, "left"
    # What a row has above its markers.
    head = 0.0 if beside else line * (1 + ceil(len(names) / columns)) + 0.16
    powers = range(int(log2(most)) + 1)

    def x_of(value: float) -> float:
        return left + (right - left) * log2(value / 0.93) / log2(most * 1.06 / 0.93)

    def place_of(place: int, y: float) -> tuple[float, float]:
        """Where the ``side`` of a tokenizer's number is, if the first line of them stands at ``y``."""
        return first + column * (place % columns + 1), y + line * (place // columns)

    with _canvas(paper) as (axis, svg):

        def keys(y: float) -> None:
            """The markers that say whose the numbers are."""
            for place in range(len(names)):
                colour, marker = _style(place)
                x, base = place_of(place, y)
                axis.plot(x - key, base - 0.05, marker, ms=6.5, color=colour)

        about = "Fewer is better. A word is what stands between spaces; the scale is logarithmic."
        y = _legend(axis, paper, _title(axis, paper, "Tokens per word", about), names, 0)
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
            axis.text(_MARGIN, base, known.english, color=INK, fontsize=paper.size, weight="normal" if beside else "bold")
            if str(known) != known.english:
                native = _MARGIN + max(1.1 if beside else 0, _room(f"{known.english} ", paper.size, bold=not beside))
                axis.text(native, base, known.native, color=MUTED, fontsize=paper.size)
            for power in powers:
                axis.plot([x_of(2**power)] * 2, [y + head, y + head + strip], color=FAINT, lw=0.8, zorder=1)
            axis.plot([x_of(min(row.values())), x_of(max(row.values()))], [middle, middle], color=FAINT, lw=3.5, zorder=1)
            if not beside:
                keys(numbers)
            for place, name in enumerate(names):
                colour, marker = _style(place)
                lane = middle + _LANE * (lanes[place] - max(lanes) / 2)
                axis.plot(x_of(row[name]), lane, marker, ms=6 if place else 8.5, mfc=colour, mec=PAPER, mew=0.9)
                look = {"color": MUTED} if place else {"color": INK, "weight": "bold"}
                axis.text(*place_of(place, numbers), f"{row[name]:.2f}", ha=side, fontsize=paper.size, **look)
            y += head + strip
        for power in powers:
            axis.text(x_of(2**power), y + line, f"{2**power}", ha="center", color=MUTED, fontsize=paper.size)
        y += 2 * line
        axis.text((left + right) / 2, y, "tokens per word", ha="center", color=MUTED, fontsize=paper.size)
        return svg("tokens-per-word", f"Tokens per word in {len(rows)} languages: {', '.join(names)}", y + _MARGIN)


def _lanes(places: Sequence[float]) -> list[int]:
    """For each of some markers in a row the lowest lane in which it touches none before it.

    >>> _lanes([1.0, 1.05, 2.0, 1.1])
    [0, 1, 0, 2]
    """
    lanes: list[int] = []
    for number, place in enumerate(places):
        taken = {lane for lane, other in zip(lanes, places[:number], strict=False) if abs(place - other) < _LANE}
        lanes.append(next(lane for lane in range(number + 1) if lane not in taken))
    return lanes


def token_lengths(lengths: Mapping[str, Mapping[int | None, int]], paper: Paper = WIDE) -> str:
    """How long the tokens of running text are: for each tokenizer the share of its tokens by their length in characters.

    Args:
        lengths: Name of a tokenizer → length in characters → number of tokens, with None for mere parts of a character.
    """
    bins = [None, *range(1, LONGEST + 1)]
    bar = paper.inner / (len(bins) + 0.6)
    shares = {name: _shares(counts) for name, counts in lengths.items()}
    most = max(share for row in shares.values() for share in row.values())
    line = 1.5 * paper.size / 72

    def x_of(place: int) -> float:
        return _MARGIN + bar * (place + 0.5 + 0.6 * (place > 0))

    with _canvas(paper) as (axis, svg):
        about = "Per cent of the tokens of all texts, by their length in characters. Hatched: only a part of one."
        y = _title(axis, paper, "Length of tokens", about)
        for place, (name, row) in enumerate(shares.items()):
            y = _legend(axis, paper, y, [name], place)
            # One scale for all, and for each as much room as its highest bar takes.
            y += line + 1.3 * max(row.values()) / most
            axis.plot([_MARGIN, paper.width - _MARGIN], [y, y], color=FAINT, lw=0.8)
            colour, _ = _style(place)
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
        return svg("token-lengths", f"Share of the tokens by length in characters: {', '.join(shares)}", y + _MARGIN)


def _percent(share: float) -> str:
    """A share in per cent, in three characters: thirteen of them stand side by side.

    >>> _percent(0.123), _percent(0.0123), _percent(0.0001), _percent(0)
    ('12', '1.2', '0.0', '0')
    """
    return f"{100 * share:.{0 if share >= 0.0995 or not share else 1}f}"


def _shares(counts: Mapping[int | None, int]) -> dict[int | None, float]:
    total = sum(counts.values())
    shares: dict[int | None, float] = dict.fromkeys([None, *range(1, LONGEST + 1)], 0.0)
    for length, count in counts.items():
        # A token of no character at all exists in some tokenizers: it stands for the start of a text.
        shares[length if length is None else min(max(length, 1), LONGEST)] += count / total
    return shares


def compression(
    curves: Mapping[str, Mapping[int, float]],
    baselines: Mapping[str, Mapping[str, tuple[int, float]]] | None = None,
    paper: Paper = WIDE,
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
    rung = next(rung for rung in (1, 2, 5, 10, 20, 50, 100) if highest / rung <= 4)
    columns = min(int(paper.inner / 1.8), len(curves))
    width, step = paper.inner / columns, 2.1
    line = 1.5 * paper.size / 72

    with _canvas(paper) as (axis, svg):
        points_are = " Points: baselines." if names else ""
        about = f"Up: bytes per token, more is better. Right: tokens in the vocabulary.{points_are}"
        top = _title(axis, paper, "Compression by vocabulary size", about)
        top = _legend(axis, paper, top, names, 1) + 0.25
        for number, (code, curve) in enumerate(curves.items()):
            corner = _MARGIN + width * (number % columns)
            left, right = corner + _room("88", paper.size) + 0.05, corner + width - 0.22
            head = top + step * (number // columns)
            floor = head + step - 2 * line

            def x_of(size: int, left: float = left, right: float = right) -> float:
                return left + (right - left) * (
                    log2(size / smallest) / log2(largest / smallest) if largest > smallest else 0.5
                )

            def y_of(value: float, floor: float = floor, head: float = head) -> float:
                return floor - (floor - head - 0.25) * value / highest

            known = language(code)
            number_room = _room("88.88 ", paper.size, bold=True)
            fits = _room(str(known), paper.size, bold=True) + number_room <= right - corner
            title = str(known) if fits else _shortened(known.english, right - corner - number_room, paper.size)
            axis.text(corner, head + 0.02, title, color=INK, fontsize=paper.size, weight="bold")
            for height in range(0, highest + 1, rung):
                axis.plot([left, right], [y_of(height)] * 2, color=FAINT, lw=0.8)
                axis.text(left - 0.05, y_of(height) + 0.04, f"{height}", ha="right", color=MUTED, fontsize=paper.size)
            for size in _ticks(smallest, largest):
                axis.text(x_of(size), floor + line, _in_thousands(size), ha="center", color=MUTED, fontsize=paper.size)
            axis.plot([*map(x_of, curve)], [*map(y_of, curve.values())], color=OURS, lw=1.8)
            size, value = list(curve.items())[-1]
            axis.plot(x_of(size), y_of(value), "o", ms=6, mfc=OURS, mec=PAPER, mew=0.8)
            axis.text(right, head + 0.02, f"{value:.2f}", ha="right", color=OURS, weight="bold", fontsize=paper.size)
            for place, name in enumerate(names, 1):
                if name in baselines.get(code, {}):
                    size, value = baselines[code][name]
                    colour, marker = _style(place)
                    # Hollow: where two are at one place, both are seen.
                    axis.plot(x_of(size), y_of(value), marker, ms=8, mfc="none", mec=colour, mew=1.5)
        bottom = top + step * ceil(len(curves) / columns)
        return svg(
            "compression",
            f"Bytes per token against the number of tokens in the vocabulary, in {len(curves)} languages",
            bottom,
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


def _room(text: str, size: float, *, bold: bool = False) -> float:
    """Inches that a text takes at most, in whatever font the reader's browser has."""
    return sum(map(_width, text)) * size / 72 * (1.15 if bold else 1)


def _width(character: str) -> float:
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf", "Mc"):
        return 0.5 if category == "Mc" else 0.0
    if character >= "\u0900" or character in "mwMW@%…":
        return 1.0
    return 0.4 if character in " .,:;!'|()[]-fijlt" else 0.72 if character.isupper() else 0.6


def _shortened(text: str, room: float, size: float) -> str:
    """A bold text, with its middle left out if it takes more room than there is."""
    short = text
    while _room(short, size, bold=True) > room and len(short) > 3:
        half = (len(short) - 2) // 2
        short = f"{text[:half]}…{text[len(text) - half :]}"
    return short


def _title(axis: Any, paper: Paper, title: str, about: str) -> float:
    """A title and, in as many lines as it takes, what it is about; returns where the next line stands."""
    y = 0.42
    size = min(15.0, 15.0 * paper.inner / _room(title, 15.0, bold=True))
    axis.text(_MARGIN, y, title, color=INK, weight="bold", fontsize=max(size, paper.size))
    # As many letters as fit into a line, in a sentence with its spaces and narrow letters.
    letters = int(paper.inner * 72 / (0.56 * paper.size))
    for part in textwrap.wrap(about, letters):
        y += 1.5 * paper.size / 72
        axis.text(_MARGIN, y, part, color=MUTED, fontsize=paper.size)
    return y + 2 * paper.size / 72


def _legend(axis: Any, paper: Paper, y: float, names: Sequence[str], first: int) -> float:
    """Markers and names of tokenizers, the first of which has the place ``first``; returns where the next line stands."""
    line = 1.6 * paper.size / 72
    x = _MARGIN
    for place, name in enumerate(names, first):
        colour, marker = _style(place)
        short = _shortened(name, paper.inner - 0.2, paper.size)
        room = 0.2 + _room(short, paper.size, bold=True)
        if x > _MARGIN and x + room > paper.width - _MARGIN:
            x, y = _MARGIN, y + line
        axis.plot(x + 0.07, y - 0.05, marker, ms=6.5, color=colour)
        axis.text(x + 0.2, y, short, color=colour, weight="bold", fontsize=paper.size)
        x += room + 0.15
    return y + line if names else y


@contextmanager
def _canvas(paper: Paper) -> Iterator[tuple[Any, Callable[[str, str, float], str]]]:
    """What draws on a paper, measured in inches from its upper left corner, and what cuts it at a height and makes it SVG.

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
        figure = Figure(facecolor=PAPER)
        FigureCanvasSVG(figure)
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set_axis_off()
        # What is drawn must not move the corners.
        axis.set_autoscale_on(False)
        axis.set_xlim(0, paper.width)

        def svg(name: str, description: str, height: float) -> str:
            figure.set_size_inches(paper.width, height)
            axis.set_ylim(height, 0)
            file = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(file, format="svg", facecolor=PAPER, metadata=nothing)
            return _tidy(file.getvalue(), name + paper.suffix, description)

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
