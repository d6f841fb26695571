import unicodedata
from bisect import bisect_right
from collections import Counter
from functools import cache

import pytest
import regex
from hypothesis import given, strategies as st
from support.corpora import corpus

from hf_sgpe import LinguisTrie, LinguisTriePreTokenizer, RegexPreTokenizer
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.scripts.script_tables import TEN

pytestmark = pytest.mark.kernels

TEN_SCRIPTS = [script.name for script in TEN]

NINE = [name for name in TEN_SCRIPTS if name != "sinhala"]


def written_in(name, devanagari):
    """The same letters of another script: the blocks of the nine are laid out alike. Dandas are shared by all."""
    shift = SCRIPTS[name].block[0] - 0x900
    return "".join(chr(ord(c) + shift) if "\u0900" <= c <= "\u097f" and c not in "।॥" else c for c in devanagari)


def units(name, text):
    return "|".join(LinguisTrie([name]).tokenize(text))


@pytest.mark.parametrize("name", NINE)
@pytest.mark.parametrize(
    "devanagari",
    [
        pytest.param("क|र्क", id="reph"),
        pytest.param("क्य", id="conjunct"),
        pytest.param("क|क्त्र्य", id="conjunct of four"),
        pytest.param("क्\u200dय", id="half form"),
        pytest.param("क|क्\u200d|अ", id="half form alone"),
        pytest.param("र्\u200dय", id="eyelash ra"),
        pytest.param("क्\u200cय", id="visible virama"),
        pytest.param("क्\u200c|अ", id="visible virama alone"),
        pytest.param("क|क्", id="virama at the end"),
        pytest.param("कां|कं|क्कं", id="anusvara"),
        pytest.param("अ|अं|क", id="vowel with anusvara"),
        pytest.param("१|०|क|९|क्य", id="digits"),
        pytest.param("क|।|॥|क", id="dandas"),
        pytest.param("१|\u200d|२|\u200c|क", id="joiners of nothing"),
    ],
)
def test_nine_scripts_share_their_syllable_structure(name, devanagari):
    expected = written_in(name, devanagari)
    assert units(name, expected.replace("|", "")) == expected


@pytest.mark.parametrize("name", [name for name in NINE if name != "tamil"])
def test_visarga_closes_a_syllable(name):
    expected = written_in(name, "दुः|कः|अः")
    assert units(name, expected.replace("|", "")) == expected


