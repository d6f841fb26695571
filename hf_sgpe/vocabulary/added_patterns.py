"""Added tokens in text: where they match, which white space they include, and next to which characters they do not match."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import regex

from hf_sgpe.kernels.tokenizers_library import is_word
from hf_sgpe.splitting.normalization import in_two, prepare
from hf_sgpe.vocabulary.special_tokens import any_of

_SPACE = regex.compile(r"\p{White_Space}*")
_SPACE_BEFORE = regex.compile(r"(?r)\p{White_Space}*")


@dataclass(frozen=True)
class Matching:
    """The rules for matching an added token, with the names from ``tokenizer.json``.

    Attributes:
        lstrip: Whether the token includes the white space before it.
        rstrip: Whether the token includes the white space after it.
        single_word: Whether a letter, a digit or a similar character next to the token prevents a match.
    """

    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Matching:
        """Return the matching rules that an entry of ``added_tokens`` sets."""
        return cls(*(bool(flags.get(name)) for name in ("lstrip", "rstrip", "single_word")))

    def reach(self, text: str, start: int, stop: int, after: int) -> tuple[int, int] | None:
        """Return the start and stop of a token, counting the white space that the token includes. Return None if the
        characters next to the token prevent a match.

        Args:
            start: Start of the token's own text.
            stop: Stop of the token's own text.
            after: Stop of the preceding token, counting the white space that the preceding token includes.
        """
        if self.single_word and any(map(is_word, text[max(start - 1, 0) : start] + text[stop : stop + 1])):
            return None
        if self.lstrip:
            start = _SPACE_BEFORE.match(text, after, start).start() if after < start else after
        if self.rstrip:
            stop = _SPACE.match(text, stop).end()
        return start, stop

    def flags(self) -> dict[str, bool]:
        """Return the rules as ``tokenizer.json`` stores them."""
        return asdict(self)


EXACTLY = Matching()
"""The rules of a token that matches exactly its own text, anywhere."""


class Found(NamedTuple):
    """An added token in a text, with the range of characters that the token includes."""

    start: int
    stop: int
    name: str


@dataclass(frozen=True)
class AddedPattern:
    """A pattern that finds added tokens.

    Args:
        pattern: Regex that matches the texts of the tokens.
        matching: The rules for tokens that are not simply matched by their own text.
        names: The tokens whose texts are changed by normalization, keyed by the normalized text.
    """

    pattern: re.Pattern[str]
    matching: Mapping[str, Matching] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def find(self, text: str) -> Iterator[Found]:
        """Yield the tokens in a text, in order.

        As in ``tokenizers``, if a token's text occurs but does not match as a single word, no other token inside that text
        matches either. White space belongs to the first token that includes it.

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
    """The patterns of added tokens. ``first`` searches the original text, and ``then`` searches the normalized text between
    the matches of ``first``.
    """

    first: AddedPattern
    then: AddedPattern | None = None

    @classmethod
    def of(
        cls,
        names: Collection[str],
        normalized: Collection[str],
        matching: Mapping[str, Matching] | None = None,
        normalization: str = "none",
    ) -> AddedPatterns | None:
        """Return the patterns that match ``names``, or None if there are no names. The names in ``normalized`` are matched
        last.

        Args:
            matching: The rules for tokens that are not simply matched by their own text.
            normalization: How the texts of the tokens in ``normalized`` are normalized. With ``metaspace-prefix``, such a
                token matches only after a space, as in old files of Llama 2.
        """
        if not names:
            return None
        then = frozenset(name for name in names if name in normalized)
        texts = {prepare(name, in_two(normalization)[0]): name for name in then}

        def pattern(some: frozenset[str]) -> AddedPattern:
            return AddedPattern(any_of(some), {name: rules for name, rules in (matching or {}).items() if name in some})

        last = replace(pattern(then), pattern=any_of(frozenset(texts)), names=texts) if then else None
        return cls(pattern(frozenset(names) - then), last)

    @property
    def later(self) -> AddedPatterns | None:
        """The patterns for text between the matches of ``first``, or None if nothing else can match there."""
        return AddedPatterns(AddedPattern(any_of(frozenset())), self.then) if self.then else None


def reaches(matching: Mapping[str, Matching]) -> Iterator[str]:
    """Yield the text of each added token, together with the neighbouring characters that can affect its match.

    `hf_sgpe.splitting.streams.cut_stream` does not cut a stream inside these texts.
    """
    for name, rules in matching.items():
        if rules.lstrip:
            yield f"\n{name}"
        if rules.rstrip:
            yield f"{name} a"
        if rules.single_word:
            yield f"a{name}a"
