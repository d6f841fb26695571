from dataclasses import replace

import pytest
from hypothesis import example, given, strategies as st

from hf_sgpe import Splitting
from hf_sgpe.vocabulary.codec import make_codec
from hf_sgpe.vocabulary.reserved_tokens import is_reserved, reserved_ids, without_reserved
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

BYTES = {bytes([byte]): byte for byte in range(256)}
ADDED = {f"<unused{number}>": 256 + number for number in range(6)} | {"<think>": 262}
SPECIAL = {"<|end|>": 263, "<|reserved_special_token_0|>": 264, "<|reserved_special_token_1|>": 265}


@pytest.fixture(scope="module")
def base():
    return TokenizerData(BYTES, [], splitting=Splitting("bpe"), special_tokens=SPECIAL, added_tokens=ADDED)


@pytest.mark.parametrize(
    ("reserved", "names"),
    [
        (
            True,
            "<unused0> <unused6241> [unused99] <|reserved_special_token_7|> <|reserved_200017|> <reserved_12> "
            "<|reserved_token_163600|> <|placeholder4|> <|dummy_85|> [control_768] <SPECIAL_999> <reserved-1>",
        ),
        (
            False,
            "<unk> <pad> <unused> <unused1|> <|unused1> [unused1> unused1 <extra_id_0> <image_soft_token> <|reserved|> "
            "<0x41> <h1> [INST] <start_of_turn>",
        ),
    ],
)
def test_only_names_without_a_meaning_are_reserved(reserved, names):
    assert {name for name in names.split() if is_reserved(name) != reserved} == set()
    assert not is_reserved(" <unused1>")
    assert not is_reserved("<unused1> ")


def test_used_ones_are_kept(base):
    assert reserved_ids(base) == {name: id for name, id in (ADDED | SPECIAL).items() if is_reserved(name)}
    roles = {"pad_token": "<|reserved_special_token_1|>", "eos_token": "<|end|>"}
    fine_tuned = replace(base, roles=roles, chat_template="{{ '<unused4>' }}", special_tokens=SPECIAL | {"<say>": 264})
    assert [*reserved_ids(fine_tuned, used={257})] == ["<unused0>", "<unused2>", "<unused3>", "<unused5>"]


@given(st.text(st.sampled_from("<unused3|>ප් \n0")) | st.text())
@example("<unused3><unused5><think><unused2>x")
def test_only_text_with_their_names_changes(text):
    base = TokenizerData(BYTES, [], splitting=Splitting("bpe"), special_tokens=SPECIAL, added_tokens=ADDED)
    names = ["<unused3>", "<unused5>"]
    less = without_reserved(base, names)
    assert set(range(266)) - less.ids == {259, 261}
    before, after = (make_codec(data).encode(text) for data in (base, less))
    expected = [one for id in before for one in ({ADDED[name]: name.encode() for name in names}.get(id) or [id])]
    assert after == expected
