import copy
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.kernels import readable_only
from support.texts import texts

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.vocabulary.batches import make_batch
from hf_sgpe.vocabulary.special_tokens import Template

pytestmark = pytest.mark.kernels

BYTES = {bytes([byte]): byte for byte in range(256)}
START, END, PAD = 257, 258, 259


@pytest.fixture(scope="module")
def framed():
    return BPETokenizer(
        {**BYTES, b"ab": 256},
        [(b"a", b"b")],
        special_tokens={"<s>": START, "</s>": END, "<pad>": PAD},
        template=Template.around(["<s>"], ["</s>"]),
    )


@pytest.fixture(scope="module")
def bare():
    return BPETokenizer(BYTES, [])


def test_one_text_gives_one_row_and_several_give_several(framed):
    assert framed("abc") == {"input_ids": [256, 99], "attention_mask": [1, 1]}
    assert framed(["abc", ""]) == {"input_ids": [[256, 99], []], "attention_mask": [[1, 1], []]}
    assert framed(text for text in ("c", "d")) == {"input_ids": [[99], [100]], "attention_mask": [[1], [1]]}
    assert framed([]) == {"input_ids": [], "attention_mask": []}


def test_options_of_encode_are_taken(framed):
    assert framed("c", add_special_tokens=True)["input_ids"] == [START, 99, END]
    assert framed(["c</s>"], allowed_special="all")["input_ids"] == [[99, END]]
    assert framed("</s>")["input_ids"] == list(b"</s>")


def test_padding_fills_up_to_the_longest(framed, bare):
    assert framed(["c", "abcd"], padding=True) == {
        "input_ids": [[99, PAD, PAD], [256, 99, 100]],
        "attention_mask": [[1, 0, 0], [1, 1, 1]],
    }
    assert framed("c", padding=True) == {"input_ids": [99], "attention_mask": [1]}
    assert framed([], padding=True) == {"input_ids": [], "attention_mask": []}
    assert bare(["c", "cd"], padding=True)["input_ids"] == [[99, 0], [99, 100]]


def test_truncation_counts_the_template(framed):
    rows = framed(["cdef", "c"], add_special_tokens=True, truncation=True, max_length=3)
    assert rows == {"input_ids": [[START, 99, 100], [START, 99, END]], "attention_mask": [[1, 1, 1], [1, 1, 1]]}
    assert framed("cd", truncation=True, max_length=0) == {"input_ids": [], "attention_mask": []}
    # A length alone cuts nothing.
    assert framed("cdef", max_length=2)["input_ids"] == list(b"cdef")
    assert framed(["cdef", "c"], padding=True, max_length=2)["input_ids"][1] == [99, PAD, PAD, PAD]


@given(
    batch=st.lists(texts | st.sampled_from(["</s>", "ab" * 9]), max_size=5),
    length=st.none() | st.integers(0, 9),
    around=st.booleans(),
)
def test_rows_are_those_of_encode(framed, batch, length, around):
    expected = [framed.encode(text, add_special_tokens=around)[:length] for text in batch]
    options = {"add_special_tokens": around, "truncation": length is not None, "max_length": length}
    assert framed(batch, **options) == {"input_ids": expected, "attention_mask": [[1] * len(row) for row in expected]}

    padded = framed(batch, padding=True, **options)
    longest = max(map(len, expected), default=0)
    for row, ids, mask in zip(expected, padded["input_ids"], padded["attention_mask"], strict=True):
        assert ids == row + [PAD] * (longest - len(row))
        assert mask == [1] * len(row) + [0] * (longest - len(row))
    arrays = framed(batch, padding=True, return_tensors="np", **options)
    assert {name: array.tolist() for name, array in arrays.items()} == padded


def test_rows_given_and_ids_remembered_stay_as_they_are(framed):
    rows = [[1], [2, 3]]
    made = make_batch(rows, pad_id=9, padding=True)
    made["input_ids"][1].append(4)
    assert rows == [[1], [2, 3]]
    framed(["abc", "abcabc"], padding=True)["input_ids"][0][:] = []
    assert framed("abc")["input_ids"] == [256, 99]


@pytest.mark.parametrize("kind", ["np", "pt"])
@pytest.mark.parametrize(
    ("given", "shape"),
    [("cd", (1, 2)), (["cd"], (1, 2)), (["c", "abcd"], (2, 3)), ([""], (1, 0)), (["", ""], (2, 0)), ([], (0, 0))],
)
def test_tensors_are_rows_of_int64(framed, kind, given, shape):
    if kind == "pt":
        pytest.importorskip("torch")
    for array in framed(given, padding=True, return_tensors=kind).values():
        assert tuple(array.shape) == shape
        assert str(array.dtype).removeprefix("torch.") == "int64"


