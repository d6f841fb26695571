"""Language codes of translation models such as NLLB: special tokens that tell the model the language of a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.vocabulary.added_patterns import EXACTLY
from hf_sgpe.vocabulary.special_tokens import check_special_texts

FIRST_TIMESTAMP = "<|0.00|>"
"""The first timestamp of Whisper, which reads each id from there on as a time."""


def with_language_codes(folder: TokenizerFolder | PieceFolder, codes: Mapping[str, str]) -> TokenizerFolder | PieceFolder:
    """Return a tokenizer with additional language codes, which get the ids after the highest id.

    Args:
        codes: For each new code, the code of a similar language. A transplant copies the embedding row of this code.
    """
    tokens = list(folder.content.get("added_tokens") or ())
    special = [token["content"] for token in tokens if token.get("special")]
    known = {*folder.vocab, *folder.added} if isinstance(folder, PieceFolder) else {*folder.data.get_vocab()}
    if FIRST_TIMESTAMP in known:
        raise SGPEError(f"{folder.name} is Whisper's, which reads ids after its languages as times: no code can be added")
    for code, like in codes.items():
        if code in known:
            raise SGPEError(f"{folder.name} already has the token {code}: leave out --add-language-code {code}")
        if like not in special:
            raise SGPEError(f"{folder.name} has no special token {like}: with --like, name one of its language codes")
    check_special_texts(codes)
    first = 1 + (folder.highest_id if isinstance(folder, PieceFolder) else folder.data.highest_id)
    ids = {code: first + place for place, code in enumerate(codes)}
    flags = {**EXACTLY.flags(), "normalized": False, "special": True}
    tokens += [{"id": id, "content": code, **flags} for code, id in ids.items()]
    settings: dict[str, Any] = dict(folder.settings)
    metadata = settings.get("sgpe") or {}
    settings["sgpe"] = {**metadata, "languages": {**metadata.get("languages", {}), **codes}}
    listed = settings.get("additional_special_tokens", settings.get("extra_special_tokens"))
    settings["additional_special_tokens"] = [*(listed if isinstance(listed, list) else special), *codes]
    if isinstance(decoder := settings.get("added_tokens_decoder"), Mapping):
        settings["added_tokens_decoder"] = {**decoder, **{str(id): {"content": code, **flags} for code, id in ids.items()}}
    if isinstance(folder, PieceFolder):
        longer = folder.with_pieces(dict.fromkeys(codes, 0.0), {})
        return replace(longer, content={**longer.content, "added_tokens": tokens}, settings=settings)
    data = replace(folder.data.with_special_tokens(ids), metadata=settings["sgpe"])
    files = replace(folder, content={**folder.content, "added_tokens": tokens}, settings=settings)
    return files.with_vocabulary_of(data)
