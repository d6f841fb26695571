"""Trials of rules in a separate process. llguidance overflows its stack on some grammars, and computes for hours on others.
Then only the trial ends, instead of the program that needs the rule.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from hf_sgpe.errors import BusyError, optional
from hf_sgpe.generation.json_schemas import LIMITS

_STACK = 4 << 20
"""Stack of the thread that tries a rule, in bytes. Threads of a program usually have twice as much."""


class Verdict(NamedTuple):
    """The result of a trial.

    Attributes:
        problem: Why the rule is invalid or not supported. Empty if it can be used.
        left_out: The constraints that llguidance does not apply.
    """

    problem: str
    left_out: tuple[str, ...] = ()


class RuleTrial:
    """A process that compiles rules for a vocabulary. It starts with the first rule, and again after a crash.

    Args:
        tokens: Bytes of each token.
        special_ids: Ids of the tokens that are not text.
    """

    def __init__(self, tokens: Sequence[bytes], special_ids: Sequence[int]) -> None:
        self._vocabulary = (tokens, special_ids)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(LIMITS.trials)
        self._is_closed = False

    def __call__(self, source: str) -> Verdict:
        """Compile a rule in llguidance's format within `LIMITS`, and return the result."""
        if not self._places.acquire(blocking=False):
            raise BusyError(f"{LIMITS.trials} rules are already being compiled: try again later")
        try:
            return self._verdict_on(source)
        finally:
            self._places.release()

    def _verdict_on(self, source: str) -> Verdict:
        with self._lock:
            if self._is_closed:
                return Verdict("no more rules are compiled, because the model is closed")
            if self._process is None:
                self._process = _started()
                weakref.finalize(self, _end, self._process)
                _send(self._process, self._vocabulary)
            # The process limits its own processor time. On a busy machine, this takes longer.
            timer = threading.Timer(8 * LIMITS.seconds, self._process.kill)
            timer.start()
            try:
                _send(self._process, source)
                assert self._process.stdout is not None
                return Verdict(*pickle.load(self._process.stdout))
            except (EOFError, OSError, pickle.UnpicklingError):
                _end(self._process)
                self._process = None
                return Verdict(
                    f"the rule is too complex: compiling it needs more than {LIMITS.seconds} seconds, "
                    f"{LIMITS.memory >> 30} GB of memory or the stack: make it simpler"
                )
            finally:
                timer.cancel()

    def close(self) -> None:
        """End the process and the trial that waits for it. Later rules are refused."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()


def _started() -> subprocess.Popen[bytes]:
    program = "from hf_sgpe.generation.rule_trial import _serve; _serve()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError), process:  # which closes the pipes; the one for input may hold unsent bytes
        process.kill()


def _send(process: subprocess.Popen[bytes], value: Any) -> None:
    assert process.stdin is not None
    pickle.dump(value, process.stdin)
    process.stdin.flush()


def _serve() -> None:
    """Compile the rules that arrive on the standard input, until it ends. This is the program of the separate process."""
    with suppress(EOFError, KeyboardInterrupt):
        tokens, special_ids = pickle.load(sys.stdin.buffer)
        vocabulary = PlainVocabulary(tokens, special_ids)
        library = optional("llguidance", "structured output needs llguidance", extra="structured")
        readable = library.LLTokenizer(library.TokenizerWrapper(vocabulary), n_vocab=len(tokens), eos_token=len(tokens) - 1)
        threading.stack_size(_STACK)
        with ThreadPoolExecutor(1) as pool:
            while True:
                source = pickle.load(sys.stdin.buffer)
                _limit()
                verdict = pool.submit(_compiled, library, readable, source).result()
                pickle.dump(tuple(verdict), sys.stdout.buffer)
                sys.stdout.buffer.flush()


def _compiled(library: Any, tokenizer: Any, source: str) -> Verdict:
    try:
        is_wrong, messages = library.LLMatcher.validate_grammar_with_warnings(source, tokenizer)
        if is_wrong:
            return Verdict(messages[-1] if messages else "the rule is invalid")
        matcher = library.LLMatcher(tokenizer, source, log_level=0)
        matcher.compute_bitmask()
        if matcher.is_error():
            return Verdict(f"no answer can follow the rule ({matcher.get_error().partition('<state>')[0].strip()})")
    except Exception as error:  # a panic of the library
        return Verdict(str(error) or "the rule is invalid")
    return Verdict("", tuple(messages))


def _limit() -> None:
    """Limit the memory of this process, and its processor time from now on. Windows has no such limits."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        end = int(used.ru_utime + used.ru_stime) + 1 + LIMITS.seconds
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        resource.setrlimit(resource.RLIMIT_DATA, (LIMITS.memory, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class PlainVocabulary:
    """A vocabulary in the form that llguidance reads. The last token ends a text. The arguments are those of `RuleTrial`."""

    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], special_ids: Sequence[int]) -> None:
        self.tokens = tokens
        self.special_token_ids = special_ids
        self.eos_token_id = len(tokens) - 1
        no_text = set(special_ids)
        self._ids = {token: id for id, token in reversed([*enumerate(tokens)]) if id not in no_text}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: str) -> list[int]:
        """Return the ids of a text: at each place, the id of the longest token that follows."""
        written = text.encode()  # llguidance first sends bytes, and this error makes it send strings
        ids: list[int] = []
        place = 0
        while place < len(written):
            ends = range(min(len(written), place + self._longest), place, -1)
            end = next((end for end in ends if written[place:end] in self._ids), None)
            if end is None:
                break
            ids.append(self._ids[written[place:end]])
            place = end
        return ids
