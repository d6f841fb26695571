"""The ``tokenizer.json`` written by the ``save()`` of the tutorial *Tokenizers for large language models*.

The tutorial describes the file as compatible with Hugging Face. But no library loads it, because the file has neither a
pre-tokenizer nor a decoder. The file's content is enough to build a valid ``tokenizer.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.pre_tokenizers import BYTE_LEVEL
from hf_sgpe.splitting.patterns import SPLIT_PATTERNS
from hf_sgpe.vocabulary.special_tokens import bos_eos_template_of, roles_of


def is_one(content: Mapping[str, Any]) -> bool:
    """Return whether a ``tokenizer.json`` with this content was written by the tutorial's ``save()``."""
    return content.get("type") == "BPE" and "model" in content and "pre_tokenizer" not in content


def translated(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a valid ``tokenizer.json`` with the same ids as the tutorial's ``encode``."""
    special = {token["id"]: token["content"] for token in content.get("added_tokens") or ()}
    template = bos_eos_template_of(roles_of(special.values()))  # its encode(text, add_special_tokens=True)
    for name, id in content["model"]["vocab"].items():
        if id in special and special[id] != name:
            raise SGPEError(
                f"{path}: the special token {special[id]!r} has the same id {id} as the token {name!r}, so text with "
                f"{name!r} cannot be decoded: train the tokenizer again with higher ids for its special tokens"
            )
    pattern = content.get("split_pattern", SPLIT_PATTERNS["cl100k-any-space"])
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "added_tokens": content.get("added_tokens") or [],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL]},
        "post_processor": template.as_post_processor({name: id for id, name in special.items()}) if template else BYTE_LEVEL,
        "decoder": BYTE_LEVEL,
        "model": content["model"],
    }
