import json
import threading
import time

import pytest

from hf_sgpe.errors import BusyError
from hf_sgpe.generation.rule_trial import RuleTrial

pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")

BYTES = [bytes([byte]) for byte in range(256)] + [b"<end>"]


@pytest.fixture(scope="module")
def trial():
    trial = RuleTrial(BYTES, [256])
    yield trial
    trial.close()


def of_schema(schema):
    return json.dumps({"grammars": [{"json_schema": schema}]})


def of_grammar(text):
    return json.dumps({"grammars": [{"lark_grammar": text}]})


def references_in_a_row(count):
    definitions = {
        f"d{number}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{number + 1}"}}, "required": ["a"]}
        for number in range(count)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{count}": {"type": "string"}}}


def test_a_rule_that_overflows_the_stack_ends_only_its_trial(trial):
    rules = "\n".join(f"r{number}: r{number + 1}" for number in range(20_000))
    for source in (of_schema(references_in_a_row(3000)), of_grammar(f'start: r0\n{rules}\nr20000: "a"')):
        assert "too complex" in trial(source).problem
        assert trial(of_schema({"type": "string"})) == ("", ())


def test_a_rule_that_takes_too_long_ends_only_its_trial(trial):
    assert "too complex" in trial(of_schema({"enum": list(range(1_000_000))})).problem
    assert trial(of_schema({"type": "string"})) == ("", ())


def test_constraints_that_are_not_applied_are_reported(trial):
    schema = {"type": "string", "format": "path", "x-guidance": {"lenient": True}}
    assert trial(of_schema(schema)) == ("", ("Unknown format: path",))
    assert "unclosed" in trial(of_schema({"type": "string", "pattern": "("})).problem


def test_few_rules_wait_for_their_trial():
    trial = RuleTrial(BYTES, [256])
    refused = []

    def check(number):
        try:
            trial(of_schema({"enum": [*range(100_000), number]}))
        except BusyError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=check, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    while len(refused) < 4:  # eight wait, and the others do not
        time.sleep(0.01)
    trial.close()
    for thread in threads:
        thread.join()
    assert set(refused) == {"8 rules are already being compiled: try again later"}


def test_closing_ends_a_trial_that_runs():
    trial = RuleTrial(BYTES, [256])
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(trial(of_schema({"enum": list(range(1_000_000))}))))
    thread.start()
    while thread.is_alive():  # the process may not have started yet
        trial.close()
        thread.join(0.05)
    assert verdicts[0].problem
    assert "closed" in trial(of_schema({})).problem
