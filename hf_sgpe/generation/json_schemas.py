"""JSON schemas for llguidance: their limits, their checks, and a stricter form that keeps answers short.

llguidance compiles a schema recursively. Without limits, a schema of a few kilobytes overflows its stack or takes minutes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hf_sgpe.errors import SGPEError


@dataclass(frozen=True)
class _GrammarLimits:
    """The limits for the rules of an answer. Those with a † are OpenAI's published limits for structured output.

    Attributes:
        tools: Tools of a request †.
        depth: Schemas inside one another. OpenAI allows 10 levels of objects; each level can need three schemas.
        properties: Properties of all objects of a schema †.
        values: Values of all enumerations of a schema †, and texts to choose from.
        characters: Characters in the names and listed values of a schema †, and in a regular expression.
        long_list: Number of strings from which an enumeration has its own limit, ``list_characters`` †.
        list_characters: Characters in the strings of such an enumeration †.
        references: Different targets of references in a schema. They can refer to one another in a row.
        gbnf: Characters of a grammar in GBNF. Its conversion takes more than quadratic time.
        written: Characters of a grammar, also of one that is written for the tools of a request.
        seconds: Processor time for compiling a rule.
        memory: Memory for compiling a rule, in bytes.
        trials: Rules that wait for their trial or are tried.
    """

    tools: int = 128
    depth: int = 32
    properties: int = 5_000
    values: int = 1_000
    characters: int = 120_000
    long_list: int = 250
    list_characters: int = 15_000
    references: int = 256
    gbnf: int = 16_000
    written: int = 1_000_000
    seconds: int = 3
    memory: int = 2 << 30
    trials: int = 8


LIMITS = _GrammarLimits()

Place: TypeAlias = "tuple[Place, str | int] | None"
"""The place of a value in a schema: the place of the value that contains it, and its key. None for the schema itself."""


def check_schema(schema: Any) -> list[str]:
    """Check the keywords of a JSON schema and its size (`LIMITS`), in time linear in its length. The message of an error
    names the place in the schema.

    Returns:
        The constraints that no grammar can express and that answers therefore may violate: patterns with look-around.
    """
    return _Check().run(schema)


def check_length(name: str, given: int, most: int) -> None:
    """Check a number of things, called ``name`` in the message, against a limit."""
    if given > most:
        raise SGPEError(f"{name}: at most {most:,} are allowed, not {given:,}")


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stricter schema, whose objects allow only the properties that it lists. Otherwise, answers could grow without
    limit. Patterns with look-around, which llguidance does not support, are left out. Numbers that llguidance would round
    are an error.

    Every answer is also valid for the original schema, apart from these patterns. A schema that combines schemas, for
    example by ``allOf``, allows the same properties as before, because each part of a combination lists only some of them.
    """
    check_schema(schema)
    text = json.dumps(schema)
    json.loads(text, parse_int=_check_exact)
    may_close = not any(f'"{key}":' in text for key in _COMBINING)
    result = _rewritten(schema, may_close=may_close)
    # This key would set options of llguidance.
    return {key: value for key, value in result.items() if key != "x-guidance"}


class _Check:
    """One check of a schema, which counts what the limits are about."""

    def __init__(self) -> None:
        self._properties = self._values = self._characters = 0
        self._references: set[str] = set()
        self._left_out: list[str] = []

    def run(self, schema: Any) -> list[str]:
        waiting: list[tuple[Any, Place, int]] = [(schema, None, 1)]
        while waiting:
            item, path, depth = waiting.pop()
            if isinstance(item, bool) and path is not None:
                continue
            if not isinstance(item, Mapping):
                raise SGPEError(f"{_shown(path)} must be a JSON schema, not {_kind(item)}")
            check_length(f"{_shown(path)}: levels of nested schemas", depth, LIMITS.depth)
            self._check_keywords(item, path)
            waiting += ((inner, place, depth + 1) for inner, place in _inner(item, path))
        return self._left_out

    def _check_keywords(self, schema: Mapping[str, Any], path: Place) -> None:
        for key, value in schema.items():
            holds, expected = _EXPECTED.get(key, (None, ""))
            if holds is not None and not holds(value):
                raise SGPEError(f"{_shown((path, key))} must be {expected}, not {_kind(value)}")
            if key in _NAMED:
                self._characters += sum(map(len, value))
            if key == "pattern" and _LOOK_AROUND.search(value):
                self._left_out.append(f"{_shown((path, key))} with look-around")
        self._properties += len(schema.get("properties", ()))
        self._add_values([*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())], path)
        if "$ref" in schema:
            self._references.add(schema["$ref"])
        check_length("properties of the schema", self._properties, LIMITS.properties)
        check_length("characters in names and listed values of the schema", self._characters, LIMITS.characters)
        check_length("different references in the schema", len(self._references), LIMITS.references)

    def _add_values(self, values: list[Any], path: Place) -> None:
        self._values += len(values)
        check_length("values in enumerations of the schema", self._values, LIMITS.values)
        lengths = [len(value) if isinstance(value, str) else len(json.dumps(value)) for value in values]
        self._characters += sum(lengths)
        if len(values) > LIMITS.long_list:
            check_length(f"{_shown((path, 'enum'))}: characters in its values", sum(lengths), LIMITS.list_characters)


