"""The parts of a text in a token view: tokens from any kind of tokenizer, syllables, and cells, which combine the two."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import regex

from hf_sgpe.corpora.measured_text import words_of
from hf_sgpe.evaluation.measurable import foreign_backend, read_tokenizer
from hf_sgpe.evaluation.metrics import Evaluation, count_unspaced
from hf_sgpe.splitting.normalization import well_formed
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.byte_strings import bytes_spelled

# Unicode's blocks for scripts that are written from right to left. hub_cards/playground/page/cells.js has the same blocks.
RIGHT_TO_LEFT = regex.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_CLUSTER = regex.compile(r"\X")
_WORD_START = regex.compile(r"(?<=\S)(?=[^\S\r\n])|(?<=\n)(?=[^\n])")
_LINE_START = regex.compile(r"(?<=\n)(?=[^\n])")


# ---------------------------------------------------------------- text → tokens


class Token(NamedTuple):
    """A token of a text, with its range of characters. The ranges of tokens that share a character overlap.

    Attributes:
        name: The token's vocabulary string.
        rank: Rank of the merge that produces the token, or None.
        hex: The bytes of the token in hexadecimal, if they are not whole characters; otherwise empty.
    """

    id: int
    name: str
    rank: int | None
    hex: str
    start: int
    stop: int


Reader = Callable[[str], tuple[str, list[Token]]]
"""A function that takes a text and returns the normal form and the tokens of the text."""


def reader(tokenizer: Any) -> Reader:
    """Return a `Reader` for a tokenizer of any kind that `hub_cards.TokenView` accepts."""
    known = read_tokenizer(tokenizer)
    return _byte_level(known) if isinstance(known, BPETokenizer) else _foreign(*known)


_ranks: WeakKeyDictionary[BPETokenizer, dict[bytes, int]] = WeakKeyDictionary()


def _byte_level(tokenizer: BPETokenizer) -> Reader:
    if tokenizer not in _ranks:
        _ranks[tokenizer] = {left + right: rank for rank, (left, right) in enumerate(tokenizer.merges)}
    ranks = _ranks[tokenizer]

    @cache
    def facts(id: int) -> tuple[str, int | None, str, int, int]:
        token = tokenizer.token_bytes(id)
        begun = sum(not _continues(byte) for byte in token)
        rank = ranks.get(token) if id == tokenizer.vocab.get(token) else None  # an added token may have the same text
        return tokenizer.convert_ids_to_tokens(id), rank, _hex(token), begun, _continues(token[0])

    def read(text: str) -> tuple[str, list[Token]]:
        tokens: list[Token] = []
        ids = tokenizer.encode(text)
        decoded = tokenizer.decode(ids)
        # If the tokenizer puts a space before the text, this space is part of the first token, but not of the text.
        reached = len(decoded) - sum(facts(id)[3] for id in ids)
        for id in ids:
            name, rank, hex, begun, shared = facts(id)
            tokens.append(Token(id, name, rank, hex, max(reached - shared, 0), max(reached + begun, 0)))
            reached += begun
        return decoded, tokens

    return read


def _continues(byte: int) -> bool:
    """Return whether a byte in UTF-8 is a later byte of a character, not the character's first byte."""
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
    added = {token["id"] for token in parts["added_tokens"]}

    def hex_of(id: int, name: str) -> str:
        if id in added:
            return ""
        if is_byte_level:
            return _hex(bytes_spelled(name) or name.encode())
        return _hex(bytes.fromhex(name[3:5]) if regex.fullmatch("<0x[0-9A-F]{2}>", name) else name.encode())

    def read(text: str) -> tuple[str, list[Token]]:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        return text, [
            Token(id, name, ranks.get(name), hex_of(id, name), *span)
            for id, name, span in zip(encoding.ids, encoding.tokens, encoding.offsets, strict=True)
        ]

    return read


# ---------------------------------------------------------------- tokens → cells


class _Run(NamedTuple):
    """A syllable, or text between syllables. ``is_cut`` tells whether a token begins or ends inside the syllable. It is None
    for text between syllables.
    """

    start: int
    stop: int
    is_cut: bool | None


class _Cell(NamedTuple):
    """The smallest part of a text that can be shown by itself: a token, several tokens that share characters, or characters
    without a token.

    Attributes:
        runs: The characters of the cell, divided where a syllable begins or ends.
        is_torn: Whether the cell begins or ends inside a sign: a browser would join its characters with characters next to
            the cell.
    """

    start: int
    stop: int
    tokens: list[Token]
    runs: list[_Run]
    is_torn: bool

    @property
    def is_shared(self) -> bool:
        """True if the cell has tokens that share characters, or a token without characters."""
        return len(self.tokens) > 1 or (len(self.tokens) == 1 and self.start == self.stop)


