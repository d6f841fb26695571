"""The number of tokens per word as a function of the number of new tokens in an extended tokenizer, as data and as a
picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, log2

from tqdm import tqdm

from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.languages import language
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.learning.extension.extending import Extension
from hf_sgpe.learning.extension.piece_extending import PieceExtension
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hub_cards.pictures.drawing import LINE, Panel, Picture, Row, colour_of, curve, join, line, mark, text
from hub_cards.pictures.plots import groups_by_unit, thousands

_POINTS = 8


@dataclass(frozen=True)
class ExtensionCurve:
    """Tokens per word, measured with increasing numbers of new tokens. In languages without spaces between words, tokens per
    character are measured.

    Attributes:
        sizes: Numbers of new tokens, in ascending order from 0.
        tokens_per_word: Tokens per word for each of the sizes, keyed by language code.
        tokens_per_character: The same for languages without spaces between words.
    """

    sizes: tuple[int, ...]
    tokens_per_word: Mapping[str, tuple[float, ...]]
    tokens_per_character: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return JSON values. ``tokens_per_character`` is left out if it is empty."""
        measured = {"tokens_per_word": self.tokens_per_word, "tokens_per_character": self.tokens_per_character}
        values: dict[str, object] = {"new_tokens": list(self.sizes)}
        for name, rows in measured.items():
            if rows or name == "tokens_per_word":
                values[name] = {code: [round(value, 4) for value in row] for code, row in rows.items()}
        return values

    def draw(self) -> str:
        """Return the picture as SVG: a curve for each language, with a separate scale for tokens per character."""
        groups = groups_by_unit(self.tokens_per_word, self.tokens_per_character)
        codes = [code for _, rows, _ in groups for code in rows]
        about = "Fewer is better; the scale is logarithmic. Left: the tokenizer as it was."
        panels = tuple(
            Panel(f"{what.capitalize()} by new tokens", about, rows=(self._lines(rows, low, codes),))
            for what, rows, low in groups
        )
        titles = " and ".join(what for what, *_ in groups).capitalize()
        return Picture(panels, f"{titles} against the number of new tokens, in {len(codes)} languages").svg()

    def _lines(self, rows: Mapping[str, tuple[float, ...]], low: float, codes: list[str]) -> Row:
        """Return a row with the scales and a curve for each language. Its index in ``codes`` determines its colour."""
        values = [value for row in rows.values() for value in row]
        least, most = min(low, *values), max(2 * low, *values)
        last, left, right, head, floor = self.sizes[-1], 6.0, 70.0, 8.0, max(240.0, LINE * len(rows))

        def x_of(size: float) -> float:
            return left + (right - left) * size / last

        def y_of(value: float) -> float:
            return floor - (floor - head) * log2(value / least) / log2(most / least)

        shapes = []
        for power in range(ceil(log2(least)), int(log2(most) // 1) + 1):
            y = y_of(2.0**power)
            shapes += [line(left, y, right, y), text(left - 1, y + 4, f"{2.0**power:g}", anchor="end")]
        for size in (last * part // 4 for part in range(5)):
            shapes.append(text(x_of(size), floor + LINE, thousands(size), anchor="middle"))
        # The names are placed from the bottom up, each on its own line.
        free = floor + LINE
        for code in sorted(rows, key=lambda code: rows[code][-1]):
            place = codes.index(code)
            points = [(x_of(size), y_of(cost)) for size, cost in zip(self.sizes, rows[code], strict=True)]
            free = min(points[-1][1] + 4, free - LINE)
            label = f"{rows[code][-1]:.2f} {language(code).english}"
            shapes += [curve(points, place), *(mark(place, *point) for point in points)]
            shapes.append(text(right + 2, free, label, colour_of(place) if place < 6 else "ink"))
        return Row(join(shapes), floor + 2 * LINE)


def extension_curve(extension: Extension | PieceExtension, texts: Mapping[str, Iterable[str]]) -> ExtensionCurve:
    """Measure tokens per word with the old tokenizer, and with the extended tokenizer at several numbers of its new tokens.

    Nothing is learned again: each smaller number uses the first of the new tokens.

    Args:
        texts: The lines of each text, keyed by language code. The lines are read once.
    """
    lines = {code: list(map(normalized, rows)) for code, rows in texts.items()}
    spaced = {code: language(code).spaced for code in lines}
    # The number of words or, in languages without spaces between words, of characters.
    units_of = {code: sum(len(words_of(line) if spaced[code] else line) for line in rows) for code, rows in lines.items()}
    for code, rows in lines.items():
        if not any(map(words_of, rows)):
            raise SGPEError(f"the {language(code).english} text has no words to measure")
    units, last = extension.unit_tokens, extension.new_tokens
    parts = (last * part // _POINTS for part in range(1, _POINTS))
    sizes = sorted({units, last, *(size for size in parts if size > units)})
    measured: dict[str, list[float]] = {code: [] for code in lines}
    with tqdm(total=len(sizes) + 1, desc="Measuring", disable=not somebody_watches(), leave=False) as bar:
        for size in (0, *sizes):
            tokenizer = extension.at(size) if size else extension.base
            for code, rows in lines.items():
                measured[code].append(_number_of_tokens(tokenizer, rows) / units_of[code])
            bar.update()
    words = {code: tuple(row) for code, row in measured.items() if spaced[code]}
    characters = {code: tuple(row) for code, row in measured.items() if not spaced[code]}
    return ExtensionCurve((0, *sizes), words, characters)


def _number_of_tokens(tokenizer: TokenizerData | PieceFolder, lines: list[str]) -> int:
    if isinstance(tokenizer, PieceFolder):
        return sum(map(len, tokenizer.encode_batch(lines)))
    return len(BPETokenizer.of(tokenizer).encode_batch_to_numpy(lines)[0])
