"""Texts with marks, against `str` (the text is always what str makes) and against a slow twin (the marks go with it)."""

import copy
import json
import pickle
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_sgpe.chat.written import (
    ANSWER,
    MESSAGE,
    TEMPLATE,
    Finder,
    Written,
    as_answer,
    by_message,
    by_template,
    follow,
    forged,
    is_plain,
    join,
    marks_of,
    parts,
    spelled_in_json,
    text_of,
)

# ---------------------------------------------------------------- the twin: a list of characters, each with its mark


def pairs(text):
    return list(zip(str.__str__(text), marks_of(text), strict=True))


def text_in(characters):
    return "".join(character for character, _ in characters)


def starts_with(characters, start):
    return text_in(characters[: len(start)]) == start


def twin_lstrip(characters, among):
    while characters and (characters[0][0].isspace() if among is None else characters[0][0] in among):
        characters = characters[1:]
    return characters


def twin_rstrip(characters, among):
    return twin_lstrip(characters[::-1], among)[::-1]


def twin_split(characters, separator, most):
    if separator is None:
        return twin_split_at_white_space(characters, most)
    pieces = [[]]
    while characters:
        if len(pieces) - 1 != most and starts_with(characters, separator):
            pieces.append([])
            characters = characters[len(separator) :]
        else:
            pieces[-1].append(characters[0])
            characters = characters[1:]
    return pieces


def twin_split_at_white_space(characters, most):
    pieces = []
    while characters := twin_lstrip(characters, None):
        size = next((place for place, (one, _) in enumerate(characters) if one.isspace()), len(characters))
        if len(pieces) == most:
            size = len(characters)
        pieces.append(characters[:size])
        characters = characters[size:]
    return pieces


def twin_rsplit(characters, separator, most):
    backwards = twin_split(characters[::-1], separator and separator[::-1], most)
    return [piece[::-1] for piece in backwards[::-1]]


def twin_join(between, texts):
    return list(chain.from_iterable([piece for text in texts for piece in (between, text)][1:]))


def twin_lines(characters, keep_ends):
    lines = []
    for line in text_in(characters).splitlines(keepends=True):
        lines.append(characters[: len(line)] if keep_ends else characters[: len(line.splitlines()[0])])
        characters = characters[len(line) :]
    return lines


def twin_partition(characters, separator):
    before, *after = twin_split(characters, separator, 1)
    if not after:
        return before, [], []
    size = len(before)
    return before, characters[size : size + len(separator)], after[0]


def twin_rpartition(characters, separator):
    return tuple(part[::-1] for part in twin_partition(characters[::-1], separator[::-1])[::-1])


def twin_change(characters, method):
    made = getattr(text_in(characters), method)()
    return list(zip(made, (mark for _, mark in characters), strict=True)) if len(made) == len(characters) else unmarked(made)


def unmarked(text):
    return [(character, 0) for character in text]


def twin_fill(characters, values):
    pieces = twin_split(characters, "%s", -1)
    return twin_join([], [piece for pair in zip(pieces, [*values, []], strict=True) for piece in pair])


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
    """Nested in lists or not: the same characters with the same marks, and a text that keeps them."""
    if isinstance(made, (list, tuple)):
        assert len(made) == len(twin)
        for one, other in zip(made, twin, strict=True):
            check(one, other)
    else:
        assert isinstance(made, Written)
        assert pairs(made) == list(twin)


@given(text=written, other=either, times=st.integers(-1, 3))
def test_putting_together(text, other, times):
    assert text + other == str.__str__(text) + other and other + text == other + str.__str__(text)
    check(text + other, pairs(text) + pairs(other))
    check(other + text, pairs(other) + pairs(text))
    check(text * times, pairs(text) * times)
    check(times * text, pairs(text) * times)


@given(between=written, texts=st.lists(either, max_size=4))
def test_joining(between, texts):
    assert between.join(texts) == str.__str__(between).join(texts)
    check(between.join(texts), twin_join(pairs(between), map(pairs, texts)))
    check(between.join(iter(texts)), twin_join(pairs(between), map(pairs, texts)))
    check(join(iter(texts)), chain.from_iterable(map(pairs, texts)))


