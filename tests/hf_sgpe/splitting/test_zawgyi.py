import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from hf_sgpe.splitting.zawgyi import encoding_of, is_zawgyi, to_unicode

# As people type it, and as Unicode has it. Each pair is of words that are written in Burmese.
PAIRS = {
    "ျမန္မာစာ": "မြန်မာစာ",
    "ေက်ာင္းသားမ်ား": "ကျောင်းသားများ",
    "ကိုယ္စားလွယ္မ်ား": "ကိုယ်စားလှယ်များ",
    "ႏိုင္ငံေတာ္": "နိုင်ငံတော်",
    "ႀကိဳးစားပါ": "ကြိုးစားပါ",
    "အခ်ိဳ႕": "အချို့",
    "တို႔၏": "တို့၏",
    "လႊတ္ေတာ္": "လွှတ်တော်",
    "မႈမ်ားေၾကာင့္": "မှုများကြောင့်",
    # Letters below others, and kinzi, also behind the vowel sign that is typed before it.
    "ဝတၳဳ": "ဝတ္ထု",
    "ဆႏၵျပသူ": "ဆန္ဒပြသူ",
    "ကမၻာ": "ကမ္ဘာ",
    "အဂၤလိပ္": "အင်္ဂလိပ်",
    "သေဘၤာ": "သင်္ဘော",
    "အဂါၤေန႔": "အင်္ဂါနေ့",
    # The asat of a letter, and that of a vowel.
    "ေယာက္်ား": "ယောက်ျား",
    "ကၽြႏု္ပ္": "ကျွန်ုပ်",
    "ေက်ာ္": "ကျော်",
    # Digits for letters, and digits.
    "ေ၀လ": "ဝေလ",
    "၀န္ထမ္း": "ဝန်ထမ်း",
    "သဘာ၀": "သဘာဝ",
    "၇ွိ": "ရှိ",
    "၄င္းတို႔": "၎င်းတို့",
    "၎ကို": "၎င်းကို",
    "၂၀၁၉ ခုႏွစ္": "၂၀၁၉ ခုနှစ်",
    "၉၈၀ျပား": "၉၈၀ပြား",
    # Letters that are drawn as two.
    "ၾသဂုတ္": "ဩဂုတ်",
    "ဦးေဆာင္": "ဦးဆောင်",
    "ေစ်းႏႈန္း": "ဈေးနှုန်း",
    "ဥာဏ္": "ဉာဏ်",
    # What is typed twice, or as in Unicode.
    "ေေလးႏွင့္": "လေးနှင့်",
    "စိုုး": "စိုး",
    "စနေေန႔က": "စနနေ့က",
    "သေော": "သော",
}
# Those of the block are from the Universal Declaration of Human Rights, but for Karen.
OTHERS = {
    "Burmese": "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ တူညီလွတ်လပ်သော အခွင့်အရေးများဖြင့် လည်းကောင်း၊ မွေးဖွားလာသူများ ဖြစ်သည်။",
    "Shan": "ၵူၼ်းၵူႊၵေႃႉ မီးသုၼ်ႇလႆႈ တႃႇၶီးၸိုၼ်ႈ၊ တႃႇလွတ်ႈလႅဝ်းထၢင်ႇႁၢင်ႊ လႄႈ တႃႇႁူမ်ႇလူမ်ႈၸူဝ်ႊပၢၼ်မၼ်း။",
    "Mon": "ဇၟာပ်မၞိဟ်တအ် အခေါၚ်ဂျိုၚ်တဴလမျီု၊ အခေါၚ်ဗၠးၜး ကေုာံ အခေါၚ်ဂီုကၠီု ပရေၚ်ပူဂဵုမၞိဟ် ဒးနွံရ။",
    "S'gaw Karen": "ပှၤကညီခဲလၢာ်အိၣ်ဖျဲၣ်လၢအသဘျ့ဒီးအသူးအသ့ၣ်ထဲသိးလီၤ",
    "Pa'O": "နာꩻ အဝ်ႏလိုႏ သုင်ꩻလိတ်မဲ့ငါယိုတာႏ ဗာႏသိဉ်းတဗာႏ",
    "Sinhala": "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත",
    "English": "All human beings are born free",
    "none": "",
}
MYANMAR = [chr(code) for code in range(0x1000, 0x10A0)]
LETTERS = re.compile("[\u1000-\u1021]")


