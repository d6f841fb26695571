import json

import pytest

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, Splitting
from trainers.model_rows.embedding_rows import RowMap, map_rows, token_lengths

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch")

from support.models import permuted  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402
from transformers import AddedToken, PreTrainedTokenizerFast  # noqa: E402

BYTES = {bytes([byte]): byte for byte in range(256)}


def tokenizer_of(merges, *, special=(), roles=None, pattern="gpt2"):
    """Bytes, then one token for each merge, then special ones."""
    vocab = BYTES | {left + right: 256 + rank for rank, (left, right) in enumerate(merges)}
    ids = {token: len(vocab) + place for place, token in enumerate(special)}
    return SGPETokenizerFast.from_bpe(
        BPETokenizer(vocab, merges, special_tokens=ids, roles=roles, splitting=Splitting("bpe", pattern=pattern))
    )


@pytest.fixture(scope="module")
def old():
    """256: lo, 257: low, 258: er, 259: e2, 260 and 261: special."""
    merges = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r"), (b"e", b"2")]
    return tokenizer_of(merges, special=["<end>", "<pad>"], roles={"eos_token": "<end>", "pad_token": "<pad>"})


def test_rows_follow_their_tokens_and_new_ones_begin_from_pieces(old):
    merges = [(b"e", b"r"), (b"l", b"o"), (b"lo", b"w"), (b"low", b"er"), (b"e", b"2"), (b"e2", b"3"), (b"\xe0", b"\xb6")]
    row_map = map_rows(tokenizer_of(merges), old, rows=320)
    assert {new: row_map.kept[new] for new in (0, 255, 256, 257, 258)} == {0: 0, 255: 255, 256: 258, 257: 256, 258: 257}
    assert row_map.pieces == {
        259: [257, 258],  # low er
        261: [ord("e"), ord("2"), ord("3")],  # the old split keeps digits apart from letters
        262: [0xE0, 0xB6],  # no text
    }
    assert row_map.kept[260] == 259
    assert str(row_map) == "260 rows kept, 3 started from their pieces, 2 of the old tokenizer dropped, 57 spare"


def test_added_tokens_are_told_from_bytes_that_are_spelled_like_them():
    merges = [(b"F", b"u"), (b"t", b"h"), (b"th", b"e")]
    old, new, other = tokenizer_of(merges), tokenizer_of(merges), tokenizer_of([*merges, (b"the", b"n")])
    new.add_tokens(["Fuß", "ලං", "the"])  # the last is the ordinary token again
    row_map = map_rows(new, old, rows=320)
    assert row_map.kept[new.convert_tokens_to_ids("the")] == old.convert_tokens_to_ids("the")
    assert row_map.pieces == {259: [256, 0xC3, 0x9F], 260: list("ලං".encode())}
    # And the other way round.
    assert map_rows(other, new, rows=320).kept[258] == 258
    assert map_rows(other, new, rows=320).pieces == {259: [258, ord("n")]}


def test_special_tokens_follow_their_text_and_then_their_part(old):
    names = ["<pad>", "</s>", "<s>", "<|x|>"]
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    row_map = map_rows(tokenizer_of([(b"l", b"o")], special=names, roles=roles), old, rows=320)
    assert [row_map.kept.get(id) for id in (257, 258, 259, 260)] == [261, 260, None, None]
    assert list(row_map.pieces) == [259, 260]
    assert [bytes(ids) for ids in row_map.pieces.values()] == [b"<s>", b"<|x|>"]

    # One row for one token: two with the same output could not be told apart.
    only = map_rows(
        tokenizer_of([], special=["<s>", "</s>"], roles={"bos_token": "<s>", "eos_token": "</s>"}), old, rows=320
    )
    assert only.kept[257] == 260
    assert 256 not in only.kept
    assert len(set(only.kept.values())) == len(only.kept)


