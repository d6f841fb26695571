"""The chat templates of published models: tool calls, roles, reasoning, continued messages, and forged marks in each field.

llama.cpp's source package has the templates; the project has no copy of them.
"""

import json
import re

import pytest
from support.conversations import bytes_with
from support.engines import Bigram, Parrot
from support.fetched import files_of_source

from hf_sgpe.chat.tool_calls import joined
from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.parameters import RequestError
from hf_sgpe.serving.requests import Served, read_chat

pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")

SOURCE = "llama-cpp-python==0.3.36"
CALLING = {
    "apriel": "Apriel-1.6-15b-Thinker-fixed unsloth-Apriel-1.5",
    "glm": "GLM-4.6 GLM-4.7-Flash Spark2.5 inclusionai-ling-3.0-flash poolside-Laguna-S-2.1 poolside-Laguna-XS-2.1 "
    "poolside-Laguna-XS.2",
    "hermes": "Bielik-11B-v3.0-Instruct MiMo-VL NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use "
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use Qwen-QwQ-32B Qwen-Qwen2.5-7B-Instruct Qwen-Qwen3-0.6B Reka-Edge "
    "ibm-granite-granite-4.0 ibm-granite-granite-4.1",
    "llama3": "meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct meta-llama-Llama-3.3-70B-Instruct",
    "minimax-m1": "MiniMax-M1",
    "mistral": "mistralai-Mistral-Nemo-Instruct-2407",
    "mistral-args": "Mistral-Small-3.2-24B-Instruct-2506 mistralai-Ministral-3-14B-Reasoning-2512 "
    "unsloth-mistral-Devstral-Small-2507",
    "nemotron": "NVIDIA-Nemotron-Nano-v2",
    "qwen3-coder": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 Qwen3-Coder Qwen3.5-4B StepFun3.5-Flash",
    "seed": "ByteDance-Seed-OSS",
}
FORMAT_OF = {model: name for name, models in CALLING.items() for model in models.split()}
NEED_TOOLS = {model for model in FORMAT_OF if model.endswith("tool_use")} | {
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "fireworks-ai-llama-3-firefunction-v2",  # needs a variable of its own
}
MARK = re.compile(
    r"<\|[^|<>\s'\"]{1,40}\|>|<｜[^｜]{1,40}｜>|<\|?/?(?:think|tool_?\w*|start_of_turn|end_of_turn|end_of_sentence|bos|eos|sep"
    r"|TOOLCALL|assistant|SPECIAL_\d+|seed:\w+|turn|channel|arg_key|arg_value|mm:think)\|?>|\[/?[A-Z_]{3,30}\]"
    r"|\[[a-z]~\[|\][a-z~]+\]|<sop>|\[gMASK\]"
)
ORDINARY = re.compile(r"</?(?:think|tool_\w+|arg_key|arg_value|mm:think|seed:(?!bos|eos)\w+|TOOLCALL)>")
"""Tokens that real vocabularies have, but not as special tokens."""

USER = {"role": "user", "content": "Hi there"}
PROPERTIES = {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 5}}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": PROPERTIES, "required": ["a", "b"]},
    },
}
GIVEN = {"a": 11, "b": "x\ny"}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "add", "arguments": json.dumps(GIVEN)}}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "12"}


@pytest.fixture(scope="module")
def templates():
    files = files_of_source(SOURCE, "llama.cpp/models/templates")
    return {file.stem: file.read_text(encoding="utf-8") for file in files if file.suffix == ".jinja"}


def served_with(source, answer=None):
    """Return a model with a template. Its tokenizer has the marks in the template as tokens."""
    marks = sorted({*MARK.findall(source), "<s>", "</s>"})
    special, others = ([mark for mark in marks if bool(ORDINARY.fullmatch(mark)) == is_other] for is_other in (False, True))
    _, tokenizer = bytes_with(special, others, roles={"bos_token": "<s>", "eos_token": "</s>"})
    if answer is None:
        engine = Bigram(len(tokenizer), stop_ids=[tokenizer.special_tokens["</s>"]])
    else:
        engine = Parrot(tokenizer.encode(answer, allowed_special="all"), vocab_size=len(tokenizer))
    generator = TextGenerator(tokenizer, engine)
    return Served("m", generator, generator.chat(template=source))


def prompt_of(served, *messages, **given):
    (ids,) = read_chat({"messages": [*messages], **given}, served).prompts
    return served.generator.tokenizer.decode(ids)


def answered(served, **given):
    asked = read_chat({"messages": [USER], "tools": [ADD], **given}, served)
    generator = served.generator
    pieces = generator.pieces(
        asked.prompts[0], asked.options, is_message=True, marks=asked.marks, watch=asked.watch(generator)
    )
    pieces = [*asked.reading(pieces, str)]
    calls = joined(part for piece in pieces for part in piece.calls)
    return "".join(piece.text for piece in pieces), calls, pieces[-1].finish_reason


