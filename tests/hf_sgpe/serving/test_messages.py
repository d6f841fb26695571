import pytest
from support.conversations import CHATML

from hf_sgpe.serving.messages import read_messages
from hf_sgpe.serving.parameters import RequestError

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": "\\ud800"}'}}

DEEP = '{"a": ' + "[" * 100 + "]" * 100 + "}"


def test_messages_of_an_agent_are_those_of_a_template():
    sent = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "Hm", "refusal": None},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "3"}]},
        {"role": "assistant", "content": "3", "reasoning": "So", "tool_calls": [], "audio": None, "annotations": []},
    ]
    function = {"name": "add", "arguments": {"a": "\ufffd"}}
    assert read_messages(sent, CHATML) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "a\nb"},
        {
            "role": "assistant",
            "reasoning_content": "Hm",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
            "content": "",  # which this template needs
        },
        {"role": "tool", "content": "3", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "3", "reasoning_content": "So"},
    ]
    knowing = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.role == 'developer' %}!{% endif %}{% endfor %}"
    assert read_messages(sent[:1], knowing) == sent[:1]
    refusing = knowing.replace("!", "{{ raise_exception('unknown role') }}")
    assert read_messages(sent[:1], refusing) == [{"role": "system", "content": "Be kind."}]


def called(**function):
    return {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]}


@pytest.mark.parametrize(
    ("sent", "read"),
    [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("", {}), (None, {}), ('{"a": 1', '{"a": 1'), ("[]", "[]"), ("3", "3")],
)
def test_arguments_that_are_not_an_object_reach_the_template_as_they_are(sent, read):
    (message,) = read_messages([called(name="f", arguments=sent)], CHATML)
    assert message["tool_calls"][0]["function"]["arguments"] == read
    listing = "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments | items %}{{ v }}"
    listing += "{% endfor %}{% endfor %}{{ m.content }}{% endfor %}"
    if isinstance(read, dict):
        assert read_messages([called(name="f", arguments=sent)], listing)[0]["tool_calls"] == message["tool_calls"]
    else:
        with pytest.raises(RequestError, match=r"the JSON of an object"):
            read_messages([called(name="f", arguments=sent)], listing)


@pytest.mark.parametrize(
    ("message", "param", "problem"),
    [
        ({"role": "tool", "content": "3"}, "tool_call_id", "is missing"),
        ({"role": "tool", "content": "a", "tool_call_id": 3}, "tool_call_id", "not a number"),
        ({"role": "user", "content": "a", "tool_calls": [CALL]}, "tool_calls", "role user"),
        ({"role": "user", "content": "a", "tool_call_id": "a"}, "tool_call_id", "not supported in a message of the role"),
        ({"role": "critic", "content": "a"}, "role", "system, developer, user, assistant, tool"),
        ({"role": "assistant", "tool_calls": {}}, "tool_calls", "must be a list, not an object"),
        ({"role": "assistant", "tool_calls": ["a"]}, "tool_calls[0]", "an id, a function, and the type"),
        ({"role": "assistant", "tool_calls": [{**CALL, "id": 3}]}, "tool_calls[0].id", "must be a string, not a number"),
        ({"role": "assistant", "tool_calls": [{**CALL, "type": "custom"}]}, "tool_calls[0]", "type function"),
        ({"role": "assistant", "content": "a", "reasoning_content": 3}, "reasoning_content", "must be a string"),
        (called(name=""), "tool_calls[0].function.name", "must be a non-empty string"),
        (called(name="f", arguments=DEEP), "tool_calls[0].function.arguments", "is nested too deeply"),
        (called(name="f", arguments='{"a":' * 9000), "tool_calls[0].function.arguments", "is nested too deeply"),
        (called(name="f", arguments=[]), "tool_calls[0].function.arguments", "the JSON of an object, not a list"),
    ],
)
def test_wrong_messages_are_refused_by_name(message, param, problem):
    with pytest.raises(RequestError, match=problem) as refusal:
        read_messages([{"role": "user", "content": "a"}, message], CHATML)
    assert refusal.value.body["error"]["param"] == f"messages[1].{param}"
