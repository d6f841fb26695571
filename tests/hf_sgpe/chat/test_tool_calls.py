import json

import pytest
from hypothesis import given, strategies as st
from support.conversations import STYLES

from hf_sgpe.chat.templates import SPECIAL_TOKENS, load_template
from hf_sgpe.chat.tool_calls import FORMATS, CallPart, CallReader, Mark, format_of, has_tools, joined

BY_NAME = {written.name: written for written in FORMATS}
TYPES = {"a": {"type": "integer"}, "s": {"type": "string"}, "b": {"type": "boolean"}, "l": {"type": "array"}}
TYPES["n"] = {"anyOf": [{"type": "null"}, {"type": "number"}, {"type": "string"}]}
NAMES = {name: {"type": "object", "properties": TYPES} for name in ("add", "ශ්‍රී_search")}


def read(reader, *texts):
    parts = [part for text in texts for part in reader.read(text)] + [*reader.end()]
    said = "".join(part for part in parts if isinstance(part, str))
    calls = joined(part for part in parts if isinstance(part, CallPart))
    return said, [(call["name"], call["arguments"]) for call in calls]


def test_formats_are_known_by_the_template():
    expected = {"qwen": "hermes", "mistral": "mistral", "llama": "llama3"}
    assert {style: known.name for style, source in STYLES.items() if (known := format_of(source))} == expected
    assert all(has_tools(STYLES[style]) for style in expected)
    assert not any(has_tools(load_template(name)) for name in SPECIAL_TOKENS)
    assert format_of("<tool_call>\n<function=f>\n<parameter=a>… within <tool_call></tool_call> tags").name == "qwen3-coder"
    assert format_of("[TOOL_CALLS]f[ARGS]{}").name == "mistral-args"
    spread = "'[TOOL_CALLS]' + name }}\n{%- if id %}{{- '[CALL_ID]' + id }}{% endif %}\n{{- '[ARGS]' + arguments"
    assert format_of(spread).name == "mistral-args"
    assert format_of("<tool_call>{name}\n<arg_key>a</arg_key> arguments").name == "glm"
    assert format_of("'<tool_calls>[' + name + arguments").name == "apriel"
    assert format_of("'<tool_calls>\\n' or <tool_calls>\n{\"arguments\"").name == "minimax-m1"
    assert format_of("'<TOOLCALL>[' + arguments <tool_call>").name == "nemotron"
    assert format_of("<seed:tool_call>\n<function=f>").name == "seed"
    for other in ("<tool_call><invoke name=", "<|tool_call>call:f{}<tool_call|>"):
        assert format_of(other + '"arguments"') is None


CALL = '{"name": "add", "arguments": {"a": [1, {"b": "}"}], "c": "\\"é"}}'
ARGUMENTS = '{"a": [1, {"b": "}"}], "c": "\\"é"}'

TWO = [("add", ARGUMENTS), ("f", "{}")]
TYPES["e"] = {"enum": ["3 ", 3, None]}
VALUES = {"e": "3", "a": "11", "s": "12", "b": "True", "l": '["x", {}]', "n": "None", "other": "a\n<b> é</b>"}
TAGGED = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in VALUES.items())
TAGGED = f"<tool_call>\n<function=add>\n{TAGGED}</function>\n</tool_call>"
TAGGED_ARGUMENTS = '{"e": 3, "a": 11, "s": "12", "b": true, "l": ["x", {}], "n": null, "other": "a\\n<b> é</b>"}'

KEYED = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in VALUES.items())
KEYED = f"<tool_call>add\n{KEYED}</tool_call>"


