import logging
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st
from support.conversations import STYLES, chats, fields, options_of_calls, options_of_templates, ordinary
from transformers.utils import logging as transformers_logging

from hf_sgpe.fast_path import conversations


@given(
    style=st.sampled_from([style for style in STYLES if style != "printed"]),
    chat=chats | st.lists(ordinary, min_size=1, max_size=3),
    options=options_of_templates,
    call=options_of_calls,
)
def test_masks_of_answers_are_those_of_transformers(ours, theirs, style, chat, options, call):
    # Without what transformers gets wrong: it stops at the first answer that is cut off on the left.
    ours.truncation_side = theirs.truncation_side = "right"
    options = {"chat_template": STYLES[style], "return_assistant_tokens_mask": True, **options, **call}
    expected = fields(theirs, chat, **options)
    assert fields(ours, chat, **options) == expected
    with patch.object(conversations, "is_harmless", return_value=False):
        assert fields(ours, chat, **options) == expected


def test_a_mask_that_is_cut_off_is_the_rest_of_the_whole(ours, monkeypatch):
    chat = [{"role": role, "content": f"{role} é 😀"} for role in ("user", "assistant") * 2]
    options = {"chat_template": "chatml", "return_assistant_tokens_mask": True}
    whole = ours.apply_chat_template(chat, **options)
    monkeypatch.setattr(ours, "truncation_side", "left")
    for harmless in (True, False):
        monkeypatch.setattr(conversations, "is_harmless", lambda *_, harmless=harmless: harmless)
        for length in range(1, len(whole["input_ids"]) + 1):
            cut = ours.apply_chat_template(chat, truncation=True, max_length=length, **options)
            assert cut["assistant_masks"] == whole["assistant_masks"][-length:]
    stride = {"return_overflowing_tokens": True, "stride": 2}
    rows = ours.apply_chat_template([chat, chat[:2]], truncation=True, max_length=9, tokenizer_kwargs=stride, **options)
    assert len(rows["assistant_masks"]) == len(rows["input_ids"]) > 2
    assert rows["assistant_masks"][0] == whole["assistant_masks"][-9:]


def test_a_mask_holds_all_tokens_of_the_last_character_and_none_of_padding(ours):
    source = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    chat = [{"role": "assistant", "content": "😀"}]
    ids = ours("😀")["input_ids"]
    options = {"chat_template": source, "return_assistant_tokens_mask": True, "padding": "max_length", "max_length": 9}
    for side, mask in (("right", [1] * len(ids) + [0] * 5), ("left", [0] * 5 + [1] * len(ids))):
        encoded = ours.apply_chat_template(chat, tokenizer_kwargs={"padding_side": side}, **options)
        assert encoded["assistant_masks"] == mask


def test_an_answer_in_a_macro_is_masked_where_it_is_written(ours):
    source = (
        "{% macro turn(m) %}<|im_start|>{{ m.role }}\n"
        "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% endmacro %}"
        "{% set text %}{% for m in messages %}{{ turn(m) }}{% endfor %}{% endset %}{{ text | trim }}"
    )
    chat = [{"role": "assistant", "content": "yes"}, {"role": "assistant", "content": "<|im_end|>"}]
    encoded = ours.apply_chat_template(chat, chat_template=source, return_assistant_tokens_mask=True)
    answered = [id for id, mask in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True) if mask]
    assert ours.decode(answered) == "yes<|im_end|><|im_end|><|im_end|>"


CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
UNMARKED = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
MASK = {"return_assistant_tokens_mask": True}


@pytest.fixture
def warnings(monkeypatch, caplog):
    """The warnings of transformers about templates that mark no answers, also those that it gave before."""
    conversations.logger.warning_once.cache_clear()
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    transformers_logging.set_verbosity_warning()
    return lambda: [record.message for record in caplog.records if "`{% generation %}`" in record.message]


@pytest.mark.parametrize("options", [{}, {"sanitize_control_tokens": False}])
def test_a_template_without_the_keyword_is_warned_of_once(ours, warnings, options):
    for _ in range(2):
        encoded = ours.apply_chat_template(CHAT, chat_template=UNMARKED, **MASK, **options)
        assert set(encoded["assistant_masks"]) == {0}
    [warning] = warnings()
    assert warning.startswith(
        "return_assistant_tokens_mask==True but chat template does not contain `{% generation %}` keyword"
    )


@pytest.mark.parametrize("tags", ["{% generation %}|{% endgeneration %}", "{%- generation -%}|{%- endgeneration -%}"])
def test_a_template_with_the_keyword_gives_no_warning(ours, warnings, tags):
    begin, end = tags.split("|")
    source = UNMARKED.replace("{{ m.content }}", begin + "{{ m.content }}" + end)
    assert sum(ours.apply_chat_template(CHAT, chat_template=source, **MASK)["assistant_masks"])
    assert sum(ours.apply_chat_template(CHAT, chat_template="chatml", **MASK)["assistant_masks"])
    ours.apply_chat_template(CHAT, chat_template=UNMARKED)
    assert warnings() == []
