import json
import re

import numpy as np
import pytest
from support.character_tokenizers import NORMALIZATIONS, character_tokenizer
from support.engines import Bigram
from support.small_tokenizers import BYTES, with_specials

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.generation.structured_output import Constrainer, Rule, embedded

pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")

SCHEMA = {
    "type": "object",
    "properties": {
        "නම": {"type": "string", "maxLength": 5},
        "n": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "é", "ශ්‍රී"]}, "maxItems": 2},
    },
    "required": ["නම", "n", "tags"],
    "additionalProperties": False,
}
OPTIONS = GenerationOptions(max_new_tokens=300, temperature=1.0, top_p=1.0)


def is_valid(text):
    record = json.loads(text)
    assert list(record) == list(SCHEMA["properties"])
    assert len(record["නම"]) <= 5
    assert type(record["n"]) is int and 0 <= record["n"] <= 99
    assert len(record["tags"]) <= 2 and set(record["tags"]) <= {"a", "é", "ශ්‍රී"}
    return True


def answered(generator, rule, seed, **options):
    """Return the text and the finish reason of an answer that follows a rule."""
    watch = generator.constrainer.watch(rule, generator.engine.stop_ids)
    given = GenerationOptions(**{"max_new_tokens": 300, "temperature": 1.0, "top_p": 1.0, "seed": seed, **options})
    pieces = [*generator.pieces([65], given, watch=watch)]
    return "".join(piece.text for piece in pieces), pieces[-1].finish_reason


@pytest.fixture(scope="module", params=["bytes", "merged", *NORMALIZATIONS])
def random_model(request, sample):
    """A random model: with a token for each byte, with merged bytes, and with SentencePiece's characters."""
    if request.param in NORMALIZATIONS:
        tokenizer = character_tokenizer([sample["en"], sample["si"]], request.param, added=["<h1>"])
    elif request.param == "merged":
        tokenizer = BPETokenizer.train_from_iterator(sample.values(), 900, special_tokens=["<eos>", "<|im_end|>"])
    else:
        tokenizer = with_specials(["<eos>", "<|im_end|>"])
    end = tokenizer.special_tokens["<eos>"]
    return TextGenerator(tokenizer, Bigram(len(tokenizer) + 7, stop_ids=[end]))


def test_json_of_a_random_model_is_valid_for_its_schema(random_model):
    rule = Rule.json_schema(SCHEMA)
    random_model.constrainer.check(rule)
    texts = set()
    for seed in range(40):
        text, finish_reason = answered(random_model, rule, seed)
        assert finish_reason == "stop" and is_valid(text)
        texts.add(text)
    assert len(texts) > 20


@pytest.mark.slow
def test_a_thousand_of_a_thousand_answers_are_valid(random_model):
    rule = Rule.json_schema(SCHEMA)
    answers = [answered(random_model, rule, seed) for seed in range(1000)]
    assert all(finish_reason == "stop" and is_valid(text) for text, finish_reason in answers)


def test_an_answer_that_is_cut_off_says_so(random_model):
    text, finish_reason = answered(random_model, Rule.json_schema(SCHEMA), 1, max_new_tokens=3)
    assert finish_reason == "length"
    with pytest.raises(ValueError, match="line 1"):
        json.loads(text)


def test_regular_expressions_choices_and_grammars(random_model):
    pattern = r"[0-9]{2}-(ක|ශ්‍රී|é)"
    lark = 'start: "(" (start | /[a-c]{1,2}/) ")"'
    gbnf = 'root ::= "x" ("y" | "é")'
    for seed in range(10):
        assert re.fullmatch(pattern, answered(random_model, Rule.regex(pattern), seed)[0])
        assert answered(random_model, Rule.one_of(["yes", "no", "ඔව්"]), seed)[0] in ("yes", "no", "ඔව්")
        assert re.fullmatch(r"(\()+[a-c]{1,2}(\))+", answered(random_model, Rule.grammar(lark), seed)[0])
        assert answered(random_model, Rule.grammar(gbnf), seed)[0] in ("xy", "xé")


def test_objects_have_only_the_listed_properties_unless_the_schema_says_otherwise():
    generator = TextGenerator(with_specials(["<eos>"]), Bigram(257, stop_ids=[256]))
    listed = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    nested = {"$defs": {"x": listed}, "type": "array", "items": {"anyOf": [{"$ref": "#/$defs/x"}]}, "maxItems": 1}
    allowed = {
        listed["required"][0]: {'{"a": null}', '{"a":null}'},
        "nested": {"[]", '[{"a": null}]', '[{"a":null}]'},
    }
    for seed in range(8):
        assert answered(generator, Rule.json_schema(listed), seed)[0] in allowed["a"]
        assert answered(generator, Rule.json_schema(nested), seed)[0] in allowed["nested"]
    both = {"allOf": [listed, {"type": "object", "properties": {"b": {"const": 1}}, "required": ["b"]}]}
    for rule in (Rule.json_schema({**listed, "additionalProperties": True}), Rule.json_schema(both)):
        watch, last = generator.constrainer.watch(rule, [256]), None
        for id in b'{"a":null,"b':
            assert np.isfinite(watch(last, np.zeros(257, np.float32))[id])
            last = id