def _inner(schema: Mapping[str, Any], path: Place) -> Iterator[tuple[Any, Place]]:
    """Yield each schema directly inside a schema, and its place."""
    for key, value in schema.items():
        if key in _ONE and not (key == "items" and isinstance(value, list)):
            yield value, (path, key)
        elif key in _LISTS or key == "items":
            yield from ((inner, ((path, key), number)) for number, inner in enumerate(value))
        elif key in _NAMED:
            yield from ((inner, ((path, key), name)) for name, inner in value.items())


def _check_exact(digits: str) -> None:
    """Check that a whole number is at most 2^53. llguidance computes with doubles, which round larger numbers."""
    if abs(int(digits)) > 1 << 53:
        raise SGPEError(f"the number {digits[:40]} in the schema is above 2^53 and would be rounded: use a string")


def _rewritten(schema: Any, *, may_close: bool) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    result = dict(schema)
    for key, value in schema.items():
        if key in _NAMED:
            result[key] = {name: _rewritten(inner, may_close=may_close) for name, inner in value.items()}
        elif isinstance(value, list) and (key in _LISTS or key == "items"):
            result[key] = [_rewritten(inner, may_close=may_close) for inner in value]
        elif key in _ONE:
            result[key] = _rewritten(value, may_close=may_close)
    if "pattern" in schema and _LOOK_AROUND.search(schema["pattern"]):
        del result["pattern"]
    is_open = not {"additionalProperties", "patternProperties", "anyOf", "$ref"}.isdisjoint(schema)
    listed = schema.get("properties")
    if may_close and not is_open and listed is not None and listed.keys() >= set(schema.get("required", ())):
        result["additionalProperties"] = False
    return result


def _shown(path: Place) -> str:
    """Return the place of a value as text, such as ``properties.a.required``."""
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.append(f"[{key}]" if isinstance(key, int) else f".{key[:60]}")
    return "".join(reversed(keys)).removeprefix(".") or "the schema"


def _kind(value: Any) -> str:
    if value in (None, [], {}) or isinstance(value, (bool, int, float, str)):
        return json.dumps(value)[:40]
    return "a list" if isinstance(value, list) else "an object"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_types(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(name in _TYPES for name in names)


_ONE = (
    *("items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_COMBINING = ("allOf", "oneOf", "not", "if", "dependentSchemas", "unevaluatedProperties")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(_NAMED, (lambda value: isinstance(value, dict), "an object")),
    **dict.fromkeys((*_LISTS, "enum"), (lambda value: isinstance(value, list) and bool(value), "a non-empty list")),
    **dict.fromkeys(_COUNTS, (_is_count, "a whole number from 0 to 2147483647")),
    **dict.fromkeys(_BOUNDS, (_is_number, "a finite number")),
    **dict.fromkeys(("$ref", "pattern", "format"), (lambda value: isinstance(value, str), "a string")),
    "type": (_are_types, f"one or more of {', '.join(_TYPES)}"),
    "required": (_are_texts, "a list of strings"),
}
"""For each keyword, a function that checks the type of its value, and the name of this type."""

_LOOK_AROUND = re.compile(r"(?<!\\)\(\?<?[=!]")
