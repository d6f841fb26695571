"""Strategies for texts with marks, for tests of `hf_sgpe.chat.marked_text`, and references to compare with."""

from hypothesis import strategies as st

from hf_sgpe.chat.marked_text import Written, marks_of


def pairs(text):
    return list(zip(str.__str__(text), marks_of(text), strict=True))


ALPHABET = "ab<|>  \n\r\x1cßİé中%"
plain_texts = st.text(st.sampled_from(ALPHABET), max_size=12)
short = st.text(st.sampled_from(ALPHABET), min_size=1, max_size=2)
most = st.sampled_from([-1, 0, 1, 2, 9])


@st.composite
def written_texts(draw, strategy=plain_texts):
    text = draw(strategy)
    # Marks that say which character it was, where there are no more than marks.
    return Written(text, bytes(draw(st.lists(st.integers(0, 255), min_size=len(text), max_size=len(text)))))


written = written_texts()
either = plain_texts | written


def check(made, twin):
    """Check that results, nested in lists or not, have the same characters and marks, and are marked texts."""
    if isinstance(made, (list, tuple)):
        assert len(made) == len(twin)
        for one, other in zip(made, twin, strict=True):
            check(one, other)
    else:
        assert isinstance(made, Written)
        assert pairs(made) == list(twin)
