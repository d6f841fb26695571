"""Trials of an extended Unigram or WordPiece tokenizer on difficult text, in the ``tokenizers`` library and with
``AutoTokenizer``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random

from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.auto_tokenizer import GENERIC, read_with_auto_tokenizer
from hf_sgpe.formats.tokenizer_files import TokenizerFiles
from hf_sgpe.learning.extension.piece_extending import PieceExtension
from hf_sgpe.vocabulary.confinement import Confinement

_TEXTS, _LENGTH = 200, 40


def hard_texts(scripts: Iterable[str]) -> list[str]:
    """Return random texts of characters from all of Unicode. In every second text, half of the characters are those of the
    scripts; the other texts have none of them.
    """
    ours = Confinement.to_scripts(scripts).points
    points = (point for point in range(0x20, 0x30000) if not 0xD800 <= point < 0xE000)
    assigned = [chr(point) for point in points if unicodedata.category(chr(point)) != "Cn"]
    own = [character for character in assigned if ord(character) in ours]
    usual = [character for character in assigned[:0x500] if ord(character) not in ours]
    others = [character for character in assigned if ord(character) not in ours]
    random = Random(0)
    texts = []
    for number in range(_TEXTS):
        groups = [usual, others, [" "]] + [own] * (2 * (number % 2))
        texts.append("".join(random.choice(random.choice(groups)) for _ in range(random.randrange(1, _LENGTH))))
    return texts


def check_same_pieces(extension: PieceExtension, scripts: Iterable[str], texts: Iterable[str]) -> None:
    """Check that the base and the extended tokenizer encode the texts without a character of the scripts to the same ids."""
    points = Confinement.to_scripts(scripts).points
    others = [text for text in texts if points.isdisjoint(map(ord, text))]
    before, after = (one.encode_batch(others) for one in (extension.base, extension.tokenizer))
    for text, old, new in zip(others, before, after, strict=True):
        if old != new:
            raise SGPEError(f"the extended tokenizer gives other ids than its base for {text!r}: please report this")


def written_class(
    tokenizer: TokenizerFiles, encode_batch: Callable[[list[str]], list[list[int]]], folder: Path, texts: Sequence[str]
) -> str:
    """Check whether ``AutoTokenizer`` returns the same ids for the texts with the tokenizer in a folder. If not, write
    the tokenizer again with a class that takes everything from ``tokenizer.json``. Return a sentence about the class.
    """
    name = tokenizer.settings.get("tokenizer_class")
    generic = f"AutoTokenizer loads the tokenizer as {GENERIC[0]}."
    if not isinstance(name, str) or name in GENERIC or find_spec("transformers") is None:
        return generic
    added = tuple(token["content"] for token in tokenizer.content.get("added_tokens") or ())
    plain = [text for text in texts if not any(token in text for token in added)]
    try:
        reading = read_with_auto_tokenizer(folder, plain)
    except SGPEError as error:
        why = f"{name} cannot load it ({error})"
    else:
        different = sum(one != other for one, other in zip(reading.ids, encode_batch(plain), strict=True))
        if not different:
            return f"AutoTokenizer loads the tokenizer as {reading.class_name}, with the same ids for {len(plain):,} texts."
        why = f"{reading.class_name} gives other ids for {different:,} of {len(plain):,} texts"
    tokenizer.write(folder, tokenizer_class=GENERIC[0])
    return f"{generic[:-1]}, because {why}."
