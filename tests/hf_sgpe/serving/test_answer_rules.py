import json
import re
import sys

import pytest
from support.calling import TOKENIZER, served_by
from support.engines import Bigram
from support.serving import serving

from hf_sgpe.chat.tool_calls import joined
from hf_sgpe.serving.parameters import RequestError
from hf_sgpe.serving.requests import read_chat, read_completion

pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")
openai = pytest.importorskip("openai", reason="clients are of: pip install openai")
pydantic = pytest.importorskip("pydantic", reason="pydantic comes with: pip install openai")

HELLO = [{"role": "user", "content": "Hi"}]
PARAMETERS = {
    "type": "object",
    "properties": {"town": {"type": "string", "maxLength": 4}, "unit": {"enum": ["C", "F"]}},
    "required": ["town", "unit"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
STOP = {"type": "function", "function": {"name": 'ශ්‍රී_"stop"'}}
STYLES_WITH_CALLS = ("qwen", "mistral", "named", "llama", "coder", "glm")


def random_model(style, stop_ids=None):
    ends = [TOKENIZER.special_tokens["</s>"]] if stop_ids is None else stop_ids
    return served_by(Bigram(len(TOKENIZER), stop_ids=ends), style)


@pytest.fixture(scope="module", params=STYLES_WITH_CALLS)
def calling(request):
    with serving(random_model(request.param)) as running, openai.OpenAI(base_url=running.url, api_key="-") as client:
        client.style = request.param
        yield client


@pytest.fixture(scope="module")
def client():
    with serving(random_model("qwen")) as running, openai.OpenAI(base_url=running.url, api_key="-") as client:
        client.style = "qwen"
        yield client


def asked(client, seed=1, **given):
    answer = client.chat.completions.create(model=client.style, messages=HELLO, seed=seed, max_tokens=200, **given)
    return answer.choices[0]


def is_weather(arguments):
    record = json.loads(arguments)
    return list(record) == ["town", "unit"] and len(record["town"]) <= 4 and record["unit"] in ("C", "F")


def test_answers_are_parsed_by_the_client(client):
    class Event(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=5)
        n: int = pydantic.Field(ge=0, le=9)

    for seed in range(3):
        answer = client.chat.completions.parse(
            model=client.style, messages=HELLO, seed=seed, max_tokens=200, response_format=Event
        )
        (choice,) = answer.choices
        assert choice.finish_reason == "stop" and isinstance(choice.message.parsed, Event)
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model=client.style, messages=HELLO, max_tokens=3, response_format=Event)


def test_answers_follow_json_regular_expressions_choices_and_grammars(client):
    for seed in range(2):
        for rule, holds in (
            ({"json": PARAMETERS, "disable_any_whitespace": True, "regex": None}, is_weather),
            ({"regex": "a{2}[0-9ශ]"}, re.compile("a{2}[0-9ශ]").fullmatch),
            ({"choice": ["yes", "ඔව්"]}, ["yes", "ඔව්"].__contains__),
            ({"grammar": 'root ::= "x" [0-9]'}, re.compile("x[0-9]").fullmatch),
        ):
            assert holds(asked(client, seed, extra_body={"structured_outputs": rule}).message.content)
            answer = client.completions.create(
                model=client.style, prompt="a", seed=seed, max_tokens=300, extra_body={"structured_outputs": rule}
            )
            assert holds(answer.choices[0].text)
            assert answer.choices[0].finish_reason == "stop"
    choice = asked(client, response_format={"type": "json_object"})
    assert choice.message.content.startswith("{")
    assert choice.finish_reason == "length" or isinstance(json.loads(choice.message.content), dict)


@pytest.mark.parametrize("is_parallel", [True, False])
def test_a_required_call_has_valid_arguments(calling, is_parallel):
    names = set()
    for seed in range(4):
        choice = asked(calling, seed, tools=[WEATHER, STOP], tool_choice="required", parallel_tool_calls=is_parallel)
        calls = choice.message.tool_calls
        assert choice.message.content is None
        assert choice.finish_reason == "tool_calls" or (is_parallel and choice.finish_reason == "length")
        assert is_parallel or len(calls) == 1
        for call in calls if choice.finish_reason == "tool_calls" else calls[:-1]:
            names.add(call.function.name)
            is_stop = call.function.name == STOP["function"]["name"]
            assert call.function.arguments == "{}" if is_stop else is_weather(call.function.arguments)
    assert names <= {"get_weather", STOP["function"]["name"]}


TYPED = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 3},
        "choice": {"enum": ["a b", 3, None, ""]},
        "constant": {"const": "<x>"},
        "number": {"type": "integer", "minimum": 10, "maximum": 99},
        "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/N"}, "minItems": 1, "maxItems": 2},
        "free": {"anyOf": [{"type": "string"}, {"type": "null"}], "maxLength": 2},
        "left out": {"type": "string", "maxLength": 1},
    },
    "required": ["text", "choice", "constant", "number", "maybe", "list", "free"],
    "$defs": {"N": {"enum": [1, 2]}},
}


