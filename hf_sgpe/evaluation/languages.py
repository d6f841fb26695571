"""Languages by their codes: names in English and in the language itself, and the code in a file's name; and letters by their
scripts.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import regex

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script_registry import Script, every_script, runs

# ISO 639-1 (or 639-3 where that has none), 639-3, English name, own name.
_TABLE = """
af afr Afrikaans | Afrikaans
am amh Amharic | አማርኛ
ar ara Arabic | العربية
as asm Assamese | অসমীয়া
ast ast Asturian | Asturianu
awa awa Awadhi | अवधी
az aze Azerbaijani | Azərbaycanca
ba bak Bashkir | Башҡортса
be bel Belarusian | Беларуская
bg bul Bulgarian | Български
bho bho Bhojpuri | भोजपुरी
bn ben Bengali | বাংলা
bo bod Tibetan | བོད་སྐད་
brx brx Bodo | बड़ो
bs bos Bosnian | Bosanski
ca cat Catalan | Català
ckb ckb Central Kurdish | کوردیی ناوەندی
ccp ccp Chakma | 𑄌𑄋𑄴𑄟𑄳𑄦
chr chr Cherokee | ᏣᎳᎩ
cs ces Czech | Čeština
cv chv Chuvash | Чӑвашла
cy cym Welsh | Cymraeg
da dan Danish | Dansk
de deu German | Deutsch
doi doi Dogri | डोगरी
dv div Dhivehi | ދިވެހި
dz dzo Dzongkha | རྫོང་ཁ་
el ell Greek | Ελληνικά
en eng English | English
eo epo Esperanto | Esperanto
es spa Spanish | Español
et est Estonian | Eesti
eu eus Basque | Euskara
fa fas Persian | فارسی
fi fin Finnish | Suomi
fil fil Filipino | Filipino
fo fao Faroese | Føroyskt
fr fra French | Français
ga gle Irish | Gaeilge
gd gla Scottish Gaelic | Gàidhlig
gl glg Galician | Galego
gom gom Konkani | कोंकणी
gu guj Gujarati | ગુજરાતી
ha hau Hausa | Hausa
he heb Hebrew | עברית
hi hin Hindi | हिन्दी
hne hne Chhattisgarhi | छत्तीसगढ़ी
hr hrv Croatian | Hrvatski
hu hun Hungarian | Magyar
hy hye Armenian | Հայերեն
id ind Indonesian | Bahasa Indonesia
ig ibo Igbo | Igbo
is isl Icelandic | Íslenska
it ita Italian | Italiano
iu iku Inuktitut | ᐃᓄᒃᑎᑐᑦ
ja jpn Japanese | 日本語
jv jav Javanese | Basa Jawa
ka kat Georgian | ქართული
kk kaz Kazakh | Қазақша
km khm Khmer | ខ្មែរ
kn kan Kannada | ಕನ್ನಡ
ko kor Korean | 한국어
ks kas Kashmiri | کٲشُر
ksw ksw S'gaw Karen | စှီၤကညီကျိာ်
ku kur Kurdish | Kurdî
ky kir Kyrgyz | Кыргызча
la lat Latin | Latina
lb ltz Luxembourgish | Lëtzebuergesch
lo lao Lao | ລາວ
lt lit Lithuanian | Lietuvių
lv lav Latvian | Latviešu
mag mag Magahi | मगही
mai mai Maithili | मैथिली
mg mlg Malagasy | Malagasy
mi mri Māori | Te reo Māori
mk mkd Macedonian | Македонски
ml mal Malayalam | മലയാളം
mn mon Mongolian | Монгол
mni mni Manipuri | মৈতৈলোন্
mr mar Marathi | मराठी
mnw mnw Mon | ဘာသာမန်
ms msa Malay | Bahasa Melayu
mt mlt Maltese | Malti
my mya Burmese | မြန်မာ
nb nob Norwegian Bokmål | Norsk bokmål
ne nep Nepali | नेपाली
new new Newari | नेपाल भाषा
nl nld Dutch | Nederlands
nn nno Norwegian Nynorsk | Norsk nynorsk
no nor Norwegian | Norsk
nod nod Northern Thai | ᨣᩤᩴᨾᩮᩬᩥᨦ
nqo nqo N'Ko | ߒߞߏ
or ori Odia | ଓଡ଼ିଆ
pa pan Punjabi | ਪੰਜਾਬੀ
pi pli Pali | पालि
pl pol Polish | Polski
ps pus Pashto | پښتو
pt por Portuguese | Português
ro ron Romanian | Română
ru rus Russian | Русский
sa san Sanskrit | संस्कृतम्
sat sat Santali | ᱥᱟᱱᱛᱟᱲᱤ
sd snd Sindhi | سنڌي
shn shn Shan | တႆး
si sin Sinhala | සිංහල
sk slk Slovak | Slovenčina
sl slv Slovenian | Slovenščina
so som Somali | Soomaali
sq sqi Albanian | Shqip
sr srp Serbian | Српски
su sun Sundanese | Basa Sunda
sv swe Swedish | Svenska
sw swa Swahili | Kiswahili
syr syr Syriac | ܣܘܪܝܝܐ
ta tam Tamil | தமிழ்
tcy tcy Tulu | ತುಳು
te tel Telugu | తెలుగు
tg tgk Tajik | Тоҷикӣ
th tha Thai | ไทย
ti tir Tigrinya | ትግርኛ
tk tuk Turkmen | Türkmençe
tr tur Turkish | Türkçe
tt tat Tatar | Татарча
ug uig Uyghur | ئۇيغۇرچە
uk ukr Ukrainian | Українська
ur urd Urdu | اردو
uz uzb Uzbek | Oʻzbekcha
vi vie Vietnamese | Tiếng Việt
xh xho Xhosa | isiXhosa
yi yid Yiddish | ייִדיש
yo yor Yoruba | Yorùbá
yue yue Cantonese | 粵語
zgh zgh Standard Moroccan Tamazight | ⵜⴰⵎⴰⵣⵉⵖⵜ
zh zho Chinese | 中文
zu zul Zulu | isiZulu
"""

# Of those that no script's record names, which says it itself: Nuosu, Japanese, Lü, Northern Thai.
_WITHOUT_WORD_SPACES = frozenset(("ii", "ja", "khb", "nod"))


class Language(NamedTuple):
    """One language.

    Attributes:
        english: Its English name, or its code if nothing else is known.
        native: Its name in its own script, empty if it is not known.
        spaced: Whether it is written with spaces between words, so that words can be counted.
    """

    code: str
    english: str
    native: str
    spaced: bool

    def __str__(self) -> str:
        return f"{self.english} {self.native}" if self.native not in ("", self.english) else self.english


@cache
def letters_of(scripts: tuple[Script, ...]) -> regex.Pattern[str]:
    """What finds each letter and mark of some scripts.

    >>> letters_of((every_script()["sinhala"], every_script()["hebrew"])).findall("a ක ש")
    ['ක', 'ש']
    """
    ranges = runs(ord(character) for script in scripts for character in script.letters_and_marks())
    return regex.compile("[" + "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges) + "]")


_ROWS = re.findall(r"^(\S+) (\S+) (.*) \| (.*)$", _TABLE, re.MULTILINE)
_NAMES = {code: (english, native) for code, _, english, native in _ROWS}
_CODES = {either: short for short, long, *_ in _ROWS for either in (short, long)}


def language(code: str) -> Language:
    """Returns the language of an ISO 639 code, which may have a BCP 47 suffix; an unknown one is called by its code.

    A script in the suffix says whether there are spaces between words: Javanese has them, but not in its own letters.

    Raises:
        SGPEError: it cannot be a language code.

    >>> str(language("si")), str(language("sin")), str(language("en")), str(language("tlh"))
    ('Sinhala සිංහල', 'Sinhala සිංහල', 'English', 'tlh')
    >>> language("jv").spaced, language("jv-Java").spaced
    (True, False)
    """
    if not re.fullmatch("[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", code):
        raise SGPEError(f"{code!r}: not a language code: write si, ta, en …")
    head, dash, rest = code.partition("-")
    code = head.lower() + dash + rest
    short = _CODES.get(head.lower(), head.lower())
    names = [*(part.title() for part in rest.split("-") if len(part) == 4), short]
    scripts = (script for name in names for script in every_script().values() if name in script.also.split())
    script = next(scripts, None)
    spaced = script.spaced if script else short not in _WITHOUT_WORD_SPACES
    english, native = _NAMES.get(short, (code, ""))
    return Language(_CODES.get(code, code), english, native, spaced)


def language_in_name(path: str | os.PathLike[str]) -> str | None:
    """Returns the code of the language that a file's name ends or begins with, or None.

    >>> language_in_name("eval/ntrex_si.txt.xz"), language_in_name("eng_Latn.dev"), language_in_name("held-out.txt")
    ('si', 'en', None)
    """
    parts = re.split(r"[^a-z0-9]+", Path(path).name.lower())
    while len(parts) > 1 and parts[-1] in ("txt", "jsonl", "parquet", "gz", "xz", "zst", "bz2"):
        parts.pop()
    return next((_CODES[part] for part in (parts[-1], parts[0]) if part in _CODES), None)
