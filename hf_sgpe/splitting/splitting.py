r"""Splitting: how text is cut into words, as one immutable value. Only this module knows how regexes spell it.

A word is a span that merges never leave. Settings make a `Splitting`, and so does, by `Splitting.from_regexes`, the reader
of a saved tokenizer; counts, tokenizers, kernels and exporters carry it and ask it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from typing import Any, Protocol

import regex

from hf_sgpe.errors import SGPEError
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.splitting.normalization import NORMALIZATIONS
from hf_sgpe.splitting.patterns import PATTERNS, SplitPattern, covers_all, is_name, patterns_of, resolve_pattern
from hf_sgpe.splitting.scripts.script import ZWJ, ZWNJ, ZWSP, Ranges, Script, runs, shared_marks
from hf_sgpe.splitting.scripts.script_registry import every_script, resolve_script, resolve_scripts
from hf_sgpe.splitting.scripts.script_tables import TEN


@dataclass(frozen=True)
class Recipe:
    """A named way to cut text, and what it takes where the user leaves that open.

    Attributes:
        meaning: What words are, in half a sentence.
        uses_scripts: Words of the scripts are cut by syllable.
        uses_pattern: A split pattern cuts everything else.
        normalization: One of `NORMALIZATIONS`.
        special_tokens: Of a tokenizer that is trained with it.
        special_tokens_position: Where their ids are.
        words_of: The recipe that cuts text into the same words; empty for its own. A `Splitting` has that one: how words are
            learned from is the business of training.
    """

    meaning: str
    uses_scripts: bool = True
    uses_pattern: bool = True
    normalization: str = "none"
    special_tokens: tuple[str, ...] = ("<|endoftext|>",)
    special_tokens_position: str = "end"
    words_of: str = ""


SGPE_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The special tokens of the SGPE document (section 3.1), with the ids 0 to 4."""

RECIPES = {
    "hybrid": Recipe("words of the scripts by syllable, everything else by a split pattern", normalization="nfc"),
    "portable": Recipe("all words by a split pattern that other runtimes know, whole syllables inside them", words_of="bpe"),
    "sgpe": Recipe(
        "the SGPE document's words: runs of the scripts, every other character alone",
        uses_pattern=False,
        special_tokens=SGPE_SPECIAL_TOKENS,
        special_tokens_position="start",
    ),
    "bpe": Recipe("words by a split pattern only", uses_scripts=False),
}
"""Name of a recipe → what it is."""


class HasSplitting(Protocol):
    """An object that says how text is cut: a `Splitting` itself, a configuration, counts, a tokenizer."""

    @property
    def splitting(self) -> Splitting:
        """How text is cut."""


