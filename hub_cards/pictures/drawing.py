"""Pictures with bars, plot markers and lines, either inside a page or as separate SVG files.

Horizontal positions are in per cent of the available width, and vertical positions are in pixels. Therefore, a picture fits
windows of any width, and its text always has the same size. Text is not converted to outlines: the browser shapes it. The
same input produces the same bytes on every machine. Colour-blind readers can distinguish the colours, and each tokenizer
also has its own plot marker.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from hub_cards.markup import COLOURS, render

LINE = 18
"""Height of a line of text, in pixels."""
LEAST_WIDTH = 260
"""Width of a picture in the narrowest window."""
NUMBER = 62
"""Width of a number and its mark in a picture file."""

# A circle, a diamond, a square, triangles and a cross.
_MARKS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0",
    "M-4.5 0 0-4.5 4.5 0 0 4.5z",
    "M-3.7-3.7h7.4v7.4h-7.4z",
    "M0-4.2 4.2 3.6h-8.4z",
    "M0 4.2-4.2-3.6h8.4z",
    "M-1.5-4.2h3v2.7h2.7v3h-2.7v2.7h-3v-2.7h-2.7v-3h2.7z",
)
_MARGIN, _LABEL, _GAP = 16, 190, 16
_COLUMNS, _INNER = 3, 560
_LONGEST_LABEL, _LONGEST_NAME, _LONGEST_KEY = 27, 64, 22


def _look_of(place: int) -> int:
    """Return the index of the colour and plot marker of a tokenizer. From the seventh tokenizer on, they repeat."""
    return 1 + (place - 1) % (len(_MARKS) - 1) if place else 0


def colour_of(place: int) -> str:
    """Return the CSS class for the colour of the tokenizer at index ``place``."""
    return [*COLOURS][4 + _look_of(place)]


def line(x: float, y: float, to_x: float, to_y: float, look: str = "faint", width: float = 1) -> Markup:
    """Return the SVG of a straight line between two points."""
    shape = '<line class="{}" x1="{:.5g}%" y1="{:.5g}" x2="{:.5g}%" y2="{:.5g}" stroke-width="{}"/>'
    return Markup(shape).format(look, x, y, to_x, to_y, width)


def text(x: float, y: float, content: str, look: str = "muted", *, anchor: str = "start", dx: float = 0) -> Markup:
    """Return the SVG of one line of text with its baseline at ``y``."""
    shape = '<text class="text {}" x="{:.5g}%" y="{:.5g}" dx="{}" text-anchor="{}">{}</text>'
    return Markup(shape).format(look, x, y, dx, anchor, content)


def bar(x: float, y: float, width: float, height: float, look: str) -> Markup:
    """Return the SVG of a rectangle. ``x`` and ``width`` are in per cent."""
    shape = '<rect class="{}" x="{:.5g}%" y="{:.5g}" width="{:.5g}%" height="{:.5g}"/>'
    return Markup(shape).format(look, x, y, width, height)


def mark(place: int, x: float, y: float, look: str = "solid") -> Markup:
    """Return the SVG of the plot marker for the tokenizer at index ``place``."""
    shape = '<svg x="{:.5g}%" y="{:.5g}" overflow="visible"><path class="mark {} {}" d="{}"/></svg>'
    return Markup(shape).format(x, y, colour_of(place), look, _MARKS[_look_of(place)])


def curve(points: Iterable[tuple[float, float]], place: int) -> Markup:
    """Return the SVG of straight lines that connect the points, in the colour of the tokenizer at index ``place``."""
    return join(line(*a, *b, colour_of(place), 1.8) for a, b in pairwise(points))


def tick(x: float, y: float, label: str) -> Markup:
    """Return the SVG of a label for a scale, centred at ``x``. Near an edge, the label is moved inwards."""
    half = 1.4 * len(label)
    if x < half:
        return text(x, y, label, anchor="start")
    return text(x, y, label, anchor="end" if x > 100 - half else "middle")


join = Markup("").join


@dataclass(frozen=True)
class Row:
    """A row of a panel: shapes, with a label on the left and numbers on the right.

    Attributes:
        numbers: One formatted number for each tokenizer, in order.
        native: The name of the row's language in this language itself.
    """

    shapes: Markup
    height: float
    label: str = ""
    native: str = ""
    code: str = ""
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panel:
    """A part of a picture, with its own title and rows.

    Attributes:
        keys: Index and name of each tokenizer in the legend.
        value: The most important number, shown next to the title.
        is_small: Whether the panel is narrow, so that several panels fit side by side.
    """

    title: str = ""
    about: str = ""
    keys: tuple[tuple[int, str], ...] = ()
    rows: tuple[Row, ...] = ()
    value: str = ""
    is_small: bool = False

    @property
    def numbers(self) -> int:
        """The maximum number of values in a row."""
        return max((len(row.numbers) for row in self.rows), default=0)

    def _placed(self, width: float) -> tuple[Markup, float]:
        """Lay out the panel for a width in pixels. Return its shapes and its height in pixels."""
        y, parts = 0.0, []
        if self.title:
            y += 15
            parts.append(text(0, y, self.title, "ink bold" if self.is_small else "ink title"))
        if self.value:
            parts.append(text(100, y, self.value, "ours bold", anchor="end"))
        for part in textwrap.wrap(self.about, int(width / 6.5)):
            y += LINE
            parts.append(text(0, y, part))
        names = [(place, _shortened(name, _LONGEST_NAME)) for place, name in self.keys]
        columns = _COLUMNS if all(len(name) <= _LONGEST_KEY for _, name in names) else 1
        for number, (place, name) in enumerate(names):
            y += 1.3 * LINE if not number else LINE * (number % columns == 0)
            x = 100 * (number % columns) / columns
            parts.append(mark(place, x + 500 / width, y - 4))
            parts.append(text(x, y, name, f"{colour_of(place)} bold", dx=14))
        y += _GAP
        for row in self.rows:
            labels = _LABEL if self.numbers else 0
            inner = width - labels - (NUMBER * self.numbers + _GAP if self.numbers else 0)
            if row.label:
                label = f"{row.label} {row.native}" if row.native else row.label
                base = y + row.height / 2 + 4
                parts.append(text(0, base, label if len(label) <= _LONGEST_LABEL else row.label[:_LONGEST_LABEL], "ink"))
                for place, value in enumerate(row.numbers):
                    x = 100 - 100 * NUMBER * (self.numbers - 1 - place) / width
                    parts.append(text(x, base, value, "muted" if place else "ink bold", anchor="end"))
                    parts.append(mark(place, x - 4800 / width, base - 4))
            parts.append(_inside(labels, y, inner, row.height, row.shapes))
            y += row.height
        return join(parts), y


@dataclass(frozen=True)
class Picture:
    """A picture of one or more panels, with a description for readers who cannot see it."""

    panels: tuple[Panel, ...]
    description: str

    def svg(self) -> str:
        """Return the content of an SVG file."""
        numbers = max(panel.numbers for panel in self.panels)
        width = max(_INNER, (_LABEL + LEAST_WIDTH + _GAP + NUMBER * numbers) if numbers else 0)
        small = (width + _GAP) / _COLUMNS - _GAP
        parts, column = [], 0
        y = below = float(_MARGIN)
        for panel in self.panels:
            if column in (0, _COLUMNS):
                y, column = below, 0
            shapes, height = panel._placed(small if panel.is_small else width)
            x = _MARGIN + column * (small + _GAP)
            parts.append(_inside(x, y, small if panel.is_small else width, height, shapes))
            below = max(below, y + height + _GAP)
            column += panel.is_small
        size = {"width": width + 2 * _MARGIN, "height": round(below)}
        return render("picture.svg.jinja", shapes=join(parts), description=self.description, **size)


def _inside(x: float, y: float, width: float, height: float, shapes: Markup) -> Markup:
    shape = '<svg x="{:.5g}" y="{:.5g}" width="{:.5g}" height="{:.5g}" overflow="visible">{}</svg>'
    return Markup(shape).format(x, y, width, height, shapes)


def _shortened(name: str, most: int) -> str:
    """Return a name of at most ``most`` characters. In a longer name, the middle is replaced by …."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most // 2) + 1 :]}"
