import pytest
from support.ecosystems import ask_node, needs_node
from support.stranger import uses

from hf_sgpe import SGPETokenizerFast

pytestmark = [pytest.mark.slow, needs_node]


def test_ids_and_decoded_text_are_the_same(folders, folders_by_pattern, nasty, expected):
    every = folders | folders_by_pattern
    answers = ask_node(*({"ask": "encode", "folder": folder, "texts": nasty} for folder in every.values()))
    for (name, folder), answer in zip(every.items(), answers, strict=True):
        assert answer == [[ids, decoded] for ids, _, decoded in expected(folder, nasty)], name


def test_other_uses_give_the_same_results(folders, around, telling):
    every = folders | around
    answers = ask_node(*({"ask": "use", "folder": folder, "texts": telling} for folder in every.values()))
    for (name, folder), answer in zip(every.items(), answers, strict=True):
        ours = uses(SGPETokenizerFast.from_pretrained(folder), telling)
        if name in ("hybrid", "bpe"):
            del answer["pair"]  # it leaves out the second text, unless there is a template: a bug of transformers.js 4.3.1
        assert answer == {what: ours[what] for what in answer}, name
    assert answers[0]["chat"].startswith("<|im_start|>user\nශ්‍රී ලංකාව")
