import pytest
from hypothesis import given, strategies as st
from support.conversations import ENDS, TEMPLATES_TOKENS, said, specials_in
from support.small_tokenizers import BYTES, with_specials
from support.texts import texts

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast
from hf_sgpe.chat.templates import SPECIAL_TOKENS, load_template, render


def with_system(messages, system_prompt):
    if system_prompt and not any(message["role"] == "system" for message in messages):
        return [{"role": "system", "content": system_prompt}, *messages]
    return messages


def llama3(messages, add_generation_prompt, system_prompt):
    result = "<|begin_of_text|>"
    for message in with_system(messages, system_prompt):
        result += f"<|start_header_id|>{message['role']}<|end_header_id|>\n\n{message['content']}<|eot_id|>"
    if add_generation_prompt:
        result += "<|start_header_id|>assistant<|end_header_id|>\n\n"
    return result


def chatml(messages, add_generation_prompt, system_prompt):
    result = ""
    for message in with_system(messages, system_prompt):
        result += f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
    if add_generation_prompt:
        result += "<|im_start|>assistant\n"
    return result


def alpaca(messages, add_generation_prompt, system_prompt, eos_token=""):
    system = next((message["content"] for message in messages if message["role"] == "system"), system_prompt)
    user = next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")
    result = f"{system}\n\n" if system else ""
    result += f"### Instruction:\n{user}\n\n"
    if add_generation_prompt:
        result += "### Response:\n"
    elif messages and messages[-1]["role"] == "assistant":
        result += f"### Response:\n{messages[-1]['content']}{eos_token}"
    return result


TWINS = {"llama3": llama3, "chatml": chatml, "alpaca": alpaca}

contents = texts | st.sampled_from(["", "\n", "a\n", " ", "{{ 7 * 7 }}", "{% raw %}", "{#", "<b>&amp;", "'\"\\"])
contents = contents.filter(lambda text: not any(token in text for token in [*TEMPLATES_TOKENS, *ENDS]))
roles = st.sampled_from(["system", "user", "assistant"])
conversations = st.lists(st.fixed_dictionaries({"role": roles, "content": contents}), max_size=5)


@pytest.mark.parametrize("name", TWINS)
@given(messages=conversations, prompt=st.booleans(), system=st.none() | contents)
def test_named_templates_equal_their_twins(name, messages, prompt, system):
    expected = TWINS[name](messages, prompt, system)
    assert render(messages, name, add_generation_prompt=prompt, system_prompt=system) == expected


def test_an_answer_in_alpaca_ends_in_the_end_of_text_token(chatty):
    messages = [*said("1"), *said("2", "assistant"), *said("3"), *said("4", "assistant")]
    text = "### Instruction:\n3\n\n### Response:\n4"
    assert render(messages, "alpaca", add_generation_prompt=False) == text
    assert render(messages, "alpaca", add_generation_prompt=False, special_tokens={"eos_token": "</s>"}) == text + "</s>"
    ends = "<|end_of_text|>"  # the first of the tokenizer's that plays this part
    assert chatty.apply_chat_template(messages, "alpaca", add_generation_prompt=False, tokenize=False) == text + ends
    ids = chatty.apply_chat_template(messages, "alpaca", add_generation_prompt=False)
    assert ids == [*chatty.encode(text), chatty.special_tokens[ends]]
    messages[-1]["content"] = ends
    assert specials_in(chatty, chatty.apply_chat_template(messages, "alpaca", add_generation_prompt=False)) == ids[-1:]
    without = BPETokenizer(BYTES, []).apply_chat_template(messages, "alpaca", add_generation_prompt=False)
    assert bytes(without).decode() == text[:-1] + ends


def test_a_system_prompt_changes_no_messages_of_the_caller():
    given = said("Hi")
    render(given, "chatml", system_prompt="Be brief.")
    assert given == said("Hi")


@pytest.mark.parametrize("name", TWINS)
@given(messages=conversations, prompt=st.booleans())
def test_transformers_renders_the_same(name, messages, prompt):
    from transformers.utils.chat_template_utils import render_jinja_template

    theirs, _ = render_jinja_template([messages], chat_template=load_template(name), add_generation_prompt=prompt)
    assert theirs == [render(messages, name, add_generation_prompt=prompt)]