places = st.none() | st.integers(-14, 14)


@given(text=written, place=st.slices(12) | st.builds(slice, places, places, st.sampled_from([None, 1, -1, 2])))
def test_taking_apart_by_place(text, place):
    check(text[place], pairs(text)[place])
    check(list(text), [[pair] for pair in pairs(text)])
    assert "".join(text) == text
    for index in (0, -1, 5, -13):
        try:
            expected = pairs(text)[index]
        except IndexError:
            with pytest.raises(IndexError):
                text[index]
        else:
            check(text[index], [expected])


@given(text=written, among=st.none() | plain_texts)
def test_stripping(text, among):
    for name in ("strip", "lstrip", "rstrip"):
        assert getattr(text, name)(among) == getattr(str.__str__(text), name)(among)
    check(text.lstrip(among), twin_lstrip(pairs(text), among))
    check(text.rstrip(among), twin_rstrip(pairs(text), among))
    check(text.strip(among), twin_lstrip(twin_rstrip(pairs(text), among), among))
    assert text.strip() == str.__str__(text).strip()


@given(text=written, part=plain_texts)
def test_removing_what_it_begins_and_ends_with(text, part):
    whole = pairs(text)
    check(text.removeprefix(part), whole[len(part) :] if starts_with(whole, part) else whole)
    check(text.removesuffix(part), whole[: -len(part)] if part and text.endswith(part) else whole)
    assert text.removesuffix(part) == str.__str__(text).removesuffix(part)


@given(text=written, separator=st.none() | short, most=most)
@settings(max_examples=300)
def test_splitting(text, separator, most):
    assert text.split(separator, most) == str.__str__(text).split(separator, most)
    assert text.rsplit(separator, most) == str.__str__(text).rsplit(separator, most)
    check(text.split(separator, most), twin_split(pairs(text), separator, most))
    check(text.rsplit(sep=separator, maxsplit=most), twin_rsplit(pairs(text), separator, most))
    assert text.split() == str.__str__(text).split()


@given(text=written, separator=short, keep=st.booleans())
def test_splitting_in_lines_and_in_three(text, separator, keep):
    assert text.splitlines(keep) == str.__str__(text).splitlines(keep)
    check(text.splitlines(keepends=keep), twin_lines(pairs(text), keep))
    assert text.partition(separator) == str.__str__(text).partition(separator)
    assert text.rpartition(separator) == str.__str__(text).rpartition(separator)
    check(text.partition(separator), twin_partition(pairs(text), separator))
    check(text.rpartition(separator), twin_rpartition(pairs(text), separator))


@given(text=written, old=short | st.just(""), new=either, most=most)
def test_replacing(text, old, new, most):
    assert text.replace(old, new, most) == str.__str__(text).replace(old, new, most)
    assert text.replace(old, new) == str.__str__(text).replace(old, new)
    if old:
        check(text.replace(old, new, most), twin_join(pairs(new), twin_split(pairs(text), old, most)))
    else:
        check(text.replace(old, new, most), unmarked(text.replace(old, new, most)))


@pytest.mark.parametrize("method", ["upper", "lower", "capitalize", "title", "swapcase"])
@given(text=written_texts(st.text(max_size=12)) | written)
def test_changing_case(method, text):
    assert getattr(text, method)() == getattr(str.__str__(text), method)()
    check(getattr(text, method)(), twin_change(pairs(text), method))


def test_no_change_of_case_makes_fewer_characters():
    for method in (str.upper, str.lower, str.title, str.swapcase, str.capitalize):
        assert all(method(chr(code)) for code in range(0x110000))


