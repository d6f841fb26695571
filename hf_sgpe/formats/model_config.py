"""What the folder of a model says in its ``config.json`` and beside it, wherever a version of transformers has put it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.tokenizer_json import read_json


def end_ids(folder: Path, config: Mapping[str, Any]) -> list[int]:
    """The tokens at which the model ends, those of ``generation_config.json`` first of all."""
    generation = folder / "generation_config.json"
    own = read_json(generation).get("eos_token_id") if generation.exists() else None
    return listed(config.get("eos_token_id") if own is None else own)


def listed(ids: int | list[int] | None) -> list[int]:
    """Ids as a configuration has them: one, several or none.

    Raises:
        SGPEError: they are something else.

    >>> listed(5), listed([5, 6]), listed(None)
    ([5], [5, 6], [])
    """
    found = list(ids) if isinstance(ids, (list, tuple)) else [] if ids is None else [ids]
    if not all(type(id) is int and id >= 0 for id in found):
        raise SGPEError(f"eos_token_id of the model's configuration is {ids!r}: it must be one id or several")
    return found


def rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """``rope_theta``, ``rope_type`` and what else there is on the scaling of positions.

    Raises:
        SGPEError: that is no object, or ``rope_theta`` no number.
    """
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(given, Mapping):
        raise SGPEError(f"rope_parameters of the model's configuration is {given!r}: it must be an object")
    found = dict(given)
    found.setdefault("rope_theta", config.get("rope_theta", 10_000.0))
    if not isinstance(found["rope_theta"], (int, float)):
        raise SGPEError(f"rope_theta of the model's configuration is {found['rope_theta']!r}: it must be a number")
    found["rope_type"] = found.get("rope_type") or found.get("type") or "default"
    return found
