"""The field ``model.vocab`` of a ``tokenizer.json``: one dict from spellings to ids for two kinds of tokens, which are
spelled differently.

An ordinary token consists of bytes, which are spelled in GPT-2's alphabet, or as SentencePiece spells text. An added token
is text, and its spelling is the text itself. So "ß" can be the added token "ß" or the byte 0xDF. If the model can produce
the bytes that a spelling in ``added_tokens`` means, the spelling is also an ordinary token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from hf_sgpe import kernels
from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.splitting.normalization import Normalization, prepare
from hf_sgpe.vocabulary.added_patterns import Matching
from hf_sgpe.vocabulary.byte_strings import BYTES_OF_TEXT, is_text
from hf_sgpe.vocabulary.spelling import BYTES, Spelling, spelling_after
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.vocabulary.vocabulary_arrays import MergePairs, TokenIds

if TYPE_CHECKING:
    from hf_sgpe._native import ModelFile


def also_ordinary(
    texts: Iterable[str],
    merges: Sequence[tuple[bytes, bytes]],
    *,
    ignore_merges: bool = False,
    spelling: Spelling = BYTES,
) -> dict[str, bytes]:
    """Find the added tokens whose texts the model would also use as ordinary tokens. Return a dict from these texts to the
    bytes of the ordinary tokens.

    The model uses a text as an ordinary token if the text spells a single byte (or character, depending on the spelling), a
    part of a merge, or the result of a merge. With ``ignore_merges``, the model also uses a text that spells a word other
    than the text itself.

    >>> also_ordinary(["ß", "ø", "Fuß", "Ġthe", "the"], [(b" ", b"the")])
    {'ß': b'\\xdf', 'Ġthe': b' the', 'the': b'the'}
    """
    spelled = {text: token for text in texts if (token := spelling.find(text))}
    wanted = frozenset(spelled.values())
    merged = wanted.intersection(chain.from_iterable(merges)) | wanted.intersection(map(b"".join, merges))
    return _ordinary_among(spelled, merged, ignore_merges=ignore_merges, spelling=spelling)


def _ordinary_among(
    spelled: Mapping[str, bytes], merged: Set[bytes], *, ignore_merges: bool, spelling: Spelling
) -> dict[str, bytes]:
    """Return the result of `also_ordinary` for texts and their bytes.

    Args:
        merged: The tokens among them that are parts or results of merges.
    """

    def is_ordinary(text: str, token: bytes) -> bool:
        if spelling.is_symbol(token) and token[0] in BYTES_OF_TEXT:
            return True
        return token in merged or (ignore_merges and token != text.encode() and is_text(token))

    return {text: token for text, token in spelled.items() if is_ordinary(text, token)}


def left_out(data: TokenizerData) -> list[str]:
    """Return the added tokens that cannot be in ``model.vocab``, because the model would give their ids to other text."""
    texts = [*data.special_tokens, *data.added_tokens]
    ordinary = also_ordinary(texts, data.merges, ignore_merges=data.ignore_merges, spelling=data.spelling)
    return [text for text, token in ordinary.items() if token not in data.vocab]


def vocab_of(data: TokenizerData) -> dict[str, int]:
    """Return ``model.vocab``, a dict from spellings to ids. Added tokens are included if possible, because added tokens that
    are not in it get new ids when the file is loaded.
    """
    vocab, added = data.get_vocab(), data.added_ids
    outside = left_out(data)
    for text in outside:
        del vocab[text]
    ids: list[int] = []
    for text, id in sorted(added.items(), key=lambda item: item[1]):
        if outside and loaded_id(text, vocab, ids) != id:
            raise SGPEError(
                f"the added token {outside[0]!r} (id {added[outside[0]]}) has the same spelling in tokenizer.json as the "
                f"bytes {data.spelling.find(outside[0])!r}, so these bytes would get the same id: choose another text "
                "for the added token"
            )
        ids.append(id)
    return vocab


def content_of(
    added_tokens: Sequence[Mapping[str, Any]], around: Mapping[str, Any], post_processor: Any, **model: Any
) -> dict[str, Any]:
    """Return the content of a ``tokenizer.json``. ``around`` is its normalizer, pre-tokenizer and decoder."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens,
        **around,
        "post_processor": post_processor,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            **model,
        },
    }


def added_names(content: Mapping[str, Any]) -> set[str]:
    """Return the texts of the added tokens in a ``tokenizer.json``."""
    return {token["content"] for token in content.get("added_tokens") or ()}


class HeldModel(Mapping[str, int]):
    """The field ``model.vocab`` of a ``tokenizer.json`` that the native kernels have read, together with the merges.

    Only single strings can be looked up.
    """

    def __init__(self, file: ModelFile) -> None:
        self.file = file

    def __getitem__(self, text: str) -> int:
        id = self.file.find(text)
        if id < 0:
            raise KeyError(text)
        return id

    def __len__(self) -> int:
        return len(self.file)

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError("the strings of a held vocabulary are not made")


