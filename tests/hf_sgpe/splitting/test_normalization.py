import pytest
import regex
from hypothesis import given, strategies as st
from support.kernels import needs_native
from support.texts import texts
from tokenizers.normalizers import NFC, NFD, NFKC, NFKD

from hf_sgpe import kernels
from hf_sgpe.splitting.normalization import Normalization, aligned, prepare

if kernels.is_native():
    import hf_sgpe._native as native

pytestmark = pytest.mark.kernels


@needs_native
def test_nfc_leaves_every_character_alone_that_is_said_to_stay():
    library = NFC()
    for point in range(0x110000):
        if not 0xD800 <= point < 0xE000 and len(native.nfc_pieces(chr(point))) == 1:
            assert library.normalize_str(chr(point)) == chr(point), hex(point)


@needs_native
def test_nfc_is_the_librarys_on_all_forms_of_a_character_and_all_orders_of_marks():
    library, *others = NFC(), NFD(), NFKC(), NFKD()
    for character in regex.findall(r"[^\p{Cn}\p{Co}\p{Cs}]", "".join(map(chr, range(0x110000)))):
        forms = {form.normalize_str(character) for form in (library, *others)} | {character}
        texts = [text for form in forms for text in (form, f"a{form}b", form * 2)] if len(forms) > 1 else []
        if regex.match(r"\P{ccc=0}", character):
            texts += [f"a\u0315\u0300\u05ae{character}b", f"a{character}\u0315\u0300\u05aeb"]
        for text in texts:
            assert prepare(text, "nfc") == library.normalize_str(text)


marks = st.sampled_from(
    "aeéẹoǖ\u0301\u0302\u0307\u0308\u0323\u0327\u0345\u0344\u093c\u094dऩक़\u0dd9\u0dda\u0dca\u0dcf\u1100\u1161\u11a8가각🠀"
)


@needs_native
@given(st.text(marks, max_size=12) | texts)
def test_nfc_is_the_librarys_on_random_text(text):
    assert prepare(text, "nfc") == NFC().normalize_str(text)


def test_lone_surrogates_are_replaced_and_pairs_joined():
    for normalization in ("nfc", "none"):
        assert prepare("a\ud800b \ud83d\ude00", normalization) == "a\ufffdb \U0001f600"


@given(st.text(marks, max_size=12) | texts)
def test_normalized_text_is_aligned_cluster_by_cluster(text):
    prepared, alignment = aligned(text, Normalization("nfc"))
    assert prepared == prepare(text, "nfc")
    if alignment is None:
        assert prepared == text
        return
    pieces = {}
    for character, first, last in zip(prepared, *(column.tolist() for column in alignment), strict=True):
        pieces[first, last] = pieces.get((first, last), "") + character
    assert [0, *(last for _, last in pieces)] == [*(first for first, _ in pieces), len(text)]
    for (first, last), piece in pieces.items():
        assert prepare(text[first:last], "nfc") == piece
        assert len(regex.findall(r"\X", text[first:last])) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("metaspace", [" Hello", " Hello", "Hello", "", "a b"]),
        ("metaspace-prefix", ["  Hello", "  Hello", " Hello", "", " a b"]),
        ("metaspace-always", [" Hello", " Hello", " Hello", "", " a b"]),
        ("metaspace-first", [" Hello", " Hello", " Hello", "", " a b"]),
    ],
)
def test_a_space_is_put_before_a_text_unless_it_has_one(name, expected):
    assert [prepare(text, name) for text in ("▁Hello", " Hello", "Hello", "", "a▁b")] == expected
