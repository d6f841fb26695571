"""Conversion of the tokens of an answer to pieces of text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from typing import Literal

from hf_sgpe.generation.engines.engine import ScoredToken
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.pieces import Piece, PlacedMark, PlacedToken
from hf_sgpe.generation.stop_texts import until_stop
from hf_sgpe.splitting.streams import whole_letters


def answer_pieces(
    tokens: Iterator[int | ScoredToken],
    decode: Callable[..., Iterator[str]],
    options: GenerationOptions,
    stop_ids: Collection[int],
    is_over: Callable[[], bool],
    marks: Mapping[int, str],
    length: int = 0,
    reused: Callable[[], int] = lambda: 0,
) -> Iterator[Piece]:
    """Convert the tokens of an answer to text, and yield this text piece by piece. The last piece has the finish reason.

    Args:
        tokens: The tokens of the answer. The last token may be a stop token, which has no text.
        decode: Function that takes an iterator of ids, and yields their text piece by piece. The argument ``continues=True``
            means that the ids continue an earlier text.
        is_over: Function that is called before each token. The answer ends when the function returns True.
        marks: Texts of the tokens that are reported in `Piece.marks` instead of being shown, keyed by id.
        length: Number of characters before the answer, which the positions of tokens include.
        reused: Function that returns the value of `Piece.reused`. It is called after the first token.
    """
    placed: deque[PlacedToken] = deque()
    marked: deque[PlacedMark] = deque()
    generated, shown = 0, length
    is_cut = True
    has_more = True

    def arriving() -> Generator[int | None, None, None]:
        nonlocal generated, is_cut
        with closing(tokens):  # type: ignore[type-var]
            while not is_over() and (token := next(tokens, None)) is not None:
                if isinstance(token, ScoredToken):
                    placed.append(PlacedToken(token, length))
                    token = token.id
                if token in stop_ids:
                    break
                generated += 1
                if token in marks:
                    yield None
                    marked.append(PlacedMark(marks[token], length))
                else:
                    yield token
        is_cut = False

    def up_to_mark(ids: Iterator[int | None]) -> Iterator[int]:
        nonlocal has_more
        for id in ids:
            if id is None:
                return
            yield id
        has_more = False

    def texts() -> Iterator[str]:
        nonlocal length
        with closing(arriving()) as ids:
            continued: dict[str, bool] = {}
            while has_more:  # no character has bytes from before and after a mark
                for text in decode(up_to_mark(ids), **continued):
                    length += len(text)
                    yield text
                continued = {"continues": True}

    answer = until_stop(texts(), options.stop, lambda: generated > options.min_new_tokens)
    for text in whole_letters(answer) if options.whole_syllables else answer:
        shown += len(text)
        begun = [placed.popleft() for _ in range(sum(token.place < shown for token in placed))]
        passed = [marked.popleft() for _ in range(sum(mark.place < shown for mark in marked))]
        yield Piece(text, generated, tokens=tuple(begun), marks=tuple(passed), reused=reused())
    ran_out = not is_cut and generated >= options.max_new_tokens
    finish_reason: Literal["stop", "length"] = "length" if ran_out else "stop"
    rest = () if is_cut else tuple(placed)
    passed = [mark for mark in marked if mark.place <= shown]  # without marks inside a stop text
    yield Piece("", generated, finish_reason, rest, tuple(passed), reused=reused())
