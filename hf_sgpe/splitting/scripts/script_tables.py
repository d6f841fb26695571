"""The tables of all scripts: character classes and grammars, without logic.

Ten tables are written by hand. The table of Sinhala is exactly that of the SGPE architecture document, including unassigned
code points in its ranges. The other nine follow Unicode's IndicSyllabicCategory. The tables of all other scripts are in
``unicode_scripts.json``, written by scripts/make_script_tables.py. They also follow IndicSyllabicCategory. For scripts
without this property, they follow the classes of extended grapheme clusters (UAX #29). This module adds information that
Unicode does not provide.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from hf_sgpe.splitting.scripts.grammars import (
    BRAHMIC,
    CLUSTER,
    EMOJI,
    GURMUKHI_LETTER,
    HANGUL,
    MYANMAR,
    MYANMAR_ENDS,
    SGPE_BRAHMIC,
    SGPE_SINHALA,
    SINHALA,
    SINHALA_LETTER,
    STACKED_LETTER,
    STACKING,
    TAMIL_LETTER,
    TAMIL_LETTER_ENDS,
    TIBETAN,
    TIBETAN_LETTER,
    VISUAL_LETTER,
    ZANABAZAR,
)
from hf_sgpe.splitting.scripts.script import ZWJ, Script, characters_in, ranges_text, unicode_says


def _brahmic(name: str, first: int, **classes: Any) -> Script:
    """Return the table of a script of India whose block has 128 characters."""
    return Script(name, (first, first + 0x7F), document=SGPE_BRAHMIC, **{"font": f"Noto Sans {name.title()}"} | classes)


TEN = (
    Script(
        "sinhala",
        (0x0D80, 0x0DFF),
        also="Sinh si sin Sinhalese",
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
        syllable=SINHALA,
        letter=SINHALA_LETTER,
        document=SGPE_SINHALA,
    ),
    _brahmic(
        "devanagari",
        0x0900,
        also="Deva hi hin Hindi mr mar Marathi ne nep npi Nepali sa san Sanskrit awa bho brx doi gom hne kok ks mag mai new",
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
    _brahmic(
        "bengali",
        0x0980,
        also="Beng bn ben Bangla as asm Assamese",
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
    _brahmic(
        "gurmukhi",
        0x0A00,
        also="Guru pa pan Punjabi",
        greeting="ਸਤਿ ਸ੍ਰੀ ਅਕਾਲ",
        words="ਪੰ|ਜਾ|ਬੀ ਅੱ|ਖ|ਰ ਸ੍ਰੀ",
        consonants="0A15-0A28 0A2A-0A30 0A32-0A33 0A35-0A36 0A38-0A39 0A59-0A5C 0A5E",
        # the bearers iri and ura have vowel signs, like vowels
        vowels="0A05-0A0A 0A0F-0A10 0A13-0A14 0A72-0A73",
        nukta="0A3C",
        virama="0A4D",
        signs="0A3E-0A42 0A47-0A48 0A4B-0A4C 0A75",
        modifiers="0A01-0A03 0A51 0A70-0A71",
        others="0A74",
        # Unicode 12.3: consonants with a subjoined form, including rare forms
        letter=GURMUKHI_LETTER,
        letter_classes={"c": "0A1A 0A1F 0A24 0A28 0A2F-0A30 0A35 0A39"},
    ),
    _brahmic(
        "gujarati",
        0x0A80,
        also="Gujr gu guj",
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
    _brahmic(
        "odia",
        0x0B00,
        also="Orya or ori ory Oriya",
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
    _brahmic(
        "tamil",
        0x0B80,
        also="Taml ta tam",
        greeting="தமிழ் மொழி",
        words="த|மி|ழ் மொ|ழி ல|ட்சு|மி",
        consonants="0B95 0B99-0B9A 0B9C 0B9E-0B9F 0BA3-0BA4 0BA8-0BAA 0BAE-0BB9",
        vowels="0B85-0B8A 0B8E-0B90 0B92-0B94",
        virama="0BCD",
        signs="0BBE-0BC2 0BC6-0BC8 0BCA-0BCC 0BD7",
        modifiers="0B82",
        others="0B83 0BD0",
        # Unicode 12.6: the ligatures kssa and shri
        letter=TAMIL_LETTER,
        letter_ends=TAMIL_LETTER_ENDS,
        letter_classes={"k": "0B95", "s": "0BB7", "z": "0BB6 0BB8", "r": "0BB0", "i": "0BC0"},
    ),
    _brahmic(
        "telugu",
        0x0C00,
        also="Telu te tel",
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
    _brahmic(
        "kannada",
        0x0C80,
        also="Knda kn kan tcy Tulu",
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
    _brahmic(
        "malayalam",
        0x0D00,
        also="Mlym ml mal",
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
"""The tables written by hand."""

# Fonts whose name is not "Noto Sans" followed by the script's name.
_FONTS = {
    "tibetan": "Noto Serif Tibetan",
    **{
        name: f"Noto Serif {name.title()}"
        for name in ("ahom", "dogra", "makasar", "khojki", "tangut", "toto", "yezidi", "todhri")
    },
    "dives-akuru": "Noto Serif Dives Akuru",
    "old-uyghur": "Noto Serif Old Uyghur",
    "nyiakeng-puachue-hmong": "Noto Serif Hmong Nyiakeng",
    "nko": "Noto Sans NKo",
    "phags-pa": "Noto Sans PhagsPa",
    "signwriting": "Noto Sans SignWriting",
    "han": "Noto Sans CJK SC",
    "hiragana": "Noto Sans CJK JP",
    "katakana": "Noto Sans CJK JP",
    "hangul": "Noto Sans CJK KR",
    "bopomofo": "Noto Sans CJK TC",
    "emoji": "Noto Color Emoji",
    "arabic": "Noto Naskh Arabic",
    **dict.fromkeys(("latin", "greek", "cyrillic"), "Noto Sans"),
}

# The languages of each script and their codes.
_LANGUAGES = {
    "arabic": "ar ara arb fa fas pes Persian ur urd Urdu ps pus pbt Pashto sd snd Sindhi ug uig Uyghur ckb",
    "armenian": "hy hye",
    "cyrillic": "ru rus Russian uk ukr Ukrainian be bel Belarusian bg bul Bulgarian mk mkd ky kir tg tgk ba bak tt tat",
    "ethiopic": "am amh Amharic ti tir Tigrinya",
    "georgian": "ka kat",
    "greek": "el ell",
    "han": "Hans Hant zh zho cmn Chinese yue Cantonese",
    "hangul": "Kore ko kor Korean",
    "hebrew": "he heb ydd Yiddish",
    "khmer": "km khm",
    "lao": "lo",
    "myanmar": "my mya Burmese shn Shan mnw ksw",
    "ol-chiki": "sat Santali",
    "thaana": "dv div Dhivehi",
    "thai": "th tha",
    "tibetan": "bo bod dz dzo Dzongkha",
}

_GREETINGS = {
    "myanmar": "မင်္ဂလာပါ",
    "khmer": "ភាសាខ្មែរ",
    "thai": "สวัสดีชาวโลก",
    "lao": "ສະບາຍດີ",
    "tibetan": "བཀྲ་ཤིས་བདེ་ལེགས།",
    "javanese": "ꦱꦸꦒꦼꦁ ꦫꦮꦸꦃ",
    "balinese": "ᬒᬁᬲ᭄ᬯᬲ᭄ᬢ᭄ᬬᬲ᭄ᬢᬸ",
    "meetei-mayek": "ꯈꯨꯔꯨꯝꯖꯔꯤ",
}

# ISO 15924 codes.
_CODES = dict(
    re.findall(
        r"(\S+)\s(\S{4})\s",
        """
