"""What happens to a text before it is cut: lone surrogates are replaced, and the text is normalized or not."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from hf_sgpe import kernel

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer

NORMALIZATIONS = ("none", "nfc")


def well_formed(text: str) -> str:
    r"""``text`` as UTF-8 can hold it: a lone surrogate becomes U+FFFD, and two that belong together one character.

    >>> well_formed("a\ud800 \ud83d\ude00")
    'a� 😀'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def prepare(text: str, normalization: str) -> str:
    r"""`well_formed` text, in the normal form that a tokenizer wants: what its split regexes see.

    NFC is that of the ``tokenizers`` library, whose Unicode version is not Python's.

    Args:
        normalization: One of `NORMALIZATIONS`.

    >>> prepare("e\u0301 \ud800", "nfc")
    'é �'
    """
    if text.isascii():
        return text
    if normalization == "none":
        return well_formed(text)
    if not kernel.is_native():
        return _nfc().normalize_str(well_formed(text))
    import hf_sgpe._native as _native

    pieces, position = [], 0
    for start, end in _native.nfc_spans(text):
        pieces += [text[position:start], _nfc().normalize_str(well_formed(text[start:end]))]
        position = end
    return "".join([*pieces, text[position:]]) if pieces else text


@cache
def _nfc() -> Normalizer:
    from tokenizers.normalizers import NFC

    return NFC()