def test_of_tokens_for_the_parts_of_one_only_the_first_gets_its_row():
    """GPT-2 has one token for all parts: eos gets its row, and the other tokens begin from their spelling."""
    names = {f"{part}_token": "<all>" for part in ("bos", "eos", "unk")}
    old = tokenizer_of([(b"l", b"o")], special=["<all>"], roles=names)
    new = tokenizer_of(
        [], special=["<s>", "</s>", "<unk>"], roles={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    )
    row_map = map_rows(new, old, rows=320)
    assert row_map.kept[257] == 257
    assert {id: bytes(pieces) for id, pieces in row_map.pieces.items()} == {256: b"<s>", 258: b"<unk>"}
    assert len(set(row_map.kept.values())) == len(row_map.kept)


def test_a_token_that_reads_like_a_special_one_is_not_its(old):
    merges = [(b"<", b"e"), (b"<e", b"n"), (b"<en", b"d"), (b"<end", b">")]
    row_map = map_rows(tokenizer_of(merges), old, rows=320)
    assert bytes(row_map.pieces[259]) == b"<end>"


def test_rows_are_kept_bit_for_bit_and_others_are_means():
    row_map = RowMap(rows=6, known=[0, 1, 2], kept={0: 2, 3: 0}, pieces={1: [0, 1], 2: [1, 1, 2], 4: []})
    old = torch.tensor([[1.1, -0.0], [3.0, 8.0], [5.7, 1e-40], [99.0, 99.0]])
    new = row_map.apply(old)
    assert new[[0, 3]].numpy().tobytes() == old[[2, 0]].numpy().tobytes()
    assert torch.allclose(new[1], (old[0] + old[1]) / 2)
    assert torch.allclose(new[2], (2 * old[1] + old[2]) / 3)
    for place in (4, 5):  # what cannot be spelled, and padding; the spare row 3 counts for nothing
        assert torch.allclose(new[place], old[:3].mean(0))
    assert torch.allclose(row_map.apply(old[:, 1]), new[:, 1])
    started = "2 started from their pieces, 1 started from the mean of all"
    assert str(row_map) == f"2 rows kept, {started}, 1 of the old tokenizer dropped, 1 spare"
    half = row_map.apply(old.bfloat16())
    assert half.dtype == torch.bfloat16
    assert torch.equal(half[3], old.bfloat16()[0])


def test_rows_have_no_gradients_and_all_else_keeps_its_own():
    """Parts that are taken one at a time, or not to the end, switch nothing off for their caller."""
    row_map = RowMap(rows=5000, known=[0, 1, 2], kept={0: 2}, pieces={1: [0, 1], 2: []})
    weight = torch.nn.Parameter(torch.ones(3, 2))
    parts = row_map.parts(weight, torch.nn.Parameter(torch.zeros(2, 2)))
    assert not next(parts).requires_grad
    assert (2 * weight).requires_grad


def test_the_same_tokens_keep_their_rows_whatever_kind_of_tokenizer(old):
    row_map = map_rows(old, old, rows=320)
    assert row_map.changes_nothing
    assert str(row_map) == "262 rows kept, 58 spare"
    words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"one": 0, "two": 1})))
    assert map_rows(words, words, rows=64).changes_nothing
    assert not map_rows(permuted(old), old, rows=320).changes_nothing


def test_tokens_that_are_no_bytes_are_refused_in_one_line(old):
    words = Tokenizer(models.WordLevel({"<unk>": 0, "one": 1}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words = PreTrainedTokenizerFast(tokenizer_object=words, name_or_path="my/words")
    with pytest.raises(SGPEError, match=r"new tokenizer \(my/words\)"):
        map_rows(words, old, rows=64)
    with pytest.raises(SGPEError, match=r"model's tokenizer \(my/words\)"):
        map_rows(old, words, rows=64)

    content = json.loads(old.backend_tokenizer.to_str())
    content["model"]["vocab"]["▁low"] = 300
    pieces = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(content)))
    with pytest.raises(SGPEError, match=r"model's tokenizer is not .*'▁'"):
        map_rows(old, pieces, rows=64)


def test_a_raw_joiner_in_the_vocabulary_keeps_its_row(old):
    """The byte-level vocabulary of Command R+ and Aya has a raw U+200D."""
    content = json.loads(old.backend_tokenizer.to_str())
    content["model"]["vocab"]["\u200d"] = 300
    raw = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(content)))
    content["model"]["vocab"]["Ġlowlow"] = 301
    grown = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(content)))
    found = map_rows(grown, raw, rows=320)
    assert found.kept[300] == 300
    assert found.new == [301]
    assert found.keeps_ids