adlam Adlm ahom Ahom anatolian-hieroglyphs Hluw arabic Arab armenian Armn avestan Avst balinese Bali bamum Bamu
bassa-vah Bass batak Batk beria-erfe Berf bhaiksuki Bhks bopomofo Bopo brahmi Brah buginese Bugi buhid Buhd
canadian-aboriginal Cans carian Cari caucasian-albanian Aghb chakma Cakm cham Cham cherokee Cher chorasmian Chrs
coptic Copt cuneiform Xsux cypriot Cprt cypro-minoan Cpmn cyrillic Cyrl deseret Dsrt dives-akuru Diak dogra Dogr
duployan Dupl egyptian-hieroglyphs Egyp elbasan Elba elymaic Elym ethiopic Ethi garay Gara georgian Geor glagolitic
Glag gothic Goth grantha Gran greek Grek gunjala-gondi Gong gurung-khema Gukh han Hani hangul Hang hanifi-rohingya
Rohg hanunoo Hano hatran Hatr hebrew Hebr hiragana Hira imperial-aramaic Armi inscriptional-pahlavi Phli
inscriptional-parthian Prti javanese Java kaithi Kthi katakana Kana kawi Kawi kayah-li Kali kharoshthi Khar
khitan-small-script Kits khmer Khmr khojki Khoj khudawadi Sind kirat-rai Krai lao Laoo latin Latn lepcha Lepc limbu
Limb linear-a Lina linear-b Linb lisu Lisu lycian Lyci lydian Lydi mahajani Mahj makasar Maka mandaic Mand manichaean
Mani marchen Marc masaram-gondi Gonm medefaidrin Medf meetei-mayek Mtei mende-kikakui Mend meroitic-cursive Merc
meroitic-hieroglyphs Mero miao Plrd modi Modi mongolian Mong mro Mroo multani Mult myanmar Mymr nabataean Nbat
nag-mundari Nagm nandinagari Nand new-tai-lue Talu newa Newa nko Nkoo nushu Nshu nyiakeng-puachue-hmong Hmnp ogham
Ogam ol-chiki Olck ol-onal Onao old-hungarian Hung old-italic Ital old-north-arabian Narb old-permic Perm old-persian
Xpeo old-sogdian Sogo old-south-arabian Sarb old-turkic Orkh old-uyghur Ougr osage Osge osmanya Osma pahawh-hmong Hmng
palmyrene Palm pau-cin-hau Pauc phags-pa Phag phoenician Phnx psalter-pahlavi Phlp rejang Rjng runic Runr samaritan
Samr saurashtra Saur sharada Shrd shavian Shaw siddham Sidd sidetic Sidt signwriting Sgnw sogdian Sogd sora-sompeng
Sora soyombo Soyo sundanese Sund sunuwar Sunu syloti-nagri Sylo syriac Syrc tagalog Tglg tagbanwa Tagb tai-le Tale
tai-tham Lana tai-viet Tavt tai-yo Tayo takri Takr tangsa Tnsa tangut Tang thaana Thaa thai Thai tibetan Tibt tifinagh
Tfng tirhuta Tirh todhri Todr tolong-siki Tols toto Toto tulu-tigalari Tutg ugaritic Ugar vai Vaii vithkuqi Vith
wancho Wcho warang-citi Wara yezidi Yezi yi Yiii zanabazar-square Zanb emoji Zsye
""",
    )
)

_WITHOUT_WORD_SPACES = re.findall(
    r"\S+",
    """
