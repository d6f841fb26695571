"""The two files that GPT-2 introduced, ``vocab.json`` and ``merges.txt``.

The files contain neither the split pattern nor the list of special tokens. `read` takes both as arguments. `translated`
takes both from the tokenizer class that the settings in the same folder name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import export_line
from hf_sgpe.files.json_files import optional_json, read_json
from hf_sgpe.files.unreadable import read_utf8
from hf_sgpe.formats import model_vocab
from hf_sgpe.formats.pre_tokenizers import BYTE_LEVEL, after_split
from hf_sgpe.formats.tokenizer_classes import CLASSES, TokenizerClass, class_name_of
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE, token_text
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.byte_strings import string_to_bytes
from hf_sgpe.vocabulary.special_tokens import bos_eos_template
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

VOCAB_FILE, MERGES_FILE = "vocab.json", "merges.txt"
ROLES_FILE, ADDED_FILE = "special_tokens_map.json", "added_tokens.json"

_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def read(
    vocab: Path,
    merges: Path,
    *,
    pattern: str,
    special_tokens: Sequence[str] | Mapping[str, int] = (),
    ignore_merges: bool = False,
) -> TokenizerData:
    """Read a tokenizer from a ``vocab.json`` and a ``merges.txt``.

    Args:
        pattern: Name of one of `SPLIT_PATTERNS`, or a regex.
        special_tokens: The tokens of the vocabulary that are special tokens; or a dict from special tokens to their ids,
            which need not be in the vocabulary.
        ignore_merges: Whether a word that is in the vocabulary becomes a single token without merges, as in Llama 3.
    """
    ids = read_json(vocab)
    pairs = [(string_to_bytes(left), string_to_bytes(right)) for left, right in _merges(merges)]
    given = special_tokens if isinstance(special_tokens, Mapping) else {}
    missing = [token for token in special_tokens if token not in ids and token not in given]
    if missing:
        raise SGPEError(f"{vocab}: does not contain the special tokens {', '.join(missing)}")
    specials = {token: ids[token] if token in ids else given[token] for token in special_tokens}
    for token, id in given.items():
        if specials[token] != id:
            raise SGPEError(f"{vocab}: the special token {token} has id {specials[token]}, not {id}")
    ordinary = {token: string_to_bytes(token) for token in ids if token not in specials}
    ordinary |= model_vocab.also_ordinary(specials, pairs, ignore_merges=ignore_merges)
    return TokenizerData(
        {token: ids[text] for text, token in ordinary.items()},
        pairs,
        special_tokens=specials,
        splitting=Splitting("bpe", pattern=pattern),
        ignore_merges=ignore_merges,
    )


def translated(merges: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Translate a ``merges.txt`` and the other files of GPT-2's format in its folder. Return the contents of an equivalent
    ``tokenizer.json`` and of an equivalent ``tokenizer_config.json``.

    The result has the same added tokens as in transformers. They come from ``tokenizer_config.json``. If that file has no
    added tokens, they come from ``added_tokens.json`` and ``special_tokens_map.json``. The special tokens of the tokenizer's
    class are added, too.
    """
    folder = merges.parent
    vocab = read_json(folder / VOCAB_FILE)
    is_gpt2 = len(vocab) == 50_257 and vocab.get("<|endoftext|>") == 50_256
    name = class_name_of(folder) or ("GPT2Tokenizer" if is_gpt2 else None)
    kind = CLASSES.get(name or "")
    if kind is None:
        reason = f"is of the class {name}, whose split pattern is not known" if name else "has no split pattern"
        raise SGPEError(f"{merges}: {reason}: name it with {export_line(str(merges), str(folder), 'NAME')}")
    settings = {**kind.roles, **settings_in(folder)}
    added = _added_tokens(settings, optional_json(folder / ADDED_FILE), vocab)
    pre_tokenizer = {**BYTE_LEVEL, "add_prefix_space": bool(settings.get("add_prefix_space"))}
    if kind.pattern == "gpt2":
        pre_tokenizer |= {"trim_offsets": True, "use_regex": True}
    else:
        pre_tokenizer = after_split(SPLIT_PATTERNS[kind.pattern], pre_tokenizer)
    content = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if kind.normalization == "nfc" else None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": _post_processor(kind, settings, {token["content"]: token["id"] for token in added}),
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": vocab, "merges": [list(pair) for pair in _merges(merges)]},
    }
    return content, settings


def settings_in(folder: Path) -> dict[str, Any]:
    """Return a folder's ``tokenizer_config.json`` and, if it has no added tokens, also its ``special_tokens_map.json``."""
    settings = optional_json(folder / CONFIG_FILE)
    return settings if "added_tokens_decoder" in settings else {**settings, **optional_json(folder / ROLES_FILE)}


def _merges(path: Path) -> list[tuple[str, str]]:
    """Return the merges of a file as pairs of vocabulary strings."""
    pairs = []
    for number, line in enumerate(read_utf8(path).split("\n"), 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise SGPEError(f"{path}, line {number}: expected two tokens with a space between them, not {line!r}")
        pairs.append((parts[0], parts[1]))
    return pairs


def _added_tokens(
    settings: Mapping[str, Any], added_ids: Mapping[str, int], vocab: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the entry ``added_tokens`` of the equivalent ``tokenizer.json``, sorted by id."""
    roles = [*_ROLES, *(name for name in settings if name.endswith("_token") and name not in _ROLES)]
    extra = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or []
    values = [settings.get(role) for role in roles] + list(extra.values() if isinstance(extra, Mapping) else extra)
    special: dict[str, dict[str, Any]] = {}
    for value in values:
        if isinstance(value, str):
            special.setdefault(value, {"content": value, **_FLAGS, "special": True})
        elif isinstance(value, Mapping):
            flags = {name: bool(value.get(name, name == "normalized")) for name in _FLAGS}
            special.setdefault(value["content"], {"content": value["content"], **flags, "special": True})
    decoder = settings.get("added_tokens_decoder") or {
        id: {"content": name, **_FLAGS, "normalized": name not in special} for name, id in added_ids.items()
    }
    tokens = [{"id": int(id), **_FLAGS, "special": False, **token} for id, token in decoder.items()]
    tokens = [{**token, "special": token["special"] or token["content"] in special} for token in tokens]
    names, ids = {token["content"] for token in tokens}, [token["id"] for token in tokens]
    for name, token in special.items():
        if name not in names:
            ids.append(model_vocab.loaded_id(name, vocab, ids))
            tokens.append({"id": ids[-1], **token})
    return sorted(tokens, key=lambda token: token["id"])


def _post_processor(kind: TokenizerClass, settings: Mapping[str, Any], ids: Mapping[str, int]) -> dict[str, Any]:
    texts = {
        role: text for role, value in settings.items() if role.endswith("_token") and (text := token_text(value)) is not None
    }
    if kind.puts_around:
        cls, sep = texts["cls_token"], texts["sep_token"]
        pairs = {"sep": [sep, ids[sep]], "cls": [cls, ids[cls]]}
        return {"type": "RobertaProcessing", **pairs, "trim_offsets": True, "add_prefix_space": False}
    puts_bos, puts_eos = (bool(settings.get(f"add_{role}")) and role in texts for role in ("bos_token", "eos_token"))
    template = bos_eos_template(texts, add_bos_token=puts_bos, add_eos_token=puts_eos)
    return template.as_post_processor(ids) if template else BYTE_LEVEL
