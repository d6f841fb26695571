"""Language codes, and the names of languages from CLDR."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import regex

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script import Script, runs
from hf_sgpe.splitting.scripts.script_registry import every_script

# English name and own name of languages that CLDR lacks, or for which the name in CLDR is not the speakers' own.
_OWN_NAMES = {
    "awa": ("Awadhi", "अवधी"),
    "bn": ("Bengali", "বাংলা"),
    "brx": ("Bodo", "बड़ो"),
    "dv": ("Dhivehi", "ދިވެހި"),
    "gom": ("Konkani", "कोंकणी"),
    "hne": ("Chhattisgarhi", "छत्तीसगढ़ी"),
    "id": ("Indonesian", "Bahasa Indonesia"),
    "jv": ("Javanese", "Basa Jawa"),
    "ksw": ("S'gaw Karen", "စှီၤကညီကျိာ်"),
    "mag": ("Magahi", "मगही"),
    "mnw": ("Mon", "ဘာသာမန်"),
    "ms": ("Malay", "Bahasa Melayu"),
    "new": ("Newari", "नेपाल भाषा"),
    "nod": ("Northern Thai", "ᨣᩤᩴᨾᩮᩬᩥᨦ"),
    "pi": ("Pali", "पालि"),
    "sa": ("Sanskrit", "संस्कृतम्"),
    "tcy": ("Tulu", "ತುಳು"),
}

# Codes of Tongan and Toki Pona; in file names these are usually English words.
_NOT_IN_FILE_NAMES = ("to", "tok")

# Nuosu, Japanese, Lü and Northern Thai are in no script's table.
_WITHOUT_WORD_SPACES = frozenset(("ii", "ja", "khb", "nod"))


class Language(NamedTuple):
    """A language.

    Attributes:
        english: English name, or the code if the name is unknown.
        native: Name in the language itself; empty if it is unknown.
        spaced: Whether the language has spaces between words, so that words can be counted.
    """

    code: str
    english: str
    native: str
    spaced: bool

    @property
    def is_known(self) -> bool:
        return self.english != self.code

    def __str__(self) -> str:
        return f"{self.english} {self.native}" if self.native not in ("", self.english) else self.english


@cache
def letters_of(scripts: tuple[Script, ...]) -> regex.Pattern[str]:
    """Return a regex that matches any single letter or mark of the scripts."""
    ranges = runs(ord(character) for script in scripts for character in script.letters_and_marks())
    return regex.compile("[" + "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges) + "]")


@cache
def _in_cldr(code: str) -> tuple[str, str, str] | None:
    """Return the short code, the English name and the native name for an ISO 639 code."""
    from babel import Locale, UnknownLocaleError
    from babel.core import get_global

    short = code if code in _OWN_NAMES else get_global("language_aliases").get(code, code)
    if short in _OWN_NAMES:
        return short, *_OWN_NAMES[short]
    english = Locale("en").languages.get(short)
    try:
        native = Locale(short).languages.get(short, "")
    except UnknownLocaleError:
        native = ""
    return (short, english, native[:1].title() + native[1:]) if english else None


def language(code: str) -> Language:
    """Look up a language by its ISO 639 code, with or without a BCP 47 suffix. A script in the suffix determines
    `Language.spaced`.

    >>> str(language("si")), str(language("sin")), str(language("en")), str(language("xx"))
    ('Sinhala සිංහල', 'Sinhala සිංහල', 'English', 'xx')
    >>> language("jv").spaced, language("jv-Java").spaced
    (True, False)
    """
    if not re.fullmatch("[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", code):
        raise SGPEError(f"{code!r} is not a language code: write a code such as si, ta or en")
    head, dash, rest = code.partition("-")
    head = head.lower()
    short, english, native = _in_cldr(head) or (head, head + dash + rest, "")
    names = [*(part.title() for part in rest.split("-") if len(part) == 4), short]
    scripts = (script for name in names for script in every_script().values() if name in script.also.split())
    script = next(scripts, None)
    spaced = script.spaced if script else short not in _WITHOUT_WORD_SPACES
    return Language(head + dash + rest if dash else short, english, native, spaced)


def language_in_name(path: str | os.PathLike[str]) -> str | None:
    """Return the language code at the end or beginning of a file name.

    >>> language_in_name("eval/ntrex_si.txt.xz"), language_in_name("eng_Latn.dev"), language_in_name("held-out.txt")
    ('si', 'en', None)
    """
    parts = re.split(r"[^a-z0-9]+", Path(path).name.lower())
    while len(parts) > 1 and parts[-1] in ("txt", "jsonl", "parquet", "gz", "xz", "zst", "bz2"):
        parts.pop()
    languages = (_in_cldr(part) for part in (parts[-1], parts[0]) if part not in _NOT_IN_FILE_NAMES)
    return next((names[0] for names in languages if names and names[2]), None)
