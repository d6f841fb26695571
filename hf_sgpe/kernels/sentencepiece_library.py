"""The normalizer of the ``sentencepiece`` library. It applies tables for NFKC and similar forms in a way that no other
library does.

The normalizer ``Precompiled`` of ``tokenizers`` has the same tables. But that normalizer replaces whole grapheme clusters:
it drops the dot of "é" + U+0323, and does not change U+1025 U+102E, which SentencePiece composes to U+1026.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import optional

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KIND = "SentencePiece"
"""The type of this normalizer among the normalizers of a ``tokenizer.json``, which has no such type."""


def normalizer(table: bytes) -> dict[str, Any]:
    """Return the JSON object that describes the normalizer for a table, as in a ``tokenizer.json``."""
    return {"type": KIND, "precompiled_charsmap": base64.b64encode(table).decode("ascii")}


def normalized(text: str, table: str) -> str:
    """Return a text after SentencePiece has normalized it by a table.

    Args:
        table: The ``precompiled_charsmap`` of `normalizer`.

    Raises:
        NotInstalledError: sentencepiece or protobuf is not installed.
    """
    result: str = _library(table).normalize(text)
    return result


def normalized_with_places(text: str, table: str) -> tuple[str, NDArray[np.int32], NDArray[np.int32]]:
    """Normalize a text as `normalized` does, and return two arrays along with the result. For each character of the result,
    the arrays contain the start and the end of the part of ``text`` that became this character.
    """
    import numpy as np

    changed, places = _library(table).normalize(text, with_offsets=True)
    offsets = np.array(places, np.int32)
    return changed, offsets[:-1], np.maximum(offsets[1:], offsets[:-1] + 1)


@lru_cache(8)
def _library(table: str) -> Any:
    need, packages = "SentencePiece's normalizer needs sentencepiece and protobuf", ("sentencepiece", "protobuf")
    library = optional("sentencepiece", need, *packages, extra="sentencepiece")
    definition = optional("sentencepiece.sentencepiece_model_pb2", need, *packages, extra="sentencepiece")
    model = definition.ModelProto()
    model.normalizer_spec.precompiled_charsmap = base64.b64decode(table)
    only = {"add_dummy_prefix": False, "escape_whitespaces": False, "remove_extra_whitespaces": False}
    return library.SentencePieceNormalizer(model_proto=model.SerializeToString(), **only)
