"""Display of a text as coloured tokens, with syllables underlined and cut syllables marked.

`TokenView` shows texts in a notebook or on a page, with the tokens of several tokenizers below each other. To show tokens on
a page of your own, use `tokens_html` and `style`. The result is plain HTML and CSS, without scripts or external files.
"""

from __future__ import annotations

import html
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import regex
from markupsafe import Markup

from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.metrics import Evaluation
from hf_sgpe.splitting.normalization import well_formed
from hub_cards.markup import render
from hub_cards.token_views.token_cells import RIGHT_TO_LEFT, TextInCells, Token, columns, in_cells, reader

_COLOURS = 4
# Joiners are shown if they join nothing visible; accents without a base get a visible base.
_INVISIBLE = regex.compile(
    r"\s|\p{Cc}|^(?=\p{M})\p{sc=Zinh}|[\u00AD\u200B\u200E\u200F\u202A-\u202E\u2060-\u2069\uFEFF]|^[\u200C\u200D]|[\u200C\u200D]$"
)
_MARKS = {"\t": "→", "\n": "⏎", "\r": "␍", "\x7f": "␡", "\xa0": "⍽", "\u200c": "ZWNJ", "\u200d": "ZWJ"}


class TokenView:
    """A view of texts as tokens of one or more tokenizers. Notebooks display the view, and `to_html` returns it as a page.

    Each text is shown in each tokenizer's own normal form, without special tokens. The counts are those of
    `hub_cards.evaluate` for a text in NFC. Time and size grow linearly with the text.

    Args:
        texts: One text, or several.
        tokenizers: One tokenizer, or a dictionary of tokenizers, keyed by display name. A tokenizer is a `BPETokenizer`, a
            fast tokenizer of transformers, a tokenizer from the ``tokenizers`` package, or a file, folder or Hub repository
            with a ``tokenizer.json``.

    >>> from hf_sgpe import BPETokenizer
    >>> tokenizer = BPETokenizer.train_from_iterator(["ශ්‍රී ලංකාව"], 260)
    >>> TokenView("ශ්‍රී ලංකාව", {"mine": tokenizer})
    TokenView(1 text, tokenizers: mine)
    """

    def __init__(self, texts: str | Iterable[str], tokenizers: Mapping[str, Any] | Any) -> None:
        if isinstance(texts, (bytes, bytearray)):
            raise TypeError("texts must be strings, not bytes: decode the bytes first")
        if isinstance(tokenizers, (list, tuple)):
            raise TypeError("to show several tokenizers, give a dictionary of tokenizers, keyed by name")
        if not isinstance(tokenizers, Mapping):
            tokenizers = {str(tokenizers) if isinstance(tokenizers, (str, os.PathLike)) else "tokenizer": tokenizers}
        self.texts = [texts] if isinstance(texts, str) else list(texts)
        for text in self.texts:
            if not isinstance(text, str):
                raise TypeError(f"texts must be strings, not {type(text).__name__}")
        if not self.texts or not tokenizers:
            raise SGPEError(f"no {'tokenizer' if self.texts else 'text'} to show: give at least one")
        self._readers = {well_formed(str(name)): reader(tokenizer) for name, tokenizer in tokenizers.items()}

    def __repr__(self) -> str:
        texts = "1 text" if len(self.texts) == 1 else f"{len(self.texts):,} texts"
        return f"TokenView({texts}, tokenizers: {', '.join(self._readers)})"

    def _repr_html_(self) -> str:
        names = [Markup(_escape(name)) for name in self._readers]
        figures = [self._figure(text) for text in self.texts]
        return render("token_view.html.jinja", figures=figures, names=names, longest=max(map(len, self._readers)))

    def to_html(self) -> str:
        """Return the view as a complete HTML page."""
        title = Markup(_escape(", ".join(self._readers)))
        return render("token_view_page.html.jinja", title=title, view=Markup(self._repr_html_()))

    def _figure(self, text: str) -> dict[str, Any]:
        shown = {name: in_cells(text, read) for name, read in self._readers.items()}
        return {
            "source": Markup(_escape(well_formed(text))),
            "counts": [_count_row(each.counts) for each in shown.values()],
            "columns": Markup("".join(_columns(shown))),
        }


def style() -> str:
    """Return the CSS for `tokens_html`. The colours follow the ``color-scheme`` of the page, light or dark."""
    return render("token_view.css")


