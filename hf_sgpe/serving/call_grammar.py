"""Grammars of tool calls, in Lark's syntax, for answers that must call a tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hf_sgpe.chat.call_parsers import ARGUMENTS, BEGINNING, END, END_OF_VALUE, KEYED_MARKS, PARAMETER, types_of
from hf_sgpe.chat.tool_calls import CallFormat
from hf_sgpe.generation.json_schemas import LIMITS, check_length
from hf_sgpe.generation.structured_output import embedded, literal

_LINE_END = "\n"
_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}


class CallGrammar:
    """The grammar of tool calls in a model's format. ``ids`` are those of its marks that are tokens of the vocabulary."""

    def __init__(self, written: CallFormat, ids: Mapping[str, int]) -> None:
        self._written = written
        self._ids = ids

    def lines(self, functions: Sequence[Mapping[str, Any]], most: int | None) -> list[str]:
        """Return the lines of a Lark grammar. Its rule ``calls`` matches one or more calls of ``functions``. ``most`` is the
        maximum number of calls: 1 or None (no limit).
        """
        written = self._written
        opening = self._sequence(written.opening, written.before)
        closing = self._sequence(written.after, written.closing)
        between = self._sequence(written.between)
        kinds = {"json": self._json, "named": self._named, "tagged": self._tagged, "keyed": self._keyed}
        lines = [f"call: {' | '.join(f'call_{number}' for number in range(len(functions)))}"]
        length = 0
        for number, function in enumerate(functions):
            for line in kinds[written.kind](number, function["name"], function.get("parameters") or _NOTHING):
                lines.append(line)
                length += len(line)
                check_length("characters of the grammar for the tools", length, LIMITS.written)
        one = f"{opening} call {closing}"
        if most == 1:
            return [f"calls: {one}", *lines]
        if written.is_repeated:
            return [f"calls: {one} ({between} {one})*", *lines]
        return [f"calls: {opening} call ({between} call)* {closing}", *lines]

    def _mark(self, text: str) -> str:
        return f"<[{self._ids[text]}]>" if text in self._ids else literal(text)

    def _sequence(self, *texts: str) -> str:
        return " ".join(self._mark(text) for text in texts if text)

    def _json(self, number: int, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
        before = literal(f'{{"name": {literal(name)}, "{self._written.key}": ')
        yield f"call_{number}: {before} arguments_{number} {literal('}')}"
        yield f"arguments_{number}: {embedded(schema)}"

    def _named(self, number: int, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
        yield f"call_{number}: {literal(name)} {self._mark(ARGUMENTS)} arguments_{number}"
        yield f"arguments_{number}: {embedded(schema)}"

    def _tagged(self, number: int, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
        around = self._written.around
        yield f"call_{number}: {literal(f'{BEGINNING}{name}>{_LINE_END}')} {_parameters(number, schema)} {literal(END)}"
        for rule, key, value in _properties(number, schema):
            yield f"{rule}: {literal(f'{PARAMETER}{key}>{around}')} {rule}_value {literal(_LINE_END)}"
            yield from self._value(f"{rule}_value", value, around, END_OF_VALUE)

    def _keyed(self, number: int, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
        key_mark, end_of_key, value_mark, end_of_value, end = KEYED_MARKS
        yield f"call_{number}: {literal(name + _LINE_END)} {_parameters(number, schema)} {self._mark(end)}"
        for rule, key, value in _properties(number, schema):
            before = f"{self._mark(key_mark)} {literal(key)} {self._mark(end_of_key)}"
            before = f"{before} {literal(_LINE_END)} {self._mark(value_mark)}"
            yield f"{rule}: {before} {rule}_value {literal(_LINE_END)}"
            yield from self._value(f"{rule}_value", value, "", end_of_value)

    def _value(self, rule: str, schema: Any, around: str, mark: str) -> Iterator[str]:
        """Yield the grammar lines for the value of a parameter and the mark after it. Strings have no quotes."""
        schema = schema if isinstance(schema, Mapping) else {}
        end = self._sequence(around, mark)
        choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if choices:
            written = [choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False) for choice in choices]
            alternatives = (f"{literal(text)} {end}" if text else end for text in written)
            yield f"{rule}: {' | '.join(alternatives)}"
        elif "string" not in (types := [*types_of(schema)]) and types:
            yield f"{rule}: {rule}_json {end}"
            yield f"{rule}_json: {embedded(schema)}"
        else:
            longest = schema.get("maxLength")
            any_text = f"/(?s:.{{0,{longest}}})/" if isinstance(longest, int) else "/(?s:.*)/"
            if around + mark in self._ids:
                yield f"{rule}: {rule}_text {end}"
                yield f"{rule}_text: {any_text}"
            else:
                yield f"{rule}[suffix={literal(around + mark)}]: {any_text}"


def _properties(number: int, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the name of the grammar rule, the name and the schema of each parameter of the function ``number``."""
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    for place, (key, value) in enumerate((schema.get("properties") or {}).items()):
        yield f"parameter_{number}_{place}", key, {**shared, **value} if isinstance(value, Mapping) else value


def _parameters(number: int, schema: Mapping[str, Any]) -> str:
    """Return a grammar expression for the parameters of a function in order. Optional ones may be missing."""
    required = set(schema.get("required") or ())
    return " ".join(f"{rule}{'' if key in required else '?'}" for rule, key, _ in _properties(number, schema))
