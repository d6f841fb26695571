"""The base class of engines. An engine takes token ids and generates the next ids. Class attributes describe an engine
before a model is loaded.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from math import nan
from operator import index
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.generation.engines.sampling_options import GenerationOptions

Logits: TypeAlias = NDArray[np.float32]
"""An array with one number for each row of the model's embedding; the greater the number, the more probable the token."""

Watch: TypeAlias = Callable[[int | None, Logits], Logits | None]
"""A function of the previous token and the model's raw logits for the next token.

The previous token is None for the first token of an answer. The engine chooses the next token from the returned logits, or
from the raw logits if the function returns None. The function may keep or change the array. An engine may compute a few
tokens ahead. In that case, the function is also called for tokens after the last token of the answer.
"""

Step = TypeVar("Step")


class ScoredToken(NamedTuple):
    """A token with its log-probability.

    Attributes:
        logprob: Natural log-probability over the whole vocabulary, before the temperature, the repetition penalty,
            ``top_k``, ``top_p`` and ``min_p`` are applied. It is nan for the first token of a text, which no token precedes.
        top: The most probable tokens with their log-probabilities, in descending order.
    """

    id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class Engine(ABC):
    """A loaded model that takes token ids and generates the next ids. To free its memory, use the engine in a ``with``
    block, or call `close`.

    An engine generates one text at a time. If another text is started, the iterator of the previous text raises an error.

    The class attributes describe the engine before a model is loaded. The module of the engine imports the engine's library
    on first use. The constructor's arguments, other than the model's path and ``exact``, are the settings of `load_engine`.

    Attributes:
        imports: Modules that must be importable.
        packages: Packages of the engine. The first is the main package.
        pip: Command that installs the packages.
        runs: File formats of models (`hf_sgpe.generation.engines.detection.MODEL_KINDS`) that the engine runs.
        rank: Order of preference: the engine with the lowest rank is chosen.
        rank_on_gpu: Rank on a machine with a GPU that this engine can use. None if it equals ``rank``.
        vocab_size: Number of rows of the model's embedding. All ids are below this number.
        context_length: Maximum number of tokens in prompt and answer together, or None if the model's configuration does not
            contain it.
        stop_ids: Tokens that end an answer according to the model's configuration.
        embedding_length: Number of dimensions of an embedding. 0 if the engine has no embeddings.
        reused: Number of tokens of the last prompt whose keys and values were kept from an earlier text.
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
    embedding_length: int = 0
    reused: int = 0

    def __init__(self) -> None:
        self._running: Generator[Any, None, None] | None = None
        self._is_closed = False

    @classmethod
    def devices(cls) -> tuple[str, ...]:
        """Return the names of this machine's devices that an installed engine can use."""
        return ("CPU",)

    @classmethod
    def why_not(cls, path: Path) -> str:
        """Return why the engine cannot load a model, or why its results might be wrong. Return an empty string if the engine
        runs the model correctly.
        """
        return ""

    @abstractmethod
    def _go_on(
        self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int], watch: Watch | None
    ) -> Generator[int, None, None]:
        """Yield the next tokens, at most ``options.max_new_tokens`` of them. The last token may be one of ``stop_ids``.

        Logits are computed only if there is a ``watch``, which is called before each token is yielded.
        """

    @abstractmethod
    def _logits(self, ids: list[int]) -> Generator[Logits, None, None]:
        """Yield the logits for the token after each id, in several arrays with one row for each of some consecutive ids."""

    def _hidden(self, ids: list[int]) -> Generator[Logits, None, None]:
        """Yield the last hidden states, after the last normalization, in arrays such as those of `_logits`. An engine
        without embeddings does not implement this method.
        """
        raise NotImplementedError

    @abstractmethod
    def _release(self) -> None:
        """Free the model."""

    def _batch(self, prompts: list[tuple[list[int], GenerationOptions]]) -> list[list[int]]:
        """Return the answer to each prompt. The options of the prompts may differ only in ``max_new_tokens``."""
        return [list(self._until_stopped(*prompt)) for prompt in prompts]

    def generate(
        self,
        ids: Iterable[int],
        options: GenerationOptions | None = None,
        *,
        watch: Watch | None = None,
        with_stop: bool = False,
    ) -> Iterator[int]:
        """Return an iterator over the tokens of the answer, without the stop token. The prompt is checked before the model
        runs.

        The answer ends at a stop token, after ``max_new_tokens``, or when the model's context is full. To end the answer
        early, close or delete the iterator. ``options.stop`` applies to text and has no effect here.

        Args:
            watch: Function that is called with the logits for each token. It may replace these logits; see `Watch`.
            with_stop: Whether to yield the stop token, if there is one, as the last token.
        """
        options = options or GenerationOptions()
        prompt, options = self._checked(ids, options)
        return self._until_stopped(prompt, options, watch, with_stop)

    def generate_scored(
        self,
        ids: Iterable[int],
        options: GenerationOptions | None = None,
        *,
        top: int = 0,
        watch: Watch | None = None,
        with_stop: bool = False,
    ) -> Iterator[ScoredToken]:
        """Return an iterator over the same tokens as `generate`, with their log-probabilities.

        Args:
            top: Number of most probable tokens to return with each token.
            watch: See `generate`. The log-probabilities are computed from the model's own logits.
        """
        check_whole("top", top)
        shown: deque[Logits] = deque()

        def keep(last: int | None, logits: Logits) -> Logits | None:
            shown.append(logits)
            return watch(last, logits.copy()) if watch else None

        ids = self.generate(ids, options, watch=keep, with_stop=with_stop)
        return (_scored(id, _log_softmax(shown.popleft()), top) for id in ids)

    def logprobs(self, ids: Iterable[int]) -> NDArray[np.float64]:
        """Return the natural log-probability of each token after the first, given all tokens before it, in an array of shape
        ``(len(ids) - 1,)``.

        The logits of only a few hundred tokens are in memory at a time. This call stops a generation in progress.

        Raises:
            SGPEError: there are no ids, they do not fit into the context or the vocabulary, or a logit is not a number.
        """
        tokens = self._checked_text(ids)
        scores = np.empty(len(tokens) - 1)
        done = 0
        with closing(self._alone(self._logits(tokens[:-1]))) as parts:
            for logits in parts if len(scores) else ():
                following = tokens[done + 1 : done + 1 + len(logits)]
                scores[done : done + len(logits)] = _log_softmax(logits)[np.arange(len(logits)), following]
                done += len(logits)
        return scores

    def embed(self, ids: Iterable[int]) -> NDArray[np.float32]:
        """Return an embedding of a text: the mean of the model's last hidden states for the tokens of the text."""
        if not self.embedding_length:
            raise SGPEError(f"{self.name} has no embeddings: use an engine that has them, such as transformers")
        tokens = self._checked_text(ids)
        with closing(self._alone(self._hidden(tokens))) as parts:
            total = sum(part.sum(0, dtype=np.float64) for part in parts)
        return np.asarray(total / len(tokens), np.float32)

    def score(self, ids: Iterable[int], *, top: int = 0, with_next: bool = False) -> Iterator[ScoredToken]:
        """Return an iterator over the tokens of a text with their log-probabilities, which are the same as from `logprobs`.

        Args:
            top: Number of most probable tokens to return with each token after the first.
            with_next: Whether to also yield, after the tokens of the text, the token that most probably follows.
        """
        check_whole("top", top)
        return self._scored_text(self._checked_text(ids), top, with_next)

    def _scored_text(self, tokens: list[int], top: int, with_next: bool) -> Iterator[ScoredToken]:
        yield ScoredToken(tokens[0], nan, ())
        read = tokens if with_next else tokens[:-1]
        following = iter(tokens[1:])
        with closing(self._alone(self._logits(read))) as parts:
            for logits in parts if read else ():
                for row in logits:
                    id = next(following, None)
                    yield _scored(int(row.argmax()) if id is None else id, _log_softmax(row), top)

    def generate_batch(self, batch: Sequence[Iterable[int]], options: GenerationOptions | None = None) -> list[list[int]]:
        """Return the answer to each prompt. Engines with batching compute all answers at once. The message of an error
        contains the number of the prompt.
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
        """Free the model's memory. Closing a closed engine has no effect."""
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
        """Return the checked prompt, and the options with ``max_new_tokens`` limited to the free part of the context."""
        if not isinstance(options, GenerationOptions):
            raise TypeError(f"expected GenerationOptions, not {type(options).__name__}")
        prompt = self._checked_ids(ids, "prompt")
        if self.context_length is None:
            return prompt, options
        room = self.context_length - len(prompt)
        if room < 1:
            raise SGPEError(
                f"the prompt has {len(prompt):,} tokens and fills the context of {self.context_length:,}: shorten the prompt"
            )
        return prompt, options.with_at_most(room)

    def _checked_ids(self, ids: Iterable[int], role: str) -> list[int]:
        if self._is_closed:
            raise SGPEError("this engine is closed: load the model again")
        if isinstance(ids, (str, bytes)):
            raise TypeError(f"expected token ids, not {type(ids).__name__}: encode the text first")
        checked = [index(id) for id in ids]
        if not checked:
            raise SGPEError(f"the {role} is empty: give at least one token")
        for id in checked:
            if not 0 <= id < self.vocab_size:
                raise SGPEError(
                    f"the {role} has the id {id}, but the model's embedding has only {self.vocab_size} rows: "
                    "use the model's own tokenizer"
                )
        return checked

    def _checked_text(self, ids: Iterable[int]) -> list[int]:
        tokens = self._checked_ids(ids, "text")
        if self.context_length is not None and len(tokens) > self.context_length:
            raise SGPEError(
                f"the text has {len(tokens):,} tokens, more than the context of {self.context_length:,}: shorten the text"
            )
        return tokens

    def _end(self) -> None:
        """End the generation in progress, if there is one."""
        if self._running is not None:
            try:
                self._running.close()
            except ValueError:  # the generator is running
                raise SGPEError(
                    "this engine is in use by another thread, and generates only one text at a time: load an engine for "
                    "each thread"
                ) from None
            self._running = None

    def stop_ids_of(self, options: GenerationOptions) -> frozenset[int]:
        """Return the ids of the tokens that end an answer with these options."""
        return frozenset(options.stop_ids) if options.ignore_eos else self.stop_ids.union(options.stop_ids)

    def _until_stopped(
        self, prompt: list[int], options: GenerationOptions, watch: Watch | None = None, with_stop: bool = False
    ) -> Iterator[int]:
        stop_ids = self.stop_ids_of(options)
        if options.min_new_tokens and stop_ids:
            watch = _without_stops(sorted(stop_ids), options.min_new_tokens, watch)
        with closing(self._alone(self._go_on(prompt, options, stop_ids, watch))) as tokens:
            for number, id in enumerate(tokens, 1):
                if id in stop_ids:
                    if with_stop:
                        yield id
                    return
                yield id
                if number >= options.max_new_tokens:
                    return

    def _alone(self, steps: Generator[Step, None, None]) -> Generator[Step, None, None]:
        """End the generation in progress, and then yield the items of ``steps``. Raise an error if another text is started
        in the meantime. Turn an exception of the engine's library into a one-line `SGPEError`.
        """
        self._end()
        self.reused = 0
        self._running = steps
        try:
            with closing(steps):
                for step in steps:
                    yield step
                    if self._running is not steps:
                        event = "was closed" if self._is_closed else "started another text"
                        raise SGPEError(f"this engine {event} before this text was complete")
        except (SGPEError, TypeError):
            raise
        except Exception as error:
            raise SGPEError(f"{self.name} failed to run this model ({_message_of(error)})") from error


