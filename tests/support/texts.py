"""Strategies for text that is difficult for split patterns, grammars and byte-level tokenizers."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import regex
from hypothesis import strategies as st

SINHALA = "කරයසතනඅඉාිීුේ්ංඃ\u0d81\u0db2\u0dd5෴෦"
DEVANAGARI = "कषत्रज़ड़आइािीुेंँः्ऽॐ।०"
TAMIL = "கஷ்ஸ்ரீஜாிௌஃ௧"
JOINERS = "\u200c\u200d"
WHITE = " \t\n\r\u00a0\u2028\u0085\u3000"
LATIN = "aAbzSstTdDlLvVeErRmM'’“é1290_-/.,!?(|<>"
OTHERS = "中あ한ไท😀👩\u0301\u0307\ufe0f\ufeff\u0345ǅʰªßſK½Ⅷ²€"
NEWEST = "\U00011de0\U0001c900\u088f\ua7ce\u0c5c\U00016ebb"  # later than the engine's Unicode, or moved since

nasty = st.text(st.sampled_from(SINHALA + DEVANAGARI + TAMIL + JOINERS * 4 + WHITE + " " * 8 + LATIN + OTHERS), max_size=40)
indic = st.text(st.sampled_from(SINHALA + DEVANAGARI + JOINERS + " "), max_size=30)
newest = st.text(st.sampled_from(SINHALA + WHITE + LATIN + NEWEST * 3), max_size=20)
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
texts = nasty | indic | newest | any_text

LINES = [
    *(
        "",
        " ",
        "  two  spaces ",
        "\ttabs\t\tand\ttabs",
        "\r\n\r\n",
        "a\u00a0b\u2003c\u3000d\u2028e\u0085f",
        "\ufeffmark",
        "\0\x01\x7f",
    ),
    *(
        "it's don’t WE'LL I’M o'clock 'tis",
        "camelCase HTTPServer snake_case x1y2",
        "3.14 1,000,000 ٣٫١٤ १२३ ½ Ⅷ ²",
        "a" * 300,
    ),
    *(
        "{'json': [1, 2.5e-3, null]}",
        "<script>alert(1)</script>",
        "../../etc/passwd; rm -rf /",
        "http://user:pass@host:80/p?q=1#f",
    ),
    *("ශ්\u200d\u200dරී ක්\u200d ක\u200d්ර කිී \u0d81 ෦෧෨ ෴", "ක්‍ෂ්‍ම්‍ය ක්ෂ්ම්ය න්ග්ස්ට ංං ඃ්", "\u0dca\u0dca \u0dcf \u200d\u200dක"),
    *("क्षत्रिय क्\u200dष क्\u200cष ज़ ज\u093c ॐ। ॥ ०१२", "क\u094d\u094d ि ाा ं क़ क\u093c", "ஶ்ரீ ஸ்ரீ க்ஷ கௌ கெ\u0bd7 ஃ"),
    *("র\u200d্য র্য ৎ ত্\u200d", "ਕ੍ਰਿਪਾ ਪੰਜਾਬੀ ੴ", "ന്\u200d ൻ ൎ ക്ഷ", "ಕ್ಷ ರ್\u200dಕ", "క్షే ర్‌క", "ଶ୍ରୀ ୟ ଢ଼"),
    *("กำแพง น้ำ เก่า ๆ ฯลฯ", "ສະບາຍດີ ເກົ່າ", "ខ្ញុំ ព្រះ ្ក", "မြန်မာ ကျွန်ုပ် င်္ဂ", "བཀྲ་ཤིས། ༄༅", "𑄌𑄋𑄴𑄟𑄳𑄦 𑀓𑁆𑀱"),
    *(
        "e\u0301 é o\u0308\u0304 ǖ \u0344 \u1100\u1161\u11a8 각 ㅎㅏㄴ",
        "שָׁלוֹם עֲלֵיכֶם ‏rtl‎",
        "السَّلَامُ عَلَيْكُمْ ـــ ﷺ",
        "ﬁ Å Ω ℵ ｆｕｌｌ",
    ),
    *(
        "中文，没有空格。日本語のテキスト、ｶﾅ 한국어",
        "👩\u200d👩\u200d👧\u200d👦 🏳\ufe0f\u200d🌈 🇱🇰🇮 1\ufe0f\u20e3 👍🏽 ❤",
        "Z\u0337\u0321a\u0315l\u0322g\u0327o\u0328" * 9,
    ),
    *(
        "\U00011de0 \U0001c900 \u088f \ua7ce \u0378 \U000e0041 \U0010ffff \ufffe \ufdd0 \ue000",
        "<|endoftext|> [UNK] </s> <0xE0> ▁ Ġ ##a",
    ),
]
"""Lines that are difficult: white space, numbers, joiners and signs in wrong places, emoji, unassigned characters."""


def every_character() -> Iterator[str]:
    """Yield all of Unicode but surrogates, in lines of 64 code points: as they are, and after letters and spaces."""
    for first in range(0, 0x110000, 64):
        if not 0xD800 <= first < 0xE000:
            block = "".join(map(chr, range(first, first + 64)))
            if not UNASSIGNED.fullmatch(block):
                yield f"{block}\n{'a'.join(block)} {' '.join(block)}ක්"


UNASSIGNED = regex.compile(r"[\p{Cn}\p{Co}]+")
COUNTED_WORDS = st.text(min_size=1, max_size=12).map(str.encode) | st.sampled_from(
    [b"a", b"ab", "ශ්‍රී".encode(), b"\0", b"\x7f" * 40]
)
COUNTS = st.dictionaries(COUNTED_WORDS, st.integers(1, 1 << 40), max_size=40)
"""Word → its frequency."""


def chunked(data, cuts: Iterable[int]):
    return [data[start:stop] for start, stop in pairwise([0, *sorted(cuts), len(data)])]
