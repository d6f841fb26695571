"""Seeing a text as tokens: each coloured, with its syllables underlined, and those marked that a token boundary cuts.

`TokenView` shows texts in a notebook or as a page, by several tokenizers under each other; `tokens_html` and `STYLE` are for
pages of one's own. All of it is plain HTML and CSS: no script, and nothing from elsewhere.
"""

from __future__ import annotations

import html
import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import regex

from hf_sgpe.byte_strings import string_to_bytes
from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.splitting.normalization import normalize
from hf_sgpe.splitting.scripts import SCRIPTS
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.metrics import Evaluation, foreign_backend


class TokenView:
    """Texts as tokens, by one or several tokenizers under each other. A notebook shows it by itself; `to_html` is a page.

    Each text stands in each tokenizer's own normal form, and special tokens are neither added nor recognised in it. What is
    counted is what `hub_cards.evaluate` counts in a text in NFC. Time and size grow linearly with the text.

    Args:
        texts: One text, or several.
        tokenizers: Name to show → a `BPETokenizer`, a fast tokenizer of transformers, one of ``tokenizers``, or a file,
            folder or Hub repository with a ``tokenizer.json``. Or one of those without a name.

    Raises:
        SGPEError: there is no text or no tokenizer, or a tokenizer cannot be read.
        TypeError: a text is not a string, or a tokenizer is none.

    >>> tokenizer = BPETokenizer.train_from_iterator(["ශ්‍රී ලංකාව"], 260)
    >>> TokenView("ශ්‍රී ලංකාව", {"mine": tokenizer})
    TokenView(1 text, tokenizers: mine)
    """

    def __init__(self, texts: str | Iterable[str], tokenizers: Mapping[str, Any] | Any) -> None:
        if isinstance(texts, (bytes, bytearray)):
            raise TypeError("expected texts, not bytes: decode them first")
        if isinstance(tokenizers, (list, tuple)):
            raise TypeError("several tokenizers need names: give a dictionary of them")
        if not isinstance(tokenizers, Mapping):
            tokenizers = {str(tokenizers) if isinstance(tokenizers, (str, os.PathLike)) else "tokenizer": tokenizers}
        self.texts = [texts] if isinstance(texts, str) else list(texts)
        for text in self.texts:
            if not isinstance(text, str):
                raise TypeError(f"expected texts, not {type(text).__name__}")
        if not self.texts or not tokenizers:
            raise SGPEError(f"no {'tokenizer' if self.texts else 'text'} to show: give at least one")
        self._readers = {normalize(str(name), "none"): _reader(tokenizer) for name, tokenizer in tokenizers.items()}

    def __repr__(self) -> str:
        texts = "1 text" if len(self.texts) == 1 else f"{len(self.texts):,} texts"
        return f"TokenView({texts}, tokenizers: {', '.join(self._readers)})"

    def _repr_html_(self) -> str:
        figures = "\n".join(map(self._figure, self.texts))
        return f'<div class="sgpe-view">\n<style>{STYLE}</style>\n{figures}\n{_LEGEND}\n</div>'

    def to_html(self) -> str:
        """The same as a whole page."""
        title = _escape(", ".join(self._readers))
        return _PAGE.format(title=title, view=self._repr_html_())

    def _figure(self, text: str) -> str:
        several = len(self._readers) > 1
        shown = [_show(text, read, name if several else "") for name, read in self._readers.items()]
        names = list(map(_escape, self._readers))
        counts = "\n".join(_count_row(name, one.counts) for name, one in zip(names, shown, strict=True))
        return (
            f'<figure>\n<p class="sgpe-source" dir="auto">{_escape(normalize(text, "none"))}</p>\n'
            f"<figcaption><table>\n{_COUNTS_HEAD}\n<tbody>\n{counts}\n</tbody>\n</table></figcaption>\n"
            f'<div class="sgpe-tokens" aria-hidden="true">{"".join(_columns(names, shown))}</div>\n</figure>'
        )


