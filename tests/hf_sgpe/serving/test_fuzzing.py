"""Damaged input of every kind. The script with more inputs is the part "fuzz" of scripts/test.sh."""

import pytest
from hypothesis import settings
from support.command import TOOLS, script

pytest.importorskip("starlette", reason="serving needs: pip install starlette uvicorn")
pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")

FUZZER = (TOOLS / "fuzz_inputs.py", "--inputs", 12 * settings.default.max_examples)


def test_damaged_input_is_refused_in_one_line():
    assert script(*FUZZER).stdout == f"{FUZZER[2]:,} inputs, no failure\n"