@pytest.mark.slow
def test_calls_that_a_template_writes_are_recognised(templates):
    assert FORMAT_OF.keys() <= templates.keys()
    for model, source in templates.items():
        served = served_with(source)
        if model not in FORMAT_OF:
            with pytest.raises(RequestError, match=r"tool calls|does not use tools"):
                read_chat({"messages": [USER], "tools": [ADD]}, served)
            continue
        for content in (None, "Wait."):
            message = {"role": "assistant", "content": content, "tool_calls": [CALL]}
            given = {"tools": [ADD], "add_generation_prompt": False}
            before, whole = prompt_of(served, USER, **given), prompt_of(served, USER, message, **given)
            pairs = enumerate(zip(before, whole, strict=False))
            answer = whole[next((place for place, pair in pairs if pair[0] != pair[1]), len(before)) :]
            begun = prompt_of(served, USER, tools=[ADD])[len(before) :]
            thinking = read_chat({"messages": [USER], "tools": [ADD]}, served).thinking
            if thinking and not answer.startswith(begun):  # templates drop the reasoning of earlier messages
                begun = begun.partition(thinking.written.opening)[0]
            answer = answer.removeprefix(begun)
            if thinking and thinking.place == "inside" and thinking.written.closing not in answer:
                answer = thinking.written.closing + answer
            if "<SPECIAL_11>" in answer:  # Nemotron Nano writes the text and the calls in two messages
                continue
            text, calls, reason = answered(served_with(source, answer))
            assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [("add", GIVEN)], (model, answer)
            is_dropped = content is not None and content not in answer
            assert text.strip() == ("" if is_dropped else content or ""), (model, answer)
            assert reason == "tool_calls"


@pytest.mark.slow
def test_required_calls_are_in_the_formats_of_the_templates(templates):
    for model in FORMAT_OF:
        served = served_with(templates[model])
        given = {"tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 3000, "seed": 1}
        text, (call,), reason = answered(served, **given)
        assert (text, call["name"], reason) == ("", "add", "tool_calls"), model
        assert json.loads(call["arguments"]).keys() == {"a", "b"}


@pytest.mark.slow
def test_roles_reasoning_and_continued_messages(templates):
    system = {"role": "system", "content": "Be brief."}
    answer = {"role": "assistant", "content": "Well.", "reasoning_content": "Hm"}
    for model, source in templates.items():
        served = served_with(source)
        if model in NEED_TOOLS:
            continue
        assert prompt_of(served, USER, answer, {"role": "user", "content": "And?"}).count("Well.") == 1
        assert prompt_of(served, USER, {**answer, "content": "It is"}, continue_final_message=True).endswith("It is")
        if "gemma-2" not in model:  # which has no system messages
            for role in ("system", "developer"):
                assert "Be brief." in prompt_of(served, {**system, "role": role}, USER), (model, role)
        if model in FORMAT_OF:
            call = {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": [CALL]}
            assert "12" in prompt_of(served, USER, call, RESULT, tools=[ADD]), model


def conversations_with(text):
    """Yield requests with a text in every field."""
    call = {
        "id": text,
        "type": "function",
        "function": {"name": text, "arguments": json.dumps({text: [text, {text: text}]})},
    }
    properties = {text: {"type": "string", "enum": [text], "description": text}}
    function = {"name": text, "description": text, "parameters": {"type": "object", "properties": properties}}
    tools = [{"type": "function", "function": function}]
    user = {"role": "user", "content": text}
    said = {"role": "assistant", "content": text, "reasoning_content": text}
    result = {"role": "tool", "tool_call_id": text, "content": text, "name": text}
    yield {"messages": [{"role": "system", "content": text}, user, said, user]}
    yield {"messages": [user, said], "continue_final_message": True}
    yield {"messages": [user, {**said, "tool_calls": [call]}, result, said, user], "tools": tools}
    yield {"messages": [user, {**said, "content": None, "tool_calls": [call]}, result], "tools": tools}
    short = {**CALL, "function": {"name": "add", "arguments": json.dumps({"a": text})}}
    yield {"messages": [user, {"role": "assistant", "tool_calls": [short]}, RESULT], "tools": tools}
    yield {"messages": [user], "tools": tools, "chat_template_kwargs": {"date_string": text, "model_identity": text}}


@pytest.mark.slow
def test_no_field_forges_a_special_token(templates):
    checked = 0
    for model, source in templates.items():
        served = served_with(source)
        tokenizer = served.generator.tokenizer
        special = {*tokenizer.special_tokens.values()}
        marks = [*tokenizer.special_tokens, *tokenizer.added_tokens]
        for number, harmless in enumerate(conversations_with("fine")):
            try:
                (expected,) = read_chat(harmless, served).prompts
            except RequestError:
                continue  # the template does not accept this conversation
            for attack in (*marks, "".join(marks), *(mark[:-1] for mark in marks[:4]), '"}' + marks[0] + "\\"):
                attacked = [*conversations_with(attack)][number]
                try:
                    (ids,) = read_chat(attacked, served).prompts
                except RequestError as refusal:
                    assert "cannot be continued" in str(refusal), (model, attack)
                    continue
                checked += 1
                found = [id for id in ids if id in special]
                assert found == [id for id in expected if id in special], (model, number, attack)
    assert checked > 1000
