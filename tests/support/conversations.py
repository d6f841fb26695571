"""Conversations and templates for tests of the chat templates of SGPETokenizerFast.

The templates in ``styles/`` behave like those of published models.
"""

import json
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import pytest
import transformers
from hypothesis import strategies as st
from packaging.version import Version

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from hf_sgpe.chat.templates import SPECIAL_TOKENS, load_template
from support.small_tokenizers import BYTES
from support.texts import nasty

# Older versions do less to a conversation before the template sees it, and ours makes up for it.
IS_NEWEST = Version(transformers.__version__) >= Version("5.23")
newest_only = pytest.mark.skipif(not IS_NEWEST, reason="older transformers do not do this")

CHATML = load_template("chatml")
STYLES = {
    **{file.stem: file.read_text(encoding="utf-8") for file in sorted(Path(__file__).with_name("styles").iterdir())},
    **{name: load_template(name) for name in SPECIAL_TOKENS},
}

TEMPLATES_TOKENS = [*SPECIAL_TOKENS["llama3"], *SPECIAL_TOKENS["chatml"]]
ENDS = ["<|endoftext|>", "[INST]", "</s>", " <x>"]
SPECIAL = [
    "<s>",
    "</s>",
    "<pad>",
    *SPECIAL_TOKENS["llama3"],
    "<|eom_id|>",
    "<|python_tag|>",
    *SPECIAL_TOKENS["chatml"],
    "<|image_pad|>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "<start_of_turn>",
    "<end_of_turn>",
    *(f"<|{role}|>" for role in ("system", "user", "assistant", "tool", "/tool", "end")),
]
OTHERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]


def saved_tokenizer(folder, sample, special=SPECIAL, others=OTHERS):
    trained = BPETokenizer.train_from_iterator(sample.values(), 700, special_tokens=special, normalization="nfc")
    tokenizer = BPETokenizer(
        trained.vocab,
        trained.merges,
        special_tokens=trained.special_tokens,
        added_tokens={token: 700 + place for place, token in enumerate(others)},
        splitting=trained.splitting,
    )
    tokenizer.save(folder)
    return folder


def bytes_with(special, others=(), **more):
    """Return a byte-level tokenizer with special and other added tokens, as both classes."""
    ids = {token: 256 + place for place, token in enumerate([*special, *others])}
    added = {token: ids[token] for token in others}
    tokenizer = BPETokenizer(BYTES, [], special_tokens={token: ids[token] for token in special}, added_tokens=added, **more)
    return SGPETokenizerFast.from_bpe(tokenizer), tokenizer


def chatml_ids(tokenizer, content):
    chat = [{"role": "user", "content": content}]
    if isinstance(tokenizer, BPETokenizer):
        return tokenizer.apply_chat_template(chat, "chatml", add_generation_prompt=False)
    return tokenizer.apply_chat_template(chat, chat_template="chatml", return_dict=False)


def listed(values):
    """Convert arrays and tensors to lists, including arrays whose rows differ in length."""
    values = values.tolist() if hasattr(values, "tolist") else values
    return [*map(listed, values)] if isinstance(values, list) else values


def fields(tokenizer, chat, **options):
    """Return all fields of a call's result, or the name of its error."""
    try:
        result = tokenizer.apply_chat_template(chat, **options)
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # the backend's
            raise
        return type(error).__name__
    if not hasattr(result, "keys"):
        return listed(result)
    return {name: (type(column).__name__, listed(column)) for name, column in result.items()}, [
        json.loads(encoding.__getstate__()) for encoding in result.encodings or []
    ]


def specials_in(tokenizer, ids):
    if isinstance(tokenizer, BPETokenizer):
        special = set(tokenizer.special_tokens.values())
    else:
        special = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    return [id for id in ids if id in special]


def composed(text):
    return unicodedata.normalize("NFC", text)


HELLO = {"role": "user", "content": "Hi"}


def said(content, role="user", **more):
    return [{"role": role, "content": content, **more}]


def answer_with(**fields):
    return [HELLO, {"role": "assistant", "content": "Yes", **fields}]