def test_both_kinds_of_tensor_hold_the_same(framed):
    torch = pytest.importorskip("torch")
    batch = ["c", "abcd", ""]
    for name, array in framed(batch, padding=True, return_tensors="np").items():
        assert isinstance(array, np.ndarray)
        tensor = framed(batch, padding=True, return_tensors="pt")[name]
        assert torch.is_tensor(tensor)
        assert tensor.tolist() == array.tolist()


def test_tensors_need_no_padding_where_rows_are_equally_long(framed):
    assert framed(["cd", "ef"], return_tensors="np")["input_ids"].tolist() == [list(b"cd"), list(b"ef")]
    cut = framed(["cdef", "efg"], truncation=True, max_length=2, return_tensors="np")
    assert cut["input_ids"].tolist() == [list(b"cd"), list(b"ef")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truncation": True}, "max_length.* None"),
        ({"truncation": True, "max_length": -1}, "not -1"),
        ({"truncation": True, "max_length": 2.5}, r"not 2\.5"),
        ({"return_tensors": "np"}, "padding=True"),
        ({"return_tensors": "pt"}, "padding=True"),
        ({"return_tensors": "tf"}, "return_tensors 'tf'"),
        ({"return_tensors": "np", "padding": "max_length", "max_length": 1}, "set truncation=True"),
        ({"padding": "max_length"}, "padding='max_length' needs max_length"),
        ({"padding": "most"}, "padding .* 'most'"),
        ({"truncation": "longest_first"}, "truncation must be True or False"),
    ],
)
def test_wrong_options_of_batches_are_named(framed, options, message):
    with pytest.raises(SGPEError, match=message) as caught:
        framed(["c", "cd"], **options)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_without_torch_one_line_says_what_to_install(framed, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SGPEError) as caught:
        framed("c", return_tensors="pt")
    assert str(caught.value) == "return_tensors='pt' needs PyTorch: pip install torch"
    assert framed("c", return_tensors="np")["input_ids"].tolist() == [[99]]


def test_values_that_are_no_text_are_refused(framed):
    with pytest.raises(TypeError, match="expected strings, not bytes"):
        framed([b"c"])
    with pytest.raises(TypeError):
        framed(None)


def test_decoding_a_batch_leaves_padding_out(framed, bare):
    batch = [[99, PAD, PAD], [PAD, 99, PAD, 100, PAD], [PAD], []]
    assert framed.decode_batch(batch) == ["c", "<pad>c<pad>d", "", ""]
    assert framed.decode_batch(batch, skip_padding=False)[0] == "c<pad><pad>"
    assert framed.decode_batch(batch, skip_special_tokens=True) == ["c", "cd", "", ""]
    assert bare.decode_batch([[99, 0]]) == ["c\0"]


def test_decoding_a_batch_takes_arrays_and_generators(framed):
    pytest.importorskip("torch")
    batch = ["c", "abcd", "é"]
    for kind in ("np", "pt"):
        assert framed.decode_batch(framed(batch, padding=True, return_tensors=kind)["input_ids"]) == batch
    assert framed.decode_batch(iter(row) for row in ([99, PAD], [100])) == ["c", "d"]


@pytest.mark.parametrize("way", ["batch", "stream", "readable"])
def test_special_tokens_in_tensors_are_left_out_when_asked(framed, way):
    pytest.importorskip("torch")
    rows = framed(["c", "cd"], add_special_tokens=True, padding=True, return_tensors="pt")["input_ids"]
    if way == "batch":
        assert framed.decode_batch(rows, skip_special_tokens=True) == ["c", "cd"]
    elif way == "stream":
        assert "".join(framed.decode_stream(rows[1], skip_special_tokens=True)) == "cd"
    else:
        with readable_only():
            assert copy.deepcopy(framed).decode(rows[1], skip_special_tokens=True) == "cd"


def test_a_tensor_of_ids_is_decoded(framed):
    torch = pytest.importorskip("torch")
    assert framed.decode(torch.tensor([99, END])) == "c</s>"
    assert "".join(framed.decode_stream(torch.tensor([99, END]))) == "c</s>"
    assert framed.decode(np.array([99, END]), skip_special_tokens=True) == "c"


def test_decoding_a_batch_with_other_errors(framed):
    assert framed.decode_batch([[0xC3]]) == ["\ufffd"]
    assert framed.decode_batch([[0xC3]], errors="ignore") == [""]
    with pytest.raises(UnicodeDecodeError):
        framed.decode_batch([[0xC3]], errors="strict")


@given(batch=st.lists(texts, max_size=5), around=st.booleans())
def test_a_padded_batch_comes_back(framed, batch, around):
    padded = framed(batch, padding=True, add_special_tokens=around)["input_ids"]
    assert framed.decode_batch(padded) == [f"<s>{text}</s>" if around else text for text in batch]
    assert framed.decode_batch(padded, skip_special_tokens=True) == batch
