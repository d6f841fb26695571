"""How much shorter text gets by the number of new tokens of an extended tokenizer: the curve, as numbers and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, log2

from tqdm import tqdm

from hf_sgpe.errors import SGPEError
from hf_sgpe.extension import Extension
from hf_sgpe.quiet import bar_disabled
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.drawing import FAINT, INK, MARGIN, MUTED, WIDE, Paper, canvas, room_of, style_of
from hub_cards.languages import language

_POINTS = 8


@dataclass(frozen=True)
class ExtensionCurve:
    """Tokens per word by the number of new tokens.

    Attributes:
        sizes: Numbers of new tokens, 0 first.
        tokens_per_word: Code of a language → tokens per word at each of the sizes.
    """

    sizes: tuple[int, ...]
    tokens_per_word: Mapping[str, tuple[float, ...]]

    def to_dict(self) -> dict[str, object]:
        """All of it as JSON values."""
        values = {code: [round(value, 4) for value in row] for code, row in self.tokens_per_word.items()}
        return {"new_tokens": list(self.sizes), "tokens_per_word": values}

    def draw(self, paper: Paper = WIDE) -> str:
        """The picture, as SVG: a line for each language."""
        codes = list(self.tokens_per_word)
        values = [value for row in self.tokens_per_word.values() for value in row]
        least, most = min(1.0, *values), max(2.0, *values)
        last = self.sizes[-1]
        line = 1.5 * paper.size / 72
        names = [language(code).english for code in codes]
        left = MARGIN + room_of("88 ", paper.size)
        right = paper.width - MARGIN - max(room_of(f" 8.88 {name}", paper.size, bold=True) for name in names)
        with canvas(paper) as picture:
            axis = picture.axis
            about = "Fewer is better; the scale is logarithmic. Left: the tokenizer as it was."
            top = picture.title("Tokens per word by new tokens", about)
            floor = top + 3.2

            def x_of(size: int) -> float:
                return left + (right - left) * size / last

            def y_of(value: float) -> float:
                return floor - (floor - top) * log2(value / least) / log2(most / least)

            for power in range(ceil(log2(least)), int(log2(most)) + 1):
                height = 2.0**power
                axis.plot([left, right], [y_of(height)] * 2, color=FAINT, lw=0.8)
                axis.text(left - 0.08, y_of(height) + 0.04, f"{height:g}", ha="right", color=MUTED, fontsize=paper.size)
            for part in range(5):
                size = last * part // 4
                label = f"{size / 1000:.3g}k" if size >= 1000 else f"{size}"
                axis.text(x_of(size), floor + line, label, ha="center", color=MUTED, fontsize=paper.size)
            lowest = floor + line
            for place, code in sorted(enumerate(codes), key=lambda item: -self.tokens_per_word[item[1]][-1]):
                row = self.tokens_per_word[code]
                colour, marker = style_of(place)
                axis.plot([*map(x_of, self.sizes)], [*map(y_of, row)], color=colour, lw=1.8, marker=marker, ms=4.5)
            # Names from the bottom up, no two on one line.
            free = floor + line
            for place, code in sorted(enumerate(codes), key=lambda item: self.tokens_per_word[item[1]][-1]):
                y = min(y_of(self.tokens_per_word[code][-1]) + 0.05, free - line)
                free = y
                label = f"{self.tokens_per_word[code][-1]:.2f} {names[place]}"
                axis.text(right + 0.12, y, label, color=style_of(place)[0] if place < 6 else INK, fontsize=paper.size)
            about = f"Tokens per word against the number of new tokens, in {len(codes)} languages"
            return picture.svg("extension", about, lowest + MARGIN)


def extension_curve(
    extension: Extension, texts: Mapping[str, Iterable[str]], *, progress: bool | None = None
) -> ExtensionCurve:
    """Measures a tokenizer as it was, and with more and more of its new tokens, all from one run of learning.

    Args:
        texts: Code of a language → lines, which are read once.
        progress: Show a bar on stderr; None for only on a terminal.

    Raises:
        SGPEError: a text holds no word.
    """
    lines = {code: list(rows) for code, rows in texts.items()}
    words = {code: sum(len(line.split()) for line in rows) for code, rows in lines.items()}
    for code, number in words.items():
        if not number:
            raise SGPEError(f"the text in {language(code).english} holds no word to measure on")
    units, last = extension.unit_tokens, extension.new_tokens
    sizes = sorted({units, last, *(size for part in range(1, _POINTS) if (size := last * part // _POINTS) > units)})
    measured: dict[str, list[float]] = {code: [] for code in lines}
    with tqdm(total=len(sizes) + 1, desc="Measuring", disable=bar_disabled(progress), leave=False) as bar:
        for size in (0, *sizes):
            tokenizer = BPETokenizer.of(extension.at(size) if size else extension.base)
            for code, rows in lines.items():
                measured[code].append(len(tokenizer.encode_batch_to_numpy(rows)[0]) / words[code])
            bar.update()
    return ExtensionCurve((0, *sizes), {code: tuple(row) for code, row in measured.items()})
