"""The two files of the SGPE document: ``vocab.json`` (section 3.7) and ``checkpoint_N.json`` (section 3.8)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hf_sgpe.bpe.merging import spell_tokens
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, order_units
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.files.json_files import read_json
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.vocabulary.special_tokens import cls_sep_template
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

VOCAB_FILE = "vocab.json"
VERSION = "sgpe_v1.0.0"

Merges = list[tuple[str, str]]


def write(
    path: str | os.PathLike[str],
    *,
    vocab: dict[str, int],
    merges: Merges,
    special_tokens: tuple[str, ...],
    prune_freq: int,
    leading_space: bool,
    scripts: tuple[str, ...],
) -> None:
    """Writes ``vocab.json``. ``scripts`` is written for other scripts than the document's Sinhala only."""
    content: dict[str, Any] = {
        "version": VERSION,
        "vocab_size": len(vocab),
        "special_tokens": list(special_tokens),
        "num_merges": len(merges),
        "prune_freq": prune_freq,
        "leading_space": leading_space,
        "merges": [list(pair) for pair in merges],
        "vocab": dict(sorted(vocab.items(), key=lambda item: item[1])),
    }
    if scripts != ("sinhala",):
        content["scripts"] = list(scripts)
    _write(content, path)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a ``vocab.json``, ours or the document's, as the arguments of `write`.

    Raises:
        SGPEError: the file is damaged or of another kind.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    content = read_json(path)
    vocab, special_tokens = content.get("vocab"), content.get("special_tokens")
    if not isinstance(vocab, dict) or not all(type(id) is int and id >= 0 for id in vocab.values()):
        raise SGPEError(f"{path}: not an SGPE vocabulary: its entry 'vocab' does not map tokens to ids")
    if not isinstance(special_tokens, list) or not all(isinstance(token, str) for token in special_tokens):
        raise SGPEError(f"{path}: not an SGPE vocabulary: its entry 'special_tokens' must be a list of tokens")
    prune_freq, scripts = content.get("prune_freq", 1), content.get("scripts", ["sinhala"])
    if type(prune_freq) is not int or not isinstance(scripts, list):
        raise SGPEError(f"{path}: its prune_freq must be a whole number, and its scripts a list")
    merges = _merges(content, path)
    leading_space = content.get("leading_space", False)
    if not isinstance(leading_space, bool):
        raise SGPEError(f"{path}: its leading_space is neither true nor false but {leading_space!r}")
    for name, size in {"vocab_size": len(vocab), "num_merges": len(merges)}.items():
        if content.get(name, size) != size:
            raise SGPEError(f"{path}: damaged: its {name} is {content[name]!r}, but it holds {size}")
    return {
        "vocab": vocab,
        "merges": merges,
        "special_tokens": tuple(special_tokens),
        "prune_freq": prune_freq,
        "leading_space": leading_space,
        "scripts": tuple(scripts),
    }


def to_data(
    *,
    vocab: dict[str, int],
    merges: Merges,
    special_tokens: tuple[str, ...],
    leading_space: bool,
    scripts: tuple[str, ...],
    **others: Any,
) -> TokenizerData:
    """Turns what `read` returns into byte-level BPE with the same ids; see `hf_sgpe.learning.sgpe.SGPEVocabulary.to_bpe`.

    Raises:
        SGPEError: the vocabulary was made without leading spaces, or its parts do not fit together.
    """
    if not leading_space:
        raise SGPEError("only vocabularies with leading_space can be exported: words could not be told apart")
    trie = LinguisTrie(scripts)
    merged = {left + right for left, right in merges}
    units = {token for token in vocab if token not in merged and token not in special_tokens}
    letters = {letter for unit in units if trie.script_of(unit) for letter in trie.letters(unit)}
    unit_merges = build_unit_tier([unit.encode() for unit in order_units(ChosenUnits(units, letters), trie)])
    tokens = spell_tokens(BYTES, unit_merges)
    ids = {token.encode(): id for token, id in vocab.items() if token not in special_tokens}
    next_id = max(vocab.values(), default=-1) + 1
    for token in tokens:
        if token not in ids:
            ids[token] = next_id
            next_id += 1
    special_ids = {token: vocab[token] for token in special_tokens if token in vocab}
    return TokenizerData(
        ids,
        [(tokens[left], tokens[right]) for left, right in unit_merges]
        + [(left.encode(), right.encode()) for left, right in merges],
        special_tokens=special_ids,
        splitting=Splitting("sgpe", scripts),
        template=cls_sep_template(special_ids),
    )


def write_checkpoint(merges: Merges, elapsed_seconds: float, path: str | os.PathLike[str]) -> None:
    """Writes the merges learned so far; there are as many as steps. Time grows with their number."""
    pairs = [list(pair) for pair in merges]
    _write({"step": len(merges), "merges": pairs, "elapsed_seconds": round(elapsed_seconds, 1)}, path)


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[Merges, float]:
    """The merges and seconds of a checkpoint.

    Raises:
        SGPEError: the file is damaged or of another kind.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    content = read_json(path)
    merges, elapsed = _merges(content, path), content.get("elapsed_seconds", 0.0)
    if content.get("step") != len(merges):
        raise SGPEError(f"{path}: damaged: it holds {len(merges)} merges for step {content.get('step')!r}")
    if not isinstance(elapsed, (int, float)):
        raise SGPEError(f"{path}: damaged: its elapsed_seconds must be a number, not {elapsed!r}")
    return merges, float(elapsed)


def _merges(content: dict[str, Any], path: Path) -> Merges:
    merges = content.get("merges")
    if not isinstance(merges, list):
        raise SGPEError(f"{path}: holds no list 'merges'")
    for rank, pair in enumerate(merges):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(token, str) for token in pair):
            raise SGPEError(f"{path}: merge {rank} is not two tokens but {pair!r}")
    return [(left, right) for left, right in merges]


def _write(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    with atomic_file(path) as temporary:
        text = json.dumps(content, ensure_ascii=False, indent=1)
        temporary.write_text(text + "\n", encoding="utf-8", newline="\n")
