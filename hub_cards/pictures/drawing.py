"""Draws on paper measured in inches, and writes it as SVG with its text as text, which the reader's browser shapes.

The same input gives the same bytes on every machine: places are worked out with the font that comes with matplotlib, and no
date or random name is written. Colour-blind readers can tell the colours apart too, and each tokenizer has its own marker.
"""

from __future__ import annotations

import html
import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hf_sgpe.errors import not_installed
from hub_cards.markup import font_stack

INK, MUTED, FAINT, PAPER = "#1b2330", "#5b6675", "#dfe4ea", "#fffefc"
OURS, BASELINES = "#0b5fc4", ("#c2410c", "#0f7b5f", "#a3419a", "#8a6100", "#56606d")
COLOURS = {INK: "ink", MUTED: "muted", FAINT: "faint", PAPER: "paper", OURS: "ours"}
COLOURS |= {colour: f"baseline-{number}" for number, colour in enumerate(BASELINES, 1)}
"""Colour → the custom property of CSS that takes its place in a page (`for_page`)."""

MARGIN = 0.25
_MARKERS = "Ds^vP"
_FONT = "DejaVu Sans"


class Paper(NamedTuple):
    """What a picture is drawn on.

    Attributes:
        suffix: Ending of the names of a picture's parts, so that pictures on several papers can stand in one page.
        width: In inches.
        size: Of labels, the smallest text, in points.
    """

    suffix: str
    width: float
    size: float

    @property
    def inner(self) -> float:
        """The width between the margins."""
        return self.width - 2 * MARGIN


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


def style_of(place: int) -> tuple[str, str]:
    """Returns colour and marker of a tokenizer by its place; there are five for baselines, and more share them."""
    other = (place - 1) % len(BASELINES)
    return (BASELINES[other], _MARKERS[other]) if place else (OURS, "o")


def room_of(text: str, size: float, *, bold: bool = False) -> float:
    """Returns how many inches a text takes at most, whatever font the reader's browser has."""
    return sum(map(_width, text)) * size / 72 * (1.15 if bold else 1)


def _width(character: str) -> float:
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf", "Mc"):
        return 0.5 if category == "Mc" else 0.0
    if character >= "\u0900" or character in "mwMW@%…":
        return 1.0
    return 0.4 if character in " .,:;!'|()[]-fijlt" else 0.72 if character.isupper() else 0.6


def shortened(text: str, room: float, size: float) -> str:
    """Returns a bold text, with its middle left out if it needs more room than there is."""
    short = text
    while room_of(short, size, bold=True) > room and len(short) > 3:
        half = (len(short) - 2) // 2
        short = f"{text[:half]}…{text[len(text) - half :]}"
    return short


class Canvas(NamedTuple):
    """What a picture is drawn with: matplotlib's axis, measured in inches from the upper left corner of the paper."""

    paper: Paper
    axis: Any

    def title(self, title: str, about: str, y: float = 0.42) -> float:
        """Draws a title and, in as many lines as needed, what it is about; returns where the next line stands."""
        paper = self.paper
        size = min(15.0, 15.0 * paper.inner / room_of(title, 15.0, bold=True))
        self.axis.text(MARGIN, y, title, color=INK, weight="bold", fontsize=max(size, paper.size))
        # As many letters as fit into a line, in a sentence with its spaces and narrow letters.
        letters = int(paper.inner * 72 / (0.56 * paper.size))
        for part in textwrap.wrap(about, letters):
            y += 1.5 * paper.size / 72
            self.axis.text(MARGIN, y, part, color=MUTED, fontsize=paper.size)
        return y + 2 * paper.size / 72

    def legend(self, y: float, names: Sequence[str], first: int) -> float:
        """Draws markers and names of tokenizers, beginning with place ``first``; returns where the next line stands."""
        x, paper = MARGIN, self.paper
        line = 1.6 * paper.size / 72
        for place, name in enumerate(names, first):
            colour, marker = style_of(place)
            short = shortened(name, paper.inner - 0.2, paper.size)
            room = 0.2 + room_of(short, paper.size, bold=True)
            if x > MARGIN and x + room > paper.width - MARGIN:
                x, y = MARGIN, y + line
            self.axis.plot(x + 0.07, y - 0.05, marker, ms=6.5, color=colour)
            self.axis.text(x + 0.2, y, short, color=colour, weight="bold", fontsize=paper.size)
            x += room + 0.15
        return y + line if names else y

    def svg(self, name: str, description: str, height: float) -> str:
        """Returns the picture, cut off at a height."""
        self.axis.figure.set_size_inches(self.paper.width, height)
        self.axis.set_ylim(height, 0)
        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        self.axis.figure.savefig(file, format="svg", facecolor=PAPER, metadata=nothing)
        return _tidy(file.getvalue(), name + self.paper.suffix, description)


@contextmanager
def canvas(paper: Paper) -> Iterator[Canvas]:
    """A canvas of its own: matplotlib's global state is changed only while the block runs."""
    check_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": "hf_sgpe", "font.family": _FONT, "text.parse_math": False}
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever the machine's own settings are
        matplotlib.rcParams.update(settings | {"hatch.linewidth": 0.8})
        # It is the reader's browser that needs the glyphs.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = Figure(facecolor=PAPER)
        FigureCanvasSVG(figure)
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set_axis_off()
        # What is drawn must not move the corners.
        axis.set_autoscale_on(False)
        axis.set_xlim(0, paper.width)
        yield Canvas(paper, axis)


def _tidy(svg: str, name: str, description: str) -> str:
    """Makes matplotlib's SVG fit to stand beside others in one page: its names are its own, and nothing is loaded."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r' xmlns:xlink="[^"]*"| version="1.1"', "", svg)
    # Only what is referred to keeps a name, with the picture's name before it.
    svg = svg.replace('xlink:href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if f"{name}-{match[1]}" in used else "", svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", svg).replace(f"'{_FONT}'", font_stack(svg))
    root = f'<svg role="img" aria-label="{html.escape(description)}" stroke-linejoin="round" stroke-linecap="butt" '
    return svg.replace("<svg ", root, 1)


def for_page(svg: str) -> str:
    """Returns a picture for a page: as wide as its place, in the colours of the page (`COLOURS`).

    >>> for_page('<svg width="9pt" height="9pt"><path style="fill: #0b5fc4"/></svg>')
    '<svg><path style="fill: var(--ours)"/></svg>'
    """
    for colour, name in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