@dataclass
class TextInCells:
    """A text in the normal form of one tokenizer. ``syllables`` has the syllable of each character in one, by index."""

    text: str
    counts: Evaluation
    cells: list[_Cell]
    syllables: dict[int, _Run]

    def cut_by(self, token: Token) -> list[str]:
        """Return the text of the cut syllables to which the first or the last character of a token belongs."""
        touched = dict.fromkeys(self.syllables.get(place) for place in (token.start, token.stop - 1))
        return [self.text[run.start : run.stop] for run in touched if run and run.is_cut]


def in_cells(text: str, read: Reader) -> TextInCells:
    """Tokenize a text with ``read`` and divide it into cells. The counts are those of `hub_cards.evaluate`."""
    text, tokens = read(well_formed(text))
    words, unspaced = len(words_of(text)), count_unspaced(text)
    counts = Evaluation(lines=1, words=words, characters=len(text), unspaced=unspaced, tokens=len(tokens))
    trie, ends = _trie(tuple(SCRIPTS)), _ends(tokens)
    syllables: dict[int, _Run] = {}
    start = 0
    for unit in trie.tokenize(text):
        stop = start + len(unit)
        if trie.script_of(unit):
            is_cut = counts.add_syllable(trie.letters(unit), ends, 2 * start, 2 * stop, lambda letter: 2 * len(letter))
            syllables |= dict.fromkeys(range(start, stop), _Run(start, stop, is_cut))
        start = stop
    # Places where a cell can end. At other places, a browser would join both sides into one sign.
    joints = {0, len(text), *(cluster.start() for cluster in _CLUSTER.finditer(text))}
    joints -= {place for place, run in syllables.items() if run.is_cut and place > run.start}
    cells = [
        _Cell(start, stop, group, [*_runs(start, stop, syllables)], not joints.issuperset((start, stop)))
        for start, stop, group in _groups(len(text), tokens, syllables)
    ]
    return TextInCells(text, counts, cells, syllables)


def _runs(start: int, stop: int, syllables: Mapping[int, _Run]) -> Iterator[_Run]:
    """Divide a cell into syllables, or parts of them, and text between syllables."""
    while start < stop:
        run = syllables.get(start)
        end = run.stop if run else next((place for place in range(start, stop) if place in syllables), stop)
        yield _Run(start, min(end, stop), run.is_cut if run else None)
        start = end


@cache
def _trie(scripts: tuple[str, ...]) -> LinguisTrie:
    return LinguisTrie(scripts, whole_clusters=True)


def _ends(tokens: Sequence[Token]) -> list[int]:
    """Return the position at which each token ends, in half characters. A position inside a character is odd.

    >>> _ends([Token(1, "", None, "", 0, 2), Token(2, "", None, "", 1, 2)])
    [3, 4]
    """
    starts = [token.start for token in tokens[1:]] + [tokens[-1].stop] if tokens else []
    return [2 * token.stop - (start < token.stop) for token, start in zip(tokens, starts, strict=True)]


def _groups(length: int, tokens: Sequence[Token], syllables: Mapping[int, _Run]) -> Iterator[tuple[int, int, list[Token]]]:
    """Yield the start, the stop and the tokens of each part of a text that becomes a cell. A part has one token, several
    tokens that share characters, or no token.
    """
    stop = place = 0
    while place < len(tokens):
        start = max(stop, tokens[place].start)
        run = syllables.get(start)
        if run and not run.is_cut:
            # Some tokenizers drop characters. At the start of a whole syllable, dropped characters stay with the syllable.
            start = max(stop, run.start)
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


# ---------------------------------------------------------------- cells → columns


def columns(shown: Sequence[TextInCells]) -> Iterator[tuple[list[list[_Cell]], bool]]:
    """Divide the texts into columns of about one word each, so that the rows of several tokenizers can be shown below each
    other. Yield the cells of each tokenizer, and whether the line ends after the column.
    """
    cuts = _cuts(shown)
    rows = []
    for each, places in zip(shown, zip(*cuts, strict=True), strict=True):
        starts = [cell.start for cell in each.cells]
        edges = [bisect_left(starts, place) for place in places]
        rows.append([each.cells[first:after] for first, after in pairwise(edges)])
    for number, column in enumerate(zip(*rows, strict=True)):
        yield list(column), "\n" in shown[0].text[cuts[number][0] : cuts[number + 1][0]]


def _cuts(shown: Sequence[TextInCells]) -> list[tuple[int, ...]]:
    """Return the positions between columns in every tokenizer's text: where a word starts and all start a token."""
    # In text from right to left, a column is a whole line. The bidirectional algorithm treats a column as an object, so
    # columns of single words would be in the wrong order.
    edges = [_LINE_START if RIGHT_TO_LEFT.search(each.text) else _WORD_START for each in shown]
    starts = [[match.start() for match in edge.finditer(each.text)] for edge, each in zip(edges, shown, strict=True)]
    tokens = [{cell.start for cell in each.cells} for each in shown]
    # The texts may differ in their normal forms, so words are matched by number, not by place.
    alike = len(set(map(len, starts))) == 1
    cuts = [places for places in zip(*starts, strict=alike) if alike and all(map(set.__contains__, tokens, places))]
    return [(0,) * len(shown), *cuts, tuple(len(each.text) + 1 for each in shown)]