@pytest.mark.parametrize(
    ("name", "answer", "said", "calls"),
    [
        ("hermes", f"<tool_call>\n{CALL}\n</tool_call>", "", [("add", ARGUMENTS)]),
        ("hermes", f"Let me see.\n<tool_call>{CALL}</tool_call>\n", "Let me see.", [("add", ARGUMENTS)]),
        ("hermes", f"<tool_call>{CALL}</tool_call>\n<tool_call>\n{CALL}\n</tool_call>", "", [("add", ARGUMENTS)] * 2),
        ("hermes", f"<tool_call>{CALL}</tool_call> Done.", " Done.", [("add", ARGUMENTS)]),
        ("hermes", '<tool_call>{"arguments": {"a": 1}, "name": "add"}</tool_call>', "", [("add", '{"a": 1}')]),
        ("hermes", '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>', "", [("add", '{"a": 1}')]),
        ("hermes", '<tool_call>{"name": "add", "arguments": null}</tool_call>', "", [("add", "{}")]),
        ("hermes", '<tool_call>{"name": "add", "arguments": []}</tool_call>', "", [("add", "{}")]),
        ("hermes", '<tool_call>{"name": "add", "arguments": [1]}</tool_call>', "", [("add", "[1]")]),
        ("hermes", '<tool_call>{"name": "x", "arguments": {}}', "", [("x", "{}")]),  # the end of the answer closes
        ("hermes", '<tool_call>{"name": "x", "arguments": {"a": 1', "", [("x", '{"a": 1')]),
        ("hermes", "a <tool_call", "a <tool_call", []),
        ("hermes", "1 < 2 \n", "1 < 2 \n", []),
        ("hermes", "<tool_call>no JSON</tool_call>", "<tool_call>no JSON</tool_call>", []),
        ("hermes", '<tool_call>{"name": 3}</tool_call>', '<tool_call>{"name": 3}</tool_call>', []),
        ("hermes", "<tool_call>\n", "<tool_call>\n", []),
        ("mistral", f"[TOOL_CALLS][{CALL}]", "", [("add", ARGUMENTS)]),
        ("mistral", f"[TOOL_CALLS] [{CALL}, {CALL}]", "", [("add", ARGUMENTS)] * 2),
        ("mistral", f"Yes.[TOOL_CALLS][{CALL}]", "Yes.", [("add", ARGUMENTS)]),
        ("mistral", "[1, 2]", "[1, 2]", []),
        ("llama3", '{"name": "add", "parameters": {"a": 1}}', "", [("add", '{"a": 1}')]),
        ("llama3", '{"name": "add", "parameters": {}}; {"name": "add", "parameters": {}}', "", [("add", "{}")] * 2),
        ("llama3", '{"name": "other", "parameters": {}}', '{"name": "other", "parameters": {}}', []),
        ("llama3", '{"name": "add"} is', '{"name": "add"} is', []),
        ("llama3", 'So: {"name": "add", "parameters": {}}', 'So: {"name": "add", "parameters": {}}', []),
        ("llama3", "Hi\n", "Hi\n", []),
        ("mistral-args", f"Well.[TOOL_CALLS]add[ARGS]{ARGUMENTS}[TOOL_CALLS] f[CALL_ID]123456789[ARGS] {{}}", "Well.", TWO),
        ("mistral-args", "[TOOL_CALLS]add[ARGS]{}Done.", "Done.", [("add", "{}")]),
        ("mistral-args", '[TOOL_CALLS]add[ARGS]{"a": "x', "", [("add", '{"a": "x')]),
        ("mistral-args", "[TOOL_CALLS]add and more\nHi", "[TOOL_CALLS]add and more\nHi", []),
        ("mistral-args", "[TOOL_CALLS]add", "[TOOL_CALLS]add", []),
        ("mistral-args", "[TOOL_CALLS]" + "a" * 999, "[TOOL_CALLS]" + "a" * 999, []),
        ("qwen3-coder", f"Well.\n\n{TAGGED}\n{TAGGED}\n", "Well.", [("add", TAGGED_ARGUMENTS)] * 2),
        ("qwen3-coder", "<tool_call>\n<function=f>\n</function>\n</tool_call>", "", [("f", "{}")]),
        ("qwen3-coder", "<tool_call><function=f><parameter=x>1</parameter></function>", "", [("f", '{"x": "1"}')]),
        ("qwen3-coder", "<tool_call><function=f><parameter=x>1", "", [("f", "{")]),
        ("seed", f"Well.\n\n{TAGGED}".replace("tool_call>", "seed:tool_call>"), "Well.", [("add", TAGGED_ARGUMENTS)]),
        ("glm", f"Well.\n{KEYED}\n{KEYED}\n", "Well.", [("add", TAGGED_ARGUMENTS)] * 2),
        ("glm", KEYED.replace("\n<arg", "<arg"), "", [("add", TAGGED_ARGUMENTS)]),
        ("glm", "<tool_call>f</tool_call> Done.", " Done.", [("f", "{}")]),
        ("glm", "<tool_call>f<arg_key>x</arg_key><arg_value>1", "", [("f", "{")]),
        ("glm", "<tool_call>f and g</tool_call>", "<tool_call>f and g</tool_call>", []),
        ("glm", "<tool_call>" + "a" * 999, "<tool_call>" + "a" * 999, []),
        ("glm", "<tool_call>f", "<tool_call>f", []),
        ("apriel", f"Well.\n<tool_calls>[{CALL}, {CALL}]</tool_calls>\n", "Well.", [("add", ARGUMENTS)] * 2),
        ("minimax-m1", f"Well.<tool_calls>\n{CALL}\n{CALL}\n</tool_calls>", "Well.", [("add", ARGUMENTS)] * 2),
        ("nemotron", f"<TOOLCALL>[{CALL}, {CALL}]</TOOLCALL>", "", [("add", ARGUMENTS)] * 2),
        ("qwen3-coder", "<tool_call>\n<func", "<tool_call>\n<func", []),
        ("qwen3-coder", "<tool_call>\n<fun></fun>", "<tool_call>\n<fun></fun>", []),
    ],
)
def test_calls_are_found_whole_and_character_by_character(name, answer, said, calls):
    assert read(CallReader(BY_NAME[name], NAMES), answer) == (said, calls)
    assert read(CallReader(BY_NAME[name], NAMES), *answer) == (said, calls)


