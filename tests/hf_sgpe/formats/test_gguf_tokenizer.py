import struct

import pytest

from hf_sgpe import BPETokenizer, SGPEError

pytest.importorskip("sentencepiece")

PIECES = [
    ("<unk>", 2),
    ("<s>", 3),
    ("</s>", 3),
    ("▁", 1),
    ("a", 1),
    ("b", 1),
    ("▁a", 1),
    ("ab", 1),
    *[(f"<0x{n:02X}>", 6) for n in range(256)],
]


def written(path, pieces, **more):
    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def entry(name, kind, value):
        return text(f"tokenizer.ggml.{name}") + struct.pack("<I", kind) + value

    def array(kind, values):
        return struct.pack("<IQ", kind, len(values)) + b"".join(values)

    entries = [
        entry("model", 8, text("llama")),
        entry("tokens", 9, array(8, [text(piece) for piece, _ in pieces])),
        entry("scores", 9, array(6, [struct.pack("<f", -float(id)) for id in range(len(pieces))])),
        entry("token_type", 9, array(5, [struct.pack("<i", kind) for _, kind in pieces])),
        *(entry(name, 4, struct.pack("<I", value)) for name, value in more.items()),
    ]
    path.write_bytes(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(entries)) + b"".join(entries))
    return path


@pytest.mark.parametrize("more", [{}, {"unknown_token_id": 0}])
def test_padding_tokens_with_the_type_of_the_unknown_token_are_unused(tmp_path, more):
    plain = BPETokenizer.from_pretrained(written(tmp_path / "plain.gguf", PIECES, **more))
    padded = [*PIECES, *((f"[PAD{number}]", 2) for number in range(53))]
    tokenizer = BPETokenizer.from_pretrained(written(tmp_path / "padded.gguf", padded, **more))
    for line in ("a ab abba", "[PAD7] é <unk>", ""):
        assert tokenizer.encode(line) == plain.encode(line)
        assert tokenizer.decode(tokenizer.encode(line)) == line
    assert tokenizer.get_vocab()["[PAD52]"] == len(PIECES) + 52


def test_an_unknown_token_with_the_type_of_a_control_token_is_found_by_its_id(tmp_path):
    plain = BPETokenizer.from_pretrained(written(tmp_path / "plain.gguf", PIECES))
    (unknown, _), *others = PIECES
    file = written(tmp_path / "gemma.gguf", [(unknown, 3), *others], unknown_token_id=0)
    tokenizer = BPETokenizer.from_pretrained(file)
    assert tokenizer.get_vocab() == plain.get_vocab()
    for line in ("a ab abba", "é <unk>", ""):
        assert tokenizer.encode(line) == plain.encode(line)


def test_a_file_without_an_unknown_token_is_damaged(tmp_path):
    with pytest.raises(SGPEError, match=r"a\.gguf: .* damaged"):
        BPETokenizer.from_pretrained(written(tmp_path / "a.gguf", PIECES[1:]))
