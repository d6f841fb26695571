"""Results of generation and scoring: pieces of an answer with their tokens, progress, and scores of texts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from math import fsum, log
from typing import Literal, NamedTuple, TypeVar

from hf_sgpe.chat.tool_calls import CallPart
from hf_sgpe.generation.engines.engine import ScoredToken
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.stop_texts import until_stop
from hf_sgpe.splitting.streams import whole_letters


@dataclass
class Progress:
    """The progress of a generation.

    Attributes:
        tokens: Number of generated tokens, without a stop token.
        first: Seconds until the first token, which is the time spent on the prompt. None before that.
        seconds: Seconds from the start to the last token.
    """

    prompt_tokens: int
    tokens: int = 0
    first: float | None = None
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens per second, not counting the time spent on the prompt."""
        spent = self.seconds - (self.first or 0.0)
        return (self.tokens - 1) / spent if self.tokens > 1 and spent > 0 else 0.0


class PlacedToken(NamedTuple):
    """A token of an answer with its log-probability and position.

    Attributes:
        place: Number of characters of the answer before the token, or before the character of which the token is a part.
    """

    token: ScoredToken
    place: int


class _PlacedMark(NamedTuple):
    """A control token of an answer, whose text is not shown in the answer but reported separately.

    Attributes:
        place: Number of characters of the answer before the token.
    """

    text: str
    place: int


Placed = TypeVar("Placed", PlacedToken, _PlacedMark)


class Piece(NamedTuple):
    """A part of an answer, in the order of generation.

    Attributes:
        text: Whole characters; empty in the last piece.
        generated: Number of tokens generated so far, including the tokens of a stop text.
        finish_reason: In the last piece, the reason why the answer ended; otherwise None. ``stop`` means a stop token or
            stop text. ``length`` means that ``max_new_tokens`` or the end of the context was reached. ``tool_calls`` means
            that the answer has tool calls and was not cut off.
        tokens: The tokens whose text begins in this piece, if they were requested. Tokens of a stop text are in no piece.
        marks: The control tokens in or before this piece. They are not shown in ``text``.
        calls: Parts of tool calls, if the answer is searched for tool calls.
        reasoning: A part of the model's reasoning, if the reader of the answer separates the reasoning.
        reused: Number of tokens of the prompt whose keys and values were kept from an earlier text.
    """

    text: str
    generated: int
    finish_reason: Literal["stop", "length", "tool_calls"] | None = None
    tokens: tuple[PlacedToken, ...] = ()
    marks: tuple[_PlacedMark, ...] = ()
    calls: tuple[CallPart, ...] = ()
    reasoning: str = ""
    reused: int = 0


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
        decode: Function from an iterator of ids to pieces of text. ``continues=True``: the ids continue an earlier text.
        is_over: See `hf_sgpe.generation.text_generator.TextGenerator.pieces`, also for ``marks``.
        length: Number of characters before the answer, which the positions of tokens include.
        reused: Function that returns the value of `Piece.reused`. It is called after the first token.
    """
    placed: deque[PlacedToken] = deque()
    marked: deque[_PlacedMark] = deque()
    generated, shown = 0, length
    is_cut = True

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
                    marked.append(_PlacedMark(marks[token], length))
                else:
                    yield token
        is_cut = False

    def texts() -> Iterator[str]:
        nonlocal length
        with closing(arriving()) as ids:
            continued: dict[str, bool] = {}
            while is_cut:  # no character has bytes from before and after a mark
                for text in decode(takewhile(lambda id: id is not None, ids), **continued):
                    length += len(text)
                    yield text
                continued = {"continues": True}

    answer = until_stop(texts(), options.stop, lambda: generated > options.min_new_tokens)
    for text in whole_letters(answer) if options.whole_syllables else answer:
        shown += len(text)
        yield Piece(text, generated, tokens=_before(shown, placed), marks=_before(shown, marked), reused=reused())
    ran_out = not is_cut and generated >= options.max_new_tokens
    finish_reason: Literal["stop", "length"] = "length" if ran_out else "stop"
    rest = () if is_cut else tuple(placed)
    passed = _before(shown + 1, marked)  # without marks inside a stop text
    yield Piece("", generated, finish_reason, rest, passed, reused=reused())


def _before(place: int, waiting: deque[Placed]) -> tuple[Placed, ...]:
    """Remove and return the first tokens or marks, which begin before a place."""
    first = []
    while waiting and waiting[0].place < place:
        first.append(waiting.popleft())
    return tuple(first)


@dataclass(frozen=True)
class Score:
    """The probability of a text under a model.

    If the tokenizer puts a special token before a text, every token of the text is scored. Otherwise the first token has no
    score, and each other token is scored given the tokens before it.

    Attributes:
        ids: Ids of the scored tokens.
        tokens: Bytes of the scored tokens. A character may be spread over several tokens.
        logprobs: Natural log-probabilities of the scored tokens, each given all tokens before it.
        given: Bytes of the first token if this token has no score, otherwise empty.
        bytes: Number of UTF-8 bytes of the text, without those of a first token that has no score.
    """

    ids: tuple[int, ...]
    tokens: tuple[bytes, ...]
    logprobs: tuple[float, ...]
    given: bytes
    bytes: int

    @property
    def total(self) -> float:
        """The sum of the log-probabilities."""
        return fsum(self.logprobs)

    @property
    def bits_per_byte(self) -> float:
        """Bits per byte of the text, as reported by ``hf-sgpe evaluate --model``."""
        return -self.total / log(2) / self.bytes