@dataclass(frozen=True)
class Splitting:
    r"""How text is cut into words. Equal values cut every text alike.

    Args:
        recipe: One of `RECIPES`; in place of ``portable`` it is ``bpe`` afterwards, whose words it has.
        scripts: Scripts whose words are cut by syllable, also ``("all",)``; empty for ``bpe``.
        pattern: Name of one of `SPLIT_PATTERNS`, or a regex, for everything else; of some tokenizers made elsewhere several,
            applied one after another (StarCoder, DeepSeek). Empty for ``sgpe``.
        normalization: ``none`` or ``nfc``; None for the recipe's own.
        special_tokens: Their text is taken out before anything is cut. None for the recipe's own.
        letters: The characters (code point ranges) that words of each script are written with, where a tokenizer was saved
            under other tables than today's; None for today's.
        joiners: The same for what stands in words of each script behind their letters.

    Raises:
        SGPEError: a value is unknown, or a pattern is not a regex.

    >>> Splitting(pattern="gpt2") == Splitting.from_regexes(Splitting(pattern="gpt2").regexes, "nfc", ["<|endoftext|>"])
    True
    """

    recipe: str = "hybrid"
    scripts: tuple[str, ...] = ("sinhala",)
    pattern: str | tuple[str, ...] = "o200k"
    normalization: str | None = None
    special_tokens: tuple[str, ...] | None = None
    letters: tuple[Ranges, ...] | None = field(default=None, repr=False)
    joiners: tuple[Ranges, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.recipe not in tuple(RECIPES):
            raise SGPEError(f"unknown recipe {self.recipe!r}: known are {', '.join(RECIPES)}")
        object.__setattr__(self, "recipe", RECIPES[self.recipe].words_of or self.recipe)
        recipe = RECIPES[self.recipe]
        normalization = recipe.normalization if self.normalization is None else self.normalization
        if normalization not in NORMALIZATIONS:
            raise SGPEError(f"unknown normalization {normalization!r}: known are {', '.join(NORMALIZATIONS)}")
        named = resolve_scripts(_listed("scripts", self.scripts)) if recipe.uses_scripts else ()
        if self.recipe == "sgpe" and (without := [name for name in named if not resolve_script(name).document]):
            more = f" and {len(without) - 1} more" if without[1:] else ""
            raise SGPEError(f"the recipe sgpe has no syllables for {without[0]}{more}: name other scripts, or take hybrid")
        scripts = tuple(name for name in named if resolve_script(name).own_words)
        if recipe.uses_scripts and not scripts:
            if named:
                raise SGPEError(
                    f"words in {named[0]} are those of the split pattern: take portable, or name another script, too"
                )
            raise SGPEError(f"the recipe {self.recipe} needs a script: give at least one, or take the recipe bpe")
        special_tokens = _listed(
            "special_tokens", recipe.special_tokens if self.special_tokens is None else self.special_tokens
        )
        for token in special_tokens:
            if not isinstance(token, str):
                raise SGPEError(f"special tokens must be text, not {token!r}")
        if len(set(special_tokens)) < len(special_tokens):
            raise SGPEError(f"special tokens occur twice: {', '.join(special_tokens)}")
        checked = {
            "scripts": scripts,
            "pattern": self._checked_pattern() if recipe.uses_pattern else "",
            "normalization": normalization,
            "special_tokens": tuple(sorted(special_tokens)),
            "letters": None if self.letters == _letters(self.recipe, scripts) else self.letters,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        # They depend on the letters.
        object.__setattr__(self, "joiners", None if self.joiners == self._joiners() else self.joiners)
        for one in self.regexes:
            _check(one)

    def _checked_pattern(self) -> str | tuple[str, ...]:
        patterns = tuple(self.pattern) if isinstance(self.pattern, (tuple, list)) else (self.pattern,)
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise SGPEError(f"pattern must be a name or a regex, not {self.pattern!r}")
        return patterns[0] if len(patterns) == 1 else patterns

    def __reduce__(self) -> tuple[type[Splitting], tuple[Any, ...]]:
        # By way of the constructor: another process may not know a script that was added in this one, and should say so.
        return type(self), tuple(getattr(self, one.name) for one in fields(self))

    @classmethod
    def from_regexes(
        cls, regexes: Sequence[str], normalization: str = "none", special_tokens: Iterable[str] = ()
    ) -> Splitting:
        """Read the regexes of a saved tokenizer: as a recipe if they spell one, else as split patterns.

        Raises:
            SGPEError: one is not a regex, or an argument is wrong.
        """
        rest: dict[str, Any] = {"normalization": normalization, "special_tokens": tuple(special_tokens)}
        if len(regexes) == 1 and (sgpe := _SGPE_WORDS.fullmatch(regexes[0])):
            blocks = [(ord(part[0]), ord(part[-1])) for part in regex.findall(".-.", sgpe["inside"], flags=regex.DOTALL)]
            splitting = cls._spelled("sgpe", tuple((block,) for block in blocks), None, (), rest)
        elif len(regexes) > 1 and all(one.startswith(f"{regexes[0]}|") for one in regexes[1:]):
            patterns = tuple(one[len(regexes[0]) + 1 :] for one in regexes[1:])
            splitting = cls._spelled("hybrid", *_letters_and_joiners(regexes[0]), patterns, rest)
        else:
            splitting = None
        if splitting and splitting.regexes == tuple(regexes):
            return splitting
        return cls("bpe", pattern=tuple(map(_named, regexes)), **rest)

    @classmethod
    def _spelled(
        cls,
        recipe: str,
        letters: tuple[Ranges, ...],
        joiners: tuple[Ranges, ...] | None,
        patterns: tuple[str, ...],
        rest: Mapping[str, Any],
    ) -> Splitting | None:
        """Return the splitting that letters and regexes for all else may spell; None if the letters belong to no script."""
        scripts = [_script_of(recipe, one) for one in letters]
        if "" in scripts or not scripts or len(set(scripts)) < len(scripts) or any(map(is_name, patterns)):
            return None
        pattern = tuple(map(_named, patterns)) or ""
        return cls(recipe, tuple(scripts), pattern, letters=letters, joiners=joiners, **rest)

    @property
    def splitting(self) -> Splitting:
        """Itself: what takes a `HasSplitting` takes a splitting, too."""
        return self

    @property
    def patterns(self) -> tuple[str, ...]:
        """The regexes for what is in no word of the scripts, applied one after another."""
        names = (self.pattern,) if isinstance(self.pattern, str) else self.pattern
        return tuple(resolve_pattern(name) for name in names) if RECIPES[self.recipe].uses_pattern else ()

    @property
    def script_letters(self) -> tuple[Ranges, ...]:
        """The characters (code point ranges) that words are written with, script by script: in ``sgpe`` whole blocks."""
        return _letters(self.recipe, self.scripts) if self.letters is None else self.letters

    @cached_property
    def script_joiners(self) -> tuple[Ranges, ...]:
        """What stands in words of each script behind their letters (code point ranges): joiners; in ``hybrid``, but for the
        scripts of the SGPE document's kind, also the marks that all scripts share; and U+200B where there are no spaces
        between words, which some writers put there instead."""
        return self._joiners() if self.joiners is None else self.joiners

    def _joiners(self) -> tuple[Ranges, ...]:
        """Return the same by today's tables."""
        scripts = [resolve_script(name) for name in self.scripts]
        if self.recipe == "sgpe":
            return (runs({ord(joiner) for script in scripts for joiner in script.joiners}),) * len(scripts)
        return tuple(
            runs(map(ord, ZWNJ + ZWJ + ("" if script.spaced else ZWSP) + ("" if script.document else _marks_of_none())))
            for script in scripts
        )

    @cached_property
    def words_regex(self) -> str:
        """The regex of words in the scripts, in ``hybrid``. Its joiners are literal: some runtimes misread escapes."""
        joiners = map(_character_class, self.script_joiners)
        letters = map(_character_class, self.script_letters)
        words = [f"[{one}][{one}{others}]*" for one, others in zip(letters, joiners, strict=True)]
        if len(words) == 1:
            return f" ?{words[0]}"
        first = runs(point for ranges in self.script_letters for a, b in ranges for point in range(a, b + 1))
        # So that other text is passed over at the first look, where it would be tried on each of many scripts.
        look = f"(?=[{_character_class(first)}])" if len(words) > _FEW_SCRIPTS else ""
        return f" ?{look}(?:{'|'.join(words)})"

    @cached_property
    def regexes(self) -> tuple[str, ...]:
        """The split regexes that a saved tokenizer has, applied one after another."""
        if self.recipe == "sgpe":
            inside = "".join(map(_character_class, self.script_letters))
            return (rf" ?[{inside}{_character_class(self.script_joiners[0])}]+| ?[^ \t\n\r]|[ \t\n\r]",)
        if self.recipe == "hybrid":
            # The others begin with the first, so that they leave those words whole.
            return (self.words_regex, *(f"{self.words_regex}|{pattern}" for pattern in self.patterns))
        return self.patterns

    def covers_all(self, step: int) -> bool:
        """Return whether the regex of a step is known to match every character, so that nothing is between two matches."""
        return self.recipe == "sgpe" or covers_all(self.regexes[step])

    @property
    def base(self) -> SplitPattern | None:
        """The record of the one split pattern; None if there are several, or it is a regex without a name."""
        if isinstance(self.pattern, str) and self.pattern in PATTERNS:
            return PATTERNS[self.pattern]
        known = patterns_of(self.patterns[0]) if len(self.patterns) == 1 else []
        return known[0] if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values. The regexes are among them, so that counts tell tables of different versions apart."""
        return {
            "recipe": self.recipe,
            "scripts": list(self.scripts),
            "pattern": self.pattern,
            "normalization": self.normalization,
            "special_tokens": list(self.special_tokens or ()),
            "patterns": list(self.regexes),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Splitting:
        """Return the inverse of `to_dict`.

        Raises:
            SGPEError: a value is missing, unknown or of another type.
        """
        try:
            names = ("recipe", "scripts", "pattern", "normalization", "special_tokens")
            recipe, scripts, pattern, normalization, special_tokens = (values[name] for name in names)
            splitting = cls(recipe, tuple(scripts), pattern, normalization, tuple(special_tokens))
            if (regexes := tuple(values["patterns"])) != splitting.regexes:
                splitting = cls.from_regexes(regexes, normalization, special_tokens)
        except (KeyError, TypeError, AttributeError) as error:
            raise SGPEError(f"how its words were cut is damaged ({type(error).__name__}: {error})") from None
        if splitting.recipe != recipe:
            raise SGPEError(f"its split patterns are not those of the recipe {recipe!r}")
        return splitting

    def difference(self, other: Splitting) -> str:
        """Return the first setting in which two ways to cut words differ; empty if there is none."""
        ours, theirs = self.to_dict(), other.to_dict()
        return next((name for name in ours if ours[name] != theirs[name]), "")


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise SGPEError(f"{name} must be a list, not the text {value!r}: write [{value!r}]")
    if not isinstance(value, Iterable):
        raise SGPEError(f"{name} must be a list, not {value!r}")
    return tuple(value)


def _letters(recipe: str, scripts: tuple[str, ...]) -> tuple[Ranges, ...]:
    """Return what words are written with by today's tables: in ``sgpe`` whole blocks, else letters and marks."""
    tables = map(resolve_script, scripts)
    return tuple((script.block,) if recipe == "sgpe" else _letters_and_marks(script) for script in tables)


@lru_cache(256)
def _letters_and_marks(script: Script) -> Ranges:
    return runs(map(ord, script.letters_and_marks()))


@cache
def _marks_of_none() -> str:
    """Return the marks that all scripts share, without a few that are of Devanagari."""
    return "".join(sorted(set(shared_marks()).difference(*(script.letters_and_marks() for script in TEN))))


def _named(pattern: str) -> str:
    known = patterns_of(pattern)
    return known[0].name if known else pattern


def _script_of(recipe: str, letters: Ranges) -> str:
    """Return the script that most of the letters belong to by today's tables; empty if there is none."""

    def shared(ranges: Ranges) -> int:
        return sum(max(min(b, d) - max(a, c) + 1, 0) for a, b in letters for c, d in ranges)

    near = [name for name, script in every_script().items() if shared((script.block,))]
    count, name = max(
        ((shared(_letters(recipe, (name,))[0]), name) for name in near), default=(0, ""), key=lambda one: one[0]
    )
    return name if count else ""


_check = lru_cache(256)(tokenizers_library.check_regex)


def _character_class(ranges: Ranges) -> str:
    """Return the inside of a regex class.

    >>> _character_class(((97, 99), (101, 102), (120, 120)))
    'a-cefx'
    """
    texts = ("".join(map(chr, range(first, last + 1))) for first, last in ranges)
    return "".join(text if len(text) < 3 else f"{text[0]}-{text[-1]}" for text in texts)


_CLASS = r"(?:[^\[\]\\^-](?:-[^\[\]\\^-])?)+"
_SGPE_WORDS = regex.compile(rf" \?\[(?P<inside>{_CLASS})\]\+\| \?\[\^ \\t\\n\\r\]\|\[ \\t\\n\\r\]")
_ALTERNATIVE = rf"\[(?P<letters>{_CLASS})\]\[(?P<inside>{_CLASS})\]\*"
_WORDS = regex.compile(rf" \?(?:{_ALTERNATIVE}|(?:\(\?=\[{_CLASS}\]\))?\(\?:{_ALTERNATIVE}(?:\|{_ALTERNATIVE})*\))")
_FEW_SCRIPTS = 10


def _letters_and_joiners(words: str) -> tuple[tuple[Ranges, ...], tuple[Ranges, ...]]:
    """Return the scripts' letters and joiners in a regex that `Splitting.words_regex` wrote; empty for any other regex."""
    match = _WORDS.fullmatch(words)
    letters, inside = (list(map(_points, match.captures(group) if match else ())) for group in ("letters", "inside"))
    return tuple(map(runs, letters)), tuple(runs(all_ - first) for first, all_ in zip(letters, inside, strict=True))


def _points(text: str) -> set[int]:
    """Return the code points of what stands between the brackets of a class without escapes."""
    points: set[int] = set()
    for part in regex.findall(".-.|.", text, flags=regex.DOTALL):
        points.update(range(ord(part[0]), ord(part[-1]) + 1))
    return points