@pytest.mark.parametrize("name", [name for name in NINE if name not in ("gurmukhi", "tamil")])
def test_avagraha_is_a_unit_of_its_own_within_its_word(name):
    expected = written_in(name, "को|ऽ|य")
    word = expected.replace("|", "")
    assert units(name, word) == expected
    assert LinguisTriePreTokenizer([name]).split(f"{word} {word}") == [word, f" {word}"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("devanagari", "\u0958|\u0958्या|\u0929|ज़े", id="devanagari nukta, composed"),
        pytest.param("devanagari", "\u0915\u093c|\u0915\u093cं|\u091c\u093c्य|\u091c\u093cे", id="devanagari nukta"),
        pytest.param("devanagari", "का|र्त्स्न्य", id="devanagari conjunct of five"),
        pytest.param("devanagari", "दु|स|र्\u200dया|दु|स|\u0931्या", id="devanagari eyelash ra, both spellings"),
        pytest.param("devanagari", "हूँ|चाँ|द|अँ|ग्रे|ज़ी", id="devanagari candrabindu"),
        pytest.param("devanagari", "अ|ग्नि॒|मी॑|ळे", id="devanagari vedic accents"),
        pytest.param("devanagari", "कि|॰|मी|॰|₹|१|०", id="devanagari abbreviation sign"),
        pytest.param("bengali", "উ|ৎ|স|ব|হ|ঠা|ৎ", id="bengali khanda ta"),
        pytest.param("bengali", "হ|ঠা|ত্\u200d", id="bengali khanda ta, old spelling"),
        pytest.param("bengali", "ভ|র্ৎ|স|না", id="bengali reph on khanda ta"),
        pytest.param("bengali", "\u09dc|ব|\u09dfে|\u09ddি", id="bengali nukta, composed"),
        pytest.param("bengali", "\u09a1\u09bc|ব|\u09af\u09bcে|\u09a2\u09bcি", id="bengali nukta"),
        pytest.param("bengali", "চাঁ|দ|বাং|লা|দুঃ|খ", id="bengali candrabindu, anusvara, visarga"),
        pytest.param("bengali", "ক|র্ম|ব্যা|ঙ্ক|প্রা|র্থ|না", id="bengali reph and phalaas"),
        pytest.param("bengali", "অ|স|মী|য়া|ৰ|ৱা", id="assamese letters"),
        pytest.param("gurmukhi", "ਪੱ|ਕਾ|ਅੱ|ਖ", id="gurmukhi addak"),
        pytest.param("gurmukhi", "ਪੰ|ਜਾ|ਬੀ|ਮੁੰ|ਡਾ", id="gurmukhi tippi"),
        pytest.param("gurmukhi", "ੲ|ੲਿ|ੲੀਂ|ੳ|ੳੁ|ਓ|ਅੈ|ਆਂ", id="gurmukhi bearers with signs"),
        pytest.param("gurmukhi", "ਪ੍ਰੀ|ਤ|ਸ੍ਵੈ|ਪ|ੜ੍ਹ|ਦੵ", id="gurmukhi subjoined letters"),
        pytest.param("gurmukhi", "\u0a59|\u0a16\u0a3c|\u0a36ਿੰ|\u0a38\u0a3cਿੰ|ਗਾ|ਰ|ੴ", id="gurmukhi nukta, both spellings"),
        pytest.param("gujarati", "ક|ર્મ|જ્ઞા|ન|અં|ગ્રે|જી|ૐ", id="gujarati reph, conjunct, anusvara"),
        pytest.param("gujarati", "ઝ઼ૈ|ઑ|કૉ|ફી", id="gujarati nukta and candra vowels"),
        pytest.param("odia", "ଓ|\u0b5cି|ଆ|ଓ|\u0b21\u0b3cି|ଆ", id="odia dda with nukta, both spellings"),
        pytest.param("odia", "ସ|ମ|\u0b5f|ଦ୍\u0b5fା|ବ୍\u0b2f|ୱା", id="odia yya, ya and wa"),
        pytest.param("odia", "ଚାଁ|ଦ|ଧ|ର୍ମ|ଦୁଃ|ଖ|ସଂ|ସ୍କୃ|ତ", id="odia candrabindu, reph, visarga"),
        pytest.param("tamil", "அ|ஃ|து|எ|ஃ|கு", id="tamil aytham"),
        pytest.param("tamil", "க்ஷ|ப|க்ஷி|ஸ்ரீ|ஶ்ரீ", id="tamil ligatures"),
        pytest.param("tamil", "கா|ர்|ஔ|ௐ|௧|௰", id="tamil pulli, au, om, numerals"),
        pytest.param("telugu", "స్త్రీ|రా|ష్ట్రం|కా|ర్త్స్న్య", id="telugu conjuncts"),
        pytest.param("telugu", "వాఁ|డు|దుః|ఖం|చె|\u0c1a\u0c3c", id="telugu arasunna, visarga, nukta"),
        pytest.param("kannada", "ಸ್ತ್ರೀ|ರಾ|ಷ್ಟ್ರ|ಕಾ|ರ್ತ್ಸ್ನ್ಯ", id="kannada conjuncts"),
        pytest.param("kannada", "ಸಂ|ಸ್ಕೃ|ತ|ದುಃ|ಖ|\u0cab\u0cbcೀ", id="kannada anusvara, visarga, nukta"),
        pytest.param("malayalam", "അ|വ|ൻ|\u0d7a|\u0d7c|\u0d7d|\u0d7e|\u0d7f|\u0d54|\u0d55|\u0d56", id="malayalam chillus"),
        pytest.param("malayalam", "അ|വ|ന്\u200d|അ|വ|ര്\u200d", id="malayalam chillus, old spelling"),
        pytest.param("malayalam", "എ|ന്റെ|എ|ൻ്റെ", id="malayalam nta, both spellings"),
        pytest.param("malayalam", "സ്ത്രീ|ല|ക്ഷ്മി|സം|സ്കൃ|തം|ദുഃ|ഖം", id="malayalam conjuncts, anusvara, visarga"),
        pytest.param("malayalam", "ക\u0d3b|ക\u0d3c|ക|ക്\u200cഷ", id="malayalam visible viramas"),
        pytest.param("bengali", "অ্যা|প|এ্যা|ড", id="Unicode 12.2: ya-phalaa on the vowels a and e"),
        pytest.param("bengali", "র\u200d্যা|ব", id="Unicode 12.2: ra with ya-phalaa has ZWJ before the virama"),
        pytest.param("kannada", "ರ\u200d್ಕ", id="Unicode 12.8: ra that forms no repha has ZWJ before the virama"),
        pytest.param("malayalam", "അ|തു്", id="Unicode 12.9: half-u is the vowel sign u and a virama"),
        pytest.param("malayalam", "അ|ൎക", id="Unicode 12.9: dot reph stands before its consonant"),
        pytest.param("sinhala", "ක්\u200dර|ශ්\u200dරී|ච|ක්\u200dර|ය", id="sinhala rakaransaya"),
        pytest.param("sinhala", "වි|ද්\u200dයා|වා|ක්\u200dය", id="sinhala yansaya"),
        pytest.param("sinhala", "ධ|ර්\u200dම|කා|ර්\u200dය්\u200dය", id="sinhala repaya"),
        pytest.param("sinhala", "ක්\u200dෂ|බු|ද්\u200dධ|ක|න්ද", id="sinhala conjuncts with and without joiner"),
        pytest.param("sinhala", "සිං|හ|ල|දුඃ|ඛ|අං", id="sinhala anusvara, visarga"),
        pytest.param("sinhala", "කො|කෝ|කේ|කෞ|ඖ", id="sinhala two-part vowel signs"),
        pytest.param("sinhala", "ක|\u0de6|\u0def|෴|।|ක", id="sinhala digits and dandas"),
        # The SGPE document knows one joiner, ZWJ, and that only after a virama.
        pytest.param("sinhala", "ම|\u200d|\u0dca|ම", id="sinhala touching letters"),
        pytest.param("sinhala", "ක්|\u200c|ෂ", id="sinhala visible virama"),
    ],
)
def test_syllables_by_hand(name, expected):
    assert units(name, expected.replace("|", "")) == expected


