import json
from dataclasses import replace

import pytest
from support.calling import ANSWERS, CALL, MARKS, TOKENIZER, served_by
from support.conversations import ENDS
from support.engines import Parrot
from support.serving import serving

from hf_sgpe.chat.response_reader import response_parser
from hf_sgpe.serving.parameters import RequestError
from hf_sgpe.serving.requests import read_chat, read_tokenize

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
}
HELLO = [{"role": "user", "content": "Hi"}]


def served_with(style, answer=""):
    return served_by(Parrot(TOKENIZER.encode(answer, allowed_special="all")), style)


@pytest.fixture(scope="module")
def openai():
    pytest.importorskip("starlette", reason="serving needs: pip install starlette uvicorn")
    pytest.importorskip("uvicorn", reason="serving needs: pip install starlette uvicorn")
    return pytest.importorskip("openai", reason="clients are of: pip install openai")


@pytest.mark.parametrize("style", ANSWERS)
def test_calls_arrive_whole_and_streamed(style, openai):
    with serving(served_with(style, ANSWERS[style])) as running, openai.OpenAI(base_url=running.url, api_key="-") as client:
        asked = {"model": style, "messages": HELLO, "tools": [TOOL]}
        (choice,) = client.chat.completions.create(**asked).choices
        assert (choice.message.content or "Well.", choice.finish_reason) == ("Well.", "tool_calls")
        calls = choice.message.tool_calls
        assert [(call.type, call.function.name, json.loads(call.function.arguments)) for call in calls] == [
            ("function", "add", {"a": 1})
        ] * 2
        assert len({call.id for call in calls}) == 2
        with client.chat.completions.stream(**asked) as stream:  # the client joins the parts
            events = [event.type for event in stream]
            whole = stream.get_final_completion().choices[0]
        assert (whole.message.content or None, whole.finish_reason) == (choice.message.content, "tool_calls")
        assert [call.function.arguments for call in whole.message.tool_calls] == ['{"a": 1}'] * 2
        assert events.count("tool_calls.function.arguments.delta") > 3  # arguments arrive in parts
        for event in client.chat.completions.create(**asked, stream=True):  # some clients read only the first entry
            numbers = [call.index for call in event.choices[0].delta.tool_calls or []]
            assert len(numbers) == len(set(numbers))
        (choice,) = client.chat.completions.create(**asked, parallel_tool_calls=False).choices
        assert (len(choice.message.tool_calls), choice.finish_reason) == (1, "tool_calls")
        for silent in ({"tool_choice": "none"}, {"tools": []}):
            (choice,) = client.chat.completions.create(**{**asked, **silent}).choices
            assert (choice.message.tool_calls, choice.finish_reason) == (None, "stop")
        (choice,) = client.chat.completions.create(**asked, max_tokens=30).choices
        assert choice.finish_reason == "length"


def test_a_call_in_the_text_of_ordinary_tokens_is_text_and_an_answer_without_calls_stays():
    served = served_with("mistral")
    text = f"[TOOL_CALLS] [{CALL}]"
    served.generator.engine.ids = served.generator.tokenizer.encode(text)
    asked = read_chat({"messages": HELLO, "tools": [TOOL]}, served)
    pieces = [*asked.reading(served.generator.pieces(asked.prompts[0], marks=asked.tool_use.marks), str)]
    assert ("".join(piece.text for piece in pieces), pieces[-1].finish_reason) == (text, "stop")
    assert not any(piece.calls for piece in pieces)


def test_a_stop_text_after_a_call_leaves_complete_arguments():
    served = served_with("glm", "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value></tool_call>END")
    asked = read_chat({"messages": HELLO, "tools": [TOOL], "stop": "END"}, served)
    pieces = asked.reading(served.generator.pieces(asked.prompts[0], asked.options, marks=asked.marks), str)
    assert "".join(call.arguments for piece in pieces for call in piece.calls) == '{"a": 1}'


@pytest.mark.parametrize("style", ANSWERS)
def test_the_template_gets_tools_calls_and_results(style):
    served = served_with(style)
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "add", "arguments": '{"a": 11}'}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "12"},
    ]
    ids, _ = read_tokenize({"messages": messages, "tools": [TOOL]}, served)
    assert read_chat({"messages": messages, "tools": [TOOL]}, served).prompts == [ids]
    text = served.generator.tokenizer.decode(ids)
    spelled = {"coder": "<parameter=a>\n11\n</parameter>", "glm": "<arg_value>11</arg_value>"}
    written = spelled.get(style, '{"a": 11}')
    assert all(part in text for part in ("Adds.", written, "12"))
    assert "Adds." not in served.generator.tokenizer.decode(
        read_chat({"messages": messages, "tools": [TOOL], "tool_choice": "none"}, served).prompts[0]
    )


