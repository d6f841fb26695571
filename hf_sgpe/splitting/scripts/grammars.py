"""The grammars of written syllables and visible letters, as tables without logic.

Each character has a class, named by a letter: ``C`` is a consonant, ``V`` an independent vowel, ``R`` a character written
before its consonant (repha, the vowels of Thai), ``N`` a nukta, ``H`` a virama or stacker, ``S`` a vowel sign or subjoined
consonant, ``M`` a modifier (anusvara, tone mark, killer and similar), ``W`` a separate letter after its consonant (Thai sara
a), ``O`` another letter (avagraha), ``J`` a ZWJ, ``Z`` a ZWNJ, and ``X`` a mark that all scripts share (combining accent,
variation selector). Some scripts have more classes.

A grammar is a table of states. In each state, the class of the next character determines the next state. A walk moves from
state to state in this way, and stops before a character whose class has no entry in the current state. A syllable is the
text of the longest walk that ends in a state where a syllable may end.
"""

from __future__ import annotations

from collections.abc import Iterable

Grammar = dict[str, dict[str, str]]


def _row(classes: Iterable[str], state: str) -> dict[str, str]:
    return dict.fromkeys(classes, state)


# ------------------------------------- syllables of the SGPE architecture document, and of scripts that follow its rules

# C (H J? C)* (H J)? (S | H)? M?   |   V M?
SGPE_SINHALA: Grammar = {
    "start": {"C": "consonant", "V": "closing"},
    "consonant": {"H": "virama", "S": "closing", "M": "end"},
    "virama": {"J": "joiner", "C": "consonant", "M": "end"},
    "joiner": {"C": "consonant", "S": "closing", "H": "closing", "M": "end"},
    "closing": {"M": "end"},
    "end": {},
}

