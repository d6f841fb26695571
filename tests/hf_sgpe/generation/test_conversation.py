import pytest
from support.engines import Parrot

from hf_sgpe import SGPEError
from hf_sgpe.generation import TextGenerator
from hf_sgpe.generation.conversation import end_of_turn


def test_the_end_of_a_turn_is_read_off_the_template(chatty):
    end = chatty.special_tokens["<|im_end|>"]
    assert end_of_turn(chatty, "chatml") == [end]
    assert end_of_turn(chatty, "alpaca") == [chatty.eos_token_id]
    own = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|endoftext|>{% endfor %}"
    assert end_of_turn(chatty, own) == [chatty.special_tokens["<|endoftext|>"]]
    assert end_of_turn(chatty, "{{ raise_exception('no') }}") == []


def test_answers_end_with_the_turn_and_are_remembered(chatty):
    end = chatty.special_tokens["<|im_end|>"]
    engine = Parrot([*chatty.encode("Yes."), end, *chatty.encode("never said")])
    chat = TextGenerator(chatty, engine).chat("Be brief.")
    assert "".join(chat.say("Hello?")) == "Yes."
    assert chat.messages == [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Yes."}]
    "".join(chat.say("Again?"))
    written = chatty.apply_chat_template([*chat.messages[:3]], "chatml", system_prompt="Be brief.")
    assert engine.asked[1] == written


def test_an_answer_that_is_broken_off_is_remembered_as_far_as_it_came(chatty):
    chat = TextGenerator(chatty, Parrot(chatty.encode("one two three"))).chat()
    answer = chat.say("Count!")
    first = next(answer)
    answer.close()
    assert chat.messages[-1] == {"role": "assistant", "content": first}


def test_a_turn_that_failed_is_forgotten(chatty):
    chat = TextGenerator(chatty, Parrot([65], error=RuntimeError("out of memory"))).chat()
    with pytest.raises(SGPEError, match=r"parrot .*out of memory"):
        list(chat.say("Hi"))
    assert chat.messages == []


def test_a_tokenizer_without_a_template_has_no_conversations(tokenizer):
    with pytest.raises(SGPEError, match="no chat template"):
        TextGenerator(tokenizer, Parrot()).chat()
