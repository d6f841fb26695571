"""The two files that GPT-2 introduced, ``vocab.json`` and ``merges.txt``.

The files contain neither the split pattern nor the list of special tokens, so both are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json
from hf_sgpe.files.unreadable import read_utf8
from hf_sgpe.formats import model_vocab
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.byte_strings import string_to_bytes
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


def read(
    vocab: Path, merges: Path, *, pattern: str, special_tokens: Sequence[str] = (), ignore_merges: bool = False
) -> TokenizerData:
    """Return the tokenizer of two files.

    Args:
        vocab: JSON object: vocabulary string → id.
        merges: One merge a line, with a space between its two parts. A first line ``#version…`` is ignored.
        pattern: Name of one of `SPLIT_PATTERNS`, or a regex.
        special_tokens: The entries of the vocabulary that are special tokens.
        ignore_merges: Whether a word that is a token becomes this token without merges, as for Llama 3.

    Raises:
        SGPEError: a file is damaged, or the files do not fit together. The message names the file and the place.
        FileNotFoundError: there is no such file.
    """
    ids = read_json(vocab)
    lines = read_utf8(merges).split("\n")
    pairs = []
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise SGPEError(f"{merges}, line {number}: a merge is two tokens with a space between, not {line!r}")
        pairs.append((string_to_bytes(parts[0]), string_to_bytes(parts[1])))
    missing = [token for token in special_tokens if token not in ids]
    if missing:
        raise SGPEError(f"{vocab}: does not contain the special tokens {', '.join(missing)}")
    specials = {token: ids[token] for token in special_tokens}
    ordinary = {token: string_to_bytes(token) for token in ids if token not in specials}
    ordinary |= model_vocab.also_ordinary(specials, pairs, ignore_merges=ignore_merges)
    return TokenizerData(
        {token: ids[text] for text, token in ordinary.items()},
        pairs,
        special_tokens=specials,
        splitting=Splitting("bpe", pattern=pattern),
        ignore_merges=ignore_merges,
    )
