"""The grammars of written syllables and visible letters: tables that `scripts` refers to. Data, no logic.

Characters fall into classes, each with one letter: consonant ``C``, independent vowel ``V``, what is written before its
consonant ``R`` (repha, the vowels of Thai), nukta ``N``, virama or stacker ``H``, vowel sign or subjoined consonant ``S``,
modifier ``M`` (anusvara, tone, killer and the like), what follows its consonant as a letter of its own ``W`` (Thai sara a);
other letters ``O`` (avagraha); ZWJ ``J``, ZWNJ ``Z``, and marks that all scripts share ``X`` (combining accents, variation
selectors). A few scripts have classes besides.

A grammar is a table of states: from a state, a character's class leads to the next state, or ends the syllable where no
entry is given. The syllable is the longest walk that ends in a state where one may end.
"""

from __future__ import annotations

from collections.abc import Iterable

Grammar = dict[str, dict[str, str]]


def _row(classes: Iterable[str], state: str) -> dict[str, str]:
    return dict.fromkeys(classes, state)


# ------------------------------------------------------------- of the SGPE architecture document, and like it

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
# A vowel can carry a consonant below it (Bengali a with ya-phalaa), a vowel sign a virama (Malayalam half-u), and a joiner
# before the virama chooses the form of a conjunct (Bengali and Kannada ra).
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

# R* (C | V) (N | S | M | W | J | Z | X)*, and a consonant behind a virama continues it. What belongs to no letter stays with
# what is before it, however misspelled, so that no extended grapheme cluster is cut (UAX #29, GB9c included).
_MARKS = "NSMJZX"
_BEGINNING = _row("CVONSMW", "letter") | {"R": "before", "H": "virama"}
BRAHMIC: Grammar = {
    "start": _BEGINNING,
    "before": _BEGINNING | _row("JZX", "letter"),
    "letter": _row(_MARKS + "W", "letter") | {"H": "virama"},
    "virama": _row(_MARKS + "H", "virama") | _row("CW", "letter"),
}

# Where the virama is never seen but only stacks, it stacks vowels too (Khmer, Burmese).
STACKING: Grammar = BRAHMIC | {"virama": BRAHMIC["virama"] | {"V": "letter"}}

# Its cluster-initial ra takes marks, and the consonant after them.
ZANABAZAR: Grammar = STACKING | {"before": BRAHMIC["before"] | _row(_MARKS, "before")}

# As the document has it, but again with every mark: a virama links consonants only directly, with joiners on either side,
# since without NFC the vowel sign ee ends in one.
SINHALA: Grammar = {
    "start": {"C": "consonant"} | _row("VOSMH", "closing"),
    "consonant": {"H": "virama", "J": "joined"} | _row("SMZX", "closing"),
    "joined": {"H": "joiner", "J": "joined"} | _row("SMZX", "closing"),
    "virama": {"J": "joiner", "C": "consonant"} | _row("SMHZX", "closing"),
    "joiner": {"C": "consonant", "J": "joiner"} | _row("SMHZX", "closing"),
    "closing": _row("SMHJZX", "closing"),
}

# A consonant with asat (``A``) closes the syllable before it, and so does one that has another stacked below it: sylbreak's
# rule. A consonant alone begins the next.
MYANMAR: Grammar = {
    "start": _row("CVONSMWA", "letter") | {"H": "stacked"},
    "letter": _row(_MARKS + "WA", "letter") | {"H": "stacked", "C": "coda", "V": "coda"},
    "stacked": _row(_MARKS + "AH", "stacked") | _row("CVW", "letter"),
    "coda": {"A": "letter", "H": "stacked", "M": "toned"},
    "toned": {"A": "letter", "M": "toned"},
}
MYANMAR_ENDS = frozenset(("letter", "stacked"))

# Everything up to and with the tsheg (``T``). Marks behind that begin no syllable, or its merges would reach over the tsheg.
TIBETAN: Grammar = {
    "start": _row("CVOWR", "letter") | _row("TNSMH", "ended"),
    "letter": _row("CVWRH" + _MARKS, "letter") | {"T": "ended"},
    "ended": _row(_MARKS + "H", "ended"),
}

# ----------------------------------------------------------------------------------------------------- letters

# Where the virama is not seen, consonants that it links are one letter; ZWNJ makes it seen. A letter of class W is one.
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

# A vowel before its consonant is seen as a letter of its own.
VISUAL_LETTER: Grammar = HIDDEN_LETTER | {"start": HIDDEN_LETTER["start"] | {"R": "letter"}}

# The tsheg is one, too.
TIBETAN_LETTER: Grammar = {
    "start": _row("CVONSMWRH", "letter") | {"T": "letter"},
    "letter": _row(_MARKS + "H", "letter"),
}

# Without a joiner beside it a virama is seen, and ends the letter.
SINHALA_LETTER: Grammar = SINHALA | {"virama": {"J": "joiner"} | _row("SMHZX", "closing")}

# The virama (pulli) is seen, but for two ligatures: ka (``k``) with ssa (``s``), and sha or sa (``z``) with ra (``r``) and
# the sign ii (``i``).
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

# The virama is seen but before the consonants that have a subjoined form (``c``).
GURMUKHI_LETTER: Grammar = HIDDEN_LETTER | {
    "start": HIDDEN_LETTER["start"] | {"c": "letter"},
    "before": HIDDEN_LETTER["before"] | {"c": "letter"},
    "virama": _row("NSMJXH", "virama") | {"c": "letter", "Z": "marked"},
}

# -------------------------------------------------------------------------------------------- grapheme clusters

# Extended grapheme clusters of scripts that have no viramas: a letter and its marks.
CLUSTER: Grammar = {
    "start": {"C": "letter", "M": "letter", "R": "before"},
    "before": _row("CMJZX", "letter") | {"R": "before"},
    "letter": _row("MJZX", "letter"),
}

# Leading consonants ``L``, vowels ``U``, trailing consonants ``T``; syllables of the first two ``G`` and of all three ``K``.
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