def tokens_html(text: str, tokenizer: Any) -> str:
    """One text as tokens of one tokenizer, without counts, for use inside a line. The page needs `STYLE` once.

    For many texts give a `BPETokenizer`: anything else is read anew each time.

    Args:
        tokenizer: As for `TokenView`.

    >>> tokens_html("a", BPETokenizer.train_from_iterator(["a"], 256)).count("data-tip")
    1
    """
    shown = _show(text, _reader(tokenizer))
    cells = "".join(cell.html for cell in shown.cells)
    return f'<span class="sgpe-tokens" role="img" aria-label="{_escape(shown.text)}">{cells}</span>'


# ---------------------------------------------------------------- text → tokens


class Token(NamedTuple):
    """A token of a text, and from where to where it reaches in characters: tokens that share a character overlap.

    Attributes:
        name: Its vocabulary string.
        rank: Of the merge that makes it; None where none does.
        hex: Its bytes, where they are not the text of whole characters.
    """

    id: int
    name: str
    rank: int | None
    hex: str
    start: int
    stop: int


Reader = Callable[[str], tuple[str, list[Token]]]
"""Text → its normal form and its tokens."""


def _reader(tokenizer: Any) -> Reader:
    from tokenizers import Tokenizer

    if isinstance(tokenizer, BPETokenizer):
        return _byte_level(tokenizer)
    if isinstance(tokenizer, (str, os.PathLike)):
        path = tokenizer_json.find(tokenizer)
        try:
            return _byte_level(tokenizer_json.read(path))
        except NotByteLevelError:
            return _foreign(path.read_text(encoding="utf-8"), str(path))
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise TypeError(f"expected a tokenizer, or where to find one, not {type(tokenizer).__name__}")
    content = backend.to_str()
    try:
        return _byte_level(tokenizer_json.from_dict(json.loads(content)))
    except NotByteLevelError:
        return _foreign(content, type(tokenizer).__name__)


_ranks: WeakKeyDictionary[BPETokenizer, dict[bytes, int]] = WeakKeyDictionary()


def _byte_level(tokenizer: BPETokenizer) -> Reader:
    if tokenizer not in _ranks:
        _ranks[tokenizer] = {left + right: rank for rank, (left, right) in enumerate(tokenizer.merges)}
    ranks = _ranks[tokenizer]

    @cache
    def facts(id: int) -> tuple[str, int | None, str, int, int]:
        token = tokenizer.token_bytes(id)
        begun = sum(not _continues(byte) for byte in token)
        return tokenizer.convert_ids_to_tokens(id), ranks.get(token), _hex(token), begun, _continues(token[0])

    def read(text: str) -> tuple[str, list[Token]]:
        tokens, reached = [], 0
        ids = tokenizer.encode(text)
        for id in ids:
            name, rank, hex, begun, shared = facts(id)
            tokens.append(Token(id, name, rank, hex, reached - shared, reached + begun))
            reached += begun
        return tokenizer.decode(ids), tokens

    return read


