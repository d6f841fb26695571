import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from support.calling import TOKENIZER
from support.conversations import bytes_with
from support.engines import Bigram, Parrot
from support.serving import serving

from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.requests import Served, read_chat

pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")
openai = pytest.importorskip("openai", reason="clients are of: pip install openai")

HELLO = [{"role": "user", "content": "Hi"}]
BODY = """{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}{{- '<|im_start|>assistant\\n' }}"""
TEMPLATES = {  # as those of Qwen 3, QwQ, and Qwen 3 with enable_thinking: false
    "before": BODY + "{% if false %}<think></think>{% endif %}",
    "inside": BODY + "{{ '<think>\\n' }}",
    "after": BODY + "{{ '<think>\\n\\n</think>\\n\\n' }}",
}
_, PLAIN = bytes_with(["</s>", "<|im_start|>", "<|im_end|>"], roles={"eos_token": "</s>"})  # the marks are no tokens
TOKENIZERS = {"tokens": TOKENIZER, "text": PLAIN}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}, "required": ["a"]}
RULE = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}


def served_with(place, marks="tokens", *, engine=None, answer=""):
    tokenizer = TOKENIZERS[marks]
    engine = engine or Parrot(tokenizer.encode(answer, allowed_special="all"))
    generator = TextGenerator(tokenizer, engine)
    return Served("m", generator, generator.chat(template=TEMPLATES[place]))


@pytest.mark.parametrize("marks", TOKENIZERS)
@pytest.mark.parametrize(
    ("place", "answer"), [("before", "<think>\nHm\n</think>\n\nWell."), ("inside", "Hm\n</think>\n\nWell.")]
)
def test_reasoning_has_a_field_of_its_own(place, answer, marks):
    served = served_with(place, marks, answer=answer)
    with serving(served) as running, openai.OpenAI(base_url=running.url, api_key="-") as client:
        (choice,) = client.chat.completions.create(model="m", messages=HELLO).choices
        assert (choice.message.reasoning_content, choice.message.content) == ("Hm", "Well.")
        events = client.chat.completions.create(model="m", messages=HELLO, stream=True)
        deltas = [event.choices[0].delta for event in events]
        assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "Hm"
        assert "".join(delta.content or "" for delta in deltas) == "Well."
        text = client.completions.create(model="m", prompt="a", max_tokens=50).choices[0].text
        assert text == answer  # a completion is the text as it is


@pytest.mark.parametrize("marks", TOKENIZERS)
def test_an_answer_ends_where_the_reasoning_ends_if_its_mark_is_a_stop_text(marks):
    served = served_with("inside", marks, answer="Hm</think>Well.")
    asked = read_chat({"messages": HELLO, "stop": "</think>"}, served)
    pieces = [*asked.reading(served.generator.pieces(asked.prompts[0], asked.options, marks=asked.marks), str)]
    assert ("".join(p.reasoning for p in pieces), "".join(p.text for p in pieces)) == ("Hm", "")
    assert pieces[-1].finish_reason == "stop"


def thinking_model(marks, share):
    """A random model that begins and ends its reasoning now and then."""
    tokenizer = TOKENIZERS[marks]
    table = np.random.default_rng(1).normal(0, 1, (len(tokenizer), len(tokenizer))).astype(np.float32)
    for mark in ("<think>", "</think>"):
        ids = tokenizer.encode(mark, allowed_special="all")
        table[:, ids[0]] += share
        for first, second in pairwise(ids):
            table[first, second] += 9
    return Bigram(len(tokenizer), table, stop_ids=[tokenizer.special_tokens["</s>"]])


@pytest.mark.parametrize("marks", TOKENIZERS)
@pytest.mark.parametrize("place", TEMPLATES)
def test_every_complete_answer_follows_the_rule_after_any_reasoning(place, marks):
    served = served_with(place, marks, engine=thinking_model(marks, 4))
    thoughts = 0
    for seed in range(40):
        asked = read_chat({"messages": HELLO, "response_format": RULE, "seed": seed, "max_tokens": 400}, served)
        pieces = served.generator.pieces(
            asked.prompts[0], asked.options, is_message=True, marks=asked.marks, watch=asked.watch(served.generator)
        )
        pieces = [*asked.reading(pieces, str)]
        text, reasoning = ("".join(getattr(piece, name) for piece in pieces) for name in ("text", "reasoning"))
        thoughts += bool(reasoning)
        if pieces[-1].finish_reason == "stop":
            record = json.loads(text)
            assert list(record) == ["a"] and len(record["a"]) <= 3
            assert text[0] == "{"
    assert thoughts > {"before": 3, "inside": 20, "after": -1}[place]
    assert place != "after" or not thoughts


def test_a_closing_mark_that_is_text_ends_with_a_token():
    _, merged = bytes_with(["</s>", "<|im_start|>", "<|im_end|>"], roles={"eos_token": "</s>"})
    vocab = {**merged.vocab, b">{": 300, b"</think>{": 301, b"think>\n": 302, b"nk>": 303}
    tokenizer = replace_vocab(merged, vocab)
    engine = Bigram(304, stop_ids=[tokenizer.special_tokens["</s>"]])
    generator = TextGenerator(tokenizer, engine)
    assert generator.constrainer.tokens_across(b"</think>") == (
        (301,),
        (),
        (302,),
        (),
        (),
        (),
        (),
        (300,),
    )
    served = Served("m", generator, generator.chat(template=TEMPLATES["inside"]))
    asked = read_chat({"messages": HELLO, "response_format": RULE}, served)
    watch, zeros = asked.watch(generator), np.zeros(304, np.float32)
    last, forbidden = None, []
    for id in tokenizer.encode("a</think>"):
        logits = watch(last, zeros)
        forbidden.append({id for id in (300, 301, 302, 303) if np.isneginf(logits[id])})
        last = id
    assert forbidden[0] == {301} and forbidden[3] == {301, 302} and forbidden[-1] == {300, 301}
    after = watch(last, zeros)
    assert [id for id in range(304) if not np.isneginf(after[id])] == tokenizer.encode("{")


def replace_vocab(tokenizer, vocab):
    data = replace(tokenizer.data, vocab=vocab)
    return type(tokenizer)(data.vocab, [], special_tokens=tokenizer.special_tokens, roles=tokenizer.roles)


def test_an_answer_continues_its_reasoning_or_its_text():
    served = served_with("before", answer=" more</think>\n\nWell.")
    for begun, expected in (("<think>Hm", ("more", "Well.")), ("We", ("", " more</think>\n\nWell."))):
        messages = [*HELLO, {"role": "assistant", "content": [{"type": "text", "text": begun}]}]
        asked = read_chat({"messages": messages, "continue_final_message": True}, served)
        pieces = [*asked.reading(served.generator.pieces(asked.prompts[0], marks=asked.marks), str)]
        assert ("".join(p.reasoning for p in pieces), "".join(p.text for p in pieces)) == expected
