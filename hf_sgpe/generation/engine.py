"""What an engine is: token ids in, token ids out, and what it says of itself before it is loaded."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from operator import index
from pathlib import Path
from typing import ClassVar

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.options import GenerationOptions


class Engine(ABC):
    """A loaded model that goes on from token ids. Use it in a ``with`` block, or `close` it, to give its memory back.

    It generates one text at a time: where another is begun, the one before ends with an error.

    The class says all that is asked before a model is loaded; its module imports the engine's library only when it is used.
    Arguments of its constructor, besides the model's path and ``exact``, are the settings of `load_engine`.

    Attributes:
        name: Of the engine.
        imports: Modules that must be importable.
        packages: Packages that it is made of, the engine's own first.
        pip: What installs them.
        runs: Kinds of models (`hf_sgpe.generation.detection.MODEL_KINDS`) that it runs.
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
        self._running: Generator[int, None, None] | None = None
        self._is_closed = False

    @classmethod
    def devices(cls) -> tuple[str, ...]:
        """What it can compute on here, as its library says; only asked where it is installed."""
        return ("CPU",)

    @classmethod
    def why_not(cls, path: Path) -> str:
        """Why it would, or might, compute something else than a model says, or cannot load it; empty if it can.

        Raises:
            SGPEError: there is no model at ``path``.
        """
        return ""

    @abstractmethod
    def _go_on(self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int]) -> Generator[int, None, None]:
        """The next tokens, ``options.max_new_tokens`` at the most; may, but need not, end with one of ``stop_ids``."""

    @abstractmethod
    def _release(self) -> None:
        """Lets go of the model."""

    def _batch(self, prompts: list[tuple[list[int], GenerationOptions]]) -> list[list[int]]:
        """What follows each of several prompts, whose options differ by ``max_new_tokens`` alone."""
        return [list(self._until_stopped(*prompt)) for prompt in prompts]

    def generate(self, ids: Iterable[int], options: GenerationOptions | None = None) -> Iterator[int]:
        """The tokens that follow, one after another, without the one that stops.

        Ends where a token stops, after ``max_new_tokens``, or where the model's context is full. To break off early, close
        the iterator or let go of it. ``options.stop`` is for text, and has no effect here.

        Args:
            ids: Of the prompt.

        Raises:
            SGPEError: before anything runs: the prompt is empty, fills the context or has an id beyond the model's
                vocabulary, or the engine is closed.
        """
        options = options or GenerationOptions()
        prompt, options = self._checked(ids, options)
        return self._until_stopped(prompt, options)

    def generate_batch(self, batch: Sequence[Iterable[int]], options: GenerationOptions | None = None) -> list[list[int]]:
        """What follows each of several prompts; all at once where the engine can.

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
        """Gives the model's memory back. Closing again does nothing."""
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
        """The prompt, and the options with no more new tokens than there is room for."""
        if not isinstance(options, GenerationOptions):
            raise TypeError(f"expected GenerationOptions, not {type(options).__name__}")
        if self._is_closed:
            raise SGPEError("this engine is closed: load the model again")
        if isinstance(ids, (str, bytes)):
            raise TypeError(f"expected token ids, not {type(ids).__name__}: encode the text first")
        prompt = [index(id) for id in ids]
        if not prompt:
            raise SGPEError("the prompt is empty: a model goes on from one token at least")
        for id in prompt:
            if not 0 <= id < self.vocab_size:
                raise SGPEError(
                    f"the prompt holds the id {id}, and the model's embedding has only {self.vocab_size} rows: "
                    "this is not the model's tokenizer"
                )
        if self.context_length is None:
            return prompt, options
        room = self.context_length - len(prompt)
        if room < 1:
            raise SGPEError(
                f"the prompt has {len(prompt):,} tokens and fills the context of {self.context_length:,}: shorten it"
            )
        return prompt, options.with_at_most(room)

    def _end(self) -> None:
        """Ends the text that is being generated, if there is one."""
        if self._running is not None:
            try:
                self._running.close()
            except ValueError:  # it is in the middle of a token
                raise SGPEError("this engine is at work in another thread: it does one text at a time") from None
            self._running = None

    def _until_stopped(self, prompt: list[int], options: GenerationOptions) -> Iterator[int]:
        self._end()
        stop_ids = self.stop_ids.union(options.stop_ids)
        with closing(self._go_on(prompt, options, stop_ids)) as tokens:
            self._running = tokens
            for number, id in enumerate(self._in_one_line(tokens), 1):
                if id in stop_ids:
                    return
                yield id
                if number >= options.max_new_tokens:
                    return
                if self._running is not tokens:
                    what = "was closed" if self._is_closed else "went on to another text"
                    raise SGPEError(f"this engine {what} before this one was at its end")

    def _in_one_line(self, tokens: Iterator[int]) -> Iterator[int]:
        """The same; what a library raises on the way names the engine."""
        try:
            yield from tokens
        except (SGPEError, TypeError):
            raise
        except Exception as error:
            raise SGPEError(f"{self.name} cannot go on with this model ({_message_of(error)})") from error


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """A block that loads a model: whatever a library says that it cannot becomes one line that names the model.

    Raises:
        SGPEError: it cannot.
    """
    try:
        yield
    except SGPEError:
        raise
    except Exception as error:
        raise SGPEError(f"{path}: no model that can be loaded ({_message_of(error)})") from None


def _message_of(error: Exception) -> str:
    """The message of a library's error, in one line that is not too long."""
    if isinstance(error, KeyError):
        return f"{error} is missing or unknown"
    # OpenVINO says first where in its sources it was.
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Exception from")] or [type(error).__name__]
    return " ".join(lines[:3])[:300] if lines[0].endswith(":") else lines[0]