@pytest.mark.parametrize("name", TEN_SCRIPTS)
def test_canonically_decomposed_characters_stay_in_one_unit(name):
    script, checked = SCRIPTS[name], 0
    ka = next(character for character, letter in script.document_classes().items() if letter == "C")
    for character, letter in script.document_classes().items():
        parts = unicodedata.normalize("NFD", character)
        if parts == character:
            continue
        composed, decomposed = (ka + character, ka + parts) if letter == "S" else (character, parts)
        assert units(name, composed) == composed
        assert units(name, prepare(decomposed, "nfc")) == prepare(composed, "nfc")
        # The SGPE document's syllable has one vowel sign: Sinhala is to be composed first, as the hybrid recipe does.
        assert (units(name, decomposed) == decomposed) == (name != "sinhala")
        checked += 1
    assert checked or name == "gujarati"


def test_nfc_puts_a_nukta_before_the_virama():
    assert units("devanagari", "ज्\u093cया") == "ज्|\u093c|या"
    assert units("devanagari", prepare("ज्\u093cया", "nfc")) == "ज\u093c्या"


# Extended grapheme clusters (UAX #29) hold together a letter and its signs, and in these scripts, by rule GB9c, consonants
# that a virama links.
LINKING = {"devanagari", "bengali", "gujarati", "odia", "telugu", "malayalam"}
DEAD = "ৎ\u0c5d\u0d54-\u0d56ൺ-ൿ"  # consonants without a vowel, which GB9c does not link …
SPACED_MODIFIERS = "\u09fc\u0c80\u0d04"  # … and modifiers that are letters to Unicode: these begin a cluster
GRAPHEME_CLUSTER = regex.compile(r"\X")