balinese bopomofo han hiragana javanese katakana kawi khmer lao myanmar new-tai-lue tai-le tai-tham tai-viet thai tibetan yi
""",
)

# Scripts with an invisible virama that stacks letters.
_STACKERS = re.findall(
    r"\S+",
    """
balinese chakma dives-akuru gunjala-gondi kawi kharoshthi khmer masaram-gondi meetei-mayek soyombo sundanese tai-tham
tulu-tigalari zanabazar-square
""",
)
# Scripts in visual order, with vowels stored before their consonants.
_VISUAL = ("thai", "lao", "tai-viet", "new-tai-lue")
_CLUSTERS: dict[str, Any] = {"syllable": CLUSTER, "letter": CLUSTER, "by_clusters": True}
_GRAMMARS: dict[str, dict[str, Any]] = {
    **{name: {"syllable": STACKING, "letter": STACKED_LETTER} for name in _STACKERS},
    **{name: {"syllable": BRAHMIC, "letter": VISUAL_LETTER} for name in _VISUAL},
    "zanabazar-square": {"syllable": ZANABAZAR, "letter": STACKED_LETTER | {"before": ZANABAZAR["before"]}},
    "myanmar": {"syllable": MYANMAR, "ends": MYANMAR_ENDS, "letter": STACKED_LETTER},
    "tibetan": {"syllable": TIBETAN, "letter": TIBETAN_LETTER},
    "hangul": {"syllable": HANGUL, "letter": HANGUL},
    "emoji": {"syllable": EMOJI, "letter": EMOJI},
    "latin": {"own_words": False},
}

# Further classes that Unicode's property does not distinguish: asat; tsheg and the syllable om.
_MORE = {"myanmar": {"A": "103A"}, "tibetan": {"T": "0F0B-0F0C", "V": "0F00"}}


@cache
def abugidas() -> tuple[Script, ...]:
    """Return the scripts covered by Unicode's IndicSyllabicCategory, except those of `TEN`."""
    return tuple(_script(name, classes, {}) for name, classes in unicode_says()["abugidas"].items())


@cache
def others() -> tuple[Script, ...]:
    """Return emoji and all scripts that are not abugidas. Their syllables are extended grapheme clusters."""
    return tuple(_script(name, classes, _CLUSTERS) for name, classes in unicode_says()["others"].items())


def _script(name: str, classes: dict[str, str], usual: dict[str, Any]) -> Script:
    first, _, last = classes["block"].partition("-")
    more = _MORE.get(name, {})
    taken = set("".join(map(characters_in, more.values())))
    of = {letter: text for letter, text in classes.items() if letter != "block"} | more
    if taken:
        for letter in of.keys() - more.keys():
            of[letter] = ranges_text(ord(c) for c in characters_in(of[letter]) if c not in taken)
    return Script(
        name,
        (int(first, 16), int(last, 16)),
        consonants=of.pop("C", ""),
        vowels=of.pop("V", ""),
        virama=of.pop("H", ""),
        signs=of.pop("S", ""),
        modifiers=of.pop("M", ""),
        nukta=of.pop("N", ""),
        repha=of.pop("R", ""),
        others=of.pop("", ""),
        more=of,
        also=" ".join(filter(None, (_CODES.get(name, ""), _LANGUAGES.get(name, "")))),
        font=_FONTS.get(name, f"Noto Sans {name.replace('-', ' ').title()}"),
        greeting=_GREETINGS.get(name, ""),
        spaced=name not in _WITHOUT_WORD_SPACES,
        **usual | _GRAMMARS.get(name, {}),
    )
