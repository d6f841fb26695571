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
    from support.conversations import OTHERS, SPECIAL, STYLES, bytes_with
    from support.engines import Bigram
    from support.serving import serving

    from hf_sgpe.generation import TextGenerator
    from hf_sgpe.serving.requests import Served

    _, tokenizer = bytes_with(SPECIAL, OTHERS, roles={"eos_token": "<|im_end|>"})
    generator = TextGenerator(tokenizer, Bigram(len(tokenizer), stop_ids=[tokenizer.special_tokens["<|im_end|>"]]))
    program = ROOT / "tests" / "support" / "openai_clients.py"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # litellm would download a list of prices
    with serving(Served("random", generator, generator.chat(template=STYLES["qwen"]))) as running:
        command = [CLIENTS, program, running.url, "random"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) == 16
    assert {use: result["error"] for use, result in results.items() if isinstance(result, dict) and "error" in result} == {}
    assert results["openai agent"] == ["tool_calls", "assistant"]
    assert set(results["openai parse"]) == {"town", "unit", "days"}
