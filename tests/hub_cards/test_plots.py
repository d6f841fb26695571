import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree

import pytest

from hf_sgpe import SGPEError
from hub_cards import plots

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


def shown(svg):
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_text_stays_text_in_the_names_that_speakers_use():
    drawn = pictures()
    assert {"Sinhala", "සිංහල", "தமிழ்", "1.68", "3.50", "mine", "<b>&$x$"} <= set(shown(drawn["tokens_per_word"]))
    assert {"mine", "<b>&$x$", "< 0.1 %", "99 %", "100 %"} <= set(shown(drawn["token_lengths"]))
    assert {"Sinhala සිංහල", "Tamil தமிழ்", "3.50", "4.00", "1k", "64k", "<b>&$x$"} <= set(shown(drawn["compression"]))
    for svg in drawn.values():
        assert "'Noto Sans Sinhala'" in svg
        assert "DejaVu" not in svg


def test_rows_are_sorted_by_the_first_tokenizer():
    texts = shown(plots.tokens_per_word(VALUES))
    assert [text for text in texts if text in ("Sinhala", "English", "Tamil")] == ["English", "Sinhala", "Tamil"]


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
        paged = plots.for_page(svg)
        assert not re.search(r"<svg[^>]* (?:width|height)=", paged)
        assert "var(--ours)" in paged
        assert not [colour for colour in plots.COLOURS if colour in paged]


def test_settings_of_the_machine_make_no_difference():
    import matplotlib

    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "red", "text.usetex": True}):
        assert plots.tokens_per_word(VALUES) == pictures()["tokens_per_word"]
        assert matplotlib.rcParams["font.size"] == 30


def test_one_language_one_tokenizer_and_one_size_are_enough():
    assert "1.00" in shown(plots.tokens_per_word({"en": {"mine": 1.0}}))
    assert "0 %" in shown(plots.token_lengths({"mine": {1: 1}}))
    assert "1.00" in shown(plots.compression({"en": {300: 1.0}}))


def test_more_baselines_than_colours():
    names = [f"baseline {number}" for number in range(8)]
    assert set(names) <= set(shown(plots.tokens_per_word({"en": dict.fromkeys(names, 1.5)})))


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SGPEError, match="pip install matplotlib"):
        plots.tokens_per_word(VALUES)
