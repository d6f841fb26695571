"""Burmese in Zawgyi: detection, and conversion to Unicode.

Zawgyi is a font encoding that uses the characters of Unicode's Myanmar block in its own way. Signs are stored in visual
order: ``ေ`` and ``ြ`` precede their letter. A letter drawn below another letter is a separate character, and a sign drawn in
several widths has one character for each width. To a tokenizer, texts in Zawgyi and in Unicode look like two languages.

The meaning of each Zawgyi character follows the common converters; see CLDR's transform ``Zawgyi-my``
(https://github.com/unicode-org/cldr/blob/main/common/transforms/my-t-my-s0-zawgyi.xml). Unicode's order of signs follows
https://www.unicode.org/notes/tn11/. Other converters have rules that move pairs of signs. This converter sorts the signs of
each syllable instead.
"""

from __future__ import annotations

from typing import Literal

import regex

_MYANMAR = regex.compile(r"[\u1000-\u109F]")

# Letters of Burmese, and the additional letters of Mon, Karen, Shan and other languages in the block.
_ALL_LETTERS = (
    r"\u1000-\u102A\u103F\u104E\u1050-\u1055\u105A-\u105D\u1061\u1065\u1066\u106E-\u1070\u1075-\u1081\u108E"
    r"\uA9E0-\uA9FE\uAA60-\uAA7F"
)

# Burmese letters that Shan replaces with letters of its own.
_NOT_IN_SHAN = (
    r"\u1000-\u1003\u1005-\u1009\u100B-\u100F\u1012-\u1014\u1016-\u1018\u101F-\u1021\u1023-\u1027\u1029\u102A\u103F"
)
_SIGNS_ON_LETTERS = r"\u102B-\u1030\u1032-\u1034\u1036\u103B-\u103E"

# Sequences that occur in no language written in Unicode.
_IN_ZAWGYI_ONLY = regex.compile(
    "|".join(
        [
            # The vowel sign ေ with no letter or medial sign before it.
            rf"(?<![{_ALL_LETTERS}\u1031\u103A-\u103E\u105E-\u1060\u1082\u200B-\u200D])\u1031",
            # The medial sign ျ, in Zawgyi ြ, with no letter before it.
            rf"(?<![{_ALL_LETTERS}\u103A\u103B\u200B-\u200D])\u103B",
            # The virama, in Zawgyi the asat, with no stackable letter after it.
            r"\u1039(?![\u1000-\u1019\u101C\u101E\u1020\u1021\u1050-\u1055\u105A-\u105D])",
            # The asat, in Zawgyi ျ, before a vowel sign, except after ျ, where it is a typing error.
            r"(?<!\u103B)\u103A[\u102B-\u102E\u1032]",
            # The narrow ု of Zawgyi, in Unicode a sign of Mon, after ိ; and the narrow signs after vowel signs of Kayah.
            r"[\u102D\u1071-\u1074]\u1033|[\u1071-\u1074]\u1034",
            # Letters of Shan, in Zawgyi stacked letters and ြ, next to letters that Shan does not have.
            rf"[{_NOT_IN_SHAN}][\u1075-\u107C\u1080\u1081\u1085\u1093]|[\u107E-\u1084][{_NOT_IN_SHAN}]",
            # A letter of Shan among letters without signs. In Shan, this letter would end a syllable with an asat, or have a
            # sign.
            r"(?<=[\u1000-\u1021]{2})[\u1075-\u107C](?=[\u1000-\u1021](?![\u103A\u1075-\u1081]))",
            # Digits of Shan and tone marks with a sign on them; a digit of Shan after a medial sign of Mon; a tone mark of
            # Karen before a vowel sign.
            rf"[\u1069-\u106D\u1087-\u108D\u108F-\u1099][{_SIGNS_ON_LETTERS}]|[\u1090-\u1099][\u1087-\u108A]",
            r"\u1060[\u1090-\u1099]|\u1064[\u102B-\u1032]|\u1062[\u102D-\u1030\u1032-\u1034]",
            # Any sign without a letter or sign before it.
            r"(?<![\u1000-\u109F\uA9E0-\uA9FE\uAA60-\uAA7F\u200B-\u200D])"
            r"[\u105E-\u1060\u1062-\u1064\u1067-\u106D\u1071-\u1074\u1082-\u108D\u108F]",
        ]
    )
)
# Sequences that Zawgyi does not have: an asat after ာ, ါ or ့, or before း (except စ်း, which is ဈး); the character of ှ;
# kinzi; an asat, in Zawgyi ျ, after a letter that never has ျ, unless a sign follows; and the same after letters of Shan and
# Mon.
_IN_UNICODE_ONLY = regex.compile(
    r"[\u102B\u102C\u1037]\u103A|(?<!\u1005)\u103A\u1038|\u103E|\u103A\u1039"
    r"|[\u1004\u1009\u100A\u100B\u100F-\u1014\u101A\u101D]\u103A(?![\u102B-\u1034\u1036\u1039-\u103E\u1060-\u1097])"
    r"|[\u105A\u1075-\u1081]\u103A(?![\u102B-\u1032])|[\u1004\u1010\u1015\u1019\u101D]\u103A[\u1087-\u108A]"
)
# ေ before a sign. This sequence should not occur in Zawgyi, but people type it, so it counts only if nothing else decides.
_IN_ORDER_OF_UNICODE = regex.compile(r"\u1031[\u102B\u102C\u1037\u1038\u104A\u104B]")


