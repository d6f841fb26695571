import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from importlib.resources import files
from itertools import combinations

import pytest

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.evaluation.languages import language
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hub_cards.markup import font_stack
from hub_cards.pictures import drawing, plots
from hub_cards.pictures.extension_curve import ExtensionCurve, extension_curve
from trainers import ExtensionConfig, TokenizerExtender

SVG = "{http://www.w3.org/2000/svg}"
VALUES = {"si": {"mine": 1.68, "<b>&$x$": 3.5}, "en": {"mine": 1.32, "<b>&$x$": 1.24}, "ta": {"mine": 2.13, "<b>&$x$": 3.27}}


def pictures():
    return {
        "tokens_per_word": plots.tokens_per_word(VALUES),
        "token_lengths": plots.token_lengths({"mine": {None: 1, 1: 5, 3: 10, 40: 2000}, "<b>&$x$": {2: 7}}),
        "compression": plots.compression(
            {"si": {1000: 2.0, 2000: 3.5}, "ta": {1000: 2.5, 2000: 4.0}}, {"si": {"<b>&$x$": (100_000, 1.5)}}
        ),
    }


CSS = (files("hub_cards") / "templates" / "page.css").read_text(encoding="utf-8")
REM, NARROWEST = 16, 320
BESIDE_A_PICTURE = 2 * REM + 2
"""What stands left and right of it in a narrow window: the page's margins, and its frame."""


def drawn_for(languages, names):
    """The pictures on both kinds of paper, of tokenizers that are all alike: (paper, SVG)."""
    row = dict.fromkeys(names, 1.5) | {names[0]: 28.25}
    for paper in (drawing.WIDE, drawing.NARROW):
        yield paper, plots.tokens_per_word(dict.fromkeys(languages, row), paper)
        low = dict.fromkeys(names, 0.03) | {names[0]: 2.25}
        yield paper, plots.tokens_per_word({}, paper, dict.fromkeys(languages, low))
        yield (
            paper,
            plots.tokens_per_word(dict.fromkeys(languages, row), paper, {"th": low, "zh": dict.fromkeys(names, 0.7)}),
        )
        yield paper, plots.token_lengths({name: {None: 1, 1: 3, 2: 9999} for name in names}, paper)
        curves = {code: {1000: 1.0, 2000: 17.25} for code in languages}
        yield (
            paper,
            plots.compression(curves, {code: dict.fromkeys(names[1:], (2000, 17.0)) for code in languages}, paper),
        )


def boxes(svg):
    """Of each text its size, and the box that it takes at most."""
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        style, text = element.get("style"), "".join(element.itertext()).strip()
        size = float(re.search(r"([\d.]+)px", style)[1])
        width = 72 * drawing.room_of(text, size, bold=bool(re.search(r"\b700\b", style)))
        anchor = re.search(r"text-anchor: (\w+)", style)[1]
        start = float(element.get("x")) - width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        base = float(element.get("y"))
        yield text, size, (start, base - 0.8 * size, start + width, base + 0.25 * size)


def shown(svg):
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_text_stays_text_in_the_names_that_speakers_use():
    drawn = pictures()
    assert {"Sinhala", "සිංහල", "தமிழ்", "1.68", "3.50", "mine", "<b>&$x$"} <= set(shown(drawn["tokens_per_word"]))
    assert {"mine", "<b>&$x$", "0.0", "99", "100"} <= set(shown(drawn["token_lengths"]))
    assert {"Sinhala සිංහල", "Tamil தமிழ்", "3.50", "4.00", "1k", "64k", "<b>&$x$"} <= set(shown(drawn["compression"]))
    for name, svg in drawn.items():
        assert ("'Noto Sans', 'Noto Sans Sinhala', 'Noto Sans Tamil', system-ui" in svg) == (name != "token_lengths")
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
        assert f"'Noto Sans', '{family}', system-ui" in plots.tokens_per_word({code: {"mine": 1.0}}), code
    everything = font_stack("".join(language(code).native for code in families))
    assert all(f"'{family}'" in everything for family in families.values())
    assert font_stack("Ελληνικά, Русский").startswith("'Noto Sans', system-ui")
    assert font_stack("日本の").startswith("'Noto Sans', 'Noto Sans CJK JP', 'Noto Sans CJK SC'")
    assert font_stack("1🙂").endswith("sans-serif, 'Noto Color Emoji'")


def test_rows_are_sorted_by_the_first_tokenizer():
    texts = shown(plots.tokens_per_word(VALUES))
    assert [text for text in texts if text in ("Sinhala", "English", "Tamil")] == ["English", "Sinhala", "Tamil"]


def test_languages_without_spaces_have_a_scale_of_their_own():
    values = {"th": {"mine": 0.3, "<b>&$x$": 2.5}, "my": {"mine": 0.25, "<b>&$x$": 1.0}}
    texts = shown(plots.tokens_per_word(VALUES, per_character=values))
    order = ["Tokens per word", "English", "Sinhala", "Tamil", "Tokens per character", "Burmese", "Thai"]
    assert [text for text in texts if text in order] == order
    assert texts.count("mine") == 1
    assert {"tokens per word", "tokens per character", "0.30", "0.25", "0.5", "ไทย"} <= set(texts)
    alone = shown(plots.tokens_per_word({}, per_character=values))
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