def members(name, letters):
    """The assigned characters of the script's classes ``letters``, in order."""
    classes = SCRIPTS[name].document_classes().items()
    return [character for character, letter in classes if letter in letters and unicodedata.category(character) != "Cn"]


@cache
def cluster_ends_in_units(name):
    """Matches end where a unit may join two clusters: LinguisTrie joins consonants over every virama."""
    C, H, NH = (f"[{''.join(members(name, letters))}]" for letters in ("C", "H", "NH"))
    J = f"[{SCRIPTS[name].joiners}]"
    pattern = f"{H}{J}?(?={C})"
    if name in LINKING:
        pattern = f"{H}\u200c(?={C})|[{DEAD}]{NH}+{J}?(?={C})|{H}{J}?(?=[{DEAD}])"
    return regex.compile(f"{pattern}|(?=[{SPACED_MODIFIERS}])")


def cut_clusters(name, text):
    """Each cluster that LinguisTrie cuts, as what stands before and after the first cut; and the clusters' starts.

    Checks on the way that no unit joins clusters but over a virama.
    """
    ends = LinguisTrie([name]).ends(text).tolist()
    clusters = [0, *(match.end() for match in GRAPHEME_CLUSTER.finditer(text))]
    assert {*clusters[1:]} - {*ends} <= {match.end() for match in cluster_ends_in_units(name).finditer(text)}
    cuts = {}
    for cut in sorted({*ends} - {*clusters}):
        after = bisect_right(clusters, cut)
        start, end = clusters[after - 1 : after + 1]
        cuts.setdefault(start, (text[start:cut], text[cut:end]))
    return list(cuts.values()), clusters[:-1]


@pytest.mark.parametrize("name", TEN_SCRIPTS)
def test_text_made_from_the_table_agrees_with_grapheme_clusters(name):
    consonants, signs, nuktas, modifiers = (["", *members(name, letters)] for letters in "CSNM")
    virama, joiners = members(name, "H")[0], ["", *SCRIPTS[name].joiners]
    parts = [c + virama + j + d for c in consonants[1:] for j in joiners for d in consonants]
    parts += [c + s + m for c in consonants[1:] for s in signs for m in modifiers]
    parts += [c + n + end for c in consonants[1:] for n in nuktas for end in [virama, *signs, *modifiers]]
    parts += [base + m for base in members(name, "V") for m in modifiers]
    text = "".join(f" {part}" for part in parts)
    assert LinguisTrie([name]).tokenize(text, leading_space=True) == [f" {part}" for part in parts]
    cut, clusters = cut_clusters(name, f"{text}।१२{'a'.join(parts)}")
    assert not cut
    assert len(clusters) > 10_000


SYLLABLE = "(R?C|V)N?J?(S{0,2}HJ?CN?J?){0,3}(S{0,2}HJ?|S{1,3})?M{0,3}"
SINHALA_SYLLABLE = "C(HJ?C){0,3}(HJ)?[SH]?M?|VM?"


def syllables(name):
    characters = {letter: st.sampled_from(members(name, letter) or [""]) for letter in "CVNHJSMR"}
    grammar = SINHALA_SYLLABLE if name == "sinhala" else SYLLABLE.replace("R?", "R?" if members(name, "R") else "")
    shapes = st.from_regex(grammar, fullmatch=True)
    return shapes.flatmap(lambda shape: st.tuples(st.just(shape), st.tuples(*map(characters.get, shape)).map("".join)))


