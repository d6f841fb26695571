"""Rules that the text of an answer must follow: ``response_format`` of OpenAI's API, and ``structured_outputs`` of vLLM's
API.
"""

from __future__ import annotations

from typing import Any

from hf_sgpe.generation.json_schemas import check_schema
from hf_sgpe.generation.structured_output import Rule, embedded
from hf_sgpe.generation.text_generator import TextGenerator
from hf_sgpe.serving.messages import well_formed_json
from hf_sgpe.serving.parameters import Parameters, about, kind, wrong
from hf_sgpe.serving.tool_use import ToolUse


def read_rule(
    given: Parameters, generator: TextGenerator, stop_ids: tuple[int, ...] = (), tool_use: ToolUse | None = None
) -> tuple[Rule | None, tuple[str, ...]]:
    """Return the rule that an answer must follow, if there is one, and its constraints that the answer may violate. If the
    request has tools and a rule, an answer either calls tools or follows the rule. ``stop_ids`` are end tokens in
    addition to the model's own.
    """
    schema = _schema_of(given)
    rule, name = None, "response_format"
    if given.get("structured_outputs") is not None:
        if schema is not None:
            raise wrong("structured_outputs", "and response_format are both rules: give only one of them")
        name = "structured_outputs"
        rule, schema, name = _structured(given.get(name))
    if tool_use is not None and not tool_use.tools:
        tool_use = None
    if tool_use is not None and (rule is not None or schema is not None):
        if tool_use.required is not None:
            raise wrong(name, "cannot be used with a required tool call: leave one out")
        if rule is not None or tool_use.written is None:
            raise wrong(name, "cannot be used with tools: leave one out, or send tool_choice: none")
    with about("tools" if tool_use is not None else name):
        if tool_use is not None and tool_use.required is not None:
            rule, name = Rule.grammar("\n".join(["start: calls", *tool_use.grammar()])), "tools"
        elif tool_use is not None and schema is not None:
            lines = ["start: calls | answer", f"answer: {embedded(schema)}", *tool_use.grammar()]
            rule = Rule.grammar("\n".join(lines))
        elif schema is not None:
            rule = Rule.json_schema(schema)
    if rule is None:
        return None, ()
    with about(name):
        # Grammars cannot express look-around, which is left out of these schemas.
        schemas = [tool["function"].get("parameters") or {} for tool in tool_use.tools] if tool_use is not None else []
        left_out = [part for one in (*schemas, schema or {}) for part in check_schema(one)]
        left_out += generator.constrainer.check(rule)
        generator.constrainer.watch(rule, generator.engine.stop_ids.union(stop_ids))
    return rule, tuple(left_out)


def _schema_of(given: Parameters) -> dict[str, Any] | None:
    """Return the JSON schema that ``response_format`` requires, or None if it allows any text."""
    format = given.get("response_format")
    if format is None:
        return None
    if not isinstance(format, dict) or format.get("type") not in ("text", "json_object", "json_schema"):
        raise wrong("response_format", "must be an object with type text, json_object or json_schema")
    has_schema = format["type"] == "json_schema"
    Parameters(format, {"type", "json_schema"} if has_schema else {"type"}, {}, "response_format.")
    if not has_schema:
        return {"type": "object"} if format["type"] == "json_object" else None
    described = format.get("json_schema")
    if not isinstance(described, dict) or not isinstance(described.get("schema"), dict):
        raise wrong("response_format.json_schema", "must be an object with name and schema")
    Parameters(described, {"name", "description", "schema", "strict"}, {}, "response_format.json_schema.")
    schema: dict[str, Any] = well_formed_json(described["schema"])
    return schema


def _structured(value: Any) -> tuple[Rule | None, dict[str, Any] | None, str]:
    """Return what ``structured_outputs`` requires: a rule or a JSON schema, and the name of the parameter that was used."""
    where = "structured_outputs"
    if not isinstance(value, dict):
        raise wrong(where, f"must be an object, not {kind(value)}")
    given = Parameters(value, {*_KINDS}, _WITHOUT_EFFECT, f"{where}.")
    used = [name for name in _KINDS if given.get(name) not in (None, False)]
    if len(used) != 1:
        raise wrong(where, f"must have exactly one of {', '.join(_KINDS)}")
    (name,) = used
    param, item = f"{where}.{name}", well_formed_json(given.get(name))
    if name == "json_object":
        return None, {"type": "object"} if given.flag(name) else None, param
    if name == "json":
        if not isinstance(item, dict):
            raise wrong(param, f"must be a JSON schema, not {kind(item)}")
        return None, item, param
    if name == "choice":
        if not isinstance(item, list) or not item or not all(isinstance(text, str) and text for text in item):
            raise wrong(param, "must be a list of non-empty strings")
    elif not isinstance(item, str) or not item:
        raise wrong(param, f"must be a non-empty string, not {kind(item)}")
    make = {"choice": Rule.one_of, "regex": Rule.regex, "grammar": Rule.grammar}[name]
    with about(param):
        return make(item), None, param


_KINDS = ("json", "json_object", "regex", "choice", "grammar")
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "disable_fallback": (True, False),
    "disable_any_whitespace": (True, False),  # JSON is on one line
    "disable_additional_properties": (True, False),
}
"""Settings of vLLM for other libraries. They are accepted, but have no effect here."""
