import json

import pytest

from hf_sgpe import SGPEError
from hf_sgpe.chat.response_reader import Reasoning, ResponseReader, marks_in, read_response_template, response_parser
from hf_sgpe.chat.tool_calls import CallPart, joined

pytestmark = pytest.mark.skipif(response_parser() is None, reason="older transformers have no response templates")

NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
TEMPLATE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>", "content": "text"},
        "tool_calls": {
            "open_pattern": r"\s*<\|call\|>call:(?P<name>\w+)",
            "close": "</call>",
            "repeats": True,
            "content": "json",
            "transform": NAMED,
        },
        "content": {"close_pattern": r"\s*<\|im_end\|>", "content": "text"},
    },
}
PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}}]
ANSWERS = [
    "Well.",
    "<think>Hm</think>Well.",
    '<think>Hm</think>Well.\n<|call|>call:add{"a": "1"}</call><|call|>call:ශ්‍රී{"é": [1, {}]}</call>',
    '<|call|>call:add{"a": 2}</call>',
]


def read(reader, pieces):
    parts = [part for piece in pieces for part in reader.read(piece)] + [*reader.end()]
    calls = joined(part for part in parts if isinstance(part, CallPart))
    return {
        "content": "".join(part for part in parts if isinstance(part, str) and not isinstance(part, Reasoning)),
        "reasoning_content": "".join(part for part in parts if isinstance(part, Reasoning)),
        "tool_calls": [(call["name"], json.loads(call["arguments"])) for call in calls],
    }


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT + "<think>"])
def test_responses_read_in_pieces_equal_those_of_transformers(answer, prompt):
    from transformers.utils.chat_parsing import parse_response

    message = parse_response(answer, TEMPLATE, prefix=prompt, tools=TOOLS)
    functions = [call["function"] for call in message.get("tool_calls", [])]
    expected = {
        "content": message.get("content", ""),
        "reasoning_content": message.get("reasoning_content", ""),
        "tool_calls": [(function["name"], function["arguments"]) for function in functions],
    }
    for size in (1, 3, len(answer)):
        pieces = [answer[place : place + size] for place in range(0, len(answer), size)]
        assert read(ResponseReader(TEMPLATE, prompt, TOOLS), pieces) == expected


def test_unparsable_calls_are_text_and_the_number_of_calls_is_limited():
    reader = ResponseReader(TEMPLATE, PROMPT, TOOLS)
    assert read(reader, ["<|call|>call:add{no", " JSON}</call> a", "b"])["content"] == "{no JSON}</call> ab"
    reader = ResponseReader(TEMPLATE, PROMPT, TOOLS, most=1)
    assert read(reader, [ANSWERS[2]])["tool_calls"] == [("add", {"a": 1})] and reader.is_full


def test_marks_are_the_tokens_in_the_template():
    tokens = ["<|im_start|>", "<|im_end|>", "<|call|>", "</call>", "<think>", "</s>"]
    assert marks_in(TEMPLATE, tokens) == ["<|im_start|>", "<think>", "<|call|>", "</call>", "<|im_end|>"]


def test_templates_are_read_from_saved_tokenizers(tmp_path):
    assert read_response_template(tmp_path) is None
    for content, expected in (({}, None), ({"response_template": TEMPLATE}, TEMPLATE)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(content))
        assert read_response_template(tmp_path) == expected
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"response_template": {"fields": 3}}))
    with pytest.raises(SGPEError, match=r"tokenizer_config\.json: response_template"):
        read_response_template(tmp_path)