@pytest.mark.parametrize("name", TEN_SCRIPTS)
@given(data=st.data())
def test_well_formed_words_are_cut_between_syllables_and_between_clusters(name, data):
    expected, shape = [], ""
    for part, syllable in data.draw(st.lists(syllables(name), min_size=1, max_size=4)):
        if regex.search("CHJ?$" if name == "sinhala" else "HJ?$", shape) and part[0] == "C":
            expected[-1] += syllable
        else:
            expected.append(syllable)
        shape += part
    word = "".join(expected)
    assert LinguisTrie([name]).tokenize(word) == expected
    # Rule GB9c looks for the next consonant behind the modifiers of a virama, too: see the exceptions below.
    if not regex.search("HJ?M+C", shape):
        assert not cut_clusters(name, word)[0]


LANGUAGES = {
    "si": "sinhala",
    "pi_sinh": "sinhala",
    "hi": "devanagari",
    "mr": "devanagari",
    "ne": "devanagari",
    "bn": "bengali",
    "pa": "gurmukhi",
    "gu": "gujarati",
    "ta": "tamil",
    "te": "telugu",
    "kn": "kannada",
    "ml": "malayalam",
}
# Where LinguisTrie first cuts a cluster of a text in NFC: the classes of the characters before and behind the cut, where
# ``x`` is none of the script's; ``-`` stands for any cut of a cluster that begins with no letter of the script.
EXCEPTIONS = {
    "-",  # a sign after a space, digit or other script is an orphan; emoji and other scripts go character by character
    *("H|x", "S|x"),  # a mark of another script, and ZWNJ in Sinhala, whose only joiner is ZWJ
    *("C|J", "V|J"),  # a joiner in Sinhala that follows no virama
    *("S|J", "M|J", "J|J"),  # a joiner after a sign, a modifier or another joiner
    *("V|H", "M|H", "H|H"),  # a virama after a vowel in Sinhala, a modifier or another virama
    *("S|N", "M|N", "N|N"),  # a nukta that follows no letter
    *("H|S", "M|S"),  # a vowel sign after a virama, which leaves no vowel, or after the modifiers, which end a syllable
    "S|S",  # a second vowel sign in Sinhala
    "M|C",  # C H M C: a modifier ends the syllable, but GB9c links over it
}


@cache
def cuts_of_text(language, characters):
    """How often each kind of cut occurs, and in how many clusters that begin with a letter of the script."""
    name = LANGUAGES[language]
    text = prepare(corpus(language, characters), "nfc")
    cut, clusters = cut_clusters(name, text)
    classes, kinds = SCRIPTS[name].document_classes(), Counter()
    for before, behind in cut:
        if classes.get(before[0], "x") in "CV":
            kinds[f"{classes[before[-1]]}|{classes.get(behind[0], 'x')}"] += 1
        else:
            kinds["-"] += 1
    return kinds, sum(classes.get(text[start], "x") in "CV" for start in clusters)


@pytest.mark.parametrize("characters", [50_000, pytest.param(1_000_000, marks=pytest.mark.data)])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_cluster_of_running_text_is_cut_but_for_the_exceptions(language, characters):
    kinds, letters = cuts_of_text(language, characters)
    assert kinds.keys() <= EXCEPTIONS
    assert letters > 0.3 * characters
    assert kinds.total() < letters / 200


@pytest.mark.data
def test_every_exception_is_needed():
    assert set().union(*(cuts_of_text(language, 1_000_000)[0] for language in LANGUAGES)) == EXCEPTIONS


def test_only_subjoined_consonants_of_gurmukhi_belong_to_the_letter_before():
    trie = LinguisTrie(["gurmukhi"])
    for consonant in "ਕਖਗਘਙਚਛਜਝਞਟਠਡਢਣਤਥਦਧਨਪਫਬਭਮਯਰਲਵਸਹੜ":
        letters = trie.letters(f"ਪ੍{consonant}ਾ")
        assert letters == ([f"ਪ੍{consonant}ਾ"] if consonant in "ਚਟਤਨਯਰਵਹ" else ["ਪ੍", f"{consonant}ਾ"])


