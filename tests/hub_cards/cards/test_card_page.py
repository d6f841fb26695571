import re
import xml.etree.ElementTree as ElementTree

import pytest
from support.cards import PICTURES, check_html, tables


@pytest.fixture(scope="module")
def page(card_folder):
    return (card_folder / "index.html").read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_needs_nothing_else(page):
    text = check_html(page)
    assert "සිංහල" in text
    assert "pla|in<&>" in text


def test_the_page_has_the_same_numbers_and_words(page, readme, found):
    text = check_html(page)
    for table in tables(readme):
        for row in table[2:]:
            for cell in row:
                if re.fullmatch(r"[*]*[\d.,]+( %)?[*]*", cell):
                    assert cell.strip("*") in text
    for limit in re.findall(r"^- ([^*].*)$", readme.split("## Limits")[1], re.MULTILINE):
        assert limit.replace("`", "") in text
    for words in found.words.values():
        for word in words:
            assert f">{word.text}</td>" in page


def test_pictures_hold_their_names_as_text(card_folder):
    for path in PICTURES:
        root = ElementTree.parse(card_folder / path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    for path in (PICTURES[0], PICTURES[2]):
        assert "සිංහල" in "".join(ElementTree.parse(card_folder / path).getroot().itertext())
