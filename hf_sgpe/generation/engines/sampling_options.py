"""Options for generating tokens, with the same meaning on every engine."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import as_option

# llama.cpp reads the greatest 32-bit number as "no seed".
_RANGES: dict[str, tuple[type, str, Callable[[Any], bool]]] = {
    "max_new_tokens": (int, "of at least 1", lambda value: value >= 1),
    "min_new_tokens": (int, "of at least 0", lambda value: value >= 0),
    "temperature": (float, "of at least 0", lambda value: 0 <= value < inf),
    "top_p": (float, "above 0 and at most 1", lambda value: 0 < value <= 1),
    "top_k": (int, "from 0 to 2**31 - 1", lambda value: 0 <= value < 1 << 31),
    "min_p": (float, "between 0 and 1", lambda value: 0 <= value <= 1),
    "repetition_penalty": (float, "from 0.001 to 1000", lambda value: 0.001 <= value <= 1000),
    "seed": (int, "from 0 to 2**32 - 2", lambda value: 0 <= value < (1 << 32) - 1),
}


@dataclass(frozen=True)
class GenerationOptions:
    """Options of a generation.

    The next token is chosen from the logits in the following steps, in the same order as in transformers. Each step uses the
    result of the step before:

    1. the repetition penalty changes the logit of each token that occurs in the prompt or the answer;
    2. with a temperature of 0, the token with the greatest logit is chosen, and the other steps are skipped;
    3. all logits are divided by the temperature;
    4. only the ``top_k`` most probable tokens are kept;
    5. ``top_p`` keeps the smallest set of most probable tokens whose probabilities sum to at least ``top_p``;
    6. ``min_p`` keeps the tokens whose probability is at least ``min_p`` times the highest probability;
    7. one of the remaining tokens is drawn at random, in proportion to the probabilities.

    Args:
        max_new_tokens: Maximum number of tokens in the answer.
        temperature: 0 always chooses the most probable token. Temperatures below 1e-6 count as 0.
        top_p: Above 0 and at most 1; 1 keeps all tokens.
        top_k: From 0 to 2**31 - 1; 0 keeps all tokens.
        min_p: From 0 to 1; 0 keeps all tokens.
        repetition_penalty: Positive logits are divided by this number, and negative logits are multiplied by this number; 1
            changes nothing. From 0.001 to 1000.
        seed: With the same seed, engine, machine and version, the tokens are the same. None means a random seed. On
            transformers, OpenVINO and MLX, the seed is given to the engine's global random number generator. So the tokens
            may differ if two models generate at the same time.
        stop: Texts that end the answer. They are not part of the answer. If a special token has such a text, this token also
            ends the answer.
        stop_ids: Tokens that end the answer, in addition to the stop tokens of the model's configuration.
        ignore_eos: Whether to continue the answer after a stop token of the model's configuration or of a chat template.
        min_new_tokens: Minimum number of tokens before a stop token or a stop text may end the answer.
        skip_special_tokens: Whether the text of special tokens is left out of the answer.
        whole_syllables: Whether a stream holds back each letter until no later token can change the letter, in every script
            of this package (`hf_sgpe.splitting.streams.whole_letters`). The text of the answer stays the same.
        heal: Whether the model chooses the last tokens of a prompt again if a longer token could replace them
            (`hf_sgpe.generation.token_healing`). It has no effect in a conversation, where the last word is complete.
    """

    max_new_tokens: int = field(default=512, metadata=as_option("Maximum number of tokens in an answer."))
    temperature: float = field(
        default=0.7, metadata=as_option("Randomness of the answer; 0 always takes the most probable token.")
    )
    top_p: float = field(
        default=0.9,
        metadata=as_option(
            "Draw from the smallest set of most probable tokens with at least this total probability; 1 for all tokens."
        ),
    )
    top_k: int = field(default=0, metadata=as_option("Draw from this number of the most probable tokens; 0 for all tokens."))
    min_p: float = field(
        default=0.0,
        metadata=as_option("Draw from the tokens with at least this share of the highest probability; 0 for all tokens."),
    )
    repetition_penalty: float = field(
        default=1.0,
        metadata=as_option(
            "Penalty for repetition: a value above 1 lowers the probability of tokens that have already occurred."
        ),
    )
    seed: int | None = field(
        default=None, metadata=as_option("Random seed: the same seed gives the same answer (default: a new seed each time).")
    )
    stop: tuple[str, ...] = field(
        default=(), metadata=as_option("Text that ends an answer; the answer does not include this text (repeatable).")
    )
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_new_tokens: int = 0
    skip_special_tokens: bool = True
    whole_syllables: bool = field(
        default=False,
        metadata=as_option(
            "Hold a letter back until no later token can change it.",
            "--whole-syllables/--no-whole-syllables",
            default=True,
        ),
    )
    heal: bool = field(
        default=False,
        metadata=as_option(
            "If a prompt ends inside a word, let the model choose its last tokens again (token healing); not for "
            "conversations.",
            "--heal",
        ),
    )

    def __post_init__(self) -> None:
        for name, (kind, limits, holds) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name == "seed":
                continue
            if type(value) not in (int, float):
                from numpy import generic  # imported here, because showing the options of the command line does not need it

                value = value.item() if isinstance(value, generic) else value
            original = value
            if kind is float and type(value) is int:  # transformers rejects whole numbers here
                value = float(value) if abs(value) < 1 << 1000 else inf
            object.__setattr__(self, name, value)
            if not isinstance(value, (int, kind)) or isinstance(value, bool) or not holds(value):
                noun = "a whole number" if kind is int else "a number"
                raise SGPEError(f"{name} must be {noun} {limits}, not {original!r}")
        for name in ("stop", "stop_ids"):
            value = getattr(self, name)
            if not isinstance(value, (str, int, Iterable)):
                raise SGPEError(f"{name} must be a list, not {value!r}")
            object.__setattr__(self, name, (value,) if isinstance(value, (str, int)) else tuple(value))
        for name in ("whole_syllables", "heal", "ignore_eos", "skip_special_tokens"):
            if not isinstance(getattr(self, name), bool):
                raise SGPEError(f"{name} must be true or false, not {getattr(self, name)!r}")
        if not all(isinstance(text, str) and text for text in self.stop):
            raise SGPEError(f"stop must be a list of non-empty strings, not {self.stop!r}")
        if not all(type(id) is int and id >= 0 for id in self.stop_ids):
            raise SGPEError(f"stop_ids must be whole numbers of at least 0, not {self.stop_ids!r}")

    @property
    def is_greedy(self) -> bool:
        """True if the most probable token is always chosen."""
        return self.temperature < 1e-6

    def seed_or_random(self) -> int:
        """Return the seed, or a new random seed if there is none."""
        return secrets.randbelow((1 << 32) - 1) if self.seed is None else self.seed

    def with_at_most(self, tokens: int) -> GenerationOptions:
        """Return these options, with ``max_new_tokens`` lowered to ``tokens`` if it is greater."""
        return self if self.max_new_tokens <= tokens else replace(self, max_new_tokens=tokens)