def get_weather(place: str, unit: str = "celsius", days: list[int] | None = None) -> str:
    """
    Looks up the weather; <b>quickly</b>.

    Args:
        place: A town, as in "Kandy".
        unit: Of the temperature. (choices: ["celsius", "fahrenheit"])
        days: Which ones.

    Returns:
        What it will be like.
    """
    raise NotImplementedError


SCHEMA = {
    "type": "function",
    "function": {
        "name": "ශ්‍රී_search",
        "description": 'Finds "things" & <tags>\nin text',
        "parameters": {"type": "object", "properties": {"q": {"type": "string", "enum": ["a", "é"]}}, "required": ["q"]},
    },
}


def function_with(text):
    def tool(place: str) -> str:
        raise NotImplementedError

    text = text.replace("\n", " ")
    tool.__doc__ = f"Looks up {text} things.\n\nArgs:\n    place: A {text} place. (choices: [{json.dumps(text)}])\n"
    return tool


contents = nasty.filter(lambda text: not any(token in text or token[:1] + token[1:2] in text for token in SPECIAL))
contents |= st.sampled_from(
    ["", " ", "a\n", "<think>\nhm\n</think>\n\nyes", "{{ 7 * 7 }}", "{% raw %}", '"\\', "<|", "t<", "<"]
)
blocks = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": contents}), min_size=1, max_size=2)
values = st.none() | st.booleans() | st.integers(-3, 3) | contents | st.lists(contents, max_size=2)
calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.just("abc123def"),
            "type": st.just("function"),
            "function": st.fixed_dictionaries(
                {"name": st.sampled_from(["get_weather", "x"]), "arguments": st.dictionaries(contents, values, max_size=2)}
            ),
        }
    ),
    min_size=1,
    max_size=2,
)
messages = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": contents}),
    st.fixed_dictionaries({"role": st.just("user"), "content": contents | blocks}, optional={"name": st.none() | contents}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": contents},
        optional={"reasoning_content": contents, "thinking": st.none() | contents, "tool_calls": st.none() | calls},
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": contents | st.dictionaries(contents, values, max_size=1)}),
)
ordinary = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": contents}), min_size=1, max_size=5
).map(lambda chat: [{**message, "role": ("user", "assistant")[place % 2]} for place, message in enumerate(chat)])
chats = ordinary | st.lists(messages, min_size=1, max_size=4)
TENSORS = ["np", "pt"] if find_spec("torch") else ["np"]

options_of_templates = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.sampled_from([None, [get_weather], [SCHEMA, get_weather]]),
        "documents": st.none() | st.lists(st.fixed_dictionaries({"title": contents, "text": contents}), max_size=2),
        "add_generation_prompt": st.booleans(),
        "continue_final_message": st.sampled_from(
            [False, False, True, "content", *(["reasoning_content", "name"] if IS_NEWEST else [])]
        ),
        "enable_thinking": st.booleans(),
        "date_string": contents,
        "bos_token": st.sampled_from(["", "<s>"]),
        "source": st.just("a name of our own code's"),
    },
)
options_of_calls = st.fixed_dictionaries(
    {},
    optional={
        "padding": st.sampled_from([True, False, "max_length"]),
        "truncation": st.booleans(),
        "max_length": st.sampled_from([7, 40]),
        "return_tensors": st.none() | st.sampled_from(TENSORS),
        "return_dict": st.booleans(),
    },
)
tokenizer_kwargs = st.fixed_dictionaries(
    {},
    optional={
        "return_offsets_mapping": st.booleans(),
        "return_special_tokens_mask": st.booleans(),
        "return_attention_mask": st.booleans(),
        "return_token_type_ids": st.booleans(),
        "return_length": st.booleans(),
        "return_overflowing_tokens": st.booleans(),
        "stride": st.sampled_from([0, 2]),
        "pad_to_multiple_of": st.sampled_from([None, 8]),
        "padding_side": st.sampled_from([None, "left", "right"]),
        "split_special_tokens": st.booleans(),
        "verbose": st.booleans(),
    },
)
