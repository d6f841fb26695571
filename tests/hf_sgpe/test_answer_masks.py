"""Masks of what the assistant says, where a template does not mark it."""

import logging

import pytest
from transformers.utils import logging as transformers_logging

from hf_sgpe import BPETokenizer, SGPETokenizerFast, conversations

CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
UNMARKED = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
MASK = {"return_assistant_tokens_mask": True}


@pytest.fixture(scope="module")
def tokenizer():
    special = ["<|im_start|>", "<|im_end|>"]
    return SGPETokenizerFast.from_bpe(BPETokenizer.train_from_iterator(["a"], 258, special_tokens=special))


@pytest.fixture
def warnings(monkeypatch, caplog):
    """The warnings of transformers, those that it gave before included."""
    conversations.logger.warning_once.cache_clear()
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    transformers_logging.set_verbosity_warning()
    return lambda: [record.message for record in caplog.records if "`{% generation %}`" in record.message]


@pytest.mark.parametrize("options", [{}, {"sanitize_control_tokens": False}])
def test_a_template_without_the_keyword_is_warned_of_once(tokenizer, warnings, options):
    for _ in range(2):
        encoded = tokenizer.apply_chat_template(CHAT, chat_template=UNMARKED, **MASK, **options)
        assert set(encoded["assistant_masks"]) == {0}
    [warning] = warnings()
    assert warning.startswith(
        "return_assistant_tokens_mask==True but chat template does not contain `{% generation %}` keyword"
    )


@pytest.mark.parametrize("tags", ["{% generation %}|{% endgeneration %}", "{%- generation -%}|{%- endgeneration -%}"])
def test_one_that_has_it_is_not(tokenizer, warnings, tags):
    begin, end = tags.split("|")
    source = UNMARKED.replace("{{ m.content }}", begin + "{{ m.content }}" + end)
    assert sum(tokenizer.apply_chat_template(CHAT, chat_template=source, **MASK)["assistant_masks"])
    assert sum(tokenizer.apply_chat_template(CHAT, chat_template="chatml", **MASK)["assistant_masks"])
    tokenizer.apply_chat_template(CHAT, chat_template=UNMARKED)
    assert warnings() == []
