"""JSON files: read them with one-line errors that name the file, and write them atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import write_text
from hf_sgpe.files.unreadable import read_data, why_not_text


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Errors name the file."""
    data = read_data(path)
    try:
        return json_object(data.decode(), path)
    except UnicodeDecodeError:
        raise SGPEError(f"{path}: {why_not_text(data) or 'not valid JSON: it is not text'}") from None
    except SGPEError:
        reason = why_not_text(data)
        if not reason:
            raise
        raise SGPEError(f"{path}: {reason}") from None


def json_object(text: str, where: Path | str) -> dict[str, Any]:
    """Return the JSON object in a text. Errors name ``where``, the place of the text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SGPEError(f"{where}: not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise SGPEError(f"{where}: not a JSON object")
    return content


def optional_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty dict if there is no such file."""
    return read_json(path) if path.is_file() else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object to a file, with one value on each line."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
