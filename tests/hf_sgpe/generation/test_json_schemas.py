import json
import time

import pytest
from hypothesis import given, strategies as st

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.json_schemas import LIMITS, check_schema, closed


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def in_a_row(references):
    definitions = {f"d{number}": {"items": {"$ref": f"#/$defs/d{number + 1}"}} for number in range(references)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{references}": {}}}


def with_properties(count):
    return {"properties": {f"p{number}": {} for number in range(count)}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"required": 5}, "required must be a list of strings, not 5"),
        ({"required": ["a", 5]}, "required must be a list of strings, not a list"),
        ({"properties": []}, r"properties must be an object, not \[\]"),
        ({"properties": {"a": {"enum": 5}}}, "properties.a.enum must be a non-empty list, not 5"),
        ({"anyOf": 5}, "anyOf must be a non-empty list"),
        ({"anyOf": [{}, {"items": "a"}]}, r'anyOf\[1\].items must be a JSON schema, not "a"'),
        ({"type": ["string", "text"]}, "type must be one or more of string, number"),
        ({"type": []}, "type must be one or more of"),
        ({"maximum": "3"}, 'maximum must be a finite number, not "3"'),
        ({"maximum": float("inf")}, "maximum must be a finite number"),
        ({"minLength": -1}, "minLength must be a whole number from 0 to"),
        ({"minItems": 1 << 31}, "minItems must be a whole number from 0 to"),
        ({"$ref": 3}, "\\$ref must be a string, not 3"),
        ({"pattern": None}, "pattern must be a string, not null"),
        (nested(LIMITS.depth), "items: levels of nested schemas: at most 32 are allowed, not 33"),
        (in_a_row(LIMITS.references), "different references in the schema: at most 256 are allowed, not 257"),
        (with_properties(LIMITS.properties + 1), "properties of the schema: at most 5,000 are allowed, not 5,001"),
        ({"enum": list(range(LIMITS.values + 1))}, "values in enumerations of the schema: at most 1,000"),
        ({"properties": {"a": {"enum": ["x" * 60 + str(i) for i in range(251)]}}}, "properties.a.enum: characters"),
        ({"const": "x" * (LIMITS.characters + 1)}, "characters in names and listed values of the schema: at most 120,000"),
    ],
)
def test_a_wrong_or_too_large_schema_is_refused_with_the_place(schema, problem):
    with pytest.raises(SGPEError, match=problem):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        nested(LIMITS.depth - 1),
        in_a_row(LIMITS.references - 1),
        with_properties(LIMITS.properties),
        {"enum": list(range(LIMITS.values))},
        {"enum": ["x" * 60] * 250},
        {"items": [{}, True], "additionalProperties": False, "default": {"required": 5}, "title": 3},
    ],
)
def test_schemas_within_the_limits_are_accepted(schema):
    assert check_schema(schema) == []


def test_patterns_with_look_around_are_left_out_and_reported():
    patterns = {"a": {"pattern": "^(?=x)x$"}, "b": {"items": {"pattern": "(?<!a)b"}}, "c": {"pattern": "\\(?=x"}}
    schema = {"properties": patterns}
    assert set(check_schema(schema)) == {
        "properties.a.pattern with look-around",
        "properties.b.items.pattern with look-around",
    }
    left = closed(schema)["properties"]
    assert left["a"] == {} and left["b"] == {"items": {}} and left["c"] == schema["properties"]["c"]


def test_a_request_sets_no_options_of_the_library():
    assert closed({"type": "string", "x-guidance": {"lenient": False}}) == {"type": "string"}


def test_checking_takes_time_linear_in_the_length():
    def seconds(count):
        schema = {"properties": {f"p{number}": {"$ref": "#/$defs/a", "required": ["b"]} for number in range(count)}}
        began = time.process_time()
        closed({**schema, "$defs": {"a": {}}})
        return time.process_time() - began

    small, large = (min(seconds(count) for _ in range(3)) for count in (500, 4000))
    assert large < 40 * small  # 8 times as long; quadratic checks need 64 times


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "object", "#/$defs/a", "^a$"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "type"]), inner, max_size=3),
    max_leaves=6,
)
KEYWORDS = (
    *("type", "properties", "required", "enum", "const", "items", "anyOf", "allOf", "oneOf", "not", "$ref", "$defs", "if"),
    *("pattern", "format", "minLength", "maximum", "additionalProperties", "prefixItems", "patternProperties", "default"),
)
keywords = st.sampled_from(KEYWORDS)
schemas = st.recursive(
    st.dictionaries(keywords, values, max_size=3),
    lambda inner: st.dictionaries(
        keywords, inner | st.lists(inner, max_size=2) | st.fixed_dictionaries({"a": inner}), max_size=3
    ),
    max_leaves=8,
)


@given(schemas)
def test_any_json_is_read_or_refused_in_one_line(schema):
    try:
        strict = closed(schema)
    except SGPEError as error:
        assert "\n" not in str(error)
    else:
        assert json.loads(json.dumps(strict)) == strict
