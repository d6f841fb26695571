"""How much shorter text gets by the number of new tokens of an extended tokenizer: the curve, as numbers and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, log2

from tqdm import tqdm

from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.languages import language
from hf_sgpe.learning.extension.extending import Extension
from hf_sgpe.terminal.progress import bar_disabled
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.pictures.drawing import FAINT, INK, MARGIN, MUTED, WIDE, Paper, canvas, room_of, style_of

_POINTS = 8


@dataclass(frozen=True)
class ExtensionCurve:
    """Tokens per word by the number of new tokens, and per character in languages without spaces between words.

    Attributes:
        sizes: Numbers of new tokens, 0 first.
        tokens_per_word: Code of a language → tokens per word at each of the sizes.
        tokens_per_character: The same per character, of the languages that have no words to count.
    """

    sizes: tuple[int, ...]
    tokens_per_word: Mapping[str, tuple[float, ...]]
    tokens_per_character: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """All of it as JSON values; languages without spaces only if there are any."""
        values = {
            name: {code: [round(value, 4) for value in row] for code, row in rows.items()}
            for name, rows in (
                ("tokens_per_word", self.tokens_per_word),
                ("tokens_per_character", self.tokens_per_character),
            )
        }
        if not self.tokens_per_character:
            del values["tokens_per_character"]
        return {"new_tokens": list(self.sizes), **values}

    def draw(self, paper: Paper = WIDE) -> str:
        """The picture, as SVG: a line for each language, with a scale of its own for those without spaces."""
        panels = [("tokens per word", self.tokens_per_word, 1.0), ("tokens per character", self.tokens_per_character, 0.5)]
        panels = [panel for panel in panels if panel[1]]
        codes = [code for _, rows, _ in panels for code in rows]
        names = {code: language(code).english for code in codes}
        last = self.sizes[-1]
        line = 1.5 * paper.size / 72
        widest = max(room_of(f" 8.88 {name}", paper.size, bold=True) for name in names.values())
        left, right = MARGIN + room_of("8.88 ", paper.size), paper.width - MARGIN - widest

        def x_of(size: int) -> float:
            return left + (right - left) * size / last

        with canvas(paper) as picture:
            axis = picture.axis
            styles = {code: style_of(place) for place, code in enumerate(codes)}

            def panel(top: float, rows: Mapping[str, tuple[float, ...]], low: float) -> float:
                """Draws the lines of some languages, and the scales; returns where the next line stands."""
                values = [value for row in rows.values() for value in row]
                least, most = min(low, *values), max(2 * low, *values)
                floor = top + 3.2

                def y_of(value: float) -> float:
                    return floor - (floor - top) * log2(value / least) / log2(most / least)

                for power in range(ceil(log2(least)), int(log2(most) // 1) + 1):
                    height = 2.0**power
                    axis.plot([left, right], [y_of(height)] * 2, color=FAINT, lw=0.8)
                    axis.text(left - 0.08, y_of(height) + 0.04, f"{height:g}", ha="right", color=MUTED, fontsize=paper.size)
                for part in range(5):
                    size = last * part // 4
                    label = f"{size / 1000:.3g}k" if size >= 1000 else f"{size}"
                    axis.text(x_of(size), floor + line, label, ha="center", color=MUTED, fontsize=paper.size)
                for code in sorted(rows, key=lambda code: -rows[code][-1]):
                    colour, marker = styles[code]
                    axis.plot(
                        [*map(x_of, self.sizes)], [*map(y_of, rows[code])], color=colour, lw=1.8, marker=marker, ms=4.5
                    )
                # Names from the bottom up, no two on one line.
                free = floor + line
                for code in sorted(rows, key=lambda code: rows[code][-1]):
                    y = min(y_of(rows[code][-1]) + 0.05, free - line)
                    free = y
                    label = f"{rows[code][-1]:.2f} {names[code]}"
                    colour = styles[code][0] if codes.index(code) < 6 else INK
                    axis.text(right + 0.12, y, label, color=colour, fontsize=paper.size)
                return floor + line

            y = -0.13
            for what, rows, low in panels:
                about = "Fewer is better; the scale is logarithmic. Left: the tokenizer as it was."
                y = panel(picture.title(f"{what.capitalize()} by new tokens", about, y + 0.55), rows, low)
            titles = " and ".join(what for what, *_ in panels).capitalize()
            about = f"{titles} against the number of new tokens, in {len(codes)} languages"
            return picture.svg("extension", about, y + MARGIN)


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
    lines = {code: list(map(normalized, rows)) for code, rows in texts.items()}
    spaced = {code: language(code).spaced for code in lines}
    # What tokens are counted by: words, or characters where words have no spaces between them.
    units_of = {code: sum(len(words_of(line) if spaced[code] else line) for line in rows) for code, rows in lines.items()}
    for code, rows in lines.items():
        if not any(map(words_of, rows)):
            raise SGPEError(f"the text in {language(code).english} holds no word to measure on")
    units, last = extension.unit_tokens, extension.new_tokens
    sizes = sorted({units, last, *(size for part in range(1, _POINTS) if (size := last * part // _POINTS) > units)})
    measured: dict[str, list[float]] = {code: [] for code in lines}
    with tqdm(total=len(sizes) + 1, desc="Measuring", disable=bar_disabled(progress), leave=False) as bar:
        for size in (0, *sizes):
            tokenizer = BPETokenizer.of(extension.at(size) if size else extension.base)
            for code, rows in lines.items():
                measured[code].append(len(tokenizer.encode_batch_to_numpy(rows)[0]) / units_of[code])
            bar.update()
    words, characters = (
        {code: tuple(row) for code, row in measured.items() if spaced[code] == by_words} for by_words in (True, False)
    )
    return ExtensionCurve((0, *sizes), words, characters)