@pytest.mark.parametrize("style", ["coder", "glm"])
def test_arguments_between_marks_have_the_types_of_the_schema(style):
    served = random_model(style)
    tools = [{"type": "function", "function": {"name": "f", "parameters": TYPED}}]
    given = {"messages": HELLO, "tools": tools, "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 900}
    left_out = set()
    for seed in range(12):
        asked = read_chat({**given, "seed": seed, "temperature": 5}, served)
        pieces = served.generator.pieces(
            asked.prompts[0], asked.options, marks=asked.marks, watch=asked.watch(served.generator)
        )
        pieces = [*asked.reading(pieces, str)]
        (call,) = joined(part for piece in pieces for part in piece.calls)
        assert (call["name"], pieces[-1].finish_reason) == ("f", "tool_calls")
        record = json.loads(call["arguments"])
        left_out.add("left out" not in record)
        assert record.keys() - {"left out"} == {*TYPED["required"]}
        assert len(record["text"]) <= 3 and len(record["free"] or "") <= 2
        assert record["choice"] in ("a b", 3, None, "") and record["constant"] == "<x>"
        assert 10 <= record["number"] <= 99 and record["maybe"] in (None, True, False)
        assert 1 <= len(record["list"]) <= 2 and {*record["list"]} <= {1, 2}
    assert left_out == {True, False}


def test_a_named_function_is_called_once_also_in_streams(calling):
    given = {"tools": [STOP, WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
    choice = asked(calling, **given)
    (call,) = choice.message.tool_calls
    assert call.function.name == "get_weather" and is_weather(call.function.arguments)
    given |= {"model": calling.style, "messages": HELLO, "seed": 1, "max_tokens": 200}
    with calling.chat.completions.stream(**given) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0]
    assert streamed.message.tool_calls[0].function.arguments == call.function.arguments
    assert streamed.finish_reason == choice.finish_reason == "tool_calls"


def test_an_answer_with_tools_and_a_schema_has_one_of_both(calling):
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": {"a": 1}}}}
    for seed in range(3):
        choice = asked(calling, seed, tools=[WEATHER], response_format=schema, parallel_tool_calls=False)
        if choice.message.tool_calls:
            assert is_weather(choice.message.tool_calls[0].function.arguments)
        else:
            assert json.loads(choice.message.content) == {"a": 1}


@pytest.mark.parametrize(
    ("record", "param", "problem"),
    [
        ({"response_format": "json"}, "response_format", "text, json_object or json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "an object with name and schema"),
        ({"response_format": {"type": "text", "schema": {}}}, "response_format.schema", "unknown parameter"),
        ({"response_format": {"type": "json_object", "json_schema": {}}}, "response_format.json_schema", "leave it out"),
        ({"response_format": {"type": "json_schema", "value": 1}}, "response_format.value", "unknown parameter"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}, "value": 1}}},
            "response_format.json_schema.value",
            "unknown parameter",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "record"}}}},
            "response_format",
            "type must be",
        ),
        ({"structured_outputs": []}, "structured_outputs", "must be an object, not a list"),
        ({"structured_outputs": {}}, "structured_outputs", "json, json_object, regex, choice, grammar"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs", "must have exactly one of"),
        ({"structured_outputs": {"structural_tag": "a"}}, "structured_outputs.structural_tag", "unknown parameter"),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex", "unclosed group"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs.regex", "must be a non-empty string, not a number"),
        ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice", "must be a list of non-empty strings"),
        ({"structured_outputs": {"grammar": "start: x"}}, "structured_outputs.grammar", "unknown name"),
        ({"structured_outputs": {"json": "{}"}}, "structured_outputs.json", "must be a JSON schema, not a string"),
        (
            {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
            "structured_outputs",
            "both rules",
        ),
        ({"guided_regex": "a"}, "guided_regex", "unknown parameter"),
        ({"structured_outputs": {"regex": "a"}, "ignore_eos": True}, "ignore_eos", "structured output"),
        ({"structured_outputs": {"regex": "a"}, "min_tokens": 2}, "min_tokens", "cannot be combined with"),
    ],
)
def test_wrong_rules_are_refused_by_name(record, param, problem):
    served = random_model("qwen")
    for read, asked in ((read_chat, {"messages": HELLO}), (read_completion, {"prompt": "a"})):
        with pytest.raises(RequestError, match=problem) as refusal:
            read({**asked, **record}, served)
        assert refusal.value.body["error"]["param"] == param