def tokens_html(text: str, tokenizer: Any) -> str:
    """Return inline HTML that shows one text as coloured tokens of one tokenizer. The page must include `style` once.

    For many texts, pass a `BPETokenizer`, because a tokenizer of any other kind is loaded again in each call.
    """
    shown = in_cells(text, reader(tokenizer))
    cells = "".join(_cells_html(shown))
    return f'<span class="sgpe-tokens" role="img" aria-label="{_escape(shown.text)}">{cells}</span>'


def _columns(shown: Mapping[str, TextInCells]) -> Iterator[str]:
    """Yield the HTML of each column of a text. Rows of several tokenizers have names, because long lines wrap."""
    several = len(shown) > 1
    labels = [f' data-name="{_escape(name)}"' if several else "" for name in shown]
    heights = [" sgpe-high" if any(cell.is_shared for cell in each.cells) else "" for each in shown.values()]
    rows = [_cells_html(each, name if several else "") for name, each in shown.items()]
    for column, ends_line in columns([*shown.values()]):
        yield '<span class="sgpe-column">'
        for label, height, row, cells in zip(labels, heights, rows, column, strict=True):
            yield f'<span class="sgpe-row{height}" dir="auto"{label}>{"".join(next(row) for _ in cells)}</span>'
        yield "</span><br>" if ends_line else "</span>"


def _cells_html(shown: TextInCells, name: str = "") -> Iterator[str]:
    """Yield the HTML of each cell. ``name`` is the name of the tokenizer, or empty if there is only one tokenizer."""
    numbers = count()

    def token_html(token: Token, kind: str, content: str) -> str:
        lines = [token.name, f"id {token.id:,}" + ("" if token.rank is None else f" · rank {token.rank:,}")]
        lines += [f"bytes {token.hex}"] if token.hex else []
        lines += [f"cuts {syllable[:40]}{'…' * (len(syllable) > 40)}" for syllable in shown.cut_by(token)]
        tip = _escape("\n".join([*lines, name] if name else lines))
        return f'<span class="sgpe-{next(numbers) % _COLOURS}"{kind} data-tip="{tip}">{content}</span>'

    for cell in shown.cells:
        text = shown.text[cell.start : cell.stop]
        content = "".join(_run_html(shown.text[run.start : run.stop], run.is_cut) for run in cell.runs)
        if cell.is_shared:
            parts = [token_html(token, f' data-part="{_escape(token.hex or token.name)}"', "") for token in cell.tokens]
            content = _as_box("sgpe-shared", f"<span>{content}</span><span>{''.join(parts)}</span>", text)
        elif cell.tokens:
            content = token_html(cell.tokens[0], "", content)
            content = _as_box("sgpe-torn", content, text) if cell.is_torn else content
        yield content


def _as_box(kind: str, content: str, text: str) -> str:
    box = f'<span class="{kind}">{content}</span>'
    # The bidirectional algorithm treats a box as an object without a direction, whatever text it contains.
    return f'<span class="sgpe-rtl">{box}</span>' if RIGHT_TO_LEFT.search(text) else box


def _run_html(text: str, is_cut: bool | None) -> str:
    if is_cut is False:
        return f'<span class="sgpe-syllable">{_escape(text)}</span>'
    content, place = "", 0
    for match in _INVISIBLE.finditer(text):
        content += _escape(text[place : match.start()]) + _mark(match.group())
        place = match.end()
    content += _escape(text[place:])
    return f'<span class="sgpe-cut">{content}</span>' if is_cut else content


def _mark(character: str) -> str:
    if character == " ":
        return '<span class="sgpe-space"> </span>'
    if unicodedata.category(character).startswith("M"):
        return f'<span class="sgpe-accent">{character}</span>'
    mark = _MARKS.get(character) or (chr(0x2400 + ord(character)) if character < " " else f"{ord(character):04X}")
    kind = "joiner" if character in "\u200c\u200d" else "invisible"
    return f'<span class="sgpe-{kind}" data-mark="{mark}">{_escape(character)}</span>'


def _escape(text: str) -> str:
    """Return text escaped for HTML, including attributes. U+0000 becomes ␀, because HTML cannot contain U+0000."""
    return html.escape(text.replace("\0", "␀")).replace("\r", "&#13;")


def _count_row(counts: Evaluation) -> list[str]:
    per_word = "–" if counts.tokens_per_word is None else f"{counts.tokens_per_word:.2f}"
    cuts = ((counts.cut_syllables, counts.syllables), (counts.cut_letters, counts.letters))
    words = f"{counts.words:,}" if counts.has_spaces() else "–"
    return [f"{counts.tokens:,}", words, per_word] + [f"{cut:,} of {whole:,}" if whole else "–" for cut, whole in cuts]
