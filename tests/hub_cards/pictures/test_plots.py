import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.errors import check_matplotlib
from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.vocabulary_health import Cutoff, VocabularyHealth
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hub_cards.markup import COLOURS, font_stack
from hub_cards.pictures import plots
from hub_cards.pictures.extension_curve import ExtensionCurve, extension_curve
from hub_cards.pictures.vocabulary_picture import draw_vocabulary
from trainers import ExtensionConfig, TokenizerExtender

SVG = "{http://www.w3.org/2000/svg}"
VALUES = {"si": {"mine": 1.68, "<b>&$x$": 3.5}, "en": {"mine": 1.32, "<b>&$x$": 1.24}, "ta": {"mine": 2.13, "<b>&$x$": 3.27}}

HEALTH = VocabularyHealth(
    tokens=30,
    added=1,
    tokens_in_text=50,
    used=frozenset(range(9)),
    only_steps=frozenset(range(9, 12)),
    never_used=frozenset(range(12, 30)),
    unreachable=frozenset({20}),
    scripts={id: f"script {id % 20}" for id in range(30)},
    alike={"case": 1, "space": 2, "either": 3},
    cutoffs=(Cutoff(1000, 900, 80, -0.1), Cutoff(2000, 1500, 60, 0.9), Cutoff(2500, 1600, 50, 1.0)),
)


def pictures():
    drawn = {
        "tokens_per_word": plots._tokens_per_word(VALUES),
        "token_lengths": plots._token_lengths({"mine": {None: 1, 1: 5, 3: 10, 40: 2000}, "<b>&$x$": {2: 7}}),
        "compression": plots._compression(
            {"si": {1000: 2.0, 2000: 3.5}, "ta": {1000: 2.5, 2000: 4.0}}, {"si": {"<b>&$x$": (100_000, 1.5)}}
        ),
    }
    drawn["vocabulary"] = draw_vocabulary(HEALTH, "<b>&$x$")
    return {name: picture.svg() for name, picture in drawn.items()}


def drawn_for(languages, names):
    """The pictures of tokenizers that are all alike, as files."""
    row = dict.fromkeys(names, 1.5) | {names[0]: 28.25}
    low = dict.fromkeys(names, 0.03) | {names[0]: 2.25}
    yield plots._tokens_per_word(dict.fromkeys(languages, row)).svg()
    yield plots._tokens_per_word({}, dict.fromkeys(languages, low)).svg()
    yield plots._tokens_per_word(dict.fromkeys(languages, row), {"th": low, "zh": dict.fromkeys(names, 0.7)}).svg()
    yield plots._token_lengths({name: {None: 1, 1: 3, 2: 9999} for name in names}).svg()
    curves = {code: {1000: 1.0, 2000: 17.25} for code in languages}
    yield plots._compression(curves, {code: dict.fromkeys(names[1:], (2000, 17.0)) for code in languages}).svg()


def placed(svg, kind):
    """Each shape of a kind, with the place where it begins in the whole picture."""

    def inside(element, left, top, width):
        for child in element:
            start = float(value[:-1]) * width / 100 if (value := child.get("x", "0")).endswith("%") else float(value)
            x, y = left + start, top + float(child.get("y", 0))
            if child.tag == f"{SVG}svg":
                yield from inside(child, x, y, float(child.get("width", 0)))
            elif child.tag == SVG + kind:
                yield child, x + float(child.get("dx", 0)), y

    root = ElementTree.fromstring(svg)
    return [*inside(root, 0, 0, float(root.get("width")))]


def boxes(svg):
    """The box that each text takes at most."""
    for element, x, base in placed(svg, "text"):
        look, text = element.get("class").split(), "".join(element.itertext())
        size = 16 if "title" in look else 11 if "tiny" in look else 12
        width = size * sum(map(width_of, text)) * (1.15 if {"bold", "title"} & {*look} else 1)
        start = x - width * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")]
        yield text, (start, base - 0.8 * size, start + width, base + 0.25 * size)


def width_of(character):
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Mc"):
        return 0.0 if unicodedata.category(character) != "Mc" else 0.5
    if character >= "\u0900" or character in "mwMW@%…":
        return 1.0
    return 0.4 if character in " .,:;!'|()[]-fijlt" else 0.72 if character.isupper() else 0.6