def test_constraints_that_no_grammar_has_are_named_in_a_header(client):
    properties = {"a": {"type": "string", "format": "path", "maxLength": 2}, "b": {"pattern": "^(?=x)x$", "maxLength": 2}}
    schema = {"type": "object", "properties": properties, "required": ["a"]}
    given = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    raw = client.chat.completions.with_raw_response
    for stream in (False, True):
        answer = raw.create(model="qwen", messages=HELLO, response_format=given, max_tokens=5, stream=stream)
        assert answer.headers["x-constraints-left-out"] == "properties.b.pattern with look-around; Unknown format: path"
    answer = raw.create(model="qwen", messages=HELLO, response_format={"type": "json_object"}, max_tokens=5)
    assert "x-constraints-left-out" not in answer.headers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("schema", "header"),
    [
        ({"type": "string", "format": "\0"}, r"Unknown format: \x00"),
        ({"type": "string", "format": "x\r\nA: b"}, r"Unknown format: x\r\nA: b"),
        ({"type": "string", "format": "ශ "}, r"Unknown format: \u0dc1"),
        ({"properties": {"a\r\nSet-Cookie: x=1": {"pattern": "(?=a)a"}}}, r"properties.a\r\nSet-Cookie: x=1.pattern with"),
        ({"properties": {f"{n} ": {"pattern": "(?=a)a"} for n in range(500)}}, "properties.499 .pattern with look-around; "),
    ],
)
def test_names_of_a_schema_do_not_break_the_header_that_names_them(client, schema, header, stream):
    function = {"name": "f", "parameters": {"type": "object", "properties": {"p": schema}}}
    for given in (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}},
        {"tools": [{"type": "function", "function": function}], "tool_choice": "required"},
    ):
        raw = client.chat.completions.with_raw_response
        headers = raw.create(model="qwen", messages=HELLO, max_tokens=3, stream=stream, **given).headers
        assert header in headers["x-constraints-left-out"]
        assert len(headers["x-constraints-left-out"]) <= 1000
        assert headers.keys().isdisjoint({"set-cookie", "a"})


def test_a_rule_that_no_answer_can_follow_is_refused(client):
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"$ref": "#"}}}
    with pytest.raises(openai.BadRequestError, match="no answer can follow the rule"):
        asked(client, response_format=schema)


def test_a_rule_is_not_for_scored_prompts():
    with pytest.raises(RequestError, match="echo with logprobs cannot be combined with structured output"):
        record = {"prompt": "a", "echo": True, "logprobs": 1, "structured_outputs": {"regex": "a"}}
        read_completion(record, random_model("qwen"))


@pytest.mark.parametrize(
    ("record", "param", "problem"),
    [
        ({"tool_choice": "required", "tools": []}, "tool_choice", "no tools"),
        ({"tool_choice": "some"}, "tool_choice", "none, auto, required"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice", "must be none, auto, required"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", "no tool with the name 'f'"),
        ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format", "required tool call"),
        ({"structured_outputs": {"regex": "a"}}, "structured_outputs.regex", "cannot be used with tools"),
        (
            {
                "tool_choice": "required",
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "record"}}}],
            },
            "tools[0].function.parameters",
            "tool 'f'",
        ),
    ],
)
def test_wrong_choices_of_tools_are_refused_by_name(record, param, problem):
    with pytest.raises(RequestError, match=problem) as refusal:
        read_chat({"messages": HELLO, "tools": [WEATHER], **record}, random_model("qwen"))
    assert refusal.value.body["error"]["param"] == param


def test_a_missing_stop_token_and_a_missing_library_are_named(monkeypatch):
    served = random_model("qwen", stop_ids=[])
    with pytest.raises(RequestError, match="the model has no token that ends an answer"):
        read_completion({"prompt": "a", "structured_outputs": {"regex": "a"}}, served)
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(RequestError, match=r"llguidance: pip install llguidance") as refusal:
        read_completion({"prompt": "a", "response_format": {"type": "json_object"}}, served)
    assert refusal.value.body["error"]["param"] == "response_format"
