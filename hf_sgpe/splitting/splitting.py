r"""Splitting: the settings for splitting text into words, as one immutable value. Only this module writes and reads the
regexes of a splitting.

A word is a stretch of text. Merges never join tokens of two words. A `Splitting` is made from settings or, by
`Splitting.from_regexes`, from the regexes of a saved tokenizer. Counts, tokenizers, kernels and exporters use a `Splitting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from typing import Any, Protocol

import regex

from hf_sgpe.errors import SGPEError
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.splitting.character_classes import runs_of_class
from hf_sgpe.splitting.normalization import NONE, NORMALIZATIONS, Normalization
from hf_sgpe.splitting.patterns import CUT_MARKS, PATTERNS, SplitPattern, covers_all, is_name, patterns_of, resolve_pattern
from hf_sgpe.splitting.scripts.script import ZWJ, ZWNJ, ZWSP, Ranges, Script, runs, shared_marks
from hf_sgpe.splitting.scripts.script_registry import every_script, resolve_script, resolve_scripts
from hf_sgpe.splitting.scripts.script_tables import TEN

BEFORE_SPACES = " [^ ]*|[^ ]+"
"""The regex of the words of a Metaspace with ``split``: each space begins a word."""


@dataclass(frozen=True)
class Recipe:
    """A named way to split text into words, with its default settings.

    Attributes:
        meaning: Short description of how the recipe splits text.
        uses_scripts: Whether words in the chosen scripts consist of syllables.
        uses_pattern: Whether a split pattern splits all other text.
        normalization: Default normalization, one of `NORMALIZATIONS`.
        special_tokens: Default special tokens.
        special_tokens_position: Default position of the ids of special tokens.
        words_of: Name of another recipe that splits text into the same words, or an empty string. The two recipes differ
            only in training, so a `Splitting` stores the name of the other recipe.
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
    "hybrid": Recipe("syllables in words of the scripts, a split pattern for other text", normalization="nfc"),
    "portable": Recipe("a split pattern that other runtimes support, and whole syllables inside words", words_of="bpe"),
    "sgpe": Recipe(
        "as in the SGPE document, each run of the scripts and each other character is a word",
        uses_pattern=False,
        special_tokens=SGPE_SPECIAL_TOKENS,
        special_tokens_position="start",
    ),
    "bpe": Recipe("a split pattern for all text", uses_scripts=False),
}
"""The recipes, keyed by name."""


class HasSplitting(Protocol):
    """An object that has a splitting: a `Splitting`, a `TrainingConfig`, word counts or a tokenizer."""

    @property
    def splitting(self) -> Splitting: ...