def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 goes on with a character that an earlier one began."""
    return byte & 0xC0 == 0x80


def _hex(token: bytes) -> str:
    try:
        token.decode()
    except UnicodeDecodeError:
        return token.hex(" ")
    return ""


def _foreign(content: str, where: str) -> Reader:
    tokenizer = foreign_backend(content, where)
    parts = json.loads(tokenizer.to_str())
    model = parts["model"]
    prefix = model.get("continuing_subword_prefix") or ""
    merges = model.get("merges", ())
    ranks = {left + right.removeprefix(prefix): rank for rank, (left, right) in enumerate(merges)}
    is_byte_level = (parts["decoder"] or {}).get("type") == "ByteLevel"

    def read(text: str) -> tuple[str, list[Token]]:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        return text, [
            Token(id, name, ranks.get(name), _hex(_bytes_of(name, is_byte_level)), *span)
            for id, name, span in zip(encoding.ids, encoding.tokens, encoding.offsets, strict=True)
        ]

    return read


def _bytes_of(name: str, is_byte_level: bool) -> bytes:
    if is_byte_level:
        try:
            return string_to_bytes(name)
        except NotByteLevelError:  # an added token
            return name.encode()
    return bytes.fromhex(name[3:5]) if regex.fullmatch("<0x[0-9A-F]{2}>", name) else name.encode()


# ---------------------------------------------------------------- tokens → cells


class Run(NamedTuple):
    """Characters of a text that are one syllable, cut or not, or between syllables: then ``is_cut`` is None."""

    start: int
    stop: int
    is_cut: bool | None


class Cell(NamedTuple):
    """The least that can be shown by itself: a token, several that share characters, or characters without a token."""

    start: int
    stop: int
    html: str


@dataclass
class Shown:
    """A text in one tokenizer's normal form, in cells; ``has_parts`` if tokens share characters in some."""

    text: str
    counts: Evaluation
    cells: list[Cell]
    has_parts: bool


def _show(text: str, read: Reader, name: str = "") -> Shown:
    text, tokens = read(normalize(text, "none"))
    counts, runs = _measure(text, tokens)
    syllables = {place: run for run in runs if run.is_cut is not None for place in range(run.start, run.stop)}
    groups = list(_groups(len(text), tokens, syllables))
    contents = _contents(text, runs, groups)
    # Elsewhere a browser would join what stands left and right of a boundary into one sign.
    joints = {0, len(text), *(cluster.start() for cluster in _CLUSTER.finditer(text))}
    joints -= {place for place, run in syllables.items() if run.is_cut and place > run.start}

    def tip(token: Token) -> str:
        lines = [token.name, f"id {token.id:,}" + ("" if token.rank is None else f" · rank {token.rank:,}")]
        lines += [f"bytes {token.hex}"] if token.hex else []
        touched = dict.fromkeys(syllables.get(place) for place in (token.start, token.stop - 1))
        lines += [f"cuts {_shortened(text[run.start : run.stop])}" for run in touched if run and run.is_cut]
        return _escape("\n".join([*lines, name] if name else lines))

    cells: list[Cell] = []
    number = 0
    for (start, stop, group), content in zip(groups, contents, strict=True):
        if len(group) == 1 and start < stop:
            content = f'<span class="sgpe-{number % _COLOURS}" data-tip="{tip(group[0])}">{content}</span>'
            if not joints.issuperset((start, stop)):
                content = _as_box("sgpe-torn", content, text[start:stop])
        elif group:
            parts = "".join(
                f'<span class="sgpe-{i % _COLOURS}" data-part="{_escape(token.hex or token.name)}"'
                f' data-tip="{tip(token)}"></span>'
                for i, token in enumerate(group, number)
            )
            content = _as_box("sgpe-shared", f"<span>{content}</span><span>{parts}</span>", text[start:stop])
        number += len(group)
        cells.append(Cell(start, stop, content))
    return Shown(text, counts, cells, any("sgpe-shared" in cell.html for cell in cells))


def _as_box(kind: str, content: str, text: str) -> str:
    box = f'<span class="{kind}">{content}</span>'
    # To the bidirectional algorithm a box is an object without a direction, whatever text stands in it.
    return f'<span class="sgpe-rtl">{box}</span>' if _RIGHT_TO_LEFT.search(text) else box


def _measure(text: str, tokens: Sequence[Token]) -> tuple[Evaluation, list[Run]]:
    """What `hub_cards.evaluate` counts, and the text in syllables and what is between them."""
    trie = _trie()
    ends = _ends(tokens)
    counts = Evaluation(lines=1, words=len(text.split()), tokens=len(tokens))
    runs: list[Run] = []
    start = 0
    for unit in trie.tokenize(text):
        stop = start + len(unit)
        if trie.script_of(unit):
            is_cut = counts.add_syllable(trie.letters(unit), ends, 2 * start, 2 * stop, lambda letter: 2 * len(letter))
            runs.append(Run(start, stop, is_cut))
        elif runs and runs[-1].is_cut is None:
            runs[-1] = runs[-1]._replace(stop=stop)
        else:
            runs.append(Run(start, stop, None))
        start = stop
    return counts, runs