def read_held(data: bytes, is_sentencepiece: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
    """Return the content of a ``tokenizer.json`` with a `HeldModel`. Return None without native kernels, and if anything in
    the file is unusual or wrong.

    Args:
        is_sentencepiece: Function that returns whether merges join characters, given the content without the vocabulary.
    """
    if not kernels.is_native():
        return None
    from hf_sgpe._native import ModelFile

    places = ModelFile.places_in(data)
    if places is None:
        return None
    (first, first_end), (second, second_end) = sorted((tuple(places[:2]), tuple(places[2:])))
    try:
        content = json.loads(b"".join((data[:first], b"{}", data[first_end:second], b"{}", data[second_end:])))
        file = ModelFile.read(data, places, is_sentencepiece(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if file is None or "pre_tokenizer" not in content:
        return None
    return {**content, "model": {**content["model"], "vocab": HeldModel(file)}}


def parts_of(content: Mapping[str, Any], normalization: Normalization, byte_names: Collection[str] = ()) -> dict[str, Any]:
    """Return the vocabulary, the merges and the added tokens of a ``tokenizer.json`` as arguments for `TokenizerData`.

    Args:
        byte_names: Vocabulary strings of the tokens of single bytes, if merges join characters.

    Raises:
        NotByteLevelError: normalization changes an added token, or an added token in normalized text is ambiguous.
    """
    added = _added_tokens(content, normalization)
    names = added_names(content)
    read = _held_parts if isinstance(content["model"]["vocab"], HeldModel) else _readable_parts
    parts, also = read(content, names, names.union(byte_names), spelling_after(normalization))
    if normalization.scheme == "metaspace-prefix" and (both := added["normalized_tokens"] & also):
        raise NotByteLevelError(
            f"its added token {min(both)!r} is matched in normalized text, but merges also make this token"
        )
    return {**parts, "ignore_merges": content["model"].get("ignore_merges", False), **added}


def _readable_parts(
    content: Mapping[str, Any], names: Set[str], left_out: Set[str], spelling: Spelling
) -> tuple[dict[str, Any], Set[str]]:
    """Return arguments for `TokenizerData`, and those texts of added tokens that are also ordinary tokens.

    Args:
        names: Texts of added tokens.
        left_out: These texts, and the strings of the tokens of single bytes.
    """
    model = content["model"]
    vocab, ignore_merges = model["vocab"], model.get("ignore_merges", False)
    spelled = {text: spelling.find(text) for text in vocab if text not in left_out}
    tokens = {text: token for text, token in spelled.items() if token is not None}

    def token_of(text: str) -> bytes:
        return tokens[text] if text in tokens else spelling.token_of(text)

    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in model["merges"])
    merges = [(token_of(left), token_of(right)) for left, right in pairs]
    also = also_ordinary(names & vocab.keys(), merges, ignore_merges=ignore_merges, spelling=spelling)
    parts = {
        "vocab": {token: vocab[text] for text, token in (*tokens.items(), *also.items())},
        "merges": merges,
        "unmade_tokens": {text: vocab[text] for text, token in spelled.items() if token is None},
    }
    return parts, also.keys()


def _held_parts(
    content: Mapping[str, Any], names: Set[str], left_out: Set[str], spelling: Spelling
) -> tuple[dict[str, Any], Set[str]]:
    """Return the same as `_readable_parts`, from a `HeldModel`."""
    model = content["model"]
    file = model["vocab"].file
    spelled = {text: token for text in names if text in model["vocab"] and (token := spelling.find(text))}
    merged = {spelled[text] for text in file.merged_among([*spelled])}
    ignore_merges = model.get("ignore_merges", False)
    also = _ordinary_among(spelled, merged, ignore_merges=ignore_merges, spelling=spelling).keys()
    native = file.finish([*(left_out - also)])
    if native is None:
        raise SGPEError("two tokens have the same id, or a merge uses an added token")
    parts = {
        "vocab": TokenIds(native),
        "merges": MergePairs(native),
        "unmade_tokens": {text: id for text, id in file.others.items() if text not in names},
    }
    return parts, also


def _added_tokens(content: Mapping[str, Any], normalization: Normalization) -> dict[str, Any]:
    vocab = content["model"]["vocab"]
    name_of: dict[int, str] = {}
    tokens: dict[str, Mapping[str, Any]] = {}
    # A Metaspace changes a token as it changes the text in which the token is matched.
    matched = replace(normalization, scheme="none") if normalization.is_metaspace else normalization
    for token in content.get("added_tokens") or ():
        name, id = token["content"], token["id"]
        if token.get("normalized") and prepare(name, matched) != name:
            raise NotByteLevelError(f"its added token {name!r} changes under normalization")
        loaded = loaded_id(name, vocab, name_of)
        if id != loaded:
            raise SGPEError(f"its added token {name!r} has id {id} in the file, but would have id {loaded} after loading")
        if _knows_the_later_only():
            tokens.pop(name_of.get(id, name), None)
        name_of[id] = name
        tokens[name] = token
    return {
        "special_tokens": {name: token["id"] for name, token in tokens.items() if token.get("special")},
        "added_tokens": {name: token["id"] for name, token in tokens.items() if not token.get("special")},
        "normalized_tokens": frozenset(name for name, token in tokens.items() if token.get("normalized")),
        "matching": {name: Matching.of(token) for name, token in tokens.items()},
    }


@cache
def _knows_the_later_only() -> bool:
    """Return whether the installed version of `tokenizers` finds only the second of two added tokens with the same id.

    Newer versions of the library do this.
    """
    model = {"type": "BPE", "vocab": {"a": 0, "<1>": 1, "<2>": 1}, "merges": []}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": 1, "content": name, **flags} for name in ("<1>", "<2>")]
    try:
        tokenizer = tokenizers_library.load(json.dumps({"version": "1.0", "model": model, "added_tokens": added}))
    except SGPEError:
        return True  # the library is not installed
    return len(tokenizer.encode("<1><2>").ids) < 2


def loaded_id(text: str, vocab: Mapping[str, int], added: Iterable[int]) -> int:
    """Return the id that an added token gets when a ``tokenizer.json`` is loaded. If the token is in ``model.vocab``, this
    is its id there, otherwise the next free id.

    Args:
        added: Ids of all earlier added tokens.
    """
    return vocab[text] if text in vocab else max([len(vocab), *(id + 1 for id in added)])
