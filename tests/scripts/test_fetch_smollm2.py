import json

import pytest
from support.command import SCRIPTS

from hf_sgpe import BPETokenizer
from hf_sgpe.chat.templates import load_template
from hf_sgpe.chat.tool_calls import format_of, has_tools

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}}]
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
USER = {"role": "user", "content": "1 + 1?"}
MESSAGES = [{"role": "system", "content": "Be kind."}, USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}]


@pytest.fixture
def template(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    from fetch_smollm2 import WITH_TOOLS

    return f"{WITH_TOOLS}{load_template('chatml')}{{%- endif %}}"


def test_without_tools_it_is_the_template_of_the_model(template):
    render = pytest.importorskip("transformers.utils.chat_template_utils").render_jinja_template
    own = load_template("chatml")
    for messages in ([USER], MESSAGES[:2], []):
        for prompt in (False, True):
            both = (render([messages], chat_template=one, add_generation_prompt=prompt)[0] for one in (template, own))
            assert len(set(map(tuple, both))) == 1


def test_with_tools_it_shows_them_and_writes_calls(template):
    assert has_tools(template)
    assert format_of(template).name == "hermes"
    special = ["<|im_start|>", "<|im_end|>"]
    tokenizer = BPETokenizer.train_from_iterator(["a"], 258, special_tokens=special)
    answer = {"role": "tool", "content": "2"}
    text = tokenizer.apply_chat_template([*MESSAGES, answer], template, variables={"tools": TOOLS}, tokenize=False)
    assert "Be kind." in text
    assert json.dumps(TOOLS[0]) in text
    assert '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>\n' in text
    assert text.endswith("<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>\n<|im_start|>assistant\n")
