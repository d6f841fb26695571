from dataclasses import replace

import pytest
from support.small_tokenizers import with_parts

from hf_sgpe import BPETokenizer
from hf_sgpe.evaluation.languages import language
from hf_sgpe.splitting.scripts import script_registry
from hub_cards import TokenView, write_card
from hub_cards.markup import font_stack


@pytest.fixture
def khmer(monkeypatch):
    script = replace(
        script_registry.SCRIPTS["devanagari"],
        name="khmer",
        block=(0x1780, 0x17FF),
        also="Khmr km",
        font="Noto Sans Khmer",
        greeting="សួស្តី",
        spaced=False,
        consonants="1780-17A2",
        vowels="17A3-17B3",
        virama="17D2",
        signs="17B6-17C5",
        modifiers="17C6-17C8",
        nukta="",
        others="",
    )
    monkeypatch.setitem(script_registry.SCRIPTS, "khmer", script)
    return script


def test_a_new_script_appears_by_itself(khmer, tmp_path):
    tokenizer = BPETokenizer.train_from_iterator([khmer.greeting], 260)
    training = {"recipe": "hybrid", "scripts": ["khmer"], "pattern": "o200k"}
    tokenizer = with_parts(tokenizer, metadata={**tokenizer.metadata, "training": training})
    write_card(tmp_path, tokenizer)
    card, page = ((tmp_path / name).read_text(encoding="utf-8") for name in ("README.md", "index.html"))
    assert "those of Khmer." in card
    assert f'tokenizer("{khmer.greeting}")' in card
    view = TokenView(khmer.greeting, tokenizer).to_html()
    assert "sgpe-cut" in view
    for text in (page, view, font_stack(khmer.greeting)):
        assert "Noto Sans Khmer" in text
    assert "Noto Sans Khmer" not in font_stack("Khmer") + TokenView("Khmer", tokenizer).to_html()


def test_a_script_says_whether_its_languages_have_spaces(khmer, monkeypatch):
    assert not language("km").spaced
    monkeypatch.setitem(script_registry.SCRIPTS, "khmer", replace(khmer, spaced=True))
    assert language("km").spaced
    assert language("si").spaced and not language("th").spaced


@pytest.mark.slow
def test_every_script_has_a_font_and_a_greeting_in_its_own_letters():
    for script in script_registry.SCRIPTS.values():
        assert script.font.startswith("Noto ")
        assert script_registry.scripts_in([script.greeting]) == ({script.name: 1.0} if script.greeting else {})