def test_arguments_arrive_as_they_are_written():
    reader = CallReader(BY_NAME["hermes"], NAMES)
    pieces = ['<tool_call>{"name": "add", ', '"arguments": {"a"', ": 1, ", '"b": 2}', "}</tool_call>"]
    assert [[*reader.read(piece)] for piece in pieces] == [
        [],
        [CallPart(0, "add", ""), CallPart(0, None, '{"a"')],
        [CallPart(0, None, ": 1, ")],
        [CallPart(0, None, '"b": 2}')],
        [],
    ]


def test_text_like_a_mark_is_text_if_the_mark_is_a_token():
    written = BY_NAME["hermes"]
    reader = CallReader(written, NAMES, tokens=written.marks)
    forged = f"<tool_call>{CALL}</tool_call>"
    assert read(reader, forged, Mark("<tool_call>"), CALL, Mark("</tool_call>")) == (forged, [("add", ARGUMENTS)])
    inside = '{"name": "add", "arguments": {"a": "</tool_call>"}}'
    reader = CallReader(written, NAMES, tokens=written.marks)
    assert read(reader, Mark("<tool_call>"), inside, Mark("</tool_call>")) == ("", [("add", '{"a": "</tool_call>"}')])
    written = BY_NAME["mistral-args"]
    reader = CallReader(written, NAMES, tokens=written.marks)
    call = (Mark("[TOOL_CALLS]"), "add", Mark("[CALL_ID]"), "1", Mark("[ARGS]"), '{"a": "[TOOL_CALLS]"}')
    expected = [("add", '{"a": "[TOOL_CALLS]"}')]
    assert read(reader, "[TOOL_CALLS]add[ARGS]{}", *call, *call) == ("[TOOL_CALLS]add[ARGS]{}", expected * 2)
    written = BY_NAME["glm"]
    reader = CallReader(written, NAMES, tokens=written.marks)
    call = ("add\n", Mark("<arg_key>"), "s", Mark("</arg_key>"), Mark("<arg_value>"), "<b>", Mark("</arg_value>"))
    call = (Mark("<tool_call>"), *call, Mark("</tool_call>"))
    expected = [("add", '{"s": "<b>"}')]
    assert read(reader, "<tool_call>add</tool_call>", *call, *call) == ("<tool_call>add</tool_call>", expected * 2)
    reader = CallReader(BY_NAME["llama3"], NAMES, tokens=["<|python_tag|>"])
    assert read(reader, Mark("<|python_tag|>"), '{"name": "add", "parameters": {}}') == ("", [("add", "{}")])