def shown(svg):
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_text_stays_text_in_the_names_that_speakers_use():
    drawn = pictures()
    assert {"Sinhala සිංහල", "Tamil தமிழ்", "1.68", "3.50", "mine", "<b>&$x$"} <= set(shown(drawn["tokens_per_word"]))
    assert {"mine", "<b>&$x$", "0.0", "99", "100"} <= set(shown(drawn["token_lengths"]))
    assert {"Sinhala සිංහල", "Tamil தமிழ்", "3.50", "4.00", "1k", "64k", "<b>&$x$"} <= set(shown(drawn["compression"]))
    for name, svg in drawn.items():
        assert ("'Noto Sans', 'Noto Sans Sinhala', 'Noto Sans Tamil', system-ui" in svg) == (
            name in ("tokens_per_word", "compression")
        )
        assert "DejaVu" not in svg


def test_pictures_and_pages_name_a_font_for_each_script_in_them():
    families = {
        "ar": "Noto Naskh Arabic",
        "he": "Noto Sans Hebrew",
        "am": "Noto Sans Ethiopic",
        "ka": "Noto Sans Georgian",
        "hy": "Noto Sans Armenian",
        "ko": "Noto Sans CJK KR",
        "zh": "Noto Sans CJK SC",
        "my": "Noto Sans Myanmar",
        "bo": "Noto Serif Tibetan",
        "dv": "Noto Sans Thaana",
    }
    for code, family in families.items():
        assert f"'Noto Sans', '{family}', system-ui" in plots._tokens_per_word({code: {"mine": 1.0}}).svg(), code
    everything = font_stack("".join(language(code).native for code in families))
    assert all(f"'{family}'" in everything for family in families.values())
    assert font_stack("Ελληνικά, Русский").startswith("'Noto Sans', system-ui")
    assert font_stack("日本の").startswith("'Noto Sans', 'Noto Sans CJK JP', 'Noto Sans CJK SC'")
    assert font_stack("1🙂").endswith("sans-serif, 'Noto Color Emoji'")


def test_rows_are_sorted_by_the_first_tokenizer():
    rows = plots._tokens_per_word(VALUES).panels[0].rows
    assert [row.label for row in rows] == ["English", "Sinhala", "Tamil", ""]


def test_languages_without_spaces_have_a_scale_of_their_own():
    values = {"th": {"mine": 0.3, "<b>&$x$": 2.5}, "my": {"mine": 0.25, "<b>&$x$": 1.0}}
    texts = shown(plots._tokens_per_word(VALUES, values).svg())
    order = ["Tokens per word", "English", "Sinhala සිංහල", "Tamil தமிழ்"]
    order += ["Tokens per character", "Burmese မြန်မာ", "Thai ไทย"]
    assert [text for text in texts if text in order] == order
    assert texts.count("mine") == 1
    assert {"tokens per word", "tokens per character", "0.30", "0.25", "0.5"} <= set(texts)
    alone = shown(plots._tokens_per_word({}, values).svg())
    assert "Tokens per character" in alone and "Tokens per word" not in alone


def test_the_curve_of_an_extension_has_a_scale_for_languages_without_spaces():
    words, characters = {"si": (11.0, 1.5)}, {"th": (2.7, 0.3), "my": (2.8, 0.25)}
    texts = shown(ExtensionCurve((0, 400), words, characters).draw())
    assert {"Tokens per word by new tokens", "1.50 Sinhala", "Tokens per character by new tokens", "0.30 Thai"} <= set(texts)
    assert "Tokens per character by new tokens" not in shown(ExtensionCurve((0, 400), words).draw())
    assert ExtensionCurve((0, 400), words).to_dict() == {"new_tokens": [0, 400], "tokens_per_word": {"si": [11.0, 1.5]}}
    alone = ExtensionCurve((0, 400), {}, characters)
    assert alone.to_dict()["tokens_per_word"] == {}
    assert "Tokens per word by new tokens" not in shown(alone.draw())


