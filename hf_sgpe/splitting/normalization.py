"""What happens to a text before it is split: made well-formed, then normalized or not."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from hf_sgpe import kernel

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer

NORMALIZATIONS = ("none", "nfc")


def normalize(text: str, normalization: str) -> str:
    r"""``text`` as the split regexes will see it.

    A lone surrogate cannot be written as UTF-8 and becomes U+FFFD. NFC is that of the ``tokenizers`` library, whose Unicode
    version is not Python's.

    Args:
        normalization: One of `NORMALIZATIONS`.

    >>> normalize("e\u0301 \ud800", "nfc")
    'é �'
    """
    if text.isascii():
        return text
    native = kernel.native()
    if native is None or normalization != "nfc":
        return _normalize(text, normalization)
    pieces, position = [], 0
    for start, end in native.nfc_spans(text):
        pieces += [text[position:start], _normalize(text[start:end], normalization)]
        position = end
    return "".join([*pieces, text[position:]]) if pieces else text


def _normalize(text: str, normalization: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _nfc().normalize_str(text) if normalization == "nfc" else text


@cache
def _nfc() -> Normalizer:
    from tokenizers.normalizers import NFC

    return NFC()
