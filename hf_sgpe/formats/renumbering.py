"""Renumbering: replace the token ids in the files of a tokenizer. After trimming, for example, the new ids have no gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hf_sgpe.errors import SGPEError

_ID = ("_token_id", "_token_ids", "_token_index", "suppress_tokens")
_WORDS = ("bad_words_ids", "force_words_ids")
# Whisper's ids of languages and tasks, keyed by token.
_TABLES = ("lang_to_id", "task_to_id")


def ids_in(config: Mapping[str, Any]) -> Iterator[int]:
    """Yield the token ids in a configuration, such as ``eos_token_id``, and in its nested configurations."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from ids_in(value)
        elif name.endswith(("_token_id", "_token_ids", "_token_index")):
            yield from (id for id in (value if isinstance(value, list) else [value]) if type(id) is int)


def moved_config(config: Mapping[str, Any], ids: Mapping[int, int]) -> dict[str, Any]:
    """Return a configuration, such as a ``generation_config.json``, with new token ids, keyed by old ids in ``ids``. Token
    ids that are not there are removed.

    >>> moved_config({"eos_token_id": [5, 9], "pad_token_id": 9, "top_k": 5}, {5: 3})
    {'eos_token_id': [3], 'pad_token_id': None, 'top_k': 5}
    """
    nested = {name for name, value in config.items() if isinstance(value, Mapping) and name not in _TABLES}
    return {
        name: moved_config(value, ids) if name in nested else moved_field(name, value, ids) for name, value in config.items()
    }


def moved_field(name: str, value: Any, ids: Mapping[int, int]) -> Any:
    """Return the value of a field of a configuration with new token ids.

    A word with an id that ``ids`` lacks can no longer be generated, so the whole word is removed.

    >>> moved_field("bad_words_ids", [[5, 9], [5, 5]], {5: 3})
    [[3, 3]]
    """
    if name.endswith(_ID) and type(value) is int:
        return ids.get(value)
    if name in _TABLES and isinstance(value, Mapping):
        return {token: ids[id] for token, id in value.items() if id in ids}
    if not isinstance(value, list):
        return value
    if name.endswith(_ID):
        return [ids[id] for id in value if isinstance(id, int) and id in ids] or None
    if name in _WORDS:
        return _moved_words(value, ids)
    if name == "forced_decoder_ids":  # pairs of a position and an id, which may be None
        return [[place, ids.get(id)] for place, id in value if id is None or id in ids] or None
    if name == "sequence_bias":  # pairs of a word and a number
        return [[moved, bias] for word, bias in value if (moved := _moved_words(word, ids))] or None
    return value


def _moved_words(words: list[Any], ids: Mapping[int, int]) -> list[Any] | None:
    """Return a word (a list of ids), or nested lists of words, with new token ids; None if no word is left."""
    if any(isinstance(part, int) for part in words):
        return [ids[id] for id in words] if all(id in ids for id in words) else None
    return [moved for part in words if (moved := _moved_words(part, ids))] or None


def moved_content(content: Mapping[str, Any], ids: Mapping[int, int]) -> dict[str, Any]:
    """Return the content of a ``tokenizer.json`` with new token ids everywhere except in the model."""
    moved = dict(content)
    moved["added_tokens"] = [{**token, "id": ids[token["id"]]} for token in content.get("added_tokens") or ()]
    moved["post_processor"] = _moved_template(content.get("post_processor"), ids)
    if isinstance(padding := content.get("padding"), Mapping):
        moved["padding"] = {**padding, "pad_id": ids.get(padding.get("pad_id", -1), 0)}
    return moved


def _moved_template(part: Any, ids: Mapping[int, int]) -> Any:
    if not isinstance(part, Mapping):
        return part
    moved = dict(part)
    if "processors" in part:
        moved["processors"] = [_moved_template(one, ids) for one in part["processors"]]
    for name in ("cls", "sep"):  # RoBERTa's and BERT's
        if isinstance(pair := part.get(name), (list, tuple)):
            moved[name] = [pair[0], ids[pair[1]]]
    if isinstance(tokens := part.get("special_tokens"), Mapping):
        moved["special_tokens"] = tokens = {name: dict(token) for name, token in tokens.items()}
        for token in tokens.values():
            token["ids"] = [ids[id] for id in token["ids"]]
    return moved


def moved_settings(settings: Mapping[str, Any], ids: Mapping[int, int]) -> dict[str, Any]:
    """Return the content of a ``tokenizer_config.json`` with new token ids."""
    moved = moved_config(settings, ids)
    if isinstance(tokens := settings.get("added_tokens_decoder"), Mapping):
        for id, token in tokens.items():
            if int(id) not in ids:
                raise SGPEError(
                    f"tokenizer_config.json has the added token {token.get('content')!r} with the id {id}, but "
                    "tokenizer.json has no token with this id: do not remove or renumber tokens in tokenizer.json"
                )
        moved["added_tokens_decoder"] = {str(ids[int(id)]): token for id, token in tokens.items()}
    return moved
