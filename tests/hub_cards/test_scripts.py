from dataclasses import replace

import pytest

from hf_sgpe.evaluation.languages import language
from hf_sgpe.splitting.scripts import script_registry


def test_a_script_says_whether_its_languages_have_spaces(monkeypatch):
    assert not language("km").spaced
    monkeypatch.setitem(script_registry.SCRIPTS, "khmer", replace(script_registry.SCRIPTS["khmer"], spaced=True))
    assert language("km").spaced
    assert language("si").spaced and not language("th").spaced


@pytest.mark.slow
def test_every_script_has_a_font_and_a_greeting_in_its_own_letters():
    for script in script_registry.SCRIPTS.values():
        assert script.font.startswith("Noto ")
        assert script_registry.scripts_in([script.greeting]) == ({script.name: 1.0} if script.greeting else {})