def encoding_of(text: str) -> Literal["zawgyi", "unicode"] | None:
    """Return the encoding of a Burmese text: the one with more of the sequences that occur only in it.

    If the numbers are equal, return None: the text either has no Burmese, or is valid in both encodings. In the second case,
    use the surrounding text to decide.

    >>> encoding_of("ျမန္မာစာ"), encoding_of("မြန်မာစာ"), encoding_of("အလုပ္သမား")
    ('zawgyi', 'unicode', None)
    """
    if _MYANMAR.search(text) is None:
        return None
    zawgyi, unicode = len(_IN_ZAWGYI_ONLY.findall(text)), len(_IN_UNICODE_ONLY.findall(text))
    if zawgyi == unicode:
        return None if zawgyi or _IN_ORDER_OF_UNICODE.search(text) is None else "unicode"
    return "zawgyi" if zawgyi > unicode else "unicode"


def is_zawgyi(text: str) -> bool:
    """Return whether a text is Burmese in Zawgyi, not in Unicode.

    For a text that is valid in both encodings (see `encoding_of`), and for Shan, Mon and Karen, return False.

    >>> is_zawgyi("ျမန္မာစာ"), is_zawgyi("မြန်မာစာ"), is_zawgyi("ကမာ")
    (True, False, False)
    """
    return encoding_of(text) == "zawgyi"


_KINZI = "\u1064"
"""Kinzi, which is one character in Zawgyi and three characters in Unicode. It is converted last."""

# The Unicode text of each Zawgyi character. All other characters are the same in both encodings, or not Burmese.
_CHARACTERS = str.maketrans(
    {
        # Letters, and pairs of letters.
        "\u106a": "\u1009",
        "\u106b": "\u100a",
        "\u1086": "\u103f",
        "\u108f": "\u1014",
        "\u1090": "\u101b",
        "\u106e": "\u100d\u1039\u100d",
        "\u106f": "\u100d\u1039\u100e",
        "\u1091": "\u100f\u1039\u100d",
        "\u1092": "\u100b\u1039\u100c",
        "\u1097": "\u100b\u1039\u100b",
        # Stacked letters in alphabetical order, some in two widths.
        **{
            below: f"\u1039{letter}"
            for forms, letters in {
                "\u1060\u1061\u1062\u1063": "\u1000\u1001\u1002\u1003",
                "\u1065\u1066\u1067\u1068\u1069": "\u1005\u1006\u1006\u1007\u1008",
                "\u106c\u106d": "\u100b\u100c",
                "\u1070\u1071\u1072\u1073\u1074\u1075\u1076\u1077": "\u100f\u1010\u1010\u1011\u1011\u1012\u1013\u1014",
                "\u1078\u1079\u107a\u107b\u1093\u107c\u1085": "\u1015\u1016\u1017\u1018\u1018\u1019\u101c",
            }.items()
            for below, letter in zip(forms, letters, strict=True)
        },
        "\u1096": "\u1039\u1010\u103d",
        # Medial signs.
        **dict.fromkeys("\u103a\u107d", "\u103b"),
        **dict.fromkeys("\u103b\u107e\u107f\u1080\u1081\u1082\u1083\u1084", "\u103c"),
        "\u103c": "\u103d",
        **dict.fromkeys("\u103d\u1087", "\u103e"),
        "\u1088": "\u103e\u102f",
        "\u1089": "\u103e\u1030",
        "\u108a": "\u103d\u103e",
        # Vowel signs, kinzi with vowel signs, tone marks, and the asat.
        "\u1033": "\u102f",
        "\u1034": "\u1030",
        "\u105a": "\u102b\u103a",
        "\u108e": "\u102d\u1036",
        "\u108b": _KINZI + "\u102d",
        "\u108c": _KINZI + "\u102e",
        "\u108d": _KINZI + "\u1036",
        **dict.fromkeys("\u1094\u1095", "\u1037"),
        "\u1039": "\u103a",
    }
)

# The following patterns match text with Unicode's characters in Zawgyi's order.
_LETTER = r"[\u1000-\u102A\u103F\u104E]"
# Nobody types more than four of these signs. With this limit, matching time is linear in the length of a run.
_BEFORE_IT = r"(?:\u1031{1,4}\u103C{0,4}|\u103C{1,4}\u1031{0,4})"
_AFTER_IT = r"[\u102B-\u1030\u1032\u1036\u103A\u103B\u103D\u103E\u1064]"

