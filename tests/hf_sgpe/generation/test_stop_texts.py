from hypothesis import given, strategies as st

from hf_sgpe.generation.stop_texts import until_stop


def first_end(text, stops):
    """Return the place of the cut: try every beginning of the text, and take the first that completes a stop text."""
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return end - max(map(len, complete))
    return len(text)


@given(st.text("ab<", max_size=30), st.lists(st.text("ab<", min_size=1, max_size=5), max_size=3), st.data())
def test_text_ends_where_a_stop_is_first_complete(text, stops, data):
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:stop] for start, stop in zip([0, *places], [*places, len(text)], strict=True)]
    found = list(until_stop(pieces, stops))
    assert "".join(found) == text[: first_end(text, stops)]
    assert all(found)


@given(st.permutations(["<end>", "end>", "d>", ">"]))
def test_the_longest_of_stop_texts_that_end_together_counts(stops):
    assert "".join(until_stop(["one <e", "nd> two"], stops)) == "one "
    assert "".join(until_stop(["one end", "> two"], stops)) == "one "


def test_text_that_begins_no_stop_text_comes_at_once():
    came = []

    def pieces():
        for piece in ("one ", "<e", "n", "d of", "it"):
            yield piece
            came.append(piece)

    stream = until_stop(pieces(), ["<end>"])
    assert next(stream) == "one "
    assert came == []
    assert next(stream) == "<end of"
    assert list(stream) == ["it"]


def test_long_stops_that_repeat_themselves_take_no_longer():
    stop = "a" * 20_000 + "b"
    assert "".join(until_stop(["a" * 50] * 2000, [stop])) == "a" * 100_000
