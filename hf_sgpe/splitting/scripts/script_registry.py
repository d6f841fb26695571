"""The registry of scripts: look-up by name or language, and detection of the scripts of a text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches

import regex

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script import Script, characters_in, shared_marks
from hf_sgpe.splitting.scripts.script_tables import TEN, abugidas, others

_MARKED = 0.01
_MANY = 20
_CODE = 4  # number of letters in the longest codes
_MOST_CLASSES = 30  # the kernel has 32 classes: one is for characters in no script, and one for letters without a class

# Languages written in several scripts at once.
_SEVERAL = dict.fromkeys(("ja", "jpn", "japanese", "jpan"), ("han", "hiragana", "katakana"))

SCRIPTS: dict[str, Script] = {script.name: script for script in (*TEN, *abugidas())}
"""The tables of scripts with syllables, keyed by name. ``all`` means these scripts."""


def add_script(script: Script) -> None:
    """Register a script. The new script may replace a script of the same name whose units are grapheme clusters."""
    taken = {"all": "every script", "auto": "the scripts of the text", **dict.fromkeys(_SEVERAL, "several scripts")}
    taken |= _names(other for other in every_script().values() if other.name != script.name or other.name in SCRIPTS)
    for name in (script.name, *script.also.split()):
        if name.casefold() in taken:
            raise SGPEError(f"a script cannot be called {name!r}: this name means {taken[name.casefold()]}")
        if not name or {",", *" \t\n"} & set(name):
            raise SGPEError(f"a script cannot be called {name!r}: give a single word")
    try:
        letters = script.letters_and_marks()
        script.classes_for_letters()
    except ValueError as error:
        raise SGPEError(f"script {script.name}: ranges must be like '0915-0939 093C' ({error})") from None
    if not letters:
        raise SGPEError(f"script {script.name}: it has no letters: give consonants, vowels or others")
    if strange := [point for point in map(ord, letters) if point < 0x80 or 0xD800 <= point < 0xE000]:
        raise SGPEError(f"script {script.name}: U+{min(strange):04X} cannot be a letter")
    for other in every_script().values():
        if both := letters & other.letters_and_marks() if other.name != script.name else ():
            raise SGPEError(
                f"script {script.name}: U+{ord(min(both)):04X} is already a letter or mark of {other.name}"
                + (f" (to replace that script, use its name {other.name})" if other.name not in SCRIPTS else "")
            )
    for role, grammar, ends in (
        ("syllable", script.syllable, script.ends),
        ("letter", script.letter, script.letter_ends),
        ("document", script.document or {"start": {}}, None),
    ):
        named = {"start", *(ends or ()), *(state for row in grammar.values() for state in row.values())}
        if unknown := sorted(named - grammar.keys()):
            raise SGPEError(f"script {script.name}: its grammar {role} has no state {unknown[0]!r}")
    classes = {letter for table in (*every_script().values(), script) for letter in table.classes().values()}
    if len(classes) > _MOST_CLASSES:
        raise SGPEError(
            f"script {script.name}: all scripts together would have {len(classes)} classes, and the maximum is "
            f"{_MOST_CLASSES}: use class letters that other scripts use"
        )
    SCRIPTS[script.name] = script


def every_script() -> dict[str, Script]:
    """Return the tables of all scripts of Unicode. The units of those that are not in `SCRIPTS` are grapheme clusters.

    >>> every_script()["ethiopic"].by_clusters
    True
    """
    return {script.name: script for script in others()} | SCRIPTS


def _names(scripts: Iterable[Script]) -> dict[str, str]:
    return {also.casefold(): script.name for script in scripts for also in (script.name, *script.also.split())}


def resolve_scripts(names: str | Iterable[str]) -> tuple[str, ...]:
    """Convert names or codes of scripts to full names, without duplicates. The name ``all`` means all of `SCRIPTS`.

    Args:
        names: Names for `resolve_script`. One item may be several names separated by commas.

    >>> resolve_scripts(["tamil", "Hindi,ta", "ja"]), len(resolve_scripts("all")) > 60
    (('tamil', 'devanagari', 'han', 'hiragana', 'katakana'), True)
    """
    typed = [name.strip() for text in ([names] if isinstance(names, str) else names) for name in str(text).split(",")]
    single = [part for name in typed for part in _SEVERAL.get(name.casefold(), (name,))]
    resolved = [resolve_script(name).name for name in single if name.casefold() != "all"]
    return tuple(dict.fromkeys([*(SCRIPTS if len(resolved) < len(single) else ()), *resolved]))


def resolve_script(name: str) -> Script:
    """Return the table of a script from its name, its ISO 15924 code, or a language or its code, in upper or lower case.

    >>> resolve_script("Sinh") is resolve_script("si") is resolve_script("sinhala")
    True
    >>> resolve_script("Tai_Tham").name
    'tai-tham'
    """
    if name in SCRIPTS:
        return SCRIPTS[name]
    scripts, key = every_script(), regex.sub("[ _]", "-", name.casefold())
    names = _names((*others(), *scripts.values()))  # a table that replaces another table also has that table's names
    if (script_name := names.get(key)) is None:
        close = get_close_matches(key, [name for name in names if name in scripts or len(name) > _CODE], 3)
        raise SGPEError(
            f"unknown script {name!r}: give its name in Unicode, such as sinhala, thai or ethiopic, "
            "its ISO 15924 code, a language such as hi or Hindi, or all"
            + (f" (did you mean {' or '.join(close)}?)" if close else "")
        )
    return scripts[script_name]


def names_of(scripts: Iterable[str]) -> str:
    """Return the names of the scripts or, if there are many, their number.

    >>> names_of(["thai", "khmer"]), names_of(resolve_scripts("all"))
    ('thai, khmer', '67 scripts')
    """
    names = list(scripts)
    return ", ".join(names) if len(names) <= _MANY else f"{len(names)} scripts"


def scripts_in(texts: Iterable[str], share: float = 0.01, *, any_script: bool = False) -> dict[str, float]:
    """Return the shares of the scripts in texts, of all letters and marks, in descending order.

    Without ``any_script``, leave out scripts without anything to keep whole: those without syllables, in which less than a
    hundredth of the letters have a mark.

    Args:
        share: Minimum share of a script.

    >>> scripts_in(["ලංකාව ab"])
    {'sinhala': 0.7142857142857143}
    """
    characters: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    marks = frozenset(shared_marks())
    before_mark = regex.compile(f".(?=[{shared_marks()}])", regex.DOTALL)
    for text in texts:
        composed = unicodedata.normalize("NFC", text)
        characters.update(composed)
        if not marks.isdisjoint(composed):
            marked.update(before_mark.findall(composed))
    letters = {character: count for character, count in characters.items() if unicodedata.category(character)[0] in "LM"}
    total = sum(letters.values())
    shares: dict[str, float] = {}
    for name, script in every_script().items():
        written = script.letters_and_marks() & letters.keys()
        count = sum(map(letters.__getitem__, written))
        if not count or count < share * total:
            continue
        own_marks = sum(letters[c] for c in written & set(characters_in(script.modifiers)))
        if any_script or not script.by_clusters or own_marks + sum(map(marked.__getitem__, written)) >= _MARKED * count:
            shares[name] = count / total
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