@pytest.mark.parametrize("name", TEN_SCRIPTS)
def test_digits_and_dandas_stay_outside_words(name):
    word, digits = ("ශ්\u200dරී", "෧෨෩෪") if name == "sinhala" else (written_in(name, "कर्म"), written_in(name, "१२३४"))
    readable = LinguisTriePreTokenizer([name], "o200k")
    words = [word, digits[:3], digits[3], word, "।", f" {word}", "॥", word]
    text = "".join(words)
    assert readable.split(text) == words
    assert RegexPreTokenizer(*readable.patterns).split(text) == words
    assert [piece for piece, _ in readable.to_native().pre_tokenize_str(text)] == words


FAMILY, RAINBOW = "👩\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈"
WRITTEN = regex.compile(
    "|".join(
        rf"(?P<{script}>(?=[\p{{L}}\p{{M}}])\p{{{script}}})"
        for script in [*(name.title().replace("Odia", "Oriya") for name in TEN_SCRIPTS), "Latin"]
    )
)


@cache
def forms(pattern):
    readable = LinguisTriePreTokenizer(TEN_SCRIPTS, pattern)
    return readable, RegexPreTokenizer(*readable.patterns), readable.to_native()


def split_alike(pattern, text):
    readable, by_regex, native = forms(pattern)
    words = readable.split(text)
    assert "".join(words) == text
    assert by_regex.split(text) == words
    assert native.pre_tokenize_str(text) == readable.pre_tokenize_str(text)
    return words


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param("Windows|වල| Windows| වල", id="latin and sinhala"),
        pytest.param("हिन्दी|தமிழ்|हिन्दी| தமிழ்", id="devanagari and tamil"),
        pytest.param("क|ক|ਕ|ક|କ|க|క|ಕ|ക|ක|a", id="ten scripts in a row"),
        pytest.param("කොවිඩ්|19|ක්| क|१२|ख|3|க", id="digits inside"),
        pytest.param("19|-|ാം| 20|-|ാം", id="malayalam ordinals"),
        pytest.param("ක|ा|ක|்|a|ං", id="signs after letters of other scripts"),
        pytest.param(f"පවුල|{FAMILY}|පවුල| {FAMILY}| परिवार|{FAMILY}|குடும்பம்", id="family"),
        pytest.param(f"ක|{RAINBOW}|क|{RAINBOW}|a|{RAINBOW}{FAMILY}|క", id="rainbow flag"),
        pytest.param("ලංකාව| 🇱🇰| भारत|🇮🇳|தமிழ்", id="regional indicators"),
        pytest.param("👩\u200d|ක\u200d|👩|क्\u200d|👩| \u200d|க", id="a joiner goes with what stands before it"),
        pytest.param("@|ශ්\u200dරී|_|லங்கா|.|lk|/|हि|-|hi", id="punctuation between"),
    ],
)
def test_words_of_mixed_text(expected):
    assert split_alike("gpt2", expected.replace("|", "")) == expected.split("|")


MIXED = [
    *(written_in(name, "क्षि") for name in NINE),
    *(written_in(name, "ि") for name in NINE),
    *(written_in(name, "१२") for name in NINE),
    *("ශ්\u200dරී", "ං", "෧", "a", "Ab", "é", "e\u0301", "19", "।", ".", "'s", "_"),
    *(FAMILY, RAINBOW, "🇱🇰", "👩🏽", "1\ufe0f\u20e3", "\u200d", "\u200c", "\ufe0f", " ", "  ", "\n"),
]


@pytest.mark.parametrize("pattern", ["o200k", "gpt2", "bloom", None])
@given(text=st.lists(st.sampled_from(MIXED), max_size=12).map("".join))
def test_no_word_holds_letters_and_marks_of_two_scripts(pattern, text):
    words = split_alike(pattern, text)
    if pattern:  # SGPE's words are of all the scripts together
        assert all(len({letter.lastgroup for letter in WRITTEN.finditer(word)}) <= 1 for word in words)