@dataclass(frozen=True)
class Splitting:
    r"""The settings for splitting text into words. Equal settings split every text into the same words.

    Args:
        recipe: One of `RECIPES`. ``portable`` is stored as ``bpe``, which splits text into the same words.
        scripts: Names of the scripts whose words consist of syllables, or ``("all",)``. Empty for ``bpe``.
        pattern: Name of one of `SPLIT_PATTERNS`, or a regex, for all other text. Some existing tokenizers (StarCoder,
            DeepSeek) have several patterns, which are applied one after another. ``sgpe`` has no pattern. If ``pattern`` is
            an empty tuple, the whole text is one word, and the normalization must be one of `METASPACES`. With these
            normalizations, the only other allowed pattern is `BEFORE_SPACES`.
        normalization: A `Normalization` or the name of its scheme; None for the recipe's default. It is stored as a
            `Normalization`.
        special_tokens: Special tokens, which are removed from the text before it is split. None means the recipe's default.
        letters: For each script, the characters of its words as code point ranges. This is needed for tokenizers that were
            saved with older script tables. None means the current tables.
        joiners: For each script, additional characters that may follow the first character of a word, as code point ranges.
            None means the current tables.

    >>> Splitting(pattern="gpt2") == Splitting.from_regexes(Splitting(pattern="gpt2").regexes, "nfc", ["<|endoftext|>"])
    True
    """

    recipe: str = "hybrid"
    scripts: tuple[str, ...] = ("sinhala",)
    pattern: str | tuple[str, ...] = "o200k"
    normalization: Any = None
    special_tokens: tuple[str, ...] | None = None
    letters: tuple[Ranges, ...] | None = field(default=None, repr=False)
    joiners: tuple[Ranges, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.recipe not in tuple(RECIPES):
            raise SGPEError(f"unknown recipe {self.recipe!r}: choose from {', '.join(RECIPES)}")
        object.__setattr__(self, "recipe", RECIPES[self.recipe].words_of or self.recipe)
        recipe = RECIPES[self.recipe]
        normalization: Any = recipe.normalization if self.normalization is None else self.normalization
        if not isinstance(normalization, Normalization):
            normalization = Normalization(normalization)
        if normalization.scheme not in NORMALIZATIONS and not normalization.is_metaspace:
            raise SGPEError(f"unknown normalization {normalization.scheme!r}: choose from {', '.join(NORMALIZATIONS)}")
        named = resolve_scripts(checked_list("scripts", self.scripts)) if recipe.uses_scripts else ()
        if self.recipe == "sgpe" and (without := [name for name in named if not resolve_script(name).document]):
            more = f" and {len(without) - 1} more" if without[1:] else ""
            raise SGPEError(
                f"the recipe sgpe has no syllables for {without[0]}{more}: give other scripts, or use the recipe hybrid"
            )
        scripts = tuple(name for name in named if resolve_script(name).own_words)
        if recipe.uses_scripts and not scripts:
            if named:
                raise SGPEError(
                    f"the split pattern cuts words in {named[0]}: use the recipe portable, or add another script"
                )
            raise SGPEError(f"the recipe {self.recipe} needs a script: give at least one, or use the recipe bpe")
        special_tokens = checked_list(
            "special_tokens", recipe.special_tokens if self.special_tokens is None else self.special_tokens
        )
        for token in special_tokens:
            if not isinstance(token, str):
                raise SGPEError(f"special tokens must be strings, not {token!r}")
        if len(set(special_tokens)) < len(special_tokens):
            raise SGPEError(f"a special token occurs twice: {', '.join(special_tokens)}: give each token once")
        checked = {
            "scripts": scripts,
            "pattern": self._checked_pattern(normalization) if recipe.uses_pattern else "",
            "normalization": normalization,
            "special_tokens": tuple(sorted(special_tokens)),
            "letters": None if self.letters == _letters(self.recipe, scripts) else self.letters,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        # The default joiners depend on the letters.
        object.__setattr__(self, "joiners", None if self.joiners == self._joiners() else self.joiners)
        for pattern in self.regexes:
            _check(pattern)

    def _checked_pattern(self, normalization: Normalization) -> str | tuple[str, ...]:
        patterns = tuple(self.pattern) if isinstance(self.pattern, (tuple, list)) else (self.pattern,)
        has_any = patterns or normalization.is_metaspace
        if not has_any or not all(isinstance(pattern, str) for pattern in patterns):
            raise SGPEError(f"pattern must be a name or a regex, not {self.pattern!r}")
        return patterns[0] if len(patterns) == 1 else patterns

    def __reduce__(self) -> tuple[type[Splitting], tuple[Any, ...]]:
        # Unpickle through the constructor, which reports a script that was added only in this process.
        return type(self), tuple(getattr(self, entry.name) for entry in fields(self))

    @classmethod
    def from_regexes(
        cls, regexes: Sequence[str], normalization: Normalization = NONE, special_tokens: Iterable[str] = ()
    ) -> Splitting:
        """Convert the regexes of a saved tokenizer to a splitting. If these are the regexes of a recipe, the splitting uses
        this recipe. Otherwise it uses a list of split patterns.
        """
        rest: dict[str, Any] = {"normalization": normalization, "special_tokens": tuple(special_tokens)}
        if len(regexes) == 1 and (sgpe := _SGPE_WORDS.fullmatch(regexes[0])):
            blocks = [(ord(part[0]), ord(part[-1])) for part in regex.findall(".-.", sgpe["inside"], flags=regex.DOTALL)]
            splitting = cls._spelled("sgpe", tuple((block,) for block in blocks), None, (), rest)
        elif len(regexes) > 1 and all(pattern.startswith(f"{regexes[0]}|") for pattern in regexes[1:]):
            patterns = tuple(pattern[len(regexes[0]) + 1 :] for pattern in regexes[1:])
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
        """Return the splitting with these letters and patterns, or None if some letters belong to no script."""
        scripts = [_script_of(recipe, ranges) for ranges in letters]
        if "" in scripts or not scripts or len(set(scripts)) < len(scripts) or any(map(is_name, patterns)):
            return None
        pattern = tuple(map(_named, patterns)) or ""
        return cls(recipe, tuple(scripts), pattern, letters=letters, joiners=joiners, **rest)

    @property
    def splitting(self) -> Splitting:
        """The splitting itself, which makes this a `HasSplitting`."""
        return self

    @property
    def patterns(self) -> tuple[str, ...]:
        """The regexes for text outside words of the scripts."""
        names = (self.pattern,) if isinstance(self.pattern, str) else self.pattern
        return tuple(resolve_pattern(name) for name in names) if RECIPES[self.recipe].uses_pattern else ()

    @property
    def script_letters(self) -> tuple[Ranges, ...]:
        """For each script, the characters of its words as code point ranges. In ``sgpe``, this is the whole block."""
        return _letters(self.recipe, self.scripts) if self.letters is None else self.letters

    @cached_property
    def script_joiners(self) -> tuple[Ranges, ...]:
        """For each script, the additional characters that may follow the first character of a word, as code point ranges.

        These are joiners and, in ``hybrid``, U+200B for scripts without spaces between words, because some writers put it
        between words, and the marks that all scripts share for scripts without a grammar for the recipe ``sgpe``.
        """
        return self._joiners() if self.joiners is None else self.joiners

    def _joiners(self) -> tuple[Ranges, ...]:
        """Return `script_joiners`, computed from the current script tables."""
        scripts = [resolve_script(name) for name in self.scripts]
        if self.recipe == "sgpe":
            return (runs({ord(joiner) for script in scripts for joiner in script.joiners}),) * len(scripts)
        return tuple(
            runs(map(ord, ZWNJ + ZWJ + ("" if script.spaced else ZWSP) + ("" if script.document else _marks_of_none())))
            for script in scripts
        )

    @cached_property
    def words_regex(self) -> str:
        """The regex of words in ``hybrid``. Joiners are literal, because some runtimes misread escapes."""
        joiner_classes = map(_character_class, self.script_joiners)
        letter_classes = map(_character_class, self.script_letters)
        classes = zip(letter_classes, joiner_classes, strict=True)
        words = [f"[{letters}][{letters}{joiners}]*" for letters, joiners in classes]
        if len(words) == 1:
            return f" ?{words[0]}"
        first = runs(point for ranges in self.script_letters for a, b in ranges for point in range(a, b + 1))
        # With many scripts, a lookahead rejects other text at once. Without it, each script would be tried in turn.
        look = f"(?=[{_character_class(first)}])" if len(words) > _FEW_SCRIPTS else ""
        return f" ?{look}(?:{'|'.join(words)})"

    @cached_property
    def regexes(self) -> tuple[str, ...]:
        """The split regexes in the saved tokenizer, applied one after another."""
        if self.recipe == "sgpe":
            inside = "".join(map(_character_class, self.script_letters))
            return (rf" ?[{inside}{_character_class(self.script_joiners[0])}]+| ?[^ \t\n\r]|[ \t\n\r]",)
        if self.recipe == "hybrid":
            # Every later regex begins with the first one, to keep its words whole.
            return (self.words_regex, *(f"{self.words_regex}|{pattern}" for pattern in self.patterns))
        return self.patterns

    def covers_all(self, step: int) -> bool:
        """Return whether the regex at the index ``step`` is known to match every character, without gaps between matches."""
        return self.recipe == "sgpe" or covers_all(self.regexes[step])

    @property
    def cuts_at_spaces(self) -> bool:
        """True if the tokenizer merges characters and splits text before each space, as a Metaspace with ``split`` does."""
        return self.normalization.is_metaspace and bool(self.patterns)

    @property
    def base(self) -> SplitPattern | None:
        """The split pattern, if there is only one and it has a name. Otherwise None."""
        if isinstance(self.pattern, str) and self.pattern in PATTERNS:
            return PATTERNS[self.pattern]
        records = patterns_of(self.patterns[0]) if len(self.patterns) == 1 else []
        return records[0] if records else None

    @property
    def allows_cuts(self) -> bool:
        """True if a text can be cut at the safe cuts of `hf_sgpe.splitting.streams` without changing its ids.

        The last pattern must be one of the package's own. Each earlier pattern must match runs of a character class without
        `CUT_MARKS`, space and line end, so that no match contains both characters around a cut.
        """
        if self.recipe == "sgpe":
            return True
        *steps, last = self.patterns or ("",)
        if not any(record.scanner for record in patterns_of(last)):
            return False
        classes = map(runs_of_class, steps)
        return all(found is not None and found[0].isdisjoint(map(ord, (*CUT_MARKS, " ", "\n"))) for found in classes)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values, with the regexes, because script tables have versions."""
        return {
            "recipe": self.recipe,
            "scripts": list(self.scripts),
            "pattern": self.pattern,
            "normalization": self.normalization.to_json(),
            "special_tokens": list(self.special_tokens or ()),
            "patterns": list(self.regexes),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Splitting:
        """Read the result of `to_dict`."""
        try:
            names = ("recipe", "scripts", "pattern", "normalization", "special_tokens")
            recipe, scripts, pattern, normalization, special_tokens = (values[name] for name in names)
            normalization = Normalization.from_json(normalization)
            splitting = cls(recipe, tuple(scripts), pattern, normalization, tuple(special_tokens))
            if (regexes := tuple(values["patterns"])) != splitting.regexes:
                splitting = cls.from_regexes(regexes, normalization, special_tokens)
        except (KeyError, TypeError, AttributeError) as error:
            raise SGPEError(f"its split settings are damaged ({type(error).__name__}: {error})") from None
        if splitting.recipe != recipe:
            raise SGPEError(f"its split patterns do not match the recipe {recipe!r}")
        return splitting

    def difference(self, other: Splitting) -> str:
        """Return the name of the first setting in which two splittings differ, or an empty string if they are equal."""
        ours, theirs = self.to_dict(), other.to_dict()
        return next((name for name in ours if ours[name] != theirs[name]), "")


def checked_list(name: str, value: Any) -> tuple[Any, ...]:
    """Return the value of a setting as a tuple."""
    if isinstance(value, str):
        raise SGPEError(f"{name} must be a list, not the string {value!r}: write [{value!r}]")
    if not isinstance(value, Iterable):
        raise SGPEError(f"{name} must be a list, not {value!r}")
    return tuple(value)


def _letters(recipe: str, scripts: tuple[str, ...]) -> tuple[Ranges, ...]:
    """Return the characters of each script's words: its block in ``sgpe``, and its letters and marks in other recipes."""
    tables = map(resolve_script, scripts)
    return tuple((script.block,) if recipe == "sgpe" else _letters_and_marks(script) for script in tables)


@lru_cache(256)
def _letters_and_marks(script: Script) -> Ranges:
    return runs(map(ord, script.letters_and_marks()))


@cache
def _marks_of_none() -> str:
    """Return the marks that all scripts share, except the few that are in the table of Devanagari."""
    return "".join(sorted(set(shared_marks()).difference(*(script.letters_and_marks() for script in TEN))))


def _named(pattern: str) -> str:
    records = patterns_of(pattern)
    return records[0].name if records else pattern


def _script_of(recipe: str, letters: Ranges) -> str:
    """Return the name of the script to which most of the letters belong, or an empty string."""

    def shared(ranges: Ranges) -> int:
        return sum(max(min(b, d) - max(a, c) + 1, 0) for a, b in letters for c, d in ranges)

    near = [name for name, script in every_script().items() if shared((script.block,))]
    count, name = max(
        ((shared(_letters(recipe, (name,))[0]), name) for name in near), default=(0, ""), key=lambda pair: pair[0]
    )
    return name if count else ""


_check = lru_cache(256)(tokenizers_library.check_regex)


def _character_class(ranges: Ranges) -> str:
    """Return the text inside the brackets of a regex class that matches the ranges.

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
    """Return the letters and joiners of each script in a regex from `Splitting.words_regex`; nothing for other regexes."""
    match = _WORDS.fullmatch(words)
    letters, inside = (list(map(_points, match.captures(group) if match else ())) for group in ("letters", "inside"))
    return tuple(map(runs, letters)), tuple(runs(all_ - first) for first, all_ in zip(letters, inside, strict=True))


def _points(text: str) -> set[int]:
    """Return the code points in a regex class from the text between its brackets, which has no escapes."""
    points: set[int] = set()
    for part in regex.findall(".-.|.", text, flags=regex.DOTALL):
        points.update(range(ord(part[0]), ord(part[-1]) + 1))
    return points
