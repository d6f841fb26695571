"""How the next token is chosen: one set of options that means the same on every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import as_option

# The greatest of 32 bits is what llama.cpp takes for no seed.
_RANGES: dict[str, tuple[type, str, Callable[[Any], bool]]] = {
    "max_new_tokens": (int, "at least 1", lambda value: value >= 1),
    "temperature": (float, "at least 0", lambda value: 0 <= value < inf),
    "top_p": (float, "above 0 and at most 1", lambda value: 0 < value <= 1),
    "top_k": (int, "at least 0", lambda value: value >= 0),
    "min_p": (float, "between 0 and 1", lambda value: 0 <= value <= 1),
    "repetition_penalty": (float, "above 0", lambda value: 0 < value < inf),
    "seed": (int, "from 0 to 2**32 - 2", lambda value: 0 <= value < (1 << 32) - 1),
}


@dataclass(frozen=True)
class GenerationOptions:
    """How to go on from a prompt.

    From the logits of the next token to the token, in this order, which is that of transformers, and each step on what the
    one before has left:

    1. the repetition penalty, of each token that is in the prompt or was generated;
    2. with a temperature of 0 the greatest is taken, and none of the following matters;
    3. all are divided by the temperature;
    4. ``top_k``: only that many of the greatest stay;
    5. ``top_p``: only the fewest that together have at least this probability stay;
    6. ``min_p``: only those stay whose probability is at least this part of the greatest;
    7. one of those left is drawn by its probability.

    Args:
        max_new_tokens: Stop after so many.
        temperature: 0 for always the most probable token, and so is what is so small that dividing by it overflows.
        top_p: From above 0 to 1; 1 for all.
        top_k: 0 for all.
        min_p: From 0, for all, to 1.
        repetition_penalty: Positive logits are divided by it and negative ones multiplied; 1 for none.
        seed: The same seed gives the same tokens on one engine, machine and version; None for others each time. It seeds the
            engine's global generator where that has one (transformers, OpenVINO, MLX).
        stop: Texts at which the answer ends; they are not part of it.
        stop_ids: Tokens at which it ends, besides those that the model's own configuration names.
        whole_syllables: A stream holds a letter back until no further token can change it, in every script that this package
            knows (`hf_sgpe.splitting.streams.whole_letters`). The text is the same, in other pieces.
        heal: Where a prompt of text ends inside a token that the model may have meant, the prompt's last tokens are chosen
            again, with any token allowed that begins with all that was taken back (`hf_sgpe.generation.token_healing`).
            Without effect in a conversation, where nobody continues the last word.

    Raises:
        SGPEError: a number is out of its range.
    """

    max_new_tokens: int = field(default=512, metadata=as_option("The most tokens in an answer."))
    temperature: float = field(default=0.7, metadata=as_option("0 for always the most probable token."))
    top_p: float = field(
        default=0.9, metadata=as_option("Only the most probable tokens that together have this probability.")
    )
    top_k: int = field(default=0, metadata=as_option("Only this many of the most probable tokens; 0 for all."))
    min_p: float = field(default=0.0, metadata=as_option("Only tokens with this share of the highest probability or more."))
    repetition_penalty: float = field(
        default=1.0, metadata=as_option("Above 1: tokens that occurred before become less probable.")
    )
    seed: int | None = field(default=None, metadata=as_option("The same one gives the same answer."))
    stop: tuple[str, ...] = field(default=(), metadata=as_option("Text at which an answer ends (repeatable)."))
    stop_ids: tuple[int, ...] = ()
    whole_syllables: bool = field(
        default=False,
        metadata=as_option(
            "Show a letter only when no further token can change it.",
            "--whole-syllables/--no-whole-syllables",
            default=True,
        ),
    )
    heal: bool = field(
        default=False,
        metadata=as_option(
            "Let the model finish the last word of a prompt by a longer token; not for conversations.", "--heal"
        ),
    )

    def __post_init__(self) -> None:
        for name, (kind, least_and_most, holds) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name == "seed":
                continue
            if type(value) not in (int, float):
                from numpy import generic  # the command line shows these options without it

                value = value.item() if isinstance(value, generic) else value
            given = value
            if kind is float and type(value) is int:  # transformers takes no whole number for it
                value = float(value) if abs(value) < 1 << 1000 else inf
            object.__setattr__(self, name, value)
            if not isinstance(value, (int, kind)) or isinstance(value, bool) or not holds(value):
                what = "a whole number " if kind is int else ""
                raise SGPEError(f"{name} must be {what}{least_and_most}, not {given!r}")
        for name in ("stop", "stop_ids"):
            value = getattr(self, name)
            if not isinstance(value, (str, int, Iterable)):
                raise SGPEError(f"{name} must be a list, not {value!r}")
            object.__setattr__(self, name, (value,) if isinstance(value, (str, int)) else tuple(value))
        for name in ("whole_syllables", "heal"):
            if not isinstance(getattr(self, name), bool):
                raise SGPEError(f"{name} must be true or false, not {getattr(self, name)!r}")
        if not all(isinstance(text, str) and text for text in self.stop):
            raise SGPEError(f"stop must be texts that are not empty, not {self.stop!r}")
        if not all(type(id) is int and id >= 0 for id in self.stop_ids):
            raise SGPEError(f"stop_ids must be whole numbers of at least 0, not {self.stop_ids!r}")

    @property
    def is_greedy(self) -> bool:
        """Whether there is nothing to draw."""
        return self.temperature < 1e-6

    def with_at_most(self, tokens: int) -> GenerationOptions:
        """Return the same, with no more than ``tokens`` new ones."""
        return self if self.max_new_tokens <= tokens else replace(self, max_new_tokens=tokens)
