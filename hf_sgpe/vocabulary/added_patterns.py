"""Search for added tokens in text: where a token matches, which white space the match includes, and which neighbouring
characters prevent a match.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import regex

from hf_sgpe.kernels.tokenizers_library import is_word
from hf_sgpe.splitting.normalization import NONE, Normalization, prepare
from hf_sgpe.vocabulary.special_tokens import any_of

_SPACE = regex.compile(r"\p{White_Space}*")
_SPACE_BEFORE = regex.compile(r"(?r)\p{White_Space}*")


@dataclass(frozen=True)
class Matching:
    """The rules for matching an added token. They have the same names as in ``tokenizer.json``.

    Attributes:
        lstrip: Whether a match includes the white space before the token.
        rstrip: Whether a match includes the white space after the token.
        single_word: Whether a word character next to the token, such as a letter or a digit, prevents a match.
    """

    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Matching:
        """Read the rules of an entry ``added_tokens`` in a ``tokenizer.json``. A missing field counts as False."""
        return cls(*(bool(flags.get(name)) for name in ("lstrip", "rstrip", "single_word")))

    def reach(self, text: str, start: int, stop: int, after: int) -> tuple[int, int] | None:
        """Return the start and the stop of a match with its white space, or None if a neighbouring character prevents it.

        Args:
            start: Start of the token's own text; ``stop`` is its end.
            after: Stop of the preceding match, including its white space.
        """
        if self.single_word and any(map(is_word, text[max(start - 1, 0) : start] + text[stop : stop + 1])):
            return None
        if self.lstrip:
            start = _SPACE_BEFORE.match(text, after, start).start() if after < start else after
        if self.rstrip:
            stop = _SPACE.match(text, stop).end()
        return start, stop

    def flags(self) -> dict[str, bool]:
        """Return the rules as a dict from names to values, as in ``tokenizer.json``."""
        return asdict(self)


EXACTLY = Matching()
"""The rules of a token that matches exactly its own text, anywhere."""


class Found(NamedTuple):
    """A match of the added token ``name``. ``start`` and ``stop`` include the white space that belongs to it."""

    start: int
    stop: int
    name: str


@dataclass(frozen=True)
class AddedPattern:
    """A pattern that finds added tokens.

    Args:
        matching: The rules, keyed by token. A token without rules matches its own text, anywhere.
        names: The original texts of the tokens that are matched in normalized text, keyed by normalized text.
    """

    pattern: re.Pattern[str]
    matching: Mapping[str, Matching] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def find(self, text: str) -> Iterator[Found]:
        """Yield the matches in order.

        If the rule ``single_word`` prevents a match, no other token that begins inside that text matches either, as in
        ``tokenizers``. If two matches could include the same white space, the first match gets it.

        >>> pattern = AddedPattern(re.compile("<m>"), {"<m>": Matching(lstrip=True)})
        >>> list(pattern.find("a  <m> b"))
        [Found(start=1, stop=6, name='<m>')]
        """
        end = 0
        for match in self.pattern.finditer(text):
            name = self.names.get(match.group(), match.group())
            reach = self.matching.get(name, EXACTLY).reach(text, *match.span(), end)
            if reach is not None:
                yield Found(*reach, name)
                end = reach[1]


class AddedPatterns(NamedTuple):
    """The patterns that find all added tokens. ``first`` searches the original text. ``then`` searches the normalized text
    between the matches of ``first``; it is None if no token is matched in normalized text.
    """

    first: AddedPattern
    then: AddedPattern | None = None

    @classmethod
    def of(
        cls,
        names: Collection[str],
        normalized: Collection[str],
        matching: Mapping[str, Matching] | None = None,
        normalization: Normalization = NONE,
    ) -> AddedPatterns | None:
        """Return patterns that find the tokens ``names``, or None if there are no names. Those of the names that are also in
        ``normalized`` are searched for in normalized text, after all others.

        Args:
            normalization: It is also applied to the tokens in ``normalized``. With ``metaspace-prefix``, such a token
                matches only after a space, as in old files of Llama 2.
        """
        if not names:
            return None
        then = frozenset(name for name in names if name in normalized)
        texts = {prepare(name, normalization.in_two[0]): name for name in then}

        def pattern(some: frozenset[str]) -> AddedPattern:
            return AddedPattern(any_of(some), {name: rules for name, rules in (matching or {}).items() if name in some})

        last = replace(pattern(then), pattern=any_of(frozenset(texts)), names=texts) if then else None
        return cls(pattern(frozenset(names) - then), last)

    @property
    def later(self) -> AddedPatterns | None:
        """The patterns for text between the matches of ``first``, or None if nothing else can match there."""
        return AddedPatterns(AddedPattern(any_of(frozenset())), self.then) if self.then else None


def reaches(matching: Mapping[str, Matching]) -> Iterator[str]:
    """Yield sample texts: each added token together with neighbouring characters that can affect its match.

    Pass these texts to `hf_sgpe.splitting.streams.may_be_cut` to find out whether cutting a stream could change a match.
    """
    for name, rules in matching.items():
        if rules.lstrip:
            yield f"\n{name}"
        if rules.rstrip:
            yield f"{name} a"
        if rules.single_word:
            yield f"a{name}a"