@cache
def _trie() -> LinguisTrie:
    return LinguisTrie(SCRIPTS)


def _ends(tokens: Sequence[Token]) -> list[int]:
    """Where tokens end, in half characters: even between two characters, odd inside one.

    >>> _ends([Token(1, "", None, "", 0, 2), Token(2, "", None, "", 1, 2)])
    [3, 4]
    """
    starts = [token.start for token in tokens[1:]] + [tokens[-1].stop] if tokens else []
    return [2 * token.stop - (start < token.stop) for token, start in zip(tokens, starts, strict=True)]


Group = tuple[int, int, list[Token]]
"""From where to where, in characters, and the tokens that are there; without any, what belongs to no token."""


def _groups(length: int, tokens: Sequence[Token], syllables: Mapping[int, Run]) -> Iterator[Group]:
    """Cuts a text into tokens, tokens that share characters, and what belongs to none."""
    stop = place = 0
    while place < len(tokens):
        start = max(stop, tokens[place].start)
        run = syllables.get(start)
        if run and not run.is_cut:
            # Some tokenizers drop a character now and then: at the start of a whole syllable, it stays with that.
            start = max(stop, run.start) if start > run.start else start
        if start > stop:
            yield stop, start, []
        first, stop = place, max(start, tokens[place].stop)
        place += 1
        while place < len(tokens) and tokens[place].start < stop:
            stop = max(stop, tokens[place].stop)
            place += 1
        yield start, stop, list(tokens[first:place])
    if stop < length:
        yield stop, length, []


def _contents(text: str, runs: Sequence[Run], groups: Iterable[Group]) -> Iterator[str]:
    """The HTML of what stands in each group, without its tokens."""
    place = 0
    for start, stop, _ in groups:
        content = ""
        while place < len(runs) and runs[place].start < stop:
            run = runs[place]
            content += _run_html(text[max(run.start, start) : min(run.stop, stop)], run.is_cut)
            if run.stop > stop:
                break
            place += 1
        yield content


# ---------------------------------------------------------------- cells → HTML

_COLOURS = 4
_CLUSTER = regex.compile(r"\X")
# Joiners are shown where they join nothing in sight, accents get something to sit on where they have nothing
# and no script that would see to it.
_INVISIBLE = regex.compile(
    r"\s|\p{Cc}|^(?=\p{M})\p{sc=Zinh}|[\u00AD\u200B\u200E\u200F\u202A-\u202E\u2060-\u2069\uFEFF]|^[\u200C\u200D]|[\u200C\u200D]$"
)
_MARKS = {"\t": "→", "\n": "⏎", "\r": "␍", "\x7f": "␡", "\xa0": "⍽", "\u200c": "ZWNJ", "\u200d": "ZWJ"}


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


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _escape(text: str) -> str:
    """Text as HTML, also between quotes. No HTML can hold U+0000: it stands as ␀."""
    return html.escape(text.replace("\0", "␀")).replace("\r", "&#13;")


_WORD_START = regex.compile(r"(?<=\S)(?=[^\S\r\n])|(?<=\n)(?=[^\n])")
_LINE_START = regex.compile(r"(?<=\n)(?=[^\n])")
_RIGHT_TO_LEFT = regex.compile(r"[\p{bidi_class=R}\p{bidi_class=AL}]")


