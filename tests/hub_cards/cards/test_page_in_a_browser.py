from itertools import combinations

import pytest
from support.browser import CHROMIUM, layout

from hub_cards import TokenView, compare, write_card

if CHROMIUM is None:
    pytest.skip("needs Chromium", allow_module_level=True)

WIDTHS = [320, 390, 600, 768, 1024, 1280]
LONG = "a-tokenizer-with-a-long-name-for-all-the-languages-of-south-asia"


@pytest.fixture(scope="module", params=[("tok", 1), (LONG, 2), (LONG, 7)], ids=["one", "two", "seven"])
def laid_out(request, tokenizer, sample, tmp_path_factory):
    name, baselines = request.param
    folder = tmp_path_factory.mktemp("page")
    texts = {code: [line for line in sample[code].splitlines() if line.strip()][:20] for code in ("en", "si", "ta", "hi")}
    # The same tokenizer: all markers are at one place.
    others = {f"baseline-{number}-{'x' * 4 * number}": tokenizer for number in range(baselines)}
    write_card(folder, tokenizer, name=f"me/{name}", evaluations=compare(tokenizer, texts, name=name, baselines=others))
    return layout(folder / "index.html", WIDTHS, folder)


def touching(one, other, by=0.5):
    return min(one[2], other[2]) - max(one[0], other[0]) > by and min(one[3], other[3]) - max(one[1], other[1]) > by


def test_the_page_fits_into_the_window(laid_out):
    for page, width in zip(laid_out, WIDTHS, strict=True):
        assert (page["width"], page["scrolled"], page["outside"]) == (width, width, [])
        assert [picture["scrolls"] for picture in page["pictures"]] == [False] * 3
        if width >= 390 and len(page["pictures"][0]["markers"]) < 30:  # of few tokenizers
            assert page["scrolling"] == []


def test_no_header_of_a_table_breaks_inside_a_word(laid_out):
    assert [(page["width"], page["broken"]) for page in laid_out if page["broken"]] == []


@pytest.mark.parametrize("longest", ["other", LONG])
def test_each_row_of_tokens_has_its_name_in_full(longest, tokenizer, sample, tmp_path):
    texts = ["\n".join(sample[code].splitlines()[0] for code in ("en", "si", "ta", "hi")), "مرحبا بالعالم"]
    page = tmp_path / "view.html"
    page.write_text(TokenView(texts, {"tok": tokenizer, longest: tokenizer}).to_html(), encoding="utf-8")
    for laid, width in zip(layout(page, WIDTHS, tmp_path), WIDTHS, strict=True):
        assert (laid["scrolled"], laid["outside"], laid["broken"]) == (width, [], [])
        assert len({tuple(place[:2]) for *_, place in laid["names"]}) > 8  # lines and columns
        for name, wanted, height, label, (left, top, _, bottom) in laid["names"]:
            assert wanted <= height + 0.5, (width, name)
            # The label is left of its row, or above it.
            assert left >= label or bottom - top > height + 30, (width, name)


def test_no_text_is_smaller_than_11_pixels(laid_out):
    for page in laid_out:
        sizes = [*page["sizes"], *((size, text) for picture in page["pictures"] for text, size, _ in picture["texts"])]
        assert [(page["width"], *small) for small in sizes if small[0] < 10.99] == []


def test_texts_of_a_picture_are_inside_it_and_cover_no_other(laid_out):
    for page in laid_out:
        for picture in page["pictures"]:
            left, top, right, bottom = picture["frame"]
            for text, _, (start, high, end, low) in picture["texts"]:
                assert left <= start < end <= right and top <= high < low <= bottom, (page["width"], text)
            for (text, _, one), (other, _, place) in combinations(picture["texts"], 2):
                # Lines of text may share the room for accents and descenders.
                assert not touching(one, [place[0], place[1] + 4, place[2], place[3] - 4], by=1), (
                    page["width"],
                    text,
                    other,
                )


def test_markers_of_the_lead_picture_hide_no_other(laid_out):
    for page in laid_out:
        markers = page["pictures"][0]["markers"]
        assert [pair for pair in combinations(markers, 2) if touching(*pair)] == []