_AS_IT_IS_SEEN = [
    (regex.compile(pattern), spelling)
    for pattern, spelling in {
        # A sign cannot begin a word: remove the space before it.
        r"(?<=[\u1000-\u109F])[ \u00A0\u200B]+(?=[\u102B-\u1030\u1032\u1036-\u103B\u103D\u103E])": "",
        # Digits typed for similar letters: ၀ for ဝ, ၇ for ရ, ၄ for ၎.
        rf"(?<=[\u1031\u103C])\u1040|\u1040(?=\u1039|{_AFTER_IT})": "\u101d",
        r"(?<![\d.,])\u1040(?=[\u1000-\u1021\u1031\u103C])|(?<=[\u1000-\u1021\u102B-\u103E])\u1040(?![\d.,])": "\u101d",
        rf"(?<=[\u1031\u103C])\u1047|\u1047(?=\u1039|{_AFTER_IT})": "\u101b",
        r"(?<!\d)\u1044(?=\u1004\u103A\u1038)": "\u104e",
        # ၎ is drawn as ၎င်း; people write both forms.
        r"\u104E(?!\u1004\u103A\u1038)": "\u104e\u1004\u103a\u1038",
        # A sign above a letter may be typed after the sign that precedes the next letter.
        rf"({_BEFORE_IT})(\u1037?\u103A\u1037?)(?={_LETTER})": r"\2\1",
    }.items()
]

_SYLLABLE = regex.compile(
    rf"(?P<before>{_BEFORE_IT}?)(?P<letter>{_LETTER})"
    # ေ or ြ after its letter, as in Unicode, unless it could belong to a letter that follows.
    rf"(?P<after>(?:\u1039[\u1000-\u1021]|[\u1037\u1038]|{_AFTER_IT}|[\u1031\u103C](?!{_BEFORE_IT}?{_LETTER}))*)"
)
_SIGNS = {
    sign: place
    for place, sign in enumerate(
        "\u103b\u103c\u103d\u103e\u1031\u102d\u102e\u1032\u102f\u1030\u102b\u102c\u1036\u1037\u103a\u1038"
    )
}

# Letters that look like another letter with a sign, in Unicode's order. A stacked letter hides the leg of ဉ.
_ONE_LETTER = {
    "\u101e\u103c\u1031\u102c\u103a": "\u102a",
    "\u101e\u103c": "\u1029",
    "\u1025\u102e": "\u1026",
    "\u1009\u102e": "\u1026",
    "\u1005\u103b": "\u1008",
    "\u1025\u103a": "\u1009\u103a",
    "\u1025\u1037\u103a": "\u1009\u1037\u103a",
    "\u1025\u102c": "\u1009\u102c",
    "\u1025\u1039": "\u1009\u1039",
    _KINZI: "\u1004\u103a\u1039",
}
_DRAWN_AS_TWO = regex.compile("|".join(_ONE_LETTER))


def to_unicode(text: str) -> str:
    """Convert text from Zawgyi to Unicode, without checking its encoding (see `is_zawgyi`). The visible text stays the same.
    If a letter has the same sign twice, only one is kept.

    >>> to_unicode("ျမန္မာစာ ၂၀၁၉")
    'မြန်မာစာ ၂၀၁၉'
    """
    text = text.translate(_CHARACTERS)
    for pattern, spelling in _AS_IT_IS_SEEN:
        text = pattern.sub(spelling, text)
    text = _SYLLABLE.sub(_in_order, text)
    return str(_DRAWN_AS_TWO.sub(lambda drawn: _ONE_LETTER[drawn.group()], text))


def _in_order(syllable: regex.Match[str]) -> str:
    """Return a syllable in the order of Unicode: kinzi, the letter, stacked letters, signs."""
    letter = syllable["letter"]
    marks = syllable["before"] + syllable["after"]
    if not marks:
        return str(letter)
    below = "".join(regex.findall(r"\u1039.", marks))
    marks = regex.sub(r"\u1039.", "", marks)
    signs = set(marks)
    kinzi = _KINZI if _KINZI in signs else ""
    signs.discard(_KINZI)
    # If two signs have the same place, keep the sign that covers the other.
    for covered, by in (("\u102d", "\u102e"), ("\u1030", "\u102f")):
        if by in signs:
            signs.discard(covered)
    ordered = "".join(sorted(signs, key=_SIGNS.__getitem__))
    if "\u103a" in signs and not regex.search(r"[\u102B\u102C].*\u103A", marks) and "\u1031" not in signs:
        # The asat belongs to the letter, as in ယောက်ျား, ဘုရှ် and ကျွန်ုပ်, not to the vowel, as in ကျော်.
        ordered = ordered.replace("\u103a", "")
        if not signs & {"\u102d", "\u102e"}:  # a letter with one of these vowels has no asat
            medials = 0 if "\u103b" in signs else len(signs & {"\u103c", "\u103d", "\u103e"})
            ordered = f"{ordered[:medials]}\u103a{ordered[medials:]}".replace("\u103a\u1037", "\u1037\u103a")
    return f"{kinzi}{letter}{below}{ordered}"