# (R? C | V) N? J? (S* H J? C N? J?)* (S* H J? | S+)? M*
# A vowel can have a consonant below it (Bengali a with ya-phalaa), and a vowel sign can have a virama (Malayalam half-u). A
# joiner before the virama selects the form of a conjunct (Bengali and Kannada ra).
SGPE_BRAHMIC: Grammar = {
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

# --------------------------------------------------------------------------------------------------- syllables

# R* (C | V) (N | S | M | W | J | Z | X)*, continued by a consonant after a virama. Stray marks stay with the character
# before them, even in misspelled words, so that no extended grapheme cluster is cut (UAX #29, including GB9c).
_MARKS = "NSMJZX"
_BEGINNING = _row("CVONSMW", "letter") | {"R": "before", "H": "virama"}
BRAHMIC: Grammar = {
    "start": _BEGINNING,
    "before": _BEGINNING | _row("JZX", "letter"),
    "letter": _row(_MARKS + "W", "letter") | {"H": "virama"},
    "virama": _row(_MARKS + "H", "virama") | _row("CW", "letter"),
}

# A virama that is never visible and only stacks letters also stacks vowels (Khmer, Burmese).
STACKING: Grammar = BRAHMIC | {"virama": BRAHMIC["virama"] | {"V": "letter"}}

# In Zanabazar Square, the cluster-initial ra has its marks before the consonant.
ZANABAZAR: Grammar = STACKING | {"before": BRAHMIC["before"] | _row(_MARKS, "before")}

# The document's grammar, with all marks. A virama links two consonants only directly, or with joiners around it, because
# without NFC the vowel sign ee ends in a virama.
SINHALA: Grammar = {
    "start": {"C": "consonant"} | _row("VOSMH", "closing"),
    "consonant": {"H": "virama", "J": "joined"} | _row("SMZX", "closing"),
    "joined": {"H": "joiner", "J": "joined"} | _row("SMZX", "closing"),
    "virama": {"J": "joiner", "C": "consonant"} | _row("SMHZX", "closing"),
    "joiner": {"C": "consonant", "J": "joiner"} | _row("SMHZX", "closing"),
    "closing": _row("SMHJZX", "closing"),
}

# A consonant with an asat (``A``), or with another consonant stacked below it, belongs to the end of the previous syllable
# (the rule of sylbreak). Any other consonant begins a syllable.
MYANMAR: Grammar = {
    "start": _row("CVONSMWA", "letter") | {"H": "stacked"},
    "letter": _row(_MARKS + "WA", "letter") | {"H": "stacked", "C": "coda", "V": "coda"},
    "stacked": _row(_MARKS + "AH", "stacked") | _row("CVW", "letter"),
    "coda": {"A": "letter", "H": "stacked", "M": "toned"},
    "toned": {"A": "letter", "M": "toned"},
}
MYANMAR_ENDS = frozenset(("letter", "stacked"))

# A syllable ends after its tsheg (``T``). Marks after the tsheg do not begin a syllable, because the syllable's merges would
# then cross the tsheg.
TIBETAN: Grammar = {
    "start": _row("CVOWR", "letter") | _row("TNSMH", "ended"),
    "letter": _row("CVWRH" + _MARKS, "letter") | {"T": "ended"},
    "ended": _row(_MARKS + "H", "ended"),
}

# ----------------------------------------------------------------------------------------------------- letters

# Consonants linked by an invisible virama are one letter; ZWNJ makes the virama visible. A character of class W is a letter.
HIDDEN_LETTER: Grammar = {
    "start": _BEGINNING,
    "before": BRAHMIC["before"],
    "letter": _row(_MARKS, "letter") | {"H": "virama"},
    "virama": _row("NSMJXH", "virama") | {"C": "letter", "Z": "marked"},
    "marked": _row(_MARKS + "H", "marked"),
}

STACKED_LETTER: Grammar = HIDDEN_LETTER | {
    "start": HIDDEN_LETTER["start"] | {"A": "letter"},
    "letter": HIDDEN_LETTER["letter"] | {"A": "letter"},
    "virama": HIDDEN_LETTER["virama"] | {"V": "letter", "A": "virama", "Z": "virama"},
}

# A vowel before its consonant is a visible letter of its own.
VISUAL_LETTER: Grammar = HIDDEN_LETTER | {"start": HIDDEN_LETTER["start"] | {"R": "letter"}}

# The tsheg is a visible letter.
TIBETAN_LETTER: Grammar = {
    "start": _row("CVONSMWRH", "letter") | {"T": "letter"},
    "letter": _row(_MARKS + "H", "letter"),
}

# A virama without an adjacent joiner is visible, and ends the letter.
SINHALA_LETTER: Grammar = SINHALA | {"virama": {"J": "joiner"} | _row("SMHZX", "closing")}

# The virama (pulli) is visible, except in two ligatures: ka (``k``) with ssa (``s``), and sha or sa (``z``) with ra (``r``)
# and the sign ii (``i``).
_TAMIL_MARKS = _row("SiMNJZX", "marked")
TAMIL_LETTER: Grammar = {
    "start": _BEGINNING | _row("sr", "letter") | {"k": "ka", "z": "sa", "i": "letter"},
    "before": {},
    "letter": _TAMIL_MARKS | {"H": "marked"},
    "marked": _TAMIL_MARKS | {"H": "marked"},
    "virama": _TAMIL_MARKS | {"H": "marked"},
    "ka": _TAMIL_MARKS | {"H": "ka and virama"},
    "ka and virama": _TAMIL_MARKS | {"H": "marked", "s": "letter"},
    "sa": _TAMIL_MARKS | {"H": "sa and virama"},
    "sa and virama": _TAMIL_MARKS | {"H": "marked", "r": "sa and ra"},
    "sa and ra": {"i": "letter"},
}
TAMIL_LETTER_ENDS = frozenset(TAMIL_LETTER) - {"sa and ra"}

# The virama is visible, except before consonants with a subjoined form (``c``).
GURMUKHI_LETTER: Grammar = HIDDEN_LETTER | {
    "start": HIDDEN_LETTER["start"] | {"c": "letter"},
    "before": HIDDEN_LETTER["before"] | {"c": "letter"},
    "virama": _row("NSMJXH", "virama") | {"c": "letter", "Z": "marked"},
}

# -------------------------------------------------------------------------------------------- grapheme clusters

# Extended grapheme clusters of scripts without viramas: a letter and its marks.
CLUSTER: Grammar = {
    "start": {"C": "letter", "M": "letter", "R": "before"},
    "before": _row("CMJZX", "letter") | {"R": "before"},
    "letter": _row("MJZX", "letter"),
}

# Leading consonants ``L``, vowels ``U``, trailing consonants ``T``; precomposed syllables without (``G``) and with (``K``) a
# trailing consonant.
HANGUL: Grammar = {
    "start": CLUSTER["start"] | {"L": "leading", "U": "vowel", "G": "vowel", "T": "trailing", "K": "trailing"},
    "before": CLUSTER["before"],
    "letter": CLUSTER["letter"],
    "leading": {"L": "leading", "U": "vowel", "G": "vowel", "K": "trailing"} | CLUSTER["letter"],
    "vowel": {"U": "vowel", "T": "trailing"} | CLUSTER["letter"],
    "trailing": {"T": "trailing"} | CLUSTER["letter"],
}

# Pictographs joined by ZWJ.
EMOJI: Grammar = {
    "start": {"C": "letter"},
    "letter": _row("XZ", "letter") | {"J": "joined"},
    "joined": _row("XZ", "letter") | {"J": "joined", "C": "letter"},
}
