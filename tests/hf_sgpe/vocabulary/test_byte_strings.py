import pytest
from hypothesis import given, strategies as st

from hf_sgpe.errors import NotByteLevelError
from hf_sgpe.vocabulary.byte_strings import bytes_to_string, string_to_bytes


@given(st.binary())
def test_bytes_have_one_spelling(token):
    assert string_to_bytes(bytes_to_string(token)) == token


def test_spelling_is_that_of_the_library():
    from tokenizers.pre_tokenizers import ByteLevel

    assert {bytes_to_string(bytes([byte])) for byte in range(256)} == set(ByteLevel.alphabet())
    backend = ByteLevel(add_prefix_space=False, use_regex=False)
    text = "".join(map(chr, range(0x800)))
    assert backend.pre_tokenize_str(text)[0][0] == bytes_to_string(text.encode())


def test_other_characters_stand_for_no_byte():
    with pytest.raises(NotByteLevelError, match="token 'a中' is not byte-level"):
        string_to_bytes("a中")