def test_old_tokenizers_need_not_be_such_that_we_could_encode_with_them(old):
    """SmolLM2's lacks bytes, BART's <mask> takes in a space, and some pad, cut or put a space before."""
    content = json.loads(old.backend_tokenizer.to_str())
    del content["model"]["vocab"]["x"]
    content["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    backend = Tokenizer.from_str(json.dumps(content))
    backend.enable_padding(pad_id=261, pad_token="<pad>", length=9)
    backend.enable_truncation(1)
    strange = PreTrainedTokenizerFast(tokenizer_object=backend, mask_token=AddedToken("<mask>", lstrip=True))
    merges = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r"), (b"low", b"er"), (b"lo", b"x")]
    row_map = map_rows(tokenizer_of(merges), strange, rows=320)
    assert row_map.pieces == {ord("x"): [], 259: [257, 258], 260: []}


def by_characters(tokens, merges, *, prefix, added=()):
    """Return a tokenizer as SentencePiece makes them: <unk>, bytes, characters, merges; like Llama 2's with ``prefix``."""
    vocab = {text: id for id, text in enumerate(["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *tokens])}
    model = models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    backend = Tokenizer(model)
    replace = normalizers.Replace(" ", "▁")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    tokenizer.add_tokens(list(added))
    return tokenizer


TOKENS = ["▁", "l", "o", "w", "▁l", "lo", "▁lo", "ස", "\n"]
MERGES = [("▁", "l"), ("l", "o"), ("▁l", "o"), ("▁", "lo")]


@pytest.mark.parametrize("prefix", [False, True], ids=["gemma", "llama-2"])
def test_tokens_of_characters_begin_from_characters_and_bytes(prefix):
    old = by_characters(TOKENS, MERGES, prefix=prefix, added=["\n", "<image>"])
    more = [*TOKENS, "<image>", "▁low", "low", "ි", "සි", "▁සි"]
    merges = [*MERGES, ("▁lo", "w"), ("lo", "w"), ("ස", "ි"), ("▁", "සි")]
    new = by_characters(more, merges, prefix=prefix, added=["\n", "<image>"])
    row_map = map_rows(new, old, rows=280)
    assert row_map.keeps_ids
    assert row_map.kept == {id: id for id in range(1 + 256 + len(TOKENS) + 1)}
    at = old.get_vocab()
    vowel = [at[f"<0x{byte:02X}>"] for byte in "ි".encode()]
    assert {new.convert_ids_to_tokens(id): pieces for id, pieces in row_map.pieces.items()} == {
        "▁low": [at["▁lo"], at["w"]],
        "low": [at["lo"], at["w"]],
        "ි": vowel,
        "සි": [at["ස"], *vowel],
        "▁සි": [at["▁"], at["ස"], *vowel],
    }


def test_tokens_of_characters_and_of_bytes_are_compared_by_what_they_write(old):
    """Rows of a byte-level model begin from tokens of the other kind, and the other way round."""
    other = by_characters([*TOKENS, "low"], [*MERGES, ("lo", "w")], prefix=False)
    at = other.get_vocab()
    row_map = map_rows(old, other, rows=300)
    assert row_map.kept[256] == at["lo"]
    assert row_map.kept[257] == at["low"]
    assert row_map.kept[ord("w")] == at["w"]
    assert row_map.pieces[ord("x")] == [at["<0x78>"]]
    assert row_map.pieces[258] == [at["<0x65>"], at["<0x72>"]]
    back = map_rows(other, old, rows=300)
    assert back.kept[at["▁"]] == ord(" ")
    assert back.pieces[at["<0x78>"]] == [ord("x")]
    assert back.pieces[at["ස"]] == list("ස".encode())


def test_lengths_of_tokens_are_those_of_the_text(old):
    text = " low ලො\nlow"
    for tokenizer in (old, by_characters(TOKENS, MERGES, prefix=False, added=["\n"])):
        lengths = token_lengths(tokenizer)
        assert sum(lengths[id] for id in tokenizer(text)["input_ids"]) == len(text.encode())


def test_new_tokens_may_take_the_ids_of_reserved_ones():
    merges = [(b"l", b"o")]
    base = {f"<unused{number}>": 257 + number for number in range(4)} | {"<end>": 261}
    splitting = Splitting("bpe", pattern="gpt2")
    old = SGPETokenizerFast.from_bpe(BPETokenizer(BYTES | {b"lo": 256}, merges, special_tokens=base, splitting=splitting))
    kept = {name: id for name, id in base.items() if id not in (258, 260)}
    vocab = BYTES | {b"lo": 256, b"low": 260}
    new = SGPETokenizerFast.from_bpe(BPETokenizer(vocab, [*merges, (b"lo", b"w")], special_tokens=kept, splitting=splitting))
    row_map = map_rows(new, old, rows=262)
    assert row_map.keeps_ids
    assert row_map.pieces == {260: [256, ord("w")]}
    table = torch.randn(262, 3)
    rows = row_map.apply(table)
    assert torch.equal(rows[:260], table[:260])  # the row of <unused1> stays as a spare one
    assert torch.equal(rows[261], table[261])
    assert torch.allclose(rows[260], (table[256] + table[ord("w")]) / 2)
    # Another token may not be dropped.
    del kept["<end>"]
    other = BPETokenizer(vocab, [*merges, (b"lo", b"w")], special_tokens=kept, splitting=splitting)
    assert not map_rows(SGPETokenizerFast.from_bpe(other), old, rows=262).keeps_ids


def test_ids_without_a_row_read_the_first_one():
    """Gemma 3n's layers have no rows for the ids of images and sounds."""
    table = torch.randn(4, 3)
    row_map = RowMap(rows=8, known=range(6), kept={id: id for id in range(6)}, pieces={6: [1, 5]})
    rows = row_map.within(4, 6).apply(table, ids=6)
    assert torch.equal(rows[[0, 1, 2, 3, 4, 5]], table[[0, 1, 2, 3, 0, 0]])
    assert torch.allclose(rows[6], (table[1] + table[0]) / 2)
    assert torch.allclose(rows[7], table.mean(0))
    # With a row for each new token, the table keeps its size.
    reused = RowMap(rows=6, known=[0, 1, 3, 4, 5], kept={id: id for id in (0, 1, 3, 4, 5)}, pieces={2: [1, 3]})
    rows = reused.within(4, 6).apply(table, ids=6)
    assert torch.equal(rows[[0, 1, 3]], table[[0, 1, 3]])
    assert torch.allclose(rows[2], (table[1] + table[3]) / 2)
    assert len(rows) == 4
