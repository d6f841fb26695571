import pytest
from support.calling import TEMPLATES

from hf_sgpe.chat.reasoning import REASONING_MARKS, Reasoning, ReasoningReader, place_after, reasoning_of
from hf_sgpe.chat.tool_calls import FORMATS, CallPart, CallReader, Mark

THINK = REASONING_MARKS[0]
TOKENS = {"<think>": "<think>", "</think>": "</think>"}


def read(reader, parts):
    said = [part for text in parts for part in reader.read(text)] + [*reader.end()]
    reasoning = "".join(part for part in said if isinstance(part, Reasoning))
    text = "".join(part for part in said if isinstance(part, str) and not isinstance(part, Reasoning))
    return reasoning, text, len({part.number for part in said if isinstance(part, CallPart)})


def as_tokens(answer):
    """Return the parts of an answer in which the marks are tokens."""
    parts = [answer]
    for mark in TOKENS:
        parts = [
            piece
            for part in parts
            for piece in (
                [part] if isinstance(part, Mark) else [x for text in part.split(mark) for x in (text, Mark(mark))][:-1]
            )
        ]
    return parts


@pytest.mark.parametrize(
    ("place", "answer", "expected"),
    [
        ("before", "<think>\nHm, <b>\n</think>\n\nWell.", ("Hm, <b>", "Well.", 0)),
        ("before", "\n<think>Hm</think>Well.\n", ("Hm", "Well.\n", 0)),
        ("before", "Well.", ("", "Well.", 0)),
        ("before", " \n", ("", " \n", 0)),
        ("before", "<think>\n\n</think>\n\nWell.", ("", "Well.", 0)),
        ("before", "<think>Hm, cut", ("Hm, cut", "", 0)),
        ("before", "Well. <think>Hm</think>", ("", "Well. <think>Hm</think>", 0)),
        ("inside", "\nHm\n</think>\n\nWell. </think>", ("Hm", "Well. </think>", 0)),
        ("inside", "Hm </", ("Hm </", "", 0)),
        ("inside", "\n</", ("</", "", 0)),
        ("after", "\n\nWell.", ("", "Well.", 0)),
    ],
)
def test_reasoning_is_separated_from_the_answer(place, answer, expected):
    assert read(ReasoningReader(THINK, place), [answer]) == expected
    assert read(ReasoningReader(THINK, place), answer) == expected
    for cut in range(len(answer)):
        assert read(ReasoningReader(THINK, place), [answer[:cut], answer[cut:]]) == expected
    assert read(ReasoningReader(THINK, place, tokens=TOKENS), as_tokens(answer)) == expected


def test_marks_in_the_text_of_other_tokens_are_text_and_hidden_tokens_stay_hidden():
    answer = "<think>Hm</think>Well."
    assert read(ReasoningReader(THINK, "before", tokens=TOKENS), [answer]) == ("", answer, 0)
    parts = ["Well.", Mark("<think>"), "a"]
    assert read(ReasoningReader(THINK, "before", tokens=TOKENS), parts) == ("", "Well.<think>a", 0)
    assert read(ReasoningReader(THINK, "before", tokens=dict.fromkeys(TOKENS, "")), parts) == ("", "Well.a", 0)


def test_calls_are_found_after_the_reasoning_only():
    hermes = next(known for known in FORMATS if known.name == "hermes")
    call = '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>'
    answer = f"I may write {call}</think>\n\nWell.\n{call}"
    for parts in ([answer], answer):
        reader = ReasoningReader(THINK, "inside", then=CallReader(hermes, {"add": {}}))
        assert read(reader, parts) == (f"I may write {call}", "Well.", 1)
        assert reader.calls == 1


def test_an_exact_answer_keeps_white_space():
    answer = "Hm</think>\n{}"
    assert read(ReasoningReader(THINK, "inside", is_exact=True), answer) == ("Hm", "\n{}", 0)
    assert read(ReasoningReader(THINK, "after", is_exact=True), "\n{}") == ("", "\n{}", 0)


def test_the_place_is_that_of_the_last_mark_of_the_prompt():
    assert place_after("<|im_start|>assistant\n<think>\n", THINK) == "inside"
    assert place_after("<think>\n\n</think>\n\n", THINK) == "after"
    assert place_after("</think>a<|im_end|>\n<|im_start|>assistant\n", THINK) == "before"
    assert place_after("<think>Hm", THINK, continued="<think>Hm") == "inside"
    assert place_after("<think>Hm</think>We", THINK, continued="<think>Hm</think>We") == "after"
    assert place_after("We", THINK, continued="We") == "after"


def test_templates_with_marks_have_reasoning():
    assert reasoning_of("{{ '<think>\\n' }}") == THINK
    assert reasoning_of("{{ '[THINK]' + message.thinking + '[/THINK]' }}").closing == "[/THINK]"
    assert reasoning_of(TEMPLATES["mistral"]) is None