def test_texts_that_begin_with_a_space_keep_it(random_model):
    assert answered(random_model, Rule.one_of([" a", " b"]), 1)[0] in (" a", " b")


def test_special_tokens_are_no_text():
    tokenizer = with_specials(["<|end|>", "<|im_end|>"])
    generator = TextGenerator(tokenizer, Bigram(258, stop_ids=[256]))
    rule = Rule.one_of(["<|im_end|>"])
    watch = generator.constrainer.watch(rule, [256])
    assert [*generator.engine.generate([65], OPTIONS, watch=watch)] == [*b"<|im_end|>"]


def test_log_probabilities_are_the_models_own(random_model):
    watch = random_model.constrainer.watch(Rule.one_of(["yes"]), random_model.engine.stop_ids)
    scored = [*random_model.engine.generate_scored([65], OPTIONS, watch=watch)]
    assert b"".join(map(random_model.tokenizer.token_bytes, (token.id for token in scored))) == b"yes"
    logprobs = random_model.engine.logprobs([65, *(token.id for token in scored)])
    assert [token.logprob for token in scored] == pytest.approx(logprobs.tolist())


def test_a_text_that_normalization_changes_can_be_required():
    tokenizer = BPETokenizer.train_from_iterator(["é"], 260, special_tokens=["<|end|>"], normalization="nfc")
    end = tokenizer.special_tokens["<|end|>"]
    generator = TextGenerator(tokenizer, Bigram(len(tokenizer), stop_ids=[end]))
    assert answered(generator, Rule.one_of(["e\u0301"]), 1)[0] == "e\u0301"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Rule.json_schema({"type": "record"}), "type must be one or more of"),
        (lambda: Rule.json_schema({"type": "string", "pattern": "^(a$"}), "unclosed group"),
        (lambda: Rule.json_schema({"allOf": [{"type": "string"}, {"type": "integer"}]}), "Unsatisfiable schema"),
        (lambda: Rule.regex("(a"), "unclosed group"),
        (lambda: Rule.grammar("root ::= " + '"a" | ' * 4000 + '"b"'), "characters of the grammar in GBNF: at most 16,000"),
        (lambda: Rule.grammar("start: " + "(" * 200 + '"a"' + ")" * 200), r"\S"),
        (lambda: Rule.grammar("start: other"), "unknown name"),
    ],
)
def test_wrong_rules_are_one_line(make, problem):
    constrainer = Constrainer(BPETokenizer(BYTES, []), 256)
    with pytest.raises(SGPEError, match=problem) as refusal:
        constrainer.check(make())
    assert "\n" not in str(refusal.value)


def test_lark_may_contain_the_sign_of_gbnf_and_empty_lines_take_no_time():
    constrainer = Constrainer(BPETokenizer(BYTES, []), 256)
    constrainer.check(Rule.one_of(["x" * 17_000 + " ::= b"]))
    with pytest.raises(SGPEError, match="in GBNF"):
        Rule.grammar("\n" * 900_000)
    constrainer.close()


def test_a_model_without_a_stop_token_or_a_needed_token_is_refused():
    constrainer = Constrainer(BPETokenizer(BYTES, []), 256)
    with pytest.raises(SGPEError, match="no token that ends an answer"):
        constrainer.watch(Rule.one_of(["a"]), [])
    watch = Constrainer(BPETokenizer(BYTES, []), ord("b")).watch(Rule.one_of(["ab"]), [0])
    allowed = watch(None, np.zeros(ord("b"), np.float32))
    assert np.flatnonzero(np.isfinite(allowed)).tolist() == [ord("a")]
    with pytest.raises(SGPEError, match="no token can follow"):
        watch(ord("a"), np.zeros(ord("b"), np.float32))


@pytest.mark.parametrize(
    "schema",
    [
        {"const": 12345678901234567890},
        {"type": "object", "properties": {"a": {"enum": [1, -(2**53) - 1]}}},
        {"allOf": [{"type": "integer", "maximum": 10**300}]},
    ],
)
def test_numbers_that_would_be_rounded_are_refused(schema):
    for rule_of in (Rule.json_schema, embedded):
        with pytest.raises(SGPEError, match=r"number -?\d+"):
            rule_of(schema)


def test_the_largest_exact_number_is_generated(random_model):
    assert answered(random_model, Rule.json_schema({"const": 2**53}), 1)[0] == str(2**53)