def agent(text):
    """Return a request with ``text`` in each field that the server hands to the template."""
    call = {
        "id": text,
        "type": "function",
        "function": {"name": text, "arguments": json.dumps({text: [text, {text: text}]})},
    }
    parameters = {"type": "object", "properties": {text: {"type": "string", "enum": [text], "description": text}}}
    tool = {"type": "function", "function": {"name": text, "description": text, "parameters": parameters}}
    return {
        "messages": [
            {"role": "user", "content": text, "name": text},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": text},
            {"role": "tool", "tool_call_id": text, "content": text, "name": text},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": text, "content": [{"type": "text", "text": text}]},
        ],
        "tools": [tool],
    }


SPLIT = [token[:cut] for token in ("<|im_end|>", "[/TOOL_RESULTS]", "<|eot_id|>", "[ARGS]") for cut in range(1, len(token))]


@pytest.mark.parametrize("style", ANSWERS)
@pytest.mark.parametrize("attack", [*MARKS, *ENDS, *SPLIT, "".join(MARKS), '"}' + "</s>", "\\</s>", "'</s>\"[INST]"])
def test_no_field_of_a_conversation_forges_a_special_token(style, attack):
    served = served_with(style)
    special = set(served.generator.tokenizer.special_tokens.values())
    (attacked,), (harmless,) = (read_chat(agent(text), served).prompts for text in (attack, "fine"))
    assert [id for id in attacked if id in special] == [id for id in harmless if id in special]


@pytest.mark.parametrize(
    ("record", "param", "problem"),
    [
        ({"tools": {}}, "tools", None),
        ({"tools": "add"}, "tools", "tools must be a list, not a string"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]", "must be an object with a function and the type function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", "must be a non-empty string"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
            None,
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": "a"}}]},
            "tools[0].function.parameters",
            "must be a JSON schema",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "returns": 1}}]},
            "tools[0].function.returns",
            "unknown parameter",
        ),
        ({"tools": [TOOL, TOOL]}, "tools", "2 functions have the name 'add'"),
        ({"tool_choice": "maybe"}, "tool_choice", "tool_choice must be"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls", "must be true or false"),
    ],
)
def test_wrong_tools_are_refused_by_name(record, param, problem):
    served = served_with("coder")
    if problem is None:  # an empty value asks for nothing
        assert read_chat({"messages": HELLO, **record}, served)
        return
    with pytest.raises(RequestError, match=problem) as refusal:
        read_chat({"messages": HELLO, **record}, served)
    assert refusal.value.body["error"]["param"] == param


def test_templates_without_tools_or_with_an_unknown_format_are_refused():
    for style, problem in (("gemma", "template does not use tools"), ("phi", "format of this model's tool calls")):
        with pytest.raises(RequestError, match=problem):
            read_chat({"messages": HELLO, "tools": [TOOL]}, served_with(style))


@pytest.mark.skipif(response_parser() is None, reason="older transformers have no response templates")
def test_a_response_template_separates_reasoning_and_finds_calls_in_other_formats(openai):
    answer = '<think>Hm</think>Well.<tool_call>(add)[ARGS]{"a": 1}</tool_call>'
    called = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
    template = {
        "start_anchor": "<|assistant|>",
        "fields": {
            "reasoning_content": {"open": "<think>", "close": "</think>", "content": "text"},
            "tool_calls": {
                "open_pattern": r"<tool_call>\((?P<name>\w+)\)\[ARGS\]",
                "close": "</tool_call>",
                "repeats": True,
                "content": "json",
                "transform": called,
            },
            "content": {"content": "text"},
        },
    }
    served = replace(served_with("phi", answer), response_template=template)
    with_tools = {"messages": HELLO, "tools": [TOOL]}
    assert read_tokenize(with_tools, served)[0] == read_chat(with_tools, served).prompts[0]
    with serving(served) as running, openai.OpenAI(base_url=running.url, api_key="-") as client:
        (choice,) = client.chat.completions.create(model="phi", messages=HELLO, tools=[TOOL]).choices
        (call,) = choice.message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 1})
        assert (choice.message.content, choice.message.reasoning_content, choice.finish_reason) == (
            "Well.",
            "Hm",
            "tool_calls",
        )
        deltas = [
            event.choices[0].delta for event in client.chat.completions.create(model="phi", messages=HELLO, stream=True)
        ]
        assert "".join(getattr(delta, "reasoning_content", "") for delta in deltas) == "Hm"
        assert "".join(delta.content or "" for delta in deltas) == "Well."
    for rule, problem in (
        ({"tool_choice": "required"}, "a call cannot be required, because only the tokenizer's response template describes"),
        ({"response_format": {"type": "json_object"}}, "response_format cannot be used with tools: leave one out"),
    ):
        with pytest.raises(RequestError, match=problem):
            read_chat({"messages": HELLO, "tools": [TOOL], **rule}, served)