def test_an_extension_is_measured_per_character_where_words_have_no_spaces(tmp_path):
    BPETokenizer.train_from_iterator(["the quick brown fox"], 260, pattern="gpt2").save(tmp_path / "base")
    config = ExtensionConfig(["khmer"], new_tokens=40)
    base = TokenizerFolder.read(tmp_path / "base")
    extender = TokenizerExtender(config)
    extension = extender.learn(base, extender.count(base, iterator=["ភាសាខ្មែរ"] * 99))
    curve = extension_curve(extension, {"km": ["ភាសាខ្មែរ"], "en": ["the fox"]})
    assert [*curve.tokens_per_word] == ["en"]
    assert curve.tokens_per_character["km"][0] == 3 > curve.tokens_per_character["km"][-1]


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes():
    assert pictures() == pictures()
    code = "import runpy, sys; sys.stdout.write(repr(runpy.run_path(sys.argv[1])['pictures']()))"
    done = subprocess.run([sys.executable, "-c", code, __file__], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout == repr(pictures())


def test_a_picture_needs_nothing_else_and_has_no_names_that_another_could_have():
    for svg in pictures().values():
        assert not re.search(r""" id=|(?:src|href)=|url\(""", svg)
        assert svg.count("<style>") == 1
        assert "prefers-color-scheme:dark" in svg
        assert all(light in svg and dark in svg for light, dark in COLOURS.values())


def test_one_language_one_tokenizer_and_one_size_are_enough():
    assert "1.00" in shown(plots._tokens_per_word({"en": {"mine": 1.0}}).svg())
    assert "0" in shown(plots._token_lengths({"mine": {1: 1}}).svg())
    assert "1.00" in shown(plots._compression({"en": {300: 1.0}}).svg())


def test_more_baselines_than_colours():
    names = [f"baseline {number}" for number in range(8)]
    assert set(names) <= set(shown(plots._tokens_per_word({"en": dict.fromkeys(names, 1.5)}).svg()))


LONG = "a-tokenizer-with-a-long-name-for-all-the-languages-of-south-asia"
ELEVEN = ["si", "en", "hi", "ta", "bn", "ml", "te", "gu", "mni", "mai", "nb"]


@pytest.mark.parametrize("languages", [["si"], ELEVEN])
@pytest.mark.parametrize(
    "names", [["tok"], [LONG, "o200k", LONG + "-2"], [*"abcde"], pytest.param([*"abcdefghijkl"], marks=pytest.mark.slow)]
)
def test_texts_lie_inside_the_picture_and_not_on_each_other(languages, names):
    for svg in drawn_for(languages, names):
        left, top, width, height = map(float, re.search(r'viewBox="([^"]*)"', svg)[1].split())
        texts = [*boxes(svg)]
        for text, (start, high, end, low) in texts:
            assert left < start < end < width and top < high < low < height, text
        for (text, one), (other, place) in combinations(texts, 2):
            # Where both are in one line, what they take at most may touch.
            apart = one[2] < place[0] + 4 or place[2] < one[0] + 4 or one[3] < place[1] + 4 or place[3] < one[1] + 4
            assert apart, (text, other)


@pytest.mark.parametrize("values", [[2.0] * 12, [1.0, 1.01, 1.05, 1.1], [3.0, 1.0], [2.0, 1.99, 2.01]])
def test_marks_of_the_lead_picture_do_not_touch(values):
    row = {f"tokenizer {number}": value for number, value in enumerate(values)}
    marks = [(x, y) for _, x, y in placed(plots._tokens_per_word({"si": row, "en": row}).svg(), "path")]
    # In the legend, in the two rows, and at each number.
    assert len(marks) == 5 * len(values)
    for (x, y), (other_x, other_y) in combinations(marks, 2):
        # The largest is 9 wide, the others are 8.
        assert max(abs(x - other_x), abs(y - other_y)) > 8.5, (x, y)


def test_marks_at_one_place_of_the_compression_picture_are_hollow():
    svg = plots._compression({"si": {1000: 2.0}}, {"si": {"a": (1000, 2.0), "b": (1000, 2.0)}}).svg()
    looks = [path.get("class") for path, *_ in placed(svg, "path")]
    assert ["hollow" in look for look in looks] == [False, False, False, True, True]


def test_without_matplotlib_one_line_says_what_to_install_for_scripts(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SGPEError, match=r"pip install matplotlib .*\[plots\]"):
        check_matplotlib()
