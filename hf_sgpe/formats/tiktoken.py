"""``.tiktoken`` files, and tokenizers of the ``tiktoken`` package.

tiktoken has no list of merges: it merges any two neighbours whose concatenation is a token, lowest id first, and knows one
split pattern and no normalization. What it would not encode exactly alike is refused.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from operator import gt
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sgpe.atomic import atomic_file
from hf_sgpe.bpe.encoder import MergeTable, apply_merges
from hf_sgpe.bpe.tokenizer_data import TokenizerData
from hf_sgpe.bpe.unit_tier import BYTES, build_unit_tier
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.splitting.splitting import Splitting

if TYPE_CHECKING:
    from tiktoken import Encoding


def write(tokenizer: TokenizerData, path: str | os.PathLike[str]) -> None:
    """Writes each token but the special ones with its id, the lowest first; the file holds nothing else.

    Raises:
        SGPEError: tiktoken would give other tokens.
    """
    _check(tokenizer)
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        file.writelines(b"%s %d\n" % (base64.b64encode(token), id) for token, id in tokenizer.get_mergeable_ranks())


def read(
    path: str | os.PathLike[str], *, pattern: str = "cl100k", special_tokens: Mapping[str, int] | None = None
) -> TokenizerData:
    """The tokenizer of a ``.tiktoken`` file. Neither the split pattern nor the special tokens are in the file.

    Args:
        pattern: Name of one of `SPLIT_PATTERNS` or a regular expression.
        special_tokens: Text → id.

    Raises:
        SGPEError: the file is damaged (the message names the line), or its parts do not make a tokenizer.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    vocab: dict[bytes, int] = {}
    lines: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line:
            continue
        try:
            token, id = line.split()
            decoded = base64.b64decode(token, validate=True)
            vocab[decoded] = int(id)
        except (ValueError, binascii.Error):
            raise SGPEError(f"{path}, line {number}: expected a token in base64 and its id, not {line[:40]!r}") from None
        if lines.setdefault(decoded, number) != number:
            raise SGPEError(f"{path}, line {number}: the token {decoded!r} stands in line {lines[decoded]} already")
    merges, unreachable = _merges(vocab)
    try:
        splitting = Splitting("bpe", pattern=pattern)
        return TokenizerData(
            vocab, merges, special_tokens=special_tokens, splitting=splitting, ignore_merges=bool(unreachable)
        )
    except SGPEError as error:
        raise SGPEError(f"{path}: {error}") from None


def to_tiktoken(tokenizer: TokenizerData, name: str = "hf_sgpe") -> Encoding:
    """The tokenizer as one of the ``tiktoken`` package, with the same ids for text that is already normalized.

    Raises:
        SGPEError: tiktoken is not installed, or would give other ids.
    """
    try:
        import tiktoken
    except ImportError:
        raise not_installed("this needs the package tiktoken", "tiktoken", extra="tiktoken") from None
    _check(tokenizer)
    try:
        return tiktoken.Encoding(
            name,
            pat_str=one_pattern(tokenizer.splitting),
            mergeable_ranks=tokenizer.vocab,
            special_tokens=tokenizer.special_tokens | tokenizer.added_tokens,
        )
    except ValueError as error:
        raise SGPEError(f"tiktoken does not take this tokenizer's split pattern ({error})") from None


def one_pattern(splitting: Splitting) -> str:
    """One split pattern that matches the words of a splitting, those in between its matches included.

    In the recipe ``hybrid`` all else is kept from reaching into a word of the scripts.

    Raises:
        SGPEError: it cuts text in several steps.
    """
    if len(splitting.patterns) > 1:
        raise SGPEError("this tokenizer splits in several steps, which tiktoken cannot do")
    if splitting.recipe != "hybrid":
        (pattern,) = splitting.regexes
    else:
        words = splitting.words_regex
        guarded = _MATCHES_SOME_CHARACTER.sub(lambda atom: f"(?:(?!{words}){atom[0]})", splitting.patterns[0])
        pattern = f"{words}|{guarded}"
    last = len(splitting.regexes) - 1
    return pattern if splitting.covers_all(last) else _with_gaps(pattern)


# The parts of a split pattern that can match a letter or space: classes, \p{…}, \s, \S, a space.
_MATCHES_SOME_CHARACTER = re.compile(r"\[(?:\\.|[^\]\\])+\]|\\p\{\w+\}|\\[sS]| ")


def _with_gaps(pattern: str) -> str:
    """A pattern that matches also the text between two matches."""
    return rf"{pattern}|(?:(?!{pattern})[\s\S])+"


def _check(tokenizer: TokenizerData) -> None:
    """Makes sure that tiktoken's rule gives this tokenizer's tokens."""
    merges, unreachable = _merges(tokenizer.vocab)
    vocab = tokenizer.vocab
    results = [vocab[left + right] for left, right in tokenizer.merges]
    if any(map(gt, results, results[1:])):
        raise SGPEError("the tokenizer's ids are not in the order of its merges, and tiktoken takes ids for ranks")
    # Superfluous merges do no harm: their two parts never stand side by side.
    if missing := set(merges).difference(tokenizer.merges):
        left, right = min(missing, key=lambda pair: vocab[pair[0] + pair[1]])
        raise SGPEError(
            f"the tokenizer has no merge of {left!r} and {right!r}, but tiktoken would merge them into {left + right!r}"
        )
    if unreachable and not tokenizer.ignore_merges:
        raise SGPEError(
            f"the tokenizer's token {unreachable[0]!r} comes from no merge, but tiktoken would use it for a whole word"
        )


def _merges(vocab: Mapping[bytes, int]) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
    """The merges that tiktoken's rule amounts to, and the tokens that merges in this order do not reach.

    A token is merged from what its bytes come to by all merges before its own; every longer text that holds it gets there
    by the same way, or never has it. So one merge for each token is enough, if that is always two tokens. Else (Llama 3)
    every pair that makes a token is listed, in case one of them comes about later.
    """
    ranked = sorted(vocab.items(), key=lambda item: item[1])
    longer = [token for token, _ in ranked if len(token) > 1]
    names = [*BYTES, *longer]
    merges = [(names[left], names[right]) for left, right in build_unit_tier(longer) if max(left, right) < len(names)]
    if list(map(b"".join, merges)) == longer:
        return merges, []
    table = MergeTable()
    unreachable: list[bytes] = []
    for token in longer:
        pieces = apply_merges(token, table)
        if len(pieces) == 2:
            table.add((pieces[0], pieces[1]), vocab[token] + len(BYTES))
        else:
            unreachable.append(token)
    lengths = {len(token) for token in vocab}
    splits = (
        (token[:place], token[place:]) for token in longer for place in sorted(lengths) if len(token) - place in lengths
    )
    return [(left, right) for left, right in splits if left in vocab and right in vocab], unreachable
