"""The script tables: which characters play which part, and the grammar of a written syllable. Data, no logic.

Characters fall into classes, each with one letter: consonant ``C``, independent vowel ``V``, nukta ``N``, virama ``H``,
joiner ``J``, dependent vowel sign ``S``, modifier ``M`` (anusvara, visarga and the like), repha ``R`` that is written before
its consonant. A grammar is a table of states:
from a state, a character's class leads to the next state, or ends the syllable where no entry is given. The syllable is the
longest walk that ends in a state where one may end; in today's tables that is every state.

Sinhala is exactly as the SGPE architecture document defines it, unassigned code points in its ranges included. The other
tables are read off Unicode's IndicSyllabicCategory. Adding a script is adding a table.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import regex

from hf_sgpe.errors import SGPEError

_SHARED = regex.compile(r"\p{Script=Common}|\p{Script=Inherited}")

ZWNJ, ZWJ = "\u200c", "\u200d"

Grammar = dict[str, dict[str, str]]
Ranges = tuple[tuple[int, int], ...]

# C (H J? C)* (H J)? (S | H)? M?   |   V M?
SINHALA_SYLLABLE: Grammar = {
    "start": {"C": "consonant", "V": "closing"},
    "consonant": {"H": "virama", "S": "closing", "M": "end"},
    "virama": {"J": "joiner", "C": "consonant", "M": "end"},
    "joiner": {"C": "consonant", "S": "closing", "H": "closing", "M": "end"},
    "closing": {"M": "end"},
    "end": {},
}

# C (H J C)* (H J)? (S | H)? M?   |   V M?     What a reader sees as one letter: without a joiner, a virama is visible
# and ends the letter.
SINHALA_LETTER: Grammar = SINHALA_SYLLABLE | {"virama": {"J": "joiner", "M": "end"}}

# (R? C | V) N? J? (S* H J? C N? J?)* (S* H J? | S+)? M*
# A vowel can carry a consonant below it (Bengali a with ya-phalaa), a vowel sign a virama (Malayalam half-u), and a joiner
# before the virama chooses the form of a conjunct (Bengali and Kannada ra).
BRAHMIC_SYLLABLE: Grammar = {
    "start": {"C": "letter", "V": "letter", "R": "repha"},
    "repha": {"C": "letter"},
    "letter": {"N": "nukta", "J": "joined", "H": "virama", "S": "signs", "M": "modifiers"},
    "nukta": {"J": "joined", "H": "virama", "S": "signs", "M": "modifiers"},
    "joined": {"H": "virama", "S": "signs", "M": "modifiers"},
    "virama": {"J": "joiner", "C": "letter", "M": "modifiers"},
    "joiner": {"C": "letter", "M": "modifiers"},
    "signs": {"H": "virama", "S": "signs", "M": "modifiers"},
    "modifiers": {"M": "modifiers"},
}


def _characters(ranges: str) -> str:
    """The characters of ``"0915-0939 093C"``: hexadecimal code points and ranges with both ends included."""
    characters: list[str] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        characters += map(chr, range(int(first, 16), int(last or first, 16) + 1))
    return "".join(characters)


def runs(points: Iterable[int]) -> Ranges:
    """Code points as (first, last) of neighbouring ones, in order.

    >>> runs([5, 1, 2, 3])
    ((1, 3), (5, 5))
    """
    ranges: list[tuple[int, int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1] = (ranges[-1][0], point)
        else:
            ranges.append((point, point))
    return tuple(ranges)


@dataclass(frozen=True, eq=False)
class Script:
    """One abugida: its block, its character classes (as hexadecimal ranges) and the grammar of its syllables.

    Attributes:
        block: First and last code point of the Unicode block.
        others: Letters and marks of the script that no syllable takes up; each is a unit of its own (an orphan).
        also: Other names that people give it by: ISO 15924, languages that are written in it and their codes.
        font: A family of fonts that has its characters.
        greeting: A few words to try a tokenizer on.
        words: Some words with a bar between their syllables, which tests hold the table to.
        spaced: Whether words have spaces between them.
        joiners: The joiners that may stand inside a syllable.
        writes_joiners: Whether ordinary text needs them: more than one running word in two hundred has one.
        ends: States in which a syllable may end; ``None`` for every one.
        letter: The grammar of a visible letter; ``None`` where that is the extended grapheme cluster.
    """

    name: str
    block: tuple[int, int]
    consonants: str
    vowels: str
    virama: str
    signs: str
    modifiers: str
    nukta: str = ""
    repha: str = ""
    others: str = ""
    also: str = ""
    font: str = "Noto Sans"
    greeting: str = ""
    words: str = ""
    spaced: bool = True
    joiners: str = ZWNJ + ZWJ
    writes_joiners: bool = False
    syllable: Grammar = field(default_factory=lambda: BRAHMIC_SYLLABLE)
    ends: frozenset[str] | None = None
    letter: Grammar | None = None

    def classes(self) -> dict[str, str]:
        """Character → the letter of its class, joiners included; orphans have none."""
        ranges = {
            "C": self.consonants,
            "V": self.vowels,
            "N": self.nukta,
            "H": self.virama,
            "S": self.signs,
            "M": self.modifiers,
            "R": self.repha,
        }
        table = {character: letter for letter, text in ranges.items() for character in _characters(text)}
        return table | dict.fromkeys(self.joiners, "J")

    def letters_and_marks(self) -> frozenset[str]:
        """Every character that a word of this script is written with; no joiners, digits or punctuation."""
        return frozenset(self.classes()) - frozenset(self.joiners) | frozenset(_characters(self.others))

    def characters(self) -> frozenset[str]:
        """Every character by which text can be told to be in this script: its letters and marks, and the rest of its block
        but for what several scripts share (danda)."""
        block = map(chr, range(self.block[0], self.block[1] + 1))
        return self.letters_and_marks().union(c for c in block if not _SHARED.match(c))

    def specimen(self) -> str:
        """A space, and then all letters and marks of the script that Unicode knows, with its joiners between them if it
        writes any: the longest word that there could be."""
        known = sorted(c for c in self.letters_and_marks() if unicodedata.category(c)[0] in "LM")
        first = next(c for c in known if unicodedata.category(c)[0] == "L")
        return f" {first}" + (self.joiners if self.writes_joiners else "").join(["", *known])


SCRIPTS: dict[str, Script] = {
    script.name: script
    for script in (
        Script(
            "sinhala",
            (0x0D80, 0x0DFF),
            also="Sinh si Sinhalese",
            font="Noto Sans Sinhala",
            greeting="ශ්‍රී ලංකාව",
            words="ශ්‍රී ලං|කා|ව වි|ද්‍යා|ල|ය ක්‍ෂේ|ත්‍ර|ය",
            writes_joiners=True,
            consonants="0D9A-0DC6",
            vowels="0D85-0D96",
            virama="0DCA",
            signs="0DCF-0DDF 0DF2-0DF3",
            modifiers="0D82-0D83",
            others="0D81",
            joiners=ZWJ,
            syllable=SINHALA_SYLLABLE,
            letter=SINHALA_LETTER,
        ),
        Script(
            "devanagari",
            (0x0900, 0x097F),
            also="Deva hi Hindi mr Marathi ne Nepali sa Sanskrit awa bho brx doi gom hne kok ks mag mai new",
            font="Noto Sans Devanagari",
            greeting="नमस्ते दुनिया",
            words="न|म|स्ते क्षे|त्र वि|द्या|ल|य हि|न्दी",
            consonants="0915-0939 0958-095F 0978-097F",
            vowels="0904-0914 0960-0961 0972-0977",
            nukta="093C",
            virama="094D",
            signs="093A-093B 093E-094C 094E-094F 0955-0957 0962-0963",
            modifiers="0900-0903 0951-0954",
            others="093D 0950 0971",
        ),
        Script(
            "bengali",
            (0x0980, 0x09FF),
            also="Beng bn Bangla as Assamese",
            font="Noto Sans Bengali",
            greeting="বাংলা অক্ষর",
            words="বাং|লা অ|ক্ষ|র বি|শ্ব",
            consonants="0995-09A8 09AA-09B0 09B2 09B6-09B9 09CE 09DC-09DD 09DF 09F0-09F1",
            vowels="0985-098C 098F-0990 0993-0994 09E0-09E1",
            nukta="09BC",
            virama="09CD",
            signs="09BE-09C4 09C7-09C8 09CB-09CC 09D7 09E2-09E3",
            modifiers="0981-0983 09FC 09FE",
            others="0980 09BD",
        ),
        Script(
            "gurmukhi",
            (0x0A00, 0x0A7F),
            also="Guru pa Punjabi",
            font="Noto Sans Gurmukhi",
            greeting="ਸਤਿ ਸ੍ਰੀ ਅਕਾਲ",
            words="ਪੰ|ਜਾ|ਬੀ ਅੱ|ਖ|ਰ ਸ੍ਰੀ",
            consonants="0A15-0A28 0A2A-0A30 0A32-0A33 0A35-0A36 0A38-0A39 0A59-0A5C 0A5E",
            # the bearers iri and ura take vowel signs, as a vowel does
            vowels="0A05-0A0A 0A0F-0A10 0A13-0A14 0A72-0A73",
            nukta="0A3C",
            virama="0A4D",
            signs="0A3E-0A42 0A47-0A48 0A4B-0A4C 0A75",
            modifiers="0A01-0A03 0A51 0A70-0A71",
            others="0A74",
        ),
        Script(
            "gujarati",
            (0x0A80, 0x0AFF),
            also="Gujr gu",
            font="Noto Sans Gujarati",
            greeting="ગુજરાતી અક્ષર",
            words="ગુ|જ|રા|તી અ|ક્ષ|ર વિ|દ્યા",
            consonants="0A95-0AA8 0AAA-0AB0 0AB2-0AB3 0AB5-0AB9 0AF9",
            vowels="0A85-0A8D 0A8F-0A91 0A93-0A94 0AE0-0AE1",
            nukta="0ABC 0AFD-0AFF",
            virama="0ACD",
            signs="0ABE-0AC5 0AC7-0AC9 0ACB-0ACC 0AE2-0AE3",
            modifiers="0A81-0A83 0AFA-0AFC",
            others="0ABD 0AD0",
        ),
        Script(
            "odia",
            (0x0B00, 0x0B7F),
            also="Orya or Oriya",
            font="Noto Sans Oriya",
            greeting="ଓଡ଼ିଆ ଅକ୍ଷର",
            words="ଓ|ଡ଼ି|ଆ ଅ|କ୍ଷ|ର",
            writes_joiners=True,
            consonants="0B15-0B28 0B2A-0B30 0B32-0B33 0B35-0B39 0B5C-0B5D 0B5F 0B71",
            vowels="0B05-0B0C 0B0F-0B10 0B13-0B14 0B60-0B61",
            nukta="0B3C",
            virama="0B4D",
            signs="0B3E-0B44 0B47-0B48 0B4B-0B4C 0B55-0B57 0B62-0B63",
            modifiers="0B01-0B03",
            others="0B3D",
        ),
        Script(
            "tamil",
            (0x0B80, 0x0BFF),
            also="Taml ta",
            font="Noto Sans Tamil",
            greeting="தமிழ் மொழி",
            words="த|மி|ழ் மொ|ழி ல|ட்சு|மி",
            consonants="0B95 0B99-0B9A 0B9C 0B9E-0B9F 0BA3-0BA4 0BA8-0BAA 0BAE-0BB9",
            vowels="0B85-0B8A 0B8E-0B90 0B92-0B94",
            virama="0BCD",
            signs="0BBE-0BC2 0BC6-0BC8 0BCA-0BCC 0BD7",
            modifiers="0B82",
            others="0B83 0BD0",
        ),
        Script(
            "telugu",
            (0x0C00, 0x0C7F),
            also="Telu te",
            font="Noto Sans Telugu",
            greeting="తెలుగు అక్షరం",
            words="తె|లు|గు అ|క్ష|రం",
            consonants="0C15-0C28 0C2A-0C39 0C58-0C5A 0C5D",
            vowels="0C05-0C0C 0C0E-0C10 0C12-0C14 0C60-0C61",
            nukta="0C3C",
            virama="0C4D",
            signs="0C3E-0C44 0C46-0C48 0C4A-0C4C 0C55-0C56 0C62-0C63",
            modifiers="0C00-0C04",
            others="0C3D",
        ),
        Script(
            "kannada",
            (0x0C80, 0x0CFF),
            also="Knda kn tcy Tulu",
            font="Noto Sans Kannada",
            greeting="ಕನ್ನಡ ಅಕ್ಷರ",
            words="ಕ|ನ್ನ|ಡ ಅ|ಕ್ಷ|ರ",
            writes_joiners=True,
            consonants="0C95-0CA8 0CAA-0CB3 0CB5-0CB9 0CDD-0CDE",
            vowels="0C85-0C8C 0C8E-0C90 0C92-0C94 0CE0-0CE1",
            nukta="0CBC",
            virama="0CCD",
            signs="0CBE-0CC4 0CC6-0CC8 0CCA-0CCC 0CD5-0CD6 0CE2-0CE3",
            modifiers="0C80-0C83 0CF3",
            others="0CBD 0CF1-0CF2",
        ),
        Script(
            "malayalam",
            (0x0D00, 0x0D7F),
            also="Mlym ml",
            font="Noto Sans Malayalam",
            greeting="മലയാളം ഭാഷ",
            words="മ|ല|യാ|ളം അ|ക്ഷ|രം വി|ദ്യാ",
            writes_joiners=True,
            consonants="0D15-0D3A 0D54-0D56 0D7A-0D7F",
            vowels="0D05-0D0C 0D0E-0D10 0D12-0D14 0D5F-0D61",
            virama="0D4D",
            signs="0D3B-0D3C 0D3E-0D44 0D46-0D48 0D4A-0D4C 0D57 0D62-0D63",
            modifiers="0D00-0D04",
            repha="0D4E",
            others="0D3D",
        ),
    )
}
"""Name of a script → its table."""


def add_script(script: Script) -> None:
    """Makes a script known wherever scripts are named, listed or asked for.

    Raises:
        SGPEError: its name, or one of its other names, is taken or is more than one word; or its ranges are not hexadecimal.
    """
    taken = {"all": "every script", **_names()}
    for name in (script.name, *script.also.split()):
        if name.casefold() in taken:
            raise SGPEError(f"a script cannot be called {name!r}: that is {taken[name.casefold()]}")
        if not name or {",", *" \t\n"} & set(name):
            raise SGPEError(f"a script cannot be called {name!r}: give one word")
    try:
        script.letters_and_marks()
    except ValueError as error:
        raise SGPEError(f"script {script.name}: ranges must be like '0915-0939 093C' ({error})") from None
    SCRIPTS[script.name] = script


def _names() -> dict[str, str]:
    return {also.casefold(): name for name, script in SCRIPTS.items() for also in (name, *script.also.split())}


def resolve_scripts(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names of scripts, each once; ``all`` among them stands for every one.

    Args:
        names: As `resolve_script` takes them, one by one or several with commas between.

    Raises:
        SGPEError: there is no such table.

    >>> resolve_scripts(["tamil", "Hindi,ta"]), len(resolve_scripts("all"))
    (('tamil', 'devanagari'), 10)
    """
    given = [name.strip() for text in ([names] if isinstance(names, str) else names) for name in str(text).split(",")]
    if "all" in map(str.casefold, given):
        return tuple(SCRIPTS)
    return tuple(dict.fromkeys(resolve_script(name).name for name in given))


