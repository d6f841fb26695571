"""What is read of GGUF files, without any other package. What is written is tested with llama.cpp, among the engines."""

import json
import struct

import pytest

from hf_sgpe import BPETokenizer, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.formats import gguf_tokenizer, tokenizer_json
from hf_sgpe.vocabulary.byte_strings import bytes_to_string


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def array(kind, values):
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


@pytest.fixture(scope="module")
def tokenizer(sample):
    config = TrainingConfig(
        vocab_size=400, recipe="bpe", special_tokens=("<|end|>", "<|pad|>"), chat_template="chatml", normalization="nfc"
    )
    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


@pytest.fixture
def file(tokenizer, tmp_path):
    """A file with values of every type, as other programs may put them before ours."""
    by_id = {id: token for token, id in tokenizer.get_vocab().items()}
    settings = tokenizer_json.config(tokenizer)
    values = [
        *(("a.number", kind, struct.pack(f"<{form}", 1)) for kind, form in gguf_tokenizer._SCALARS.items()),
        ("some.numbers", 9, array(5, [struct.pack("<i", number) for number in range(3)])),
        ("arrays", 9, array(9, [array(8, [text("in an array")]), array(4, [])])),
        ("tokenizer.ggml.tokens", 9, array(8, [text(by_id[id]) for id in sorted(by_id)])),
        ("tokenizer.huggingface.json", 8, text(json.dumps(tokenizer_json.to_dict(tokenizer)))),
        ("hf_sgpe.tokenizer_config", 8, text(json.dumps({**settings, "chat_template": None}))),
        ("tokenizer.chat_template", 8, text(tokenizer.chat_template)),
    ]
    body = b"".join(text(name) + struct.pack("<I", kind) + value for name, kind, value in values)
    path = tmp_path / "model.gguf"
    path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(values)) + body)
    return path


def test_a_tokenizer_comes_out_of_a_file_as_it_went_in(file, tokenizer):
    for own in (BPETokenizer.from_pretrained(file), BPETokenizer.of(gguf_tokenizer.read_tokenizer(file))):
        assert tokenizer_json.to_dict(own) == tokenizer_json.to_dict(tokenizer)
        assert tokenizer_json.config(own) == tokenizer_json.config(tokenizer)
        assert own.encode("ශ්‍රී ලංකාව <|end|> क़") == tokenizer.encode("ශ්‍රී ලංකාව <|end|> क़")
    gguf_tokenizer.check_tokenizer(file, tokenizer)


def test_a_tokenizer_with_one_other_token_is_not_that_of_the_file(file, tokenizer):
    one, other = 300, 301
    swapped = {one: other, other: one}
    vocab = {token: swapped.get(id, id) for token, id in tokenizer.vocab.items()}
    tokens = {id: bytes_to_string(token) for token, id in tokenizer.vocab.items()}
    different = BPETokenizer(vocab, tokenizer.merges, special_tokens=tokenizer.special_tokens)
    with pytest.raises(SGPEError) as caught:
        gguf_tokenizer.check_tokenizer(file, different, "my/tokenizer")
    assert str(caught.value) in {
        f"{file}: token {id} is {tokens[id]!r} here, but {tokens[swapped[id]]!r} in the tokenizer my/tokenizer: "
        "give the tokenizer of this model"
        for id in swapped
    }


def test_a_tokenizer_with_another_last_token_is_not_that_of_the_file(file, tokenizer):
    *_, (last, id) = sorted(tokenizer.special_tokens.items(), key=lambda item: item[1])
    specials = {token: its for token, its in tokenizer.special_tokens.items() if token != last}
    different = BPETokenizer(tokenizer.vocab, tokenizer.merges, special_tokens={**specials, "<|other|>": id})
    with pytest.raises(SGPEError, match=f"token {id} .* '<.other.>'"):
        gguf_tokenizer.check_tokenizer(file, different)


def test_a_file_that_is_cut_off_or_changed_is_one_line(file):
    whole = file.read_bytes()
    for length in [*range(400), *range(400, len(whole), 997)]:
        file.write_bytes(whole[:length])
        with pytest.raises(SGPEError, match=r"model\.gguf: damaged or not a GGUF file"):
            BPETokenizer.from_pretrained(file)
    for place in range(200):
        file.write_bytes(whole[:place] + bytes([255 - whole[place]]) + whole[place + 1 :])
        try:
            BPETokenizer.from_pretrained(file)
        except SGPEError as error:
            assert "\n" not in str(error)
    file.write_bytes(whole.replace(b'"model":', b'"nodel":'))
    with pytest.raises(SGPEError, match=r"model\.gguf: damaged"):
        BPETokenizer.from_pretrained(file)
    file.write_bytes(whole.replace(b"tokenizer.huggingface", b"tokenizer.huggingfact"))
    with pytest.raises(SGPEError, match=r"model\.gguf: .* no tokenizer\.json"):
        BPETokenizer.from_pretrained(file)
