import ast
import re
from importlib.metadata import requires
from pathlib import Path

import pytest

import hf_sgpe

ROOT = Path(hf_sgpe.__file__).parent.parent
SOURCES = [path for package in ("hf_sgpe", "trainers", "hub_cards", "scripts") for path in (ROOT / package).rglob("*.py")]


def calls():
    """Yield what is asked of `not_installed` and `optional` everywhere: packages, and the extra that is to have them."""
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""
            if name not in ("not_installed", "optional"):
                continue
            packages = call.args[1 + (name == "optional") :]
            packages = packages or call.args[:1]  # a package that is called like its module
            if all(isinstance(one, ast.Constant) for one in packages):  # if not, a record names what it needs
                extra = [keyword.value.value for keyword in call.keywords if keyword.arg == "extra"]
                yield pytest.param([one.value for one in packages], extra, id=f"{path.name}:{call.lineno}")


@pytest.mark.parametrize(("packages", "extra"), [*calls()])
def test_extras_that_messages_name_have_the_packages(packages, extra):
    assert packages
    for name in extra:
        marker = rf"""extra == ['"]{name}['"]"""
        of_extra = {re.split(r"[^\w.-]", one)[0] for one in requires("hf-sgpe") if re.search(marker, one)}
        assert set(packages) <= of_extra