def resolve_script(name: str) -> Script:
    """The table of the script called ``name``, also by its ISO 15924 code, or by a language or its code, in any case.

    Raises:
        SGPEError: there is no such table.

    >>> resolve_script("Sinh") is resolve_script("si") is resolve_script("sinhala")
    True
    """
    if name in SCRIPTS:
        return SCRIPTS[name]
    if (known := _names().get(name.casefold())) is None:
        raise SGPEError(
            f"unknown script {name!r}: known are {', '.join(SCRIPTS)}, or all; a language such as hi or Hindi will do"
        )
    return SCRIPTS[known]


def scripts_in(texts: Iterable[str], share: float = 0.01) -> dict[str, float]:
    """The scripts that texts are written in: name → share of all their letters and marks, the greatest first.

    Args:
        share: Scripts with less than this are left out.

    >>> scripts_in(["ලංකාව ab"])
    {'sinhala': 0.7142857142857143}
    """
    characters: Counter[str] = Counter()
    for text in texts:
        characters.update(text)
    letters = {character: count for character, count in characters.items() if unicodedata.category(character)[0] in "LM"}
    total = sum(letters.values())
    shares = {
        name: sum(letters.get(character, 0) for character in script.letters_and_marks()) / total
        for name, script in SCRIPTS.items()
        if total
    }
    return {name: part for name, part in sorted(shares.items(), key=lambda item: -item[1]) if part >= share}