def _columns(names: Sequence[str], shown: Sequence[Shown]) -> Iterator[str]:
    """The text in columns of about a word, with a row for each tokenizer; of several, the first column has the names."""
    cuts = _cuts(shown)
    rows = [_between(one.cells, places) for one, places in zip(shown, zip(*cuts, strict=True), strict=True)]
    labels = [""] * len(names)
    if len(names) > 1:
        width = max(len(html.unescape(name)) for name in names) + 2
        labels = [f'<bdi class="sgpe-name" style="width:{width}ch">{name}</bdi>' for name in names]
    for number, column in enumerate(zip(*rows, strict=True)):
        yield '<span class="sgpe-column">'
        for one, label, content in zip(shown, labels, column, strict=True):
            height = " sgpe-high" if one.has_parts else ""
            yield f'<span class="sgpe-row{height}" dir="auto">{"" if number else label}{content}</span>'
        ends_line = "\n" in shown[0].text[cuts[number][0] : cuts[number + 1][0]]
        yield "</span><br>" if ends_line else "</span>"


def _cuts(shown: Sequence[Shown]) -> list[tuple[int, ...]]:
    """Where columns start, in the text of each tokenizer: where a word does, and a token of each of them."""
    # To the bidirectional algorithm a column is an object: words that run from right to left would change places.
    edges = [_LINE_START if _RIGHT_TO_LEFT.search(one.text) else _WORD_START for one in shown]
    starts = [[match.start() for match in edge.finditer(one.text)] for edge, one in zip(edges, shown, strict=True)]
    tokens = [{cell.start for cell in one.cells} for one in shown]
    # The texts may differ in their normal forms, so it is the words that correspond, not their places.
    alike = len(set(map(len, starts))) == 1
    cuts = [places for places in zip(*starts, strict=alike) if alike and all(map(set.__contains__, tokens, places))]
    return [(0,) * len(shown), *cuts, tuple(len(one.text) + 1 for one in shown)]


def _between(cells: Sequence[Cell], cuts: Sequence[int]) -> Iterator[str]:
    place = 0
    for stop in cuts[1:]:
        first = place
        while place < len(cells) and cells[place].start < stop:
            place += 1
        yield "".join(cell.html for cell in cells[first:place])


_COUNTS_HEAD = (
    '<thead><tr><th scope="col">tokenizer</th><th scope="col">tokens</th><th scope="col">words</th>'
    '<th scope="col">tokens per word</th><th scope="col">cut syllables</th><th scope="col">cut letters</th></tr></thead>'
)


def _count_row(name: str, counts: Evaluation) -> str:
    per_word = "–" if counts.tokens_per_word is None else f"{counts.tokens_per_word:.2f}"
    cells = [f"{counts.tokens:,}", f"{counts.words:,}", per_word]
    for cut, whole in ((counts.cut_syllables, counts.syllables), (counts.cut_letters, counts.letters)):
        cells.append(f"{cut:,} of {whole:,}" if whole else "–")
    return f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


_LEGEND = (
    '<p class="sgpe-legend"><span class="sgpe-tokens" aria-hidden="true"><span class="sgpe-0">to</span>'
    '<span class="sgpe-1">ken</span></span> tokens; point at one to see its vocabulary string, id and rank. '
    '<span class="sgpe-tokens" aria-hidden="true"><span class="sgpe-syllable">ක</span></span> a syllable, '
    '<span class="sgpe-tokens" aria-hidden="true"><span class="sgpe-cut">ක</span></span> one that a token boundary cuts. '
    '<span class="sgpe-tokens" aria-hidden="true"><span class="sgpe-shared"><span>é</span><span>'
    '<span class="sgpe-2" data-part="c3"></span><span class="sgpe-3" data-part="a9"></span></span></span></span> '
    "a character whose bytes are spread over several tokens.</p>"
)

STYLE = (files("hub_cards") / "templates" / "token_view.css").read_text(encoding="utf-8")
"""The CSS of `tokens_html`, for a page to hold once. It follows the page's ``color-scheme``: light, or dark."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Text as tokens: {title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ max-width: 72rem; margin: 0 auto; padding: 1rem; background: light-dark(#fff, #17181b) }}
</style>
</head>
<body>
<main>
{view}
</main>
</body>
</html>
"""
