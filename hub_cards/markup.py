"""Templates of cards and pages, and conversion of text to Markdown and HTML.

The text to convert may have code between backticks. It has no other markup.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hf_sgpe.evaluation.languages import letters_of
from hf_sgpe.package import __version__
from hf_sgpe.splitting.scripts.script_registry import every_script
from hf_sgpe.terminal.printing import CONTROL, visible

_CONTROL = re.compile(rf"(?:{CONTROL.pattern}|[\t\n])+")

as_json = partial(json.dumps, ensure_ascii=False)

COLOURS = {
    "ink": ("#1b2330", "#eceff4"),
    "muted": ("#5b6675", "#a3adba"),
    "faint": ("#dfe4ea", "#333b47"),
    "paper": ("#fffefc", "#181c22"),
    "ours": ("#0b5fc4", "#6cb0ff"),
    "baseline-1": ("#c2410c", "#ff9a62"),
    "baseline-2": ("#0f7b5f", "#55c9a5"),
    "baseline-3": ("#a3419a", "#e28fda"),
    "baseline-4": ("#8a6100", "#d9b24c"),
    "baseline-5": ("#56606d", "#a9b4c2"),
}
"""Colours for light mode and dark mode, keyed by name. The name is the CSS class of a shape and also a custom CSS property.
"""


def render(template: str, **values: Any) -> str:
    """Fill in a template from ``hub_cards/templates``."""
    return _environment().get_template(template).render(values)


def sentences(about: str, **values: Any) -> list[str]:
    """Return the lines of a macro in ``sentences.md.jinja``, which are Markdown."""
    return list(filter(None, render_macro("sentences.md.jinja", about, **values).split("\n")))


def render_macro(template: str, macro: str, **values: Any) -> str:
    return str(getattr(_environment().get_template(template).module, macro)(**values))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hub_cards"),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        # Vertical bars would end a cell of a Markdown table even inside code.
        "cell": lambda text: _CONTROL.sub(" ", text).replace("|", "\\|"),
        "plain": _plain,
        "inline": _inline,
        "block": _block,
        "visible": visible,
        "json": as_json,
        "code": code,
        "listed": listed,
        # "</script" would end a script element of HTML.
        "json_in_script": lambda value: Markup(as_json(value, separators=(",", ":")).replace("<", "\\u003c")),
    }
    environment.globals |= {"version": __version__, "font_stack": font_stack, "colours": COLOURS, "sentences": sentences}
    return environment


def font_stack(text: str) -> str:
    """Return a CSS list of font families: a Noto font for each script in the text, and common fonts in case Noto is missing.

    >>> font_stack("ශ්‍රී Lanka").partition(", system-ui")[0]
    "'Noto Sans', 'Noto Sans Sinhala'"
    """
    shown = "".join(sorted(set(text)))
    fonts = {name: f"'{script.font}'" for name, script in every_script().items() if letters_of((script,)).search(shown)}
    # The Japanese font comes before the Han font, because Japanese has its own forms of Han characters. The emoji font comes
    # last, because it also has digits.
    han, emoji = (([fonts.pop(name)] if name in fonts else []) for name in ("han", "emoji"))
    elsewhere = ("system-ui", "'Segoe UI'", "'Nirmala UI'", "'Helvetica Neue'", "Arial", "sans-serif")
    return ", ".join(dict.fromkeys(["'Noto Sans'", *fonts.values(), *han, *elsewhere, *emoji]))


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence, with commas and "and".

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', '')
    """
    *others, last = [*names] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def code(text: str) -> str:
    r"""Return text as Markdown code, between as many backticks as needed. Line breaks and control characters, which would
    end the code, are replaced by spaces.

    >>> code("a"), code("`a"), code("a\r\n<i>")
    ('`a`', '`` `a ``', '`a <i>`')
    """
    text = _CONTROL.sub(" ", text)
    ticks = "`" * (1 + _longest_run(text))
    return f"{ticks} {text} {ticks}" if len(ticks) > 1 else f"`{text}`"


def _block(text: str, language: str) -> str:
    """Return text as a Markdown code block, with a fence that is longer than any run of backticks in the text."""
    text = visible(text)
    fence = max(3, 1 + _longest_run(text)) * "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _plain(text: str) -> str:
    r"""Return text as one line in which all markup of Markdown and HTML is escaped.

    >>> print(_plain("a|b <i> *c*"))
    a\|b \<i\> \*c\*
    """
    return re.sub(r"([\\`*_\[\]<>|&~$])", r"\\\1", " ".join(text.split()))


def _inline(text: str) -> Markup:
    """Return text as HTML, with text between backticks as code.

    >>> str(_inline("x < `y`"))
    'x &lt; <code>y</code>'
    """
    return Markup(re.sub(r"(?<!`)(`+)(?!`)( ?)(.+?)\2\1(?!`)", r"<code>\3</code>", html.escape(text, quote=False)))
