"""The validation part of a corpus: texts that are not used for training. They are chosen by a hash of each text.

The choice does not depend on the order of the texts, on their files, or on the machine. Equal texts are all in the
validation part, or all outside it. If the share is increased, the validation part keeps all of its texts and gains more.
"""

from __future__ import annotations

import hashlib

from hf_sgpe.errors import SGPEError


def check_share(share: float) -> float:
    """Return a share, after checking that it is greater than 0 and less than 1."""
    if not 0 < share < 1:
        raise SGPEError(f"--validation-share must be between 0 and 1, not {share}")
    return share


def is_for_validation(text: str, share: float) -> bool:
    """Return whether a text belongs to the validation part, which has about ``share`` of the texts. The first eight bytes of
    its SHA-256, as a fraction of 2**64, are then below ``share``.

    >>> [is_for_validation(text, 0.5) for text in ("one", "two", "three")]
    [True, True, False]
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
