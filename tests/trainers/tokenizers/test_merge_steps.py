from itertools import pairwise

import pytest
import regex
from hypothesis import given, strategies as st
from support.corpora import data_file
from support.naive import learn_by_recount

from hf_sgpe.bpe.trainer import TIE_BREAKS
from trainers import SAMPLE, TrainingConfig, WordCounts, merge_steps

NOTEBOOK = " low low low low low lower lower widest widest widest newest newest newest newest newest newest"


@pytest.mark.data
def test_the_notebooks_table_step_by_step():
    printed = data_file("seeds/bpe_motivation_notebook.txt").read_text(encoding="utf-8")
    table = printed[printed.rindex("print(i, '->', bp)") :].split("\n", 2)[2]
    steps = list(merge_steps(NOTEBOOK, 10, tie_break="greatest-pair-id"))
    # The document breaks off in its sixth step.
    assert "\n".join(map(str, steps)).startswith(table)
    assert table.count("top pair") == 6
    tokens = regex.findall(r"^(\d+) -> b'(.*)'$", printed, regex.MULTILINE)
    assert [(str(step.id), b"".join(step.pair).decode()) for step in steps[:8]] == tokens


def test_the_notebooks_merges():
    steps = list(merge_steps(NOTEBOOK, 10, tie_break="greatest-pair-id"))
    assert [(step.pair, step.count) for step in steps] == [
        ((b"s", b"t"), 9),
        ((b"e", b"st"), 9),
        ((b"o", b"w"), 7),
        ((b"l", b"ow"), 7),
        ((b" ", b"low"), 7),
        ((b"w", b"est"), 6),
        ((b"n", b"e"), 6),
        ((b"ne", b"west"), 6),
        ((b" ", b"newest"), 6),
        ((b"w", b"i"), 3),  # w has the greatest id of those that are left
    ]
    assert str(steps[3]).splitlines() == [
        "[b' ', b'w', b'i', b'd', b'est'] : 3",
        "[b' ', b'n', b'e', b'w', b'est'] : 6",
        "[b' ', b'l', b'ow'] : 5",
        "[b' ', b'l', b'ow', b'e', b'r'] : 2",
        "top pair b'l' , b'ow' -> 7",
    ]
    assert steps[-1].after == {
        (b" low",): 5,
        (b" low", b"e", b"r"): 2,
        (b" newest",): 6,
        (b" ", b"wi", b"d", b"est"): 3,
    }


@given(st.text("ab c", max_size=30), st.integers(0, 12), st.sampled_from(TIE_BREAKS))
def test_steps_are_those_of_a_naive_recount(text, num_merges, tie_break):
    steps = list(merge_steps(text, num_merges, tie_break=tie_break))
    before = steps[0].before if steps else {}
    byte_words = [[piece[0] for piece in word] for word in before]
    merges = learn_by_recount(
        byte_words,
        list(before.values()),
        vocabulary=[bytes([byte]) for byte in range(256)],
        num_merges=num_merges,
        tie_break=tie_break,
    )
    assert len(steps) == len(merges)
    for step, following in pairwise(steps):
        assert step.after == following.before
    for step in steps:
        words = step.before.items()
        assert step.count == sum(count * sum(pair == step.pair for pair in pairwise(word)) for word, count in words)
        assert {b"".join(word): count for word, count in step.after.items()} == {
            b"".join(word): count for word, count in step.before.items()
        }


def test_counted_words_have_steps_too():
    config = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2")
    text = (SAMPLE / "en.txt").read_text(encoding="utf-8")
    by_counts = [step.pair for step in merge_steps(WordCounts.from_texts([text], config), 20)]
    assert by_counts == [step.pair for step in merge_steps(text, 20)]
