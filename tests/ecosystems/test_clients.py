"""Clients of OpenAI's API, as their users write them, with a server of a random model."""

import json
import os
import subprocess

import pytest
from support.ecosystems import CLIENTS, needs_clients
from support.paths import ROOT

pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")
pytestmark = pytest.mark.slow


@needs_clients
def test_every_use_of_every_client_succeeds():
    from support.calling import TOKENIZER, served_by
    from support.engines import Bigram
    from support.serving import serving

    served = served_by(Bigram(len(TOKENIZER), stop_ids=[TOKENIZER.special_tokens["<|im_end|>"]]), "qwen")
    program = ROOT / "tests" / "support" / "openai_clients.py"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # litellm would download a list of prices
    with serving(served) as running:
        command = [CLIENTS, program, running.url, "qwen"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) == 16
    assert {use: result["error"] for use, result in results.items() if isinstance(result, dict) and "error" in result} == {}
    assert results["openai agent"] == ["tool_calls", "assistant"]
    assert set(results["openai parse"]) == {"town", "unit", "days"}