def _without_stops(stop_ids: list[int], tokens: int, watch: Watch | None) -> Watch:
    """Return a `Watch` that applies ``watch`` and forbids ``stop_ids`` among the first ``tokens`` tokens of an answer."""
    left = tokens

    def mask(last: int | None, logits: Logits) -> Logits | None:
        nonlocal left
        replaced = watch(last, logits) if watch is not None else None
        if left <= 0:
            return replaced
        left -= 1
        return without_tokens(logits if replaced is None else replaced, stop_ids)

    return mask


def without_tokens(logits: Logits, ids: Iterable[int]) -> Logits:
    """Return a copy of ``logits`` in which these tokens are impossible. Ids beyond the embedding have no effect."""
    masked = logits.copy()
    masked[[id for id in ids if id < len(masked)]] = -np.inf
    return masked


def check_whole(name: str, value: Any, least: int = 0) -> None:
    """Check that the setting ``name`` is a whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SGPEError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _scored(id: int, logprobs: NDArray[np.float64], top: int) -> ScoredToken:
    top = min(top, len(logprobs))
    likely = np.argpartition(logprobs, len(logprobs) - top)[len(logprobs) - top :] if 0 < top < len(logprobs) else range(top)
    best = sorted(((int(other), float(logprobs[other])) for other in likely), key=lambda pair: (-pair[1], pair[0]))
    return ScoredToken(id, float(logprobs[id]), tuple(best))


def _log_softmax(logits: Logits) -> NDArray[np.float64]:
    """Convert logits to log-probabilities over the last axis."""
    greatest = logits.max(-1, keepdims=True).astype(np.float64)
    if not np.isfinite(greatest).all():
        raise SGPEError("the model's logits are not finite numbers: its weights are damaged")
    shifted: NDArray[np.float64] = logits - greatest
    shifted -= np.log(np.exp(shifted).sum(-1, keepdims=True))
    return shifted


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """Turn exceptions of libraries in the ``with`` block, which loads a model, into one-line errors that name the model."""
    try:
        yield
    except SGPEError:
        raise
    except Exception as error:
        check_no_pointer(path)
        raise SGPEError(f"{path}: the model cannot be loaded ({_message_of(error)})") from None


def _message_of(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing or unknown"
    # OpenVINO's messages begin with a line of its source code.
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Exception from")] or [type(error).__name__]
    return " ".join(lines[:3])[:300] if lines[0].endswith(":") else lines[0]