def test_the_answer_ends_after_the_last_allowed_call():
    reader = CallReader(BY_NAME["hermes"], NAMES, most=1)
    assert [*reader.read(f"<tool_call>{CALL}")] and reader.is_full
    assert read(reader, f"</tool_call><tool_call>{CALL}</tool_call>") == ("", [])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", [name for name, written in BY_NAME.items() if written.kind in ("json", "named")])
@given(
    calls=st.lists(
        st.tuples(st.sampled_from([*NAMES]), st.dictionaries(st.text(), values, max_size=3)), min_size=1, max_size=3
    ),
    is_ascii=st.booleans(),
    size=st.integers(1, 9),
)
def test_every_call_comes_back(name, calls, is_ascii, size):
    written = BY_NAME[name]
    objects = [
        f"{called}[ARGS]{json.dumps(given, ensure_ascii=is_ascii)}"
        if written.kind == "named"
        else json.dumps({"name": called, written.key: given}, ensure_ascii=is_ascii)
        for called, given in calls
    ]
    mark = (written.opening + written.before, written.after + written.closing)
    between = mark[1] + written.between + mark[0] if written.is_repeated else written.between
    answer = mark[0] + between.join(objects) + mark[1]
    pieces = [answer[place : place + size] for place in range(0, len(answer), size)]
    said, found = read(CallReader(written, NAMES), *pieces)
    assert (said, [(called, json.loads(given)) for called, given in found]) == ("", calls)


FRAGMENTS = [
    *sorted({mark for written in FORMATS for mark in written.marks}),
    *('{"name": "add", "arguments": ', '{"name": "add", "parameters": ', '{"a": 1', "}", "}}", "{"),
    *("[", "]", ", ", "; ", '"', "\\", "<function=add>", "<parameter=a>", "</parameter>", "</function>"),
    *("add", "1", " ", "\n", "<tool", "[TOOL", "text", "é"),
]


@pytest.mark.parametrize("name", BY_NAME)
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=14), size=st.integers(1, 4), most=st.sampled_from([None, 1]))
def test_any_text_is_read_in_the_same_way_in_pieces(name, fragments, size, most):
    answer = "".join(fragments)
    whole = read(CallReader(BY_NAME[name], NAMES, most=most), answer)
    pieces = [answer[place : place + size] for place in range(0, len(answer), size)]
    assert read(CallReader(BY_NAME[name], NAMES, most=most), *pieces) == whole
    if not whole[1]:
        assert whole[0] == answer  # nothing of a text without calls is lost


@pytest.mark.parametrize("name", BY_NAME)
@given(fragments=st.lists(st.sampled_from(FRAGMENTS), max_size=14))
def test_any_text_with_tokens_is_read_in_the_same_way_in_pieces(name, fragments):
    written = BY_NAME[name]
    marked = [Mark(fragment) if fragment in written.marks else fragment for fragment in fragments]
    pieces = [part for fragment in marked for part in ([fragment] if isinstance(fragment, Mark) else fragment)]
    said, calls = read(CallReader(written, NAMES, tokens=written.marks), *marked)
    assert read(CallReader(written, NAMES, tokens=written.marks), *pieces) == (said, calls)
    if not calls and not {*fragments} & {*written.also}:  # other marks are no text
        assert said == "".join(fragments)
