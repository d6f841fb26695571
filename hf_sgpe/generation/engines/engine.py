"""What an engine is: token ids in, token ids out, and what it says of itself before it is loaded."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from operator import index
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.generation.engines.sampling_options import GenerationOptions

Logits: TypeAlias = NDArray[np.float32]
"""One number for each row of the model's embedding: the greater, the more probable."""

Watch: TypeAlias = Callable[[int | None, Logits], Logits | None]
"""Is shown the logits of each token as the model gives them, before anything else is done with them, and the token before,
which is None for the first of an answer. What it returns is chosen from in their place; None stands for themselves. The
logits are its own, to keep or to change. An engine may be a few tokens ahead of what it has given, and show logits beyond
the last token."""

Step = TypeVar("Step")


class ScoredToken(NamedTuple):
    """A token, and how probable it was to the model.

    Attributes:
        id: Of the token.
        logprob: Its log-probability, to the base e: the model's own, of all tokens, before temperature, penalty and cuts.
        top: The most probable tokens with theirs, most probable first.
    """

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Engine(ABC):
    """A loaded model that continues token ids. Use it in a ``with`` block, or `close` it, to give its memory back.

    It generates one text at a time: where another is begun, the one before ends with an error.

    The class says all that is asked before a model is loaded; its module imports the engine's library only when it is used.
    Arguments of its constructor, besides the model's path and ``exact``, are the settings of `load_engine`.

    Attributes:
        name: Of the engine.
        imports: Modules that must be importable.
        packages: Packages that it is made of, the engine's own first.
        pip: What installs them.
        runs: Kinds of models (`hf_sgpe.generation.engines.detection.MODEL_KINDS`) that it runs.
        rank: Of the engines that run a model, the one with the lowest rank is chosen.
        rank_on_gpu: The same where it has a GPU; None for no other.
        vocab_size: Number of rows of the model's embedding: ids are below it.
        context_length: The most tokens that the model takes, prompt and answer together; None if it does not say.
        stop_ids: Tokens at which the model's own configuration ends.
    """

    name: ClassVar[str]
    imports: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()
    pip: ClassVar[str] = ""
    runs: ClassVar[tuple[str, ...]] = ("transformers",)
    rank: ClassVar[int] = 100
    rank_on_gpu: ClassVar[int | None] = None
    vocab_size: int
    context_length: int | None
    stop_ids: frozenset[int]

    def __init__(self) -> None:
        self._running: Generator[Any, None, None] | None = None
        self._is_closed = False

    @classmethod
    def devices(cls) -> tuple[str, ...]:
        """Return what it can compute on here, as its library says; only asked where it is installed."""
        return ("CPU",)

    @classmethod
    def why_not(cls, path: Path) -> str:
        """Return why it would, or might, compute something else than a model says, or cannot load it; empty if it can.

        Raises:
            SGPEError: there is no model at ``path``.
        """
        return ""

    @abstractmethod
    def _go_on(
        self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int], watch: Watch | None
    ) -> Generator[int, None, None]:
        """Return the next tokens, ``options.max_new_tokens`` at the most; may, but need not, end with one of ``stop_ids``.

        Logits are fetched for ``watch`` alone, which sees a token's before the token is given.
        """

    @abstractmethod
    def _logits(self, ids: list[int]) -> Generator[Logits, None, None]:
        """Return the logits of what follows each of the ids, tokens by rows of the embedding, some tokens at a time."""

    @abstractmethod
    def _release(self) -> None:
        """Let go of the model."""

    def _batch(self, prompts: list[tuple[list[int], GenerationOptions]]) -> list[list[int]]:
        """Return what follows each of several prompts, whose options differ by ``max_new_tokens`` alone."""
        return [list(self._until_stopped(*prompt)) for prompt in prompts]

    def generate(
        self, ids: Iterable[int], options: GenerationOptions | None = None, *, watch: Watch | None = None
    ) -> Iterator[int]:
        """Return the tokens that follow, one after another, without the one that stops.

        Ends where a token stops, after ``max_new_tokens``, or where the model's context is full. To break off early, close
        the iterator or let go of it. ``options.stop`` is for text, and has no effect here.

        Args:
            ids: Of the prompt.
            watch: Sees the logits of each token, and may change what is chosen from; see `Watch`.

        Raises:
            SGPEError: before anything runs: the prompt is empty, fills the context or has an id beyond the model's
                vocabulary, or the engine is closed.
        """
        options = options or GenerationOptions()
        prompt, options = self._checked(ids, options)
        return self._until_stopped(prompt, options, watch)

    def generate_scored(
        self, ids: Iterable[int], options: GenerationOptions | None = None, *, top: int = 0
    ) -> Iterator[ScoredToken]:
        """Return the tokens of `generate`, the same for the same options and seed, with their log-probabilities.

        Args:
            ids: Of the prompt.
            top: How many of the most probable tokens to name for each, with their log-probabilities.

        Raises:
            SGPEError: as `generate`, or ``top`` is no number of at least 0. Later: the model predicts what is no number.
        """
        if not isinstance(top, int) or isinstance(top, bool) or top < 0:
            raise SGPEError(f"top must be a whole number of at least 0, not {top!r}")
        shown: deque[Logits] = deque()

        def keep(_: int | None, logits: Logits) -> None:
            shown.append(logits)

        ids = self.generate(ids, options, watch=keep)
        return (_scored(id, _log_softmax(shown.popleft()), top) for id in ids)

    def logprobs(self, ids: Iterable[int]) -> NDArray[np.float64]:
        """Return the log-probability, to the base e, of each of some tokens but the first, given those before it.

        Takes the memory of the logits of a few hundred tokens, however many there are. Ends a text that is being generated.

        Args:
            ids: One at least, and no more than the model's context takes.

        Returns:
            One number for each but the first, so its shape is ``(len(ids) - 1,)``.

        Raises:
            SGPEError: there are no ids, too many, or one is beyond the model's vocabulary; the engine is closed; or the
                model predicts what is no number.
        """
        tokens = self._checked_ids(ids, "text")
        if self.context_length is not None and len(tokens) > self.context_length:
            raise SGPEError(
                f"the text has {len(tokens):,} tokens, and the context takes {self.context_length:,}: shorten it"
            )
        scores = np.empty(len(tokens) - 1)
        done = 0
        with closing(self._alone(self._logits(tokens[:-1]))) as parts:
            for logits in parts if len(scores) else ():
                following = tokens[done + 1 : done + 1 + len(logits)]
                scores[done : done + len(logits)] = _log_softmax(logits)[np.arange(len(logits)), following]
                done += len(logits)
        return scores

    def generate_batch(self, batch: Sequence[Iterable[int]], options: GenerationOptions | None = None) -> list[list[int]]:
        """Return what follows each of several prompts; all at once where the engine can.

        Raises:
            SGPEError: as `generate`, with the number of the prompt.
        """
        options = options or GenerationOptions()
        checked = []
        for number, ids in enumerate(batch, 1):
            try:
                checked.append(self._checked(ids, options))
            except SGPEError as error:
                raise SGPEError(f"prompt {number} of {len(batch)}: {error}") from None
        return self._batch(checked)

    def close(self) -> None:
        """Give the model's memory back. Closing again does nothing."""
        if not self._is_closed:
            self._end()
            self._is_closed = True
            self._release()
            gc.collect()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _checked(self, ids: Iterable[int], options: GenerationOptions) -> tuple[list[int], GenerationOptions]:
        """Return the prompt, and the options with no more new tokens than there is room for."""
        if not isinstance(options, GenerationOptions):
            raise TypeError(f"expected GenerationOptions, not {type(options).__name__}")
        prompt = self._checked_ids(ids, "prompt")
        if self.context_length is None:
            return prompt, options
        room = self.context_length - len(prompt)
        if room < 1:
            raise SGPEError(
                f"the prompt has {len(prompt):,} tokens and fills the context of {self.context_length:,}: shorten it"
            )
        return prompt, options.with_at_most(room)

    def _checked_ids(self, ids: Iterable[int], what: str) -> list[int]:
        if self._is_closed:
            raise SGPEError("this engine is closed: load the model again")
        if isinstance(ids, (str, bytes)):
            raise TypeError(f"expected token ids, not {type(ids).__name__}: encode the text first")
        checked = [index(id) for id in ids]
        if not checked:
            raise SGPEError(f"the {what} is empty: a model continues one token at least")
        for id in checked:
            if not 0 <= id < self.vocab_size:
                raise SGPEError(
                    f"the {what} holds the id {id}, and the model's embedding has only {self.vocab_size} rows: "
                    "this is not the model's tokenizer"
                )
        return checked

    def _end(self) -> None:
        """End the text that is being generated, if there is one."""
        if self._running is not None:
            try:
                self._running.close()
            except ValueError:  # it is in the middle of a token
                raise SGPEError("this engine is at work in another thread: it does one text at a time") from None
            self._running = None

    def _until_stopped(self, prompt: list[int], options: GenerationOptions, watch: Watch | None = None) -> Iterator[int]:
        stop_ids = self.stop_ids.union(options.stop_ids)
        with closing(self._alone(self._go_on(prompt, options, stop_ids, watch))) as tokens:
            for number, id in enumerate(tokens, 1):
                if id in stop_ids:
                    return
                yield id
                if number >= options.max_new_tokens:
                    return

    def _alone(self, steps: Generator[Step, None, None]) -> Generator[Step, None, None]:
        """Yield the same, after the text before was ended, and as long as no other is begun."""
        self._end()
        with closing(steps):
            self._running = steps
            for step in self._in_one_line(steps):
                yield step
                if self._running is not steps:
                    what = "was closed" if self._is_closed else "went on to another text"
                    raise SGPEError(f"this engine {what} before this one was at its end")

    def _in_one_line(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Yield the same; what a library raises on the way names the engine."""
        try:
            yield from steps
        except (SGPEError, TypeError):
            raise
        except Exception as error:
            raise SGPEError(f"{self.name} cannot go on with this model ({_message_of(error)})") from error


def _scored(id: int, logprobs: NDArray[np.float64], top: int) -> ScoredToken:
    top = min(top, len(logprobs))
    likely = np.argpartition(logprobs, len(logprobs) - top)[len(logprobs) - top :] if 0 < top < len(logprobs) else range(top)
    best = sorted(((int(other), float(logprobs[other])) for other in likely), key=lambda pair: (-pair[1], pair[0]))
    return ScoredToken(id, float(logprobs[id]), tuple(best))


def _log_softmax(logits: Logits) -> NDArray[np.float64]:
    """Return the log-probabilities of the last axis.

    Raises:
        SGPEError: they are no numbers.
    """
    greatest = logits.max(-1, keepdims=True).astype(np.float64)
    if not np.isfinite(greatest).all():
        raise SGPEError("what the model predicts is no number: its weights are damaged")
    shifted: NDArray[np.float64] = logits - greatest
    shifted -= np.log(np.exp(shifted).sum(-1, keepdims=True))
    return shifted


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """Run a block that loads a model: whatever a library says that it cannot becomes one line that names the model.

    Raises:
        SGPEError: it cannot.
    """
    try:
        yield
    except SGPEError:
        raise
    except Exception as error:
        check_no_pointer(path)
        raise SGPEError(f"{path}: no model that can be loaded ({_message_of(error)})") from None


def _message_of(error: Exception) -> str:
    """Return the message of a library's error, in one line that is not too long."""
    if isinstance(error, KeyError):
        return f"{error} is missing or unknown"
    # OpenVINO says first where in its sources it was.
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Exception from")] or [type(error).__name__]
    return " ".join(lines[:3])[:300] if lines[0].endswith(":") else lines[0]
