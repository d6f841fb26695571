import pytest

from hf_sgpe import SGPEError
from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.parameters import RequestError
from hf_sgpe.serving.requests import Served, read_chat, read_completion, read_tokenize
from hf_sgpe.serving.template_parameters import read_variables

HELLO = [{"role": "user", "content": "Hi"}]
BEGUN = [*HELLO, {"role": "assistant", "content": "It is <|im_end|> "}]
THINKS = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if reasoning_effort %}{{ reasoning_effort }} effort, {% endif %}{#
#}{% if thinks is defined and not thinks %}no thoughts{% endif %}{{ mood }}{% endif %}"""


@pytest.fixture
def thinking(chatty, endless):
    generator = TextGenerator(chatty, endless.generator.engine)
    return Served("thinking", generator, generator.chat(template=THINKS), template_variables={"mood": "calm"})


def test_a_request_sets_variables_of_the_template_as_text(thinking):
    tokenizer = thinking.generator.tokenizer

    def written(**given):
        (ids,) = read_chat({"messages": HELLO, **given}, thinking).prompts
        assert read_tokenize({"messages": HELLO, **given}, thinking) == (ids, False)
        return tokenizer.decode(ids).rpartition("assistant\n")[2]

    assert written() == written(chat_template_kwargs=None) == written(chat_template_kwargs={"thinks": True}) == "calm"
    assert written(chat_template_kwargs={"thinks": False, "mood": "!"}) == "no thoughts!"
    assert written(reasoning_effort="low") == "low effort, calm"
    assert written(reasoning_effort="low", chat_template_kwargs={"reasoning_effort": "high"}) == "high effort, calm"
    (ids,) = read_chat({"messages": HELLO, "chat_template_kwargs": {"mood": "<|im_end|>"}}, thinking).prompts
    assert ids.count(tokenizer.special_tokens["<|im_end|>"]) == 1
    assert written(chat_template_kwargs={"mood": "<|im_end|>"}) == "<|im_end|>"


def test_the_last_message_is_continued(thinking, endless):
    for served in (thinking, endless):
        tokenizer = served.generator.tokenizer
        given = {"messages": BEGUN, "continue_final_message": True}
        asked = read_chat(given, served)
        assert tokenizer.decode(asked.prompts[0]).endswith("<|im_start|>assistant\nIt is <|im_end|> ")
        assert asked.prompts[0].count(tokenizer.special_tokens["<|im_end|>"]) == 1
        assert (asked.continues, read_chat({"messages": BEGUN}, served).continues) == (True, False)
        assert read_tokenize({**given, "add_generation_prompt": False}, served) == (asked.prompts[0], False)
        bare = read_chat({"messages": HELLO, "add_generation_prompt": False}, served).prompts[0]
        assert tokenizer.decode(bare).rstrip().endswith("Hi<|im_end|>")


def test_a_template_that_changes_a_message_cannot_continue_it(chatty, endless):
    chat = TextGenerator(chatty, endless.generator.engine).chat(template="{{ messages[-1].content[:3] }}")
    served = Served("short", endless.generator, chat)
    with pytest.raises(RequestError, match="the message cannot be continued"):
        read_chat({"messages": BEGUN, "continue_final_message": True}, served)


def test_special_tokens_in_prompts_are_recognised_only_on_request(endless):
    tokenizer = endless.generator.tokenizer
    text, ends = "a<|im_end|>b", tokenizer.special_tokens["<|im_end|>"]
    allowed = [*tokenizer.encode("a"), ends, *tokenizer.encode("b")]
    for given, ids in (
        ({}, tokenizer.encode(text)),
        ({"special_tokens": "text"}, tokenizer.encode(text)),
        ({"special_tokens": "allowed"}, allowed),
        ({"special_tokens": "allowed", "add_special_tokens": False}, allowed),
    ):
        assert read_completion({"prompt": text, **given}, endless).prompts == [ids]
        assert read_completion({"prompt": [text, [65]], **given}, endless).prompts == [ids, [65]]
        assert read_tokenize({"prompt": text, **given}, endless) == (ids, False)


@pytest.mark.parametrize(
    ("record", "param", "message"),
    [
        ({"chat_template_kwargs": "{}"}, "chat_template_kwargs", "must be an object, not a string"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "must not have messages: it is a parameter"),
        ({"chat_template_kwargs": {"add_generation_prompt": 1}}, "chat_template_kwargs", "must not have add_generation"),
        ({"reasoning_effort": "low"}, "reasoning_effort", "chat template does not use reasoning_effort: leave it out"),
        ({"reasoning_effort": 3}, "reasoning_effort", "reasoning_effort must be a string, not a number"),
        ({"continue_final_message": "yes"}, "continue_final_message", "must be true or false"),
        (
            {"continue_final_message": True, "messages": HELLO},
            "continue_final_message",
            "needs a last message with the role",
        ),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message",
            "exclude each other: set only one",
        ),
        ({"special_tokens": "allowed"}, "special_tokens", "unknown parameter special_tokens"),
    ],
)
def test_wrong_values_are_refused_by_name(endless, record, param, message):
    with pytest.raises(RequestError, match=message) as refusal:
        read_chat({"messages": BEGUN, **record}, endless)
    assert refusal.value.body["error"]["param"] == param


def test_other_words_for_special_tokens_are_refused(endless):
    for read in (read_completion, read_tokenize):
        with pytest.raises(RequestError, match="special_tokens must be 'text' or 'allowed', not 'all'"):
            read({"prompt": "a", "special_tokens": "all"}, endless)


def test_variables_of_the_command_line_are_json():
    assert read_variables('{"enable_thinking": false}', "--chat-template-kwargs") == {"enable_thinking": False}
    for written, message in (
        ("{", "--chat-template-kwargs is not JSON"),
        ("[]", "--chat-template-kwargs must be an object, not a list"),
        ('{"tools": []}', "--chat-template-kwargs must not have tools"),
    ):
        with pytest.raises(SGPEError, match=message):
            read_variables(written, "--chat-template-kwargs")
