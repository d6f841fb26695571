import json
import re
from dataclasses import replace

import pytest

from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.generation.reasoning_first import MarkTokens, ReasoningFirst
from hf_sgpe.generation.structured_output import Rule

pytest.importorskip("torch", reason="the models are trained with PyTorch: pip install torch")
pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")
pytestmark = pytest.mark.filterwarnings("ignore")

SCHEMA = {
    "type": "object",
    "properties": {
        "නම": {"type": "string", "maxLength": 8},
        "n": {"type": "integer", "minimum": 0, "maximum": 999},
        "kinds": {"type": "array", "items": {"enum": ["අ", "b"]}, "maxItems": 3},
    },
    "required": ["නම", "n", "kinds"],
    "additionalProperties": False,
}
RULES = (Rule.json_schema(SCHEMA), Rule.regex("[0-9]{2}(ශ්‍රී|क्ष)?"), Rule.one_of(["yes", "ඔව්"]))


def answers(generator, prompts, **options):
    stop_ids = generator.engine.stop_ids
    given = GenerationOptions(**{"max_new_tokens": 120, "top_p": 1.0, **options})
    for prompt in prompts:
        for rule in RULES:
            watch = generator.constrainer.watch(rule, stop_ids)
            pieces = [*generator.pieces(generator.encode(prompt), given, watch=watch)]
            yield "".join(piece.text for piece in pieces), pieces[-1].finish_reason


def holds(number, text):
    if number % 3 == 0:
        record = json.loads(text)
        return len(record["නම"]) <= 8 and 0 <= record["n"] <= 999 and set(record["kinds"]) <= {"අ", "b"}
    return re.fullmatch("[0-9]{2}(ශ්‍රී|क्ष)?", text) if number % 3 == 1 else text in ("yes", "ඔව්")


@pytest.fixture(scope="module")
def reference(models, prompts):
    with TextGenerator.load(models["tied"], "transformers", exact=True) as generator:
        return [*answers(generator, prompts[:6], temperature=0)]


def test_rules_hold_and_greedy_answers_are_the_same(engine_name, models, prompts, reference):
    with TextGenerator.load(models["tied"], engine_name, exact=True) as generator:
        assert [*answers(generator, prompts[:6], temperature=0)] == reference
        drawn = [*answers(generator, prompts[:6], temperature=1.0, seed=3)]
    for number, (text, finish_reason) in enumerate([*reference, *drawn]):
        assert finish_reason == "stop" and holds(number, text), text


def test_a_rule_applies_after_the_token_that_ends_the_reasoning(engine_name, models, prompts):
    options = GenerationOptions(max_new_tokens=120, temperature=0)
    with TextGenerator.load(models["tied"], engine_name, exact=True) as generator:
        stop_ids = generator.engine.stop_ids
        for prompt in prompts[:3]:
            ids = generator.encode(prompt)
            free = [*generator.engine.generate(ids, replace(options, max_new_tokens=4, stop_ids=(), ignore_eos=True))]
            if stop_ids.intersection(free):
                continue
            end = next(place for place, id in enumerate(free) if id == free[-1])
            marks = MarkTokens((0,), b"", closing_id=free[end], across=())
            rule = generator.constrainer.watch(RULES[0], stop_ids)
            watch = ReasoningFirst(rule, marks, "inside", generator.tokenizer, stop_ids)
            answer = [*generator.engine.generate(ids, options, watch=watch)]
            assert answer[: end + 1] == free[: end + 1]
            assert holds(0, generator.tokenizer.decode(answer[end + 1 :]))
