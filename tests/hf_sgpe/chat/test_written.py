"""Texts with marks, against `str` (the text is always what str makes) and against a slow twin (the marks go with it)."""

import copy
import html
import json
import pickle
import textwrap
from itertools import chain

import markupsafe
import pytest
from hypothesis import assume, given, strategies as st
from support.operations import calls_in

from hf_sgpe.chat.written import (
    ANSWER,
    TEMPLATE,
    Finder,
    Markup,
    Written,
    as_answer,
    by_template,
    follow,
    is_plain,
    join,
    marks_of,
    parts,
    spelled,
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


def unmarked(text):
    return [(character, 0) for character in text]


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
    pieces = twin_split(pairs(text), old, most) if old else twin_split_everywhere(pairs(text), most)
    check(text.replace(old, new, most), twin_join(pairs(new), pieces))


# ---------------------------------------------------------------- what operations that know no marks make of texts


@pytest.mark.parametrize("method", ["upper", "lower", "swapcase", "casefold"])
@given(text=written_texts(st.text(max_size=12)) | written)
def test_marks_go_along_with_a_change_of_case(method, text):
    assume("ı" not in text)  # its capital is that of another letter
    changed = follow(getattr(text, method)(), text)
    sizes = [len(getattr(one, method)()) for one in str.__str__(text)]
    assert changed == getattr(str.__str__(text), method)()
    if len(changed) == len(text):
        check(changed, zip(changed, marks_of(text), strict=True))
    else:  # of white space nothing is known then
        marks = [0 if one.isspace() else mark for one, mark in pairs(text)]
        check(changed, zip(changed, b"".join(bytes([m]) * size for m, size in zip(marks, sizes, strict=True)), strict=True))


MIXED_TEXT = Written("ab <s> ") + by_template("<s>") + "<s> c"


@pytest.mark.parametrize(
    "use",
    [
        lambda text: text.center(40),
        lambda text: text.rjust(40, "*"),
        lambda text: text.zfill(40),
        lambda text: text.expandtabs(3),
        lambda text: textwrap.fill(text, 5),
        lambda text: " ".join(text),
        lambda text: f"[{text}]",
        lambda text: text.capitalize(),
    ],
)
def test_marks_go_along_with_characters_that_stay_the_same(use):
    result = follow(use(str.__str__(MIXED_TEXT)), MIXED_TEXT, 3, None)
    assert result == use(str.__str__(MIXED_TEXT))
    marked = [place for place, mark in enumerate(marks_of(result)) if mark]
    others = [place for place, one in enumerate(result) if one in "<s>S"]
    assert marked == others[3:6]
    # What a message had a part in may be what it put there.
    assert not any(marks_of(follow(use(str.__str__(MIXED_TEXT)), MIXED_TEXT, Written("x"))))


@pytest.mark.parametrize("use", [lambda text: text + text, lambda text: text[::-1], html.escape, lambda text: text[1:]])
def test_marks_do_not_go_along_where_nobody_knows_which_character_is_which(use):
    assert not any(marks_of(follow(use(str.__str__(MIXED_TEXT)), MIXED_TEXT)))


@pytest.mark.parametrize(
    ("text", "others", "is_own"),
    [
        (by_template("a"), [3, None, 0.5, True, by_template("b")], True),
        (by_template("a"), [[by_template("b"), {by_template("c"): 1}], ()], True),
        (3, [], True),
        (by_template("a"), ["b"], False),
        (by_template("a"), [[{"b": 1}]], False),
        (by_template("a"), [object()], False),
        (by_template("a"), [iter(["b"])], False),
        (object(), [], False),
        (Written("a"), [], False),
        (by_template("a") + "b", [], False),
    ],
)
def test_what_was_made_of_nothing_but_the_templates_is_the_templates(text, others, is_own):
    result = follow("xyz", text, *others)
    assert result == "xyz"
    assert marks_of(result) == bytes([is_own * TEMPLATE] * 3)


def test_what_has_marks_keeps_them_and_what_is_no_text_is_left_alone():
    for result in (3, ["ab"], None):
        assert follow(result, by_template("c")) is result
    for result in (by_template("a") + "b", as_answer("ab"), Written("ab")):
        assert follow(result, [by_template("c")]) is result
        check(follow(result, Written("c")), pairs(result))
    # Of some operations a part knows.
    check(
        follow(by_template("a") + "\n b", by_template("a") + "\n" + by_template("b")),
        pairs(by_template("a") + "\n " + by_template("b")),
    )
    assert type(follow(markupsafe.Markup("a"), by_template("a"))) is Markup


ATOMS = ["%s", "%5s", "%-4s", "%%", "a", " ", "%d", "%03d", "%(a)s", "%(a)4s", "%"]


@given(atoms=st.lists(st.sampled_from(ATOMS), max_size=5), data=st.data())
def test_filling_in(atoms, data):
    form = data.draw(written_texts(st.just("".join(atoms))))
    values = st.lists(either | st.just(3), max_size=4).map(tuple) | either | st.fixed_dictionaries({"a": either})
    values = data.draw(values | st.sampled_from([3, None, {"a": 1}, [1], {}]))
    try:
        expected = str.__str__(form) % values
    except Exception as error:
        with pytest.raises(type(error)):
            form % values
        return
    filled = form % values
    assert filled == expected
    if "%" not in atoms:
        assert [pair for pair in pairs(filled) if not pair[0].isspace()] == list(twin_fill(pairs(form), atoms, values))


def twin_fill(characters, atoms, values):
    """Without white space: which of it was in a text, and which makes up for its width, nobody needs to know."""
    in_order = iter(values if isinstance(values, tuple) else (values,))
    for atom in atoms:
        own, characters = characters[: len(atom)], characters[len(atom) :]
        if atom[0] != "%" or atom == "%%":
            filled = own[-1:]
        else:
            value = values["a"] if "(" in atom else next(in_order)
            is_number = not isinstance(value, (str, dict, list))
            filled = pairs(by_template(atom.replace("(a)", "") % value) if is_number else text_of(value))
            if atom != "%s" and all(mark in (TEMPLATE, TEMPLATE | ANSWER) for _, mark in filled):
                filled = [(one, min(mark for _, mark in filled)) for one, _ in filled]
        yield from (pair for pair in filled if not pair[0].isspace())


@pytest.mark.parametrize("form", ["%*s", "%-*s", "%r", "%20r", "%a", "%.30s"])
def test_filling_in_other_ways(form):
    text = Written("<s> b'\nශ\"") + by_template("<s>")
    values = (9, text) if "*" in form else (text,)
    filled = by_template(form) % values
    assert filled == form % tuple(map(plain_text, values))
    if form != "%.30s":
        assert "".join(one for one, mark in pairs(filled) if mark).strip("'") == "<s>"
    assert (by_template(form) % (by_template("x") if len(values) == 1 else (9, by_template("x"))))._marks.count(0) == 0


def plain_text(value):
    return str.__str__(value) if isinstance(value, str) else value


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
    assert marks_of("ab") == marks_of(Written("ab")) == bytes(2)
    assert marks_of(by_template("ab")) == marks_of(Written(by_template("ab"))) == bytes([TEMPLATE] * 2)
    assert marks_of(as_answer(by_template("a") + "b")) == bytes([TEMPLATE | ANSWER, ANSWER])
    assert marks_of(as_answer(as_answer("a"))) == bytes([ANSWER])


def test_what_python_spells_out_keeps_the_marks_of_the_texts_in_it():
    text = text_of({"a": [by_template("<s>") + "'\n", 1], by_template("b"): "<s>"})
    assert text == str({"a": ["<s>'\n", 1], "b": "<s>"})
    assert "".join(one for one, mark in pairs(text) if mark) == "<s>b"
    assert set(marks_of(text_of([by_template("b"), 1]))) == {TEMPLATE}
    assert marks_of(text_of(5)) == marks_of(text_of(None)[:1]) == bytes([TEMPLATE])
    assert marks_of(text_of(by_template("b"))) == bytes([TEMPLATE])
    # Nobody knows what is in there.
    assert not any(marks_of(text_of([by_template("b"), iter([])])))


# ---------------------------------------------------------------- escaped text


def test_what_is_joined_to_escaped_text_is_escaped_and_keeps_its_marks():
    escaped = Markup.escape(by_template("<s>") + "<")
    assert pairs(escaped) == pairs(Written("&lt;") + by_template("s") + "&gt;&lt;")
    for joined in (escaped + by_template("a<"), by_template("a<") + escaped, escaped[:4] + by_template("a<")):
        assert type(joined) is Markup
        assert joined == str(markupsafe.Markup(joined)) and "<" not in joined
        assert "a" in [one for one, mark in pairs(joined) if mark]
    assert type(str(escaped)) is Written and str(escaped) + "<" == escaped + markupsafe.Markup("<")
    plain = markupsafe.Markup("<b>")
    assert Written("<") + plain == "&lt;<b>" and plain + Written("<") == "<b>&lt;"


# ---------------------------------------------------------------- special tokens

SPECIAL = ["<s>", "<s>>", "a<", "中", "\n\nHuman:"]
pieces = st.sampled_from(["<s>", "<s", ">", "<", "s", "a", "中", "\n", "Human:", "a<s>>", "x<"])
marked = st.builds(lambda text, mark: Written(text, bytes([mark]) * len(text)), pieces, st.sampled_from([0, 1, 2, 3]))
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


def test_a_tokenizer_without_special_tokens_finds_none():
    text = by_template("<s>")
    assert list(parts(text, Finder([]))) == [("<s>", False, (0, 3))]
    assert is_plain(text, Finder([], ["<s>"]))


def test_work_grows_with_the_text_alone(monkeypatch):
    def work(count):
        text = join([by_template("<s>"), Written("a <s> b\n")] * count)
        assert len(list(parts(text, Finder(["<s>"])))) == 2 * count + 1
        assert not is_plain(text, Finder(["<s>"]))
        assert len(text.split("a")) == len(text.splitlines()) + 1 == count + 1
        assert len(list(text.strip())) == len(text) - 1
        for result in (text.upper(), text.center(len(text) + 9), textwrap.fill(text, 9), "".join(f" {one}" for one in text)):
            follow(result, text)
        text.replace("a", by_template("b")) % ()
        text_of([text] * 3)

    copied = [0]

    def new(cls, text="", marks=None):
        copied[0] += len(text)
        return real(cls, text, marks)

    real = Written.__new__
    monkeypatch.setattr(Written, "__new__", new)
    less, more = calls_in(lambda: work(100)), calls_in(lambda: work(1000))
    assert more < 10.5 * less
    copied[0] = 0
    work(100)
    less, copied[0] = copied[0], 0
    work(1000)
    assert copied[0] < 10.5 * less


# ---------------------------------------------------------------- JSON

TEXTS = st.lists(
    st.tuples(st.text(st.sampled_from('a<|"\\\n\u200dශ😀'), max_size=4), st.sampled_from([by_template, Written])),
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

    text = spelled(value, encode(value), encode, sort_keys=sort_keys)
    assert str.__str__(text) == encode(value)
    if TEMPLATE in marks_of(text) and 0 in marks_of(text):
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
