import ast
import re
from importlib.metadata import requires
from pathlib import Path

import pytest

import hf_sgpe

ROOT = Path(hf_sgpe.__file__).parent.parent
SOURCES = [path for package in ("hf_sgpe", "trainers", "hub_cards", "scripts") for path in (ROOT / package).rglob("*.py")]


def calls():
    """What is asked of `not_installed` everywhere: packages, and the extra that is to have them."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "not_installed(" in text else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "not_installed":
                if not all(isinstance(one, ast.Constant) for one in call.args[1:]):
                    continue  # of a record, which names what it needs
                extra = [keyword.value.value for keyword in call.keywords if keyword.arg == "extra"]
                yield pytest.param([one.value for one in call.args[1:]], extra, id=f"{path.name}:{call.lineno}")


@pytest.mark.parametrize(("packages", "extra"), [*calls()])
def test_extras_that_messages_name_have_the_packages(packages, extra):
    assert packages
    for name in extra:
        marker = rf"""extra == ['"]{name}['"]"""
        of_extra = {re.split(r"[^\w.-]", one)[0] for one in requires("hf-sgpe") if re.search(marker, one)}
        assert set(packages) <= of_extra
