"""Harmless conversations, against transformers' own class."""

from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st
from support.conversations import (
    SCHEMA,
    STYLES,
    chats,
    fields,
    get_weather,
    options_of_calls,
    options_of_templates,
    ordinary,
    specials_in,
    tokenizer_kwargs,
)
from support.examples import few_examples

from hf_sgpe.fast_path import conversations

WITH_TOOLS = [
    {"role": "user", "content": "How is it in Kandy?"},
    {"role": "assistant", "content": "Let me see."},
    {"role": "user", "content": "Please."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "abc123def", "type": "function", "function": {"name": "get_weather", "arguments": {"place": "Kandy"}}}
        ],
    },
    {"role": "tool", "content": "warm", "tool_call_id": "abc123def"},
    {"role": "assistant", "content": "Warm.", "reasoning_content": "It says warm."},
]


@pytest.mark.parametrize("style", STYLES)
def test_every_style_renders(style, ours, theirs):
    chat = WITH_TOOLS[:3] if style in ("gemma", "llama3") else WITH_TOOLS
    options = {"chat_template": STYLES[style], "tools": [get_weather, SCHEMA], "documents": [{"title": "A", "text": "B"}]}
    text = ours.apply_chat_template(chat, tokenize=False, **options)
    assert "Please." in text
    assert text == theirs.apply_chat_template(chat, tokenize=False, **options)
    encoded = fields(ours, chat, return_assistant_tokens_mask=True, **options)
    assert encoded == fields(theirs, chat, return_assistant_tokens_mask=True, **options)
    assert specials_in(ours, encoded[0]["input_ids"][1]) or style == "alpaca"


@pytest.mark.parametrize("style", STYLES)
@given(chat=chats, options=options_of_templates)
@few_examples
def test_texts_are_those_of_transformers(style, ours, theirs, chat, options):
    options = {"chat_template": STYLES[style], "tokenize": False, **options}
    expected = fields(theirs, chat, **options)
    assert fields(ours, chat, **options) == expected
    # and so are those with marks, which ids are made of
    options.pop("tokenize")
    assert fields(ours, chat, return_dict=False, **options) == fields(theirs, chat, return_dict=False, **options)


@pytest.mark.parametrize("way", ["as it comes", "as under attack"])
@given(
    style=st.sampled_from([*STYLES]),
    chat=chats | st.lists(ordinary, min_size=1, max_size=3),
    options=options_of_templates,
    call=options_of_calls,
    kwargs=tokenizer_kwargs,
    sides=st.sampled_from(["left", "right"]),
)
def test_harmless_conversations_have_the_fields_of_transformers(
    way, ours, theirs, style, chat, options, call, kwargs, sides
):
    options = {"chat_template": STYLES[style], "tokenizer_kwargs": kwargs, **options, **call}
    ours.truncation_side = theirs.truncation_side = sides
    expected = fields(theirs, chat, **options)
    if way == "as it comes":
        assert fields(ours, chat, **options) == expected
    else:
        with patch.object(conversations, "is_harmless", return_value=False):
            assert fields(ours, chat, **options) == expected