@pytest.mark.parametrize("zawgyi", PAIRS)
def test_zawgyi_becomes_unicode(zawgyi):
    assert to_unicode(zawgyi) == PAIRS[zawgyi]
    assert unicodedata.is_normalized("NFC", PAIRS[zawgyi])


def test_words_together_are_as_alone():
    assert to_unicode(" ".join(PAIRS)) == " ".join(PAIRS.values())
    assert is_zawgyi(" ".join(PAIRS))
    assert not is_zawgyi(" ".join(PAIRS.values()))


@pytest.mark.parametrize("unicode", PAIRS.values())
def test_no_word_in_unicode_is_taken_for_zawgyi(unicode):
    assert not is_zawgyi(unicode)


@pytest.mark.parametrize("language", OTHERS)
def test_other_languages_and_unicode_are_not_zawgyi(language):
    assert not is_zawgyi(OTHERS[language])


@pytest.mark.parametrize(
    ("zawgyi", "unicode"), {"သမၼတ": "သမ္မတ", "ဗုဒၶဘာသာ": "ဗုဒ္ဓဘာသာ", "ဥကၠ႒": "ဥက္ကဋ္ဌ", "ကမ႓ာ": "ကမ္ဘာ", "ၾကည့္": "ကြည့်"}.items()
)
def test_characters_that_unicode_has_for_other_languages_decide(zawgyi, unicode):
    assert is_zawgyi(zawgyi)
    assert to_unicode(zawgyi) == unicode
    assert not is_zawgyi(unicode)


@pytest.mark.parametrize("text", ["ကုန္ထုတ္သမဝါယမ", "အလုပ္သမား", "ကမာ", "abc", ""])
def test_text_valid_in_both_encodings_has_no_encoding(text):
    assert encoding_of(text) is None


@pytest.mark.parametrize("language", ["Burmese", "Shan", "Mon"])
def test_other_languages_are_in_unicode_word_by_word(language):
    words = OTHERS[language].split()
    assert encoding_of(OTHERS[language]) == "unicode"
    assert not any(map(is_zawgyi, words))
    assert not any(map(is_zawgyi, OTHERS["Pa'O"].split()))


def test_text_of_both_is_what_most_of_it_is():
    zawgyi, unicode = "ႏိုင္ငံေတာ္ ေက်ာင္းသားမ်ား", "မြန်မာစာ ကျောင်း"
    assert is_zawgyi(f"{zawgyi} {unicode}")
    assert not is_zawgyi(f"{zawgyi.split()[0]} {OTHERS['Burmese']}")


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=60))
def test_any_text_can_be_detected_and_converted(text):
    is_zawgyi(text)
    to_unicode(text)


@given(st.text(alphabet=st.one_of(st.sampled_from(MYANMAR), st.sampled_from(" a1.\n\u200b")), max_size=40))
def test_no_letter_is_lost_or_moved(text):
    """But for ligatures, which are two, and letters that two characters stand for."""
    # These change letters.
    for character in "\u1009\u1025\u106a\u1005\u1008\u101e\u103f\u1086\u1026\u1040\u1044\u1047\u104e":
        text = text.replace(character, "\u1000")
    below = re.sub("[\u1060-\u1063\u1065-\u1069\u106b-\u1079\u107a-\u107c\u1085\u108f-\u1093\u1096\u1097]", "", text)
    below = re.sub("[\u1064\u108b-\u108d]", "", below)  # kinzi has a letter
    assert LETTERS.findall(to_unicode(below)) == LETTERS.findall(below)
    assert [c for c in to_unicode(text) if c in "a1.\n"] == [c for c in text if c in "a1.\n"]


@given(st.text(alphabet=st.characters(exclude_characters=MYANMAR), max_size=40))
def test_text_without_burmese_characters_stays(text):
    assert to_unicode(text) == text
    assert not is_zawgyi(text)