@given(
    form=written_texts(st.lists(st.sampled_from(["%s", "%", "a", "%d", "%%", "%5s", "%(a)s"])).map("".join)), data=st.data()
)
@settings(max_examples=400)
def test_filling_in(form, data):
    values = st.lists(either | st.just(3), max_size=4).map(tuple) | either | st.sampled_from([3, None, {"a": 1}, [1], {}])
    values = data.draw(values)
    try:
        expected = str.__str__(form) % values
    except Exception as error:
        with pytest.raises(type(error)):
            form % values
        return
    assert form % values == expected
    each = values if isinstance(values, tuple) else (values,)
    pieces = form.split("%s")
    if len(pieces) == len(each) + 1 and not any("%" in piece for piece in pieces):
        check(form % values, twin_fill(pairs(form), [pairs(text_of(value)) for value in each]))
    else:
        check(form % values, unmarked(expected))


@given(text=written, other=either)
def test_in_all_else_it_is_a_str(text, other):
    same = str.__str__(text)
    assert type(same) is str
    assert (text == other, text < other, hash(text), len(text)) == (same == other, same < other, hash(same), len(same))
    assert (other in text, text.find(other), text.count(other)) == (other in same, same.find(other), same.count(other))
    assert (text.startswith(other), text.isspace(), text.isupper()) == (
        same.startswith(other),
        same.isspace(),
        same.isupper(),
    )
    assert (repr(text), f"{text}", f"{text!r:>20}", text.encode()) == (repr(same), same, f"{same!r:>20}", same.encode())
    assert (text.center(20), text.zfill(9), text.casefold()) == (same.center(20), same.zfill(9), same.casefold())
    assert {text: 1}[same] == 1
    assert str(text) is text
    for copied in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        check(copied, pairs(text))


@pytest.mark.parametrize(
    "use", [lambda text: text + 1, lambda text: 1 + text, lambda text: text.join([1]), lambda text: text["a"]]
)
def test_what_str_refuses_is_refused(use):
    with pytest.raises(TypeError):
        use("a")
    with pytest.raises(TypeError):
        use(by_template("a"))


# ---------------------------------------------------------------- marks


def test_marks_say_who_wrote_it():
    assert marks_of("ab") == bytes(2)
    assert marks_of(by_template("ab")) == bytes([TEMPLATE] * 2)
    assert marks_of(by_message(by_template("ab"))) == bytes([MESSAGE] * 2)
    assert marks_of(as_answer(by_template("a") + "b" + by_message("c"))) == bytes(
        [TEMPLATE | ANSWER, ANSWER, MESSAGE | ANSWER]
    )
    assert marks_of(as_answer(as_answer("a"))) == bytes([ANSWER])


def test_what_python_spells_out_is_a_messages():
    assert text_of({"a": by_template("b")}) == "{'a': 'b'}"
    assert set(marks_of(text_of([by_template("b"), by_message("a")]))) == {MESSAGE}
    assert set(marks_of(text_of([by_template("b"), 1]))) == {TEMPLATE}
    assert set(marks_of(text_of({by_template("b"): ["a"]}))) == set(marks_of(text_of([1]))) == {MESSAGE}
    assert marks_of(text_of(5)) == marks_of(text_of(None)[:1]) == bytes(1)
    assert marks_of(text_of(by_template("b"))) == bytes([TEMPLATE])


@pytest.mark.parametrize(
    ("made", "sources", "marks"),
    [
        ("ab", [by_message("a"), 3], [MESSAGE, MESSAGE]),
        ("ab", [as_answer(by_message("a"))], [MESSAGE, MESSAGE]),
        (as_answer("ab"), [by_message("a"), by_message("b")], [MESSAGE | ANSWER] * 2),
        (by_template("a") + "b", [by_message("a")], [TEMPLATE, MESSAGE]),
        ("ab", [by_message("a"), by_template("b")], [0, 0]),
        ("ab", [by_message("a") + by_template("b")], [0, 0]),
        ("ab", [by_message("a"), "b"], [0, 0]),
        ("ab", [3], [0, 0]),
        (["ab"], [by_message("a")], None),
        (3, [by_message("a")], None),
    ],
)
def test_what_was_made_of_nothing_but_messages_is_a_messages(made, sources, marks):
    followed = follow(made, iter(sources))
    assert followed == made
    assert followed is made if marks is None else list(marks_of(followed)) == marks


# ---------------------------------------------------------------- special tokens

