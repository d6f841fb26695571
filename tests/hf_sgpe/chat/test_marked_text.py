"""Texts with marks, against `str` (the text is always what str makes) and against a slow twin (the marks go with it)."""

import copy
import pickle
from itertools import chain

import pytest
from hypothesis import given, strategies as st
from support.written import check, either, most, pairs, plain_texts, short, written

from hf_sgpe.chat.marked_text import by_template, join


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


def twin_split_everywhere(characters, most):
    pieces = [[], *([one] for one in characters), []]
    cuts = len(pieces) - 1 if most < 0 else min(most, len(pieces) - 1)
    return [*pieces[:cuts], [one for piece in pieces[cuts:] for one in piece]]


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


@given(text=written, other=either, times=st.integers(-1, 3))
def test_added_and_repeated_texts_keep_their_marks(text, other, times):
    assert text + other == str.__str__(text) + other and other + text == other + str.__str__(text)
    check(text + other, pairs(text) + pairs(other))
    check(other + text, pairs(other) + pairs(text))
    check(text * times, pairs(text) * times)
    check(times * text, pairs(text) * times)


@given(between=written, texts=st.lists(either, max_size=4))
def test_joined_texts_keep_their_marks(between, texts):
    assert between.join(texts) == str.__str__(between).join(texts)
    check(between.join(texts), twin_join(pairs(between), map(pairs, texts)))
    check(between.join(iter(texts)), twin_join(pairs(between), map(pairs, texts)))
    check(join(iter(texts)), chain.from_iterable(map(pairs, texts)))


places = st.none() | st.integers(-14, 14)


@given(text=written, place=st.slices(12) | st.builds(slice, places, places, st.sampled_from([None, 1, -1, 2])))
def test_slices_keep_their_marks(text, place):
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
def test_stripped_texts_keep_their_marks(text, among):
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
def test_split_and_rsplit_keep_the_marks(text, separator, most):
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
def test_replaced_texts_keep_their_marks(text, old, new, most):
    assert text.replace(old, new, most) == str.__str__(text).replace(old, new, most)
    assert text.replace(old, new) == str.__str__(text).replace(old, new)
    pieces = twin_split(pairs(text), old, most) if old else twin_split_everywhere(pairs(text), most)
    check(text.replace(old, new, most), twin_join(pairs(new), pieces))


@given(text=written, other=either)
def test_a_marked_text_behaves_like_a_str(text, other):
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
def test_marked_texts_refuse_what_str_refuses(use):
    with pytest.raises(TypeError):
        use("a")
    with pytest.raises(TypeError):
        use(by_template("a"))
