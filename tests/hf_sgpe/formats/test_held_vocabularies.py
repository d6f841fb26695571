"""Files that the native kernels read are compared with the readable reader."""

import copy
import json
import pickle
import random
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from support.character_tokenizers import character_tokenizer
from support.kernels import needs_native, readable_only

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.formats import loading, tokenizer_json
from hf_sgpe.vocabulary.vocabulary_arrays import MergePairs, TokenIds

pytestmark = [pytest.mark.kernels, needs_native]

TEXT = "ශ්‍රී ලංකා the lower lowest\n\t12 <|a|> é€😀 ▁x "
BYTES = BPETokenizer.train_from_iterator([TEXT * 3], 300, special_tokens=["<|a|>", "<|the|>"])
SMALL = BPETokenizer.train_from_iterator([TEXT], 256)
CHARACTERS = character_tokenizer([TEXT * 3], size=330, added=["the"])
CONTENTS = {
    "bytes": tokenizer_json.to_dict(BYTES.data),
    "whole words": {**tokenizer_json.to_dict(BYTES.data)},
    "characters": tokenizer_json.to_dict(CHARACTERS.data),
}
# Texts that replace parts of a file, and values that replace others.
TEXTS = ["", ",", '"', "\\", "\\u", "\\ud800", "{", "}", "[", "]", ":", " ", "\0", "1", "null", "\\n"]
IDS = [-1, 0, 1, 1.5, 2**31, 2**70, "1", None, True]
NAMES = ["", " ", "▁", "a b", "ශ", "Ġ", "\ud800", "ß", "<0x0A>", "lowest", "<x>", "é"]
MERGES = [["a", "b"], "a b", "a  b", "ab", ["a"], [1, 2], None]
OPTIONS = ["ignore_merges", "byte_fallback", "unk_token", "dropout"]
PARTS = ["pre_tokenizer", "normalizer", "decoder", "added_tokens", "model", "type"]
CONTENTS["whole words"]["model"] = {**CONTENTS["whole words"]["model"], "ignore_merges": True}


def outcome(path, *, natively):
    """Return the tokenizer in a file, or the error's message."""
    try:
        if natively:
            return loading.read(path)
        with readable_only():
            return loading.read(path)
    except SGPEError as error:
        return str(error)


def written(path, text):
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_file_is_read_as_by_the_readable_reader(kind, indent, ascii, tmp_path):
    for joined in (False, True):
        content = copy.deepcopy(CONTENTS[kind])
        if joined:
            content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
        path = written(tmp_path / "tokenizer.json", json.dumps(content, indent=indent, ensure_ascii=ascii))
        held, readable = outcome(path, natively=True), outcome(path, natively=False)
        assert (type(held.vocab), type(held.merges)) == (TokenIds, MergePairs)
        assert (type(readable.vocab), type(readable.merges)) == (dict, list)
        assert held == readable
        assert tokenizer_json.to_dict(held) == tokenizer_json.to_dict(readable)
        first, second = BPETokenizer.of(held), BPETokenizer.of(readable)
        ids = first.encode(TEXT, allowed_special="all")
        assert ids == second.encode(TEXT, allowed_special="all")
        assert [first.decode([id]) for id in sorted(readable.ids)] == [second.decode([id]) for id in sorted(readable.ids)]


def test_copies_and_pickles_of_a_held_vocabulary_are_equal(tmp_path):
    path = written(tmp_path / "tokenizer.json", json.dumps(CONTENTS["bytes"]))
    held = BPETokenizer.from_pretrained(path)
    for other in (pickle.loads(pickle.dumps(held)), copy.deepcopy(held)):
        assert other.data == held.data
        assert other.data.vocab.native is other.data.merges.native
        assert other.encode(TEXT) == held.encode(TEXT)


def test_tokens_are_looked_up_before_and_after_a_dict_is_made(tmp_path, monkeypatch):
    path = written(tmp_path / "tokenizer.json", json.dumps(CONTENTS["bytes"]))
    vocab = loading.read(path).vocab
    monkeypatch.setattr("hf_sgpe.vocabulary.vocabulary_arrays._MANY", 3)
    for _ in range(3):
        assert vocab[b"a"] == BYTES.vocab[b"a"]
        assert b"lowx" not in vocab
        assert "a" not in vocab
        with pytest.raises(KeyError):
            vocab[b"lowx"]
    assert dict(vocab) == BYTES.vocab


@given(kind=st.sampled_from(sorted(CONTENTS)), seed=st.integers(0, 2**32))
def test_a_damaged_file_is_read_or_refused_as_by_the_readable_reader(kind, seed, tmp_path_factory):
    source = random.Random(seed)
    content = copy.deepcopy(CONTENTS[kind])
    model = content["model"]
    names = list(model["vocab"])
    for _ in range(source.randint(0, 2)):
        change(source, content, model, names)
    text = json.dumps(content, ensure_ascii=source.random() < 0.5, indent=source.choice([None, None, 1]))
    for _ in range(source.choice([0, 0, 1, 2])):
        start = source.randrange(len(text))
        added = source.choice(
            ["", ",", '"', "\\", "\\u", "\\ud800", "{", "}", "[", "]", ":", " ", "\0", "1", "null", text[:9]]
        )
        text = text[:start] + added + text[start + source.randint(0, 2) :]
    path = written(tmp_path_factory.mktemp("held") / "tokenizer.json", text)
    assert outcome(path, natively=True) == outcome(path, natively=False)


def change(source, content, model, names):
    """Change one thing in a tokenizer.json."""
    vocab, merges, name = model["vocab"], model["merges"], source.choice(names)
    kind = source.randrange(9)
    if kind == 0:
        vocab.pop(name, None)
    elif kind == 1:
        vocab[name] = source.choice(IDS)
    elif kind == 2:
        vocab[source.choice(NAMES)] = source.choice([1, 5000])
    elif kind == 3:
        merges.insert(source.randrange(len(merges) + 1), source.choice(MERGES))
    elif kind == 4 and merges:
        del merges[source.randrange(len(merges))]
    elif kind == 5:
        text = source.choice([name, *NAMES])
        id = vocab.get(text, max((id for id in vocab.values() if isinstance(id, int)), default=0) + 1)
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        normalized = source.random() < 0.3
        token = {"id": id, "content": text, **flags, "normalized": normalized, "special": source.random() < 0.5}
        content["added_tokens"].append(token)
    elif kind == 6:
        model[source.choice(OPTIONS)] = source.choice([True, False, None, "a", 0.1])
    elif kind == 7:
        content[source.choice(PARTS)] = None
    else:
        model["vocab"] = dict(source.sample(sorted(vocab.items(), key=str), len(vocab)))


def test_merges_of_another_held_vocabulary_are_checked(tmp_path):
    folders = (written(tmp_path / f"{kind}.json", json.dumps(CONTENTS[kind])) for kind in ("bytes", "whole words"))
    first, second = map(loading.read, folders)
    small = loading.read(written(tmp_path / "small.json", json.dumps(tokenizer_json.to_dict(SMALL.data))))
    assert replace(first, merges=second.merges) == first
    with pytest.raises(SGPEError, match=r"merge \d+ uses .+, which is not in the vocabulary"):
        replace(small, merges=first.merges)
