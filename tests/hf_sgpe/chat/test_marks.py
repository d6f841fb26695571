import html
import json
import textwrap

import markupsafe
import pytest
from hypothesis import assume, given, strategies as st
from support.operations import calls_in
from support.written import check, either, pairs, written, written_texts

from hf_sgpe.chat.marked_text import (
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


@pytest.mark.parametrize("method", ["upper", "lower", "swapcase", "casefold"])
@given(text=written_texts(st.text(max_size=12)) | written)
def test_marks_go_along_with_a_change_of_case(method, text):
    assume("ı" not in text)  # its capital is that of another letter
    changed = follow(getattr(text, method)(), text)
    sizes = [len(getattr(one, method)()) for one in str.__str__(text)]
    assert changed == getattr(str.__str__(text), method)()
    if len(changed) == len(text):
        check(changed, zip(changed, marks_of(text), strict=True))
    elif set(marks_of(text)) <= {TEMPLATE, TEMPLATE | ANSWER}:  # the template wrote the result, too
        check(changed, [(character, min(marks_of(text))) for character in changed])
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
def test_marks_do_not_go_along_where_characters_cannot_be_told_apart(use):
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
def test_results_made_only_from_the_templates_text_belong_to_the_template(text, others, is_own):
    result = follow("xyz", text, *others)
    assert result == "xyz"
    assert marks_of(result) == bytes([is_own * TEMPLATE] * 3)


def test_marked_results_keep_their_marks_and_other_values_stay():
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
def test_filled_in_templates_keep_the_marks_of_values(atoms, data):
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
    """Fill in, without white space, which may be a text's own or make up for its width."""
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


def test_marks_say_who_wrote_it():
    assert marks_of("ab") == marks_of(Written("ab")) == bytes(2)
    assert marks_of(by_template("ab")) == marks_of(Written(by_template("ab"))) == bytes([TEMPLATE] * 2)
    assert marks_of(as_answer(by_template("a") + "b")) == bytes([TEMPLATE | ANSWER, ANSWER])
    assert marks_of(as_answer(as_answer("a"))) == bytes([ANSWER])


def test_printed_values_keep_the_marks_of_their_texts():
    text = text_of({"a": [by_template("<s>") + "'\n", 1], by_template("b"): "<s>"})
    assert text == str({"a": ["<s>'\n", 1], "b": "<s>"})
    assert "".join(one for one, mark in pairs(text) if mark) == "<s>b"
    assert set(marks_of(text_of([by_template("b"), 1]))) == {TEMPLATE}
    assert marks_of(text_of(5)) == marks_of(text_of(None)[:1]) == bytes([TEMPLATE])
    assert marks_of(text_of(by_template("b"))) == bytes([TEMPLATE])
    # What is in there is not known.
    assert not any(marks_of(text_of([by_template("b"), iter([])])))


def test_text_joined_to_escaped_text_is_escaped_and_keeps_its_marks():
    escaped = Markup.escape(by_template("<s>") + "<")
    assert pairs(escaped) == pairs(Written("&lt;") + by_template("s") + "&gt;&lt;")
    for joined in (escaped + by_template("a<"), by_template("a<") + escaped, escaped[:4] + by_template("a<")):
        assert type(joined) is Markup
        assert joined == str(markupsafe.Markup(joined)) and "<" not in joined
        assert "a" in [one for one, mark in pairs(joined) if mark]
    assert type(str(escaped)) is Written and str(escaped) + "<" == escaped + markupsafe.Markup("<")
    plain = markupsafe.Markup("<b>")
    assert Written("<") + plain == "&lt;<b>" and plain + Written("<") == "<b>&lt;"


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