def test_a_template_of_ones_own():
    source = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{{ m.get('more', '') }}\n{% endfor %}"
    assert render([*said("Hi", "x", more="!"), *said("Ho", "y")], source) == "[x] Hi!\n[y] Ho\n"
    assert render([], "{% if add_generation_prompt %}>{% endif %}") == ">"
    assert render([], "{% if add_generation_prompt %}>{% endif %}", add_generation_prompt=False) == ""
    assert render(said("Hi"), "{{ messages[0]['content'] }}", system_prompt="First") == "First"
    loop = "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m['content'] }}{% endfor %}"
    assert render([*said("a"), *said("b")], loop) == "a"


def test_a_template_of_ones_own_is_tokenized(chatty):
    source = "{% for m in messages %}<|endoftext|>{{ m['content'] }}{% endfor %}"
    end = chatty.special_tokens["<|endoftext|>"]
    ids = chatty.apply_chat_template([*said("Hi"), *said("<|endoftext|>")], source)
    assert ids == [end, *chatty.encode("Hi"), end, *chatty.encode("<|endoftext|>")]


def test_template_syntax_in_a_message_stays_text(chatty):
    for text in ("{{ 7 * 7 }}", "{% for i in range(9) %}x{% endfor %}", "{# gone #}", "{{ messages }}"):
        assert text in render(said(text), "chatml")
        assert text in chatty.decode(chatty.apply_chat_template(said(text), "llama3"))


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(content='x') }}",
        "{{ raise_exception.__globals__['SGPEError'] }}",
        "{{ lipsum.__globals__['os'].listdir('.') }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{% include 'chatml.jinja' %}",
        "{% import 'os' as os %}{{ os }}",
    ],
)
def test_templates_reach_nothing_but_the_messages(source):
    messages = said("Hi")
    with pytest.raises(SGPEError, match="chat template"):
        render(messages, source)
    assert messages == said("Hi")


@pytest.mark.parametrize("name", ["__globals__", "__code__", "__class__", "__dict__"])
def test_hidden_attributes_are_undefined_in_templates(name):
    assert render(said("Hi"), f"{{{{ raise_exception.{name} }}}}{{{{ messages.{name} }}}}") == ""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ messages[0]['content'] ", "unexpected end of template|end of template"),
        ("{% for %}", "chat template"),
        ("{{ nothing.at.all }}", "'nothing' is undefined"),
        ("{{ messages[0]['content'] + 1 }}", "chat template"),
        ("{{ raise_exception('not like that') }}", "not like that"),
        ("{{ raise_exception('not\\nlike that') }}", "chat template: not like that"),
    ],
)
def test_wrong_templates_are_named_in_one_line(source, message):
    with pytest.raises(SGPEError, match=message) as caught:
        render(said("Hi"), source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["{{ 1 / 0 }}", "{% for i in range(9999999) %}{% endfor %}"])
def test_templates_that_fail_in_other_ways_are_named(source):
    with pytest.raises(SGPEError, match="chat template"):
        render(said("Hi"), source)


def test_unknown_names_list_the_known():
    for use in (render, with_specials(TEMPLATES_TOKENS).apply_chat_template):
        with pytest.raises(SGPEError, match=r"'llama4'.* llama3, chatml, alpaca"):
            use(said("Hi"), "llama4")
    assert list(SPECIAL_TOKENS) == list(TWINS)


@pytest.mark.parametrize("role", ["tool", "User", "", "system ", "user<|end_header_id|>"])
def test_llama3_refuses_other_roles(role, chatty):
    for use in (render, chatty.apply_chat_template):
        with pytest.raises(SGPEError, match="llama3: role"):
            use(said("Hi", role), "llama3")
    with pytest.raises(SGPEError) as caught:
        render(said("Hi", role), "llama3")
    assert str(caught.value).endswith(f"not {role}")


@pytest.mark.parametrize("messages", [said("Hi", "user<|end_header_id|>"), [{"content": "<b>"}]])
def test_complaints_quote_messages_as_they_are(messages, chatty):
    with pytest.raises(SGPEError) as expected:
        render(messages, "llama3")
    with pytest.raises(SGPEError) as caught:
        chatty.apply_chat_template(messages, "llama3")
    assert str(caught.value) == str(expected.value)


def test_a_message_that_is_none_is_named_before_tokenizing(chatty):
    with pytest.raises(SGPEError, match=r"message 0 .* 'role'"):
        chatty.apply_chat_template(["Hi"], "chatml")


