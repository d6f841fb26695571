"""Engines that need no package: a small exact model, and one with fixed tokens."""

import time
from collections.abc import Generator, Iterable, Sequence
from itertools import cycle

import numpy as np

from hf_sgpe.generation import Engine, GenerationOptions
from hf_sgpe.generation.engines.engine import Logits, Watch
from support.sampling import distribution


class Bigram(Engine):
    """A language model whose next token depends only on the last one.

    The logits are random by default; ``asked`` keeps the prompts.
    """

    name = "bigram"

    def __init__(self, vocab_size: int, logits: Logits | None = None, *, stop_ids: Sequence[int] = ()) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.context_length = None
        self.stop_ids = frozenset(stop_ids)
        shape = (vocab_size, vocab_size)
        self.table = np.random.default_rng(1).normal(0, 3, shape).astype(np.float32) if logits is None else logits
        self.asked: list[list[int]] = []

    def _go_on(
        self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int], watch: Watch | None
    ) -> Generator[int, None, None]:
        self.asked.append(ids)
        random = np.random.default_rng(options.seed)
        last, seen = None, set(ids)
        for _ in range(options.max_new_tokens):
            logits = self.table[ids[-1] if last is None else last].copy()
            if watch is not None and (others := watch(last, logits.copy())) is not None:
                logits = others
            last = int(random.choice(self.vocab_size, p=distribution(logits, seen, options)))
            seen.add(last)
            yield last

    def _logits(self, ids: list[int]) -> Generator[Logits, None, None]:
        for start in range(0, len(ids), 3):
            yield self.table[ids[start : start + 3]]

    def _release(self) -> None:
        self.table = np.empty((0, 0), np.float32)


class Parrot(Engine):
    """An engine that generates fixed ids after every prompt.

    Args:
        ids: The ids.
        is_endless: Whether to repeat the ids forever.
        error: An error to raise after the ids.
        pause: Seconds to wait before each id.
    """

    name = "parrot"

    def __init__(
        self,
        ids: Iterable[int] = (),
        *,
        vocab_size: int = 5000,
        context_length: int | None = None,
        is_endless: bool = False,
        error: Exception | None = None,
        pause: float = 0,
    ) -> None:
        super().__init__()
        self.ids = list(ids)
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.stop_ids = frozenset()
        self.is_endless = is_endless
        self.error = error
        self.pause = pause
        self.asked: list[list[int]] = []
        self.said = self.ended = 0

    def _go_on(
        self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int], watch: Watch | None
    ) -> Generator[int, None, None]:
        self.asked.append(ids)
        try:
            for id in cycle(self.ids) if self.is_endless else self.ids:
                self.said += 1
                if self.pause:
                    time.sleep(self.pause)
                yield id
            if self.error:
                raise self.error
        finally:
            self.ended += 1

    def _logits(self, ids: list[int]) -> Generator[Logits, None, None]:
        yield np.zeros((len(ids), self.vocab_size), np.float32)

    def _release(self) -> None:
        self.ids = []
