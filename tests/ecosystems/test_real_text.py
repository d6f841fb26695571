"""What is saved, on a thousand lines in each of 26 languages; on some of them in other ecosystems.

Transformers 4 runs the same `tokenizers` as transformers 5. JavaScript has code of its own.
"""

import sys
from functools import partial

import pytest
from support.corpora import HELD_OUT, held_out
from support.ecosystems import ask, ask_node, every_transformers, needs_node
from support.stranger import digest

pytestmark = [pytest.mark.slow, pytest.mark.text]


@pytest.fixture(scope="module")
def lines(folders):
    """Name of a tokenizer → the lines that it is tried on: all with the default recipe, every tenth with the others."""
    every = [line for language in HELD_OUT for line in held_out(language)]
    return {name: every if name == "hybrid" else every[::10] for name in folders}


@pytest.fixture(scope="module")
def digests(folders, lines, expected):
    """For each tokenizer, two digests a line: with offsets and without."""
    return {
        name: [
            (digest([ids, spans, text]), digest([ids, text])) for ids, spans, text in expected(folders[name], lines[name])
        ]
        for name in folders
    }


def check_answers(asked, lines, digests, folders, *, step, what):
    questions = [
        {"ask": "encode", "folder": folders[name], "texts": every[::step], "short": True} for name, every in lines.items()
    ]
    for name, answer in zip(lines, asked(*questions), strict=True):
        rows = zip(lines[name][::step], answer, digests[name][::step], strict=True)
        assert [line for line, theirs, ours in rows if theirs != ours[what]] == [], name


@every_transformers
def test_ids_offsets_and_decoded_text_are_the_same(folders, lines, digests, python):
    step = 1 if python == sys.executable else 10
    check_answers(partial(ask, python), lines, digests, folders, step=step, what=0)


@needs_node
def test_ids_and_decoded_text_are_the_same_in_javascript(folders, lines, digests):
    check_answers(ask_node, lines, digests, folders, step=3, what=1)