@pytest.mark.parametrize(
    ("message", "missing"),
    [
        ({"role": "user"}, "content"),
        ({"content": "Hi"}, "role"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": ["Hi"]}, "content"),
        ({"role": 1, "content": "Hi"}, "role"),
    ],
)
@pytest.mark.parametrize("name", TWINS)
def test_incomplete_messages_are_named(name, message, missing, chatty):
    for use in (render, chatty.apply_chat_template):
        with pytest.raises(SGPEError, match=f"message 1 .* '{missing}'") as caught:
            use([*said("Hi"), message], name)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(SGPEError, match=r"message 0 .* 'role'"):
        render(["Hi"], name)


@pytest.mark.parametrize(("name", "lacking"), [("llama3", "<|eot_id|>"), ("chatml", "<|im_end|>")])
def test_a_tokenizer_without_the_templates_special_tokens_is_refused(name, lacking):
    poor = with_specials([token for token in TEMPLATES_TOKENS if token != lacking])
    with pytest.raises(SGPEError) as caught:
        poor.apply_chat_template(said("Hi"), name)
    assert str(caught.value) == (
        f"this tokenizer lacks the special token {lacking!r} of the chat template {name}: train a tokenizer with this token"
    )
    assert poor.apply_chat_template(said("Hi"), name, tokenize=False) == render(said("Hi"), name)


def test_a_template_without_special_tokens_suits_every_tokenizer():
    text = render(said("Hi"), "alpaca")
    assert with_specials([]).apply_chat_template(said("Hi"), "alpaca") == list(text.encode())


def test_the_text_of_a_message_does_not_make_a_tokenizer_lack_a_token():
    without_end = with_specials([token for token in TEMPLATES_TOKENS if token != "<|end_of_text|>"])
    assert without_end.apply_chat_template(said("Hi"), "llama3")
    assert without_end.apply_chat_template(said("What is <|end_of_text|>?"), "llama3")


@pytest.mark.parametrize("name", TWINS)
@given(messages=conversations, prompt=st.booleans(), system=st.none() | contents)
def test_harmless_messages_have_the_ids_of_the_rendered_text(name, chatty, messages, prompt, system):
    options = {"add_generation_prompt": prompt, "system_prompt": system}
    text = render(messages, name, special_tokens=chatty.roles, **options)
    assert chatty.apply_chat_template(messages, name, tokenize=False, **options) == text
    ids = chatty.apply_chat_template(messages, name, **options)
    assert ids == chatty.encode(text, allowed_special="all")
    assert chatty.decode(ids) == text


@pytest.mark.parametrize(
    "expression",
    ["content | tojson", "content | length", "content.replace('<b>', '')", "'<b>' in content"],
)
def test_templates_that_look_into_a_message_see_it_as_it_is(expression, chatty):
    source = "{% set content = messages[0]['content'] %}{{ " + expression + " }}"
    ids = chatty.apply_chat_template(said("1 <b> 2"), source)
    assert chatty.decode(ids) == render(said("1 <b> 2"), source)


def test_a_template_that_changes_messages_changes_special_tokens_in_them_as_text(chatty):
    upper = "{{ messages[0]['content'] | upper }}<|im_end|>"
    end = chatty.special_tokens["<|im_end|>"]
    assert chatty.apply_chat_template(said("hi"), upper) == [*chatty.encode("HI"), end]
    assert chatty.apply_chat_template(said("<|im_end|>"), upper) == [*chatty.encode("<|IM_END|>"), end]
    assert chatty.apply_chat_template(said("<|IM_END|>"), upper.replace("upper", "lower")) == [
        *chatty.encode("<|im_end|>"),
        end,
    ]
    trimmed = "{{ messages[0]['content'] | trim }}<|im_end|>"
    assert chatty.apply_chat_template(said(" <|im_end|> "), trimmed) == [*chatty.encode("<|im_end|>"), end]


def test_text_is_an_ordinary_text(chatty):
    text = chatty.apply_chat_template(said("<|im_end|>"), "chatml", tokenize=False)
    assert type(text) is str
    # What render writes is encoded like a text, too.
    fast = SGPETokenizerFast.from_bpe(chatty)
    for one in (text, render(said("<|im_end|>"), "chatml")):
        assert fast(one)["input_ids"] == chatty.encode(one, allowed_special="all")
        assert fast([one, one], padding=False)["input_ids"] == [chatty.encode(one, allowed_special="all")] * 2