def test_missing_glyphs_and_fonts_are_no_concern_of_the_machine_that_draws(caplog):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        plots.tokens_per_word({code: {"mine": 1.0} for code in ("si", "hi", "bn", "dz", "sat", "zh", "tlh")})
    assert not seen
    assert not caplog.records


def test_pictures_stand_beside_each_other_in_a_page():
    drawn = pictures()
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in drawn.values()]
    assert len(set.union(*ids)) == sum(map(len, ids))
    for svg, own in zip(drawn.values(), ids, strict=True):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) == own
        assert "<style" not in svg
        assert not re.search(r"""(?:src|href)=["'](?!#)|url\((?!#)""", svg)
        paged = drawing.for_page(svg)
        assert not re.search(r"<svg[^>]* (?:width|height)=", paged)
        assert "var(--ours)" in paged
        assert not [colour for colour in drawing.COLOURS if colour in paged]


def test_settings_of_the_machine_make_no_difference():
    import matplotlib

    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "red", "text.usetex": True}):
        assert plots.tokens_per_word(VALUES) == pictures()["tokens_per_word"]
        assert matplotlib.rcParams["font.size"] == 30


def test_one_language_one_tokenizer_and_one_size_are_enough():
    assert "1.00" in shown(plots.tokens_per_word({"en": {"mine": 1.0}}))
    assert "0" in shown(plots.token_lengths({"mine": {1: 1}}))
    assert "1.00" in shown(plots.compression({"en": {300: 1.0}}))


def test_more_baselines_than_colours():
    names = [f"baseline {number}" for number in range(8)]
    assert set(names) <= set(shown(plots.tokens_per_word({"en": dict.fromkeys(names, 1.5)})))


LONG = "a-tokenizer-with-a-long-name-for-all-the-languages-of-south-asia"
ELEVEN = ["si", "en", "hi", "ta", "bn", "ml", "te", "gu", "mni", "mai", "nb"]


@pytest.mark.parametrize("languages", [["si"], ELEVEN])
@pytest.mark.parametrize(
    "names", [["tok"], [LONG, "o200k", LONG + "-2"], [*"abcde"], pytest.param([*"abcdefghijkl"], marks=pytest.mark.slow)]
)
def test_texts_lie_inside_the_picture_and_not_on_each_other(languages, names):
    for paper, svg in drawn_for(languages, names):
        left, top, width, height = map(float, re.search(r'viewBox="([^"]*)"', svg)[1].split())
        assert (left, top, width) == (0, 0, pytest.approx(72 * paper.width))
        texts = [*boxes(svg)]
        for text, _, (start, high, end, low) in texts:
            assert 0 < start < end < width and 0 < high < low < height, (paper, text)
        for (text, _, one), (other, _, place) in combinations(texts, 2):
            # Where both are in one line, what they take at most may touch.
            apart = one[2] < place[0] + 3 or place[2] < one[0] + 3 or one[3] < place[1] + 3 or place[3] < one[1] + 3
            assert apart, (paper, text, other)


def test_labels_are_11_pixels_high_in_every_window():
    shown_from = REM * float(re.search(r"@container \(min-width:([\d.]+)rem\)\{\.when-wide\{display:block", CSS)[1])
    narrowest = {drawing.WIDE: shown_from, drawing.NARROW: NARROWEST - BESIDE_A_PICTURE}
    for paper, svg in drawn_for(["si", "en"], ["tok", "o200k"]):
        assert min(size for _, size, _ in boxes(svg)) * narrowest[paper] / (72 * paper.width) >= 11


@pytest.mark.parametrize("paper", [drawing.WIDE, drawing.NARROW])
@pytest.mark.parametrize("values", [[2.0] * 12, [1.0, 1.01, 1.05, 1.1], [3.0, 1.0], [2.0, 1.99, 2.01]])
def test_markers_of_the_lead_picture_do_not_touch(values, paper):
    row = {f"tokenizer {number}": value for number, value in enumerate(values)}
    svg = plots.tokens_per_word({"si": row, "en": row}, paper)
    both = plots.tokens_per_word({"si": row}, paper, {"th": row})
    assert svg.count("<use ") <= both.count("<use ")
    markers = [(float(use.get("x")), float(use.get("y"))) for use in ElementTree.fromstring(svg).iter(f"{SVG}use")]
    # In the legend, in the two rows, and at the head of each column or beside each number.
    assert len(markers) in (4 * len(values), 5 * len(values))
    for (x, y), (other_x, other_y) in combinations(markers, 2):
        # The largest is 8.5 wide, the others are 6.
        assert max(abs(x - other_x), abs(y - other_y)) > 8, (x, y)


def test_markers_at_one_place_of_the_compression_picture_are_hollow():
    svg = plots.compression({"si": {1000: 2.0}}, {"si": {"a": (1000, 2.0), "b": (1000, 2.0)}})
    styles = [use.get("style") for use in ElementTree.fromstring(svg).iter(f"{SVG}use")]
    assert ["fill-opacity: 0" in style for style in styles] == [False, False, False, True, True]


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SGPEError, match=r"^pictures need matplotlib: pip install matplotlib \(or the extra \[plots\]\)$"):
        plots.tokens_per_word(VALUES)