SPECIAL = ["<s>", "<s>>", "a<", "中", "\n\nHuman:"]
pieces = st.sampled_from(["<s>", "<s", ">", "<", "s", "a", "中", "\n", "Human:", "a<s>>", "x<"])
marked = st.builds(lambda text, mark: Written(text, bytes([mark]) * len(text)), pieces, st.sampled_from([0, 1, 2, 3, 4, 6]))
mixtures = st.lists(marked, max_size=8).map(join)


def twin_spans(text, start, stop):
    """Of the leftmost the longest, one place after the other; `x<` is an added token, too, but not special."""
    place = start
    while place < stop:
        fitting = [token for token in [*SPECIAL, "x<"] if text[place:stop].startswith(token)]
        if not fitting:
            place += 1
            continue
        token = max(fitting, key=len)
        if token != "x<":
            yield place, place + len(token)
        place += len(token)


@given(text=mixtures)
@settings(max_examples=500)
def test_only_what_the_template_wrote_is_special(text):
    finder = Finder(SPECIAL, ["x<"])
    found = list(twin_spans(text, 0, len(text)))
    assert list(finder.spans(text)) == found
    own, start = [], 0
    marks = [mark & TEMPLATE for mark in marks_of(text)]
    while start < len(text):
        stop = next((place for place in range(start, len(text)) if marks[place] != marks[start]), len(text))
        own += twin_spans(text, start, stop) if marks[start] else []
        start = stop
    cut = list(parts(text, finder))
    assert "".join(part.text for part in cut) == text
    assert all(type(part.text) is str for part in cut)
    assert [part.text for part in cut if part.is_special] == [text[start:stop] for start, stop in own]
    assert is_plain(text, finder) == (found == own)
    assert forged(text, finder) == [text[start:stop] for start, stop in found if (start, stop) not in own]


def test_a_tokenizer_without_special_tokens_finds_none():
    text = by_template("<s>")
    assert list(parts(text, Finder([]))) == [("<s>", False)]
    assert is_plain(text, Finder([], ["<s>"]))


def test_time_grows_with_the_text_alone():
    import time

    def seconds(count):
        text = join([by_template("<s>"), by_message("a <s> b\n")] * count)
        start = time.process_time()
        assert len(list(parts(text, Finder(["<s>"])))) == 2 * count + 1
        assert len(forged(text, Finder(["<s>"]))) == count
        assert len(text.split("a")) == len(text.splitlines()) + 1 == count + 1
        text.replace("a", by_template("b")).strip().upper()
        return time.process_time() - start

    seconds(100)
    assert seconds(40_000) < 25 * max(seconds(4_000), 0.005)


# ---------------------------------------------------------------- JSON

TEXTS = st.lists(
    st.tuples(st.text(st.sampled_from('a<|"\\\n\u200dශ😀'), max_size=4), st.sampled_from([by_template, by_message])),
    max_size=3,
)
MIXED = TEXTS.map(lambda pieces: join([mark(text) for text, mark in pieces]))
VALUES = st.recursive(
    MIXED | st.none() | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MIXED, inner, max_size=3)
)


@given(VALUES, st.booleans(), st.booleans(), st.sampled_from([None, 2]))
def test_json_keeps_the_marks_of_each_character(value, ensure_ascii, sort_keys, indent):
    def encode(value):
        return json.dumps(value, ensure_ascii=ensure_ascii, sort_keys=sort_keys, indent=indent)

    text = spelled_in_json(value, encode, sort_keys=sort_keys)
    assert str.__str__(text) == encode(value)
    if TEMPLATE in marks_of(text) and MESSAGE in marks_of(text):
        # What is the template's in there is, written by itself, what its own characters are.
        own = "".join(character for character, mark in pairs(text) if mark == TEMPLATE)
        assert own == "".join(
            encode(c)[1:-1] for leaf in leaves(value, sort_keys) for c, mark in pairs(leaf) if mark == TEMPLATE
        )


def leaves(value, sort_keys):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in sorted(value.items()) if sort_keys else value.items():
            for item in pair:
                yield from leaves(item, sort_keys)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, sort_keys)
