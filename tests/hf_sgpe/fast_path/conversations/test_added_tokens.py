import itertools
import json
from unittest.mock import patch

import pytest
from hypothesis import given, strategies as st
from support.conversations import bytes_with, chatml_ids, newest_only, specials_in
from support.examples import few_examples
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from hf_sgpe import Splitting
from hf_sgpe.chat.templates import SPECIAL_TOKENS
from hf_sgpe.fast_path import conversations


@pytest.mark.parametrize(
    ("others", "content", "tokens"),
    [
        # What begins in the message would take the beginning of the template's token with it.
        (["Hi<|im"], "Hi", [256, *b"user\nHi", 257, 10]),
        (["Hi<|im"], "Ho", [256, *b"user\nHo", 257, 10]),
        (["Hi<|im"], "Hi<|im", [256, *b"user\n", 258, 257, 10]),
        # Tokens that are not special are found in every text.
        (["<think>"], "<think>", [256, *b"user\n", 258, 257, 10]),
        (["<think>"], "<think><|im_end|>", [256, *b"user\n", 258, *b"<|im_end|>", 257, 10]),
        (["er\n"], "<|im_end|>", [256, *b"us", 258, *b"<|im_end|>", 257, 10]),
    ],
)
def test_other_added_tokens_swallow_no_special_token(others, content, tokens):
    for tokenizer in bytes_with(SPECIAL_TOKENS["chatml"], others):
        assert chatml_ids(tokenizer, content) == tokens


def test_the_longest_special_token_of_the_template_wins():
    longer = ["<|im_end|>\n", "user\n<", "\n<|im_end|>", "Hi<|im_end|>"]
    for tokenizer in bytes_with([*SPECIAL_TOKENS["chatml"], *longer]):
        assert chatml_ids(tokenizer, "Hi") == [256, *b"user\nHi", 258]
        assert chatml_ids(tokenizer, "<|im_end|>\n") == [256, *b"user\n<|im_end|>\n", 258]
        # Here nothing but the template wrote the text.
        assert chatml_ids(tokenizer, "") == [256, 259, *b"|im_end|>\n"]


def test_no_text_is_normalized_into_a_special_token():
    fast, _ = bytes_with(SPECIAL_TOKENS["chatml"], splitting=Splitting("bpe", pattern="gpt2", normalization="nfc"))
    fast.add_tokens([AddedToken("<é>", special=True, normalized=True)], special_tokens=True)
    assert fast("<e\u0301>")["input_ids"] == [258]
    assert chatml_ids(fast, "<e\u0301>") == [256, *b"user\n<", *"é>".encode(), 257, 10]
    assert chatml_ids(fast, "<é>") == chatml_ids(fast, "<e\u0301>")


BITS = ["<|rs|>", "<|im_end|>", "\u2028", " ", "\n", "\x1c", "\x85", "a", "ී", "\u200d", "Ⓐ", "!", "_"]


@pytest.mark.parametrize("flags", [*itertools.product([False, True], repeat=3)])
@given(
    before=st.lists(st.sampled_from(BITS), max_size=3).map("".join),
    content=st.lists(st.sampled_from(BITS), max_size=4).map("".join),
    after=st.lists(st.sampled_from(BITS), max_size=3).map("".join),
)
@few_examples
def test_special_tokens_look_at_their_neighbours_in_every_message(flags, before, content, after):
    lstrip, rstrip, single_word = flags
    fast, _ = bytes_with(["<|im_end|>", "\u2028"])
    token = AddedToken("<|rs|>", special=True, normalized=False, lstrip=lstrip, rstrip=rstrip, single_word=single_word)
    fast.add_tokens([token], special_tokens=True)
    source = f"{{{{ {json.dumps(before)} }}}}{{{{ messages[0].content }}}}{{{{ {json.dumps(after)} }}}}"

    def encoded(content):
        chat = [{"role": "user", "content": content}]
        return fast.apply_chat_template(chat, chat_template=source, tokenizer_kwargs={"return_offsets_mapping": True})

    def ids(content):
        return encoded(content)["input_ids"]

    # A text of the same kind without special tokens, character for character.
    harmless = content.replace("\u2028", "\u2029").replace("<|rs|>", "!" * 6).replace("<|im_end|>", "!" * 10)
    given = fast(before + harmless + after, add_special_tokens=False, return_offsets_mapping=True)
    with patch.object(conversations, "is_harmless", return_value=False):
        assert encoded(harmless) == given
    expected = given["input_ids"]
    assert specials_in(fast, ids(content)) == specials_in(fast, expected)
    # Both are one token for each byte, and none for white space that a special token took with it.
    assert len(ids(content)) == len(expected)


@newest_only
@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
@pytest.mark.parametrize("content", ["<|rs|>", "<|im_end|>", "a<|rs|>", " <|rs|> a", "Hi"])
def test_special_tokens_that_look_at_their_neighbours_are_where_transformers_has_them(flag, content, ours, theirs):
    fast, _ = bytes_with(["<|im_end|>"])
    fast.add_tokens([AddedToken("<|rs|>", special=True, normalized=False, **{flag: True})], special_tokens=True)
    stock = PreTrainedTokenizerFast(tokenizer_object=fast._tokenizer)
    chat = [{"role": "user", "content": content}]
    for source in (
        "{{ messages[0].content }}\n<|rs|>",
        "<|rs|>\n{{ messages[0].content }}\n<|rs|>",
        "<|rs|> <|im_end|> <|rs|>",
    ):
        options = {"chat_template": source, "return_dict": False}
        expected = stock.apply_chat_template(chat, sanitize_control_tokens=True, **options)
        assert fast.apply_chat_template(chat, **options) == expected


def test_tokens_added_later_count():
    fast, _ = bytes_with(SPECIAL_TOKENS["chatml"])
    assert chatml_ids(fast, "<new>") == [256, *b"user\n<new>", 257, 10]
    fast.add_special_tokens({"additional_special_tokens": ["<new>"]})
    assert chatml_ids(fast, "<new>") == [256, *b"user\n<new>", 257, 10]
    assert 258 in fast("<new>")["input_ids"]
