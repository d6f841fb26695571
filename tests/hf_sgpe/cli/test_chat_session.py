import json
import sys

import pytest
from support.engines import Parrot

from hf_sgpe import SGPEError
from hf_sgpe.cli.chat_session import Conversation, answer_lines, interact, json_lines, once
from hf_sgpe.generation import GenerationOptions, TextGenerator


def conversation(chatty, text="Yes.", **options):
    engine = Parrot([*chatty.encode(text), chatty.special_tokens["<|im_end|>"]])
    return Conversation(TextGenerator(chatty, engine), GenerationOptions(), **options)


def typed(*lines):
    left = iter(lines)

    def read(prompt):
        line = next(left, None)
        if line is None:
            raise EOFError
        if line is KeyboardInterrupt:
            raise KeyboardInterrupt
        return line

    return read


def test_a_terminal_talks_and_obeys(chatty, tmp_path, capsys):
    talk = conversation(chatty, system_prompt="Be brief.")
    file = tmp_path / "said.json"
    lines = [
        "Hello\\",
        "there",
        "",
        f"/save {file}",
        "/reset",
        "/system Be kind.",
        "Hi",
        "/help",
        "/nothing",
        "/save",
        "/quit",
    ]
    interact(talk, typed(*lines, "not read"))
    said = capsys.readouterr()
    assert said.out == "Yes.\nYes.\n"
    assert [message["content"] for message in json.loads(file.read_text())] == ["Be brief.", "Hello\nthere", "Yes."]
    assert talk.chat.messages[0]["content"] == "Hi"
    assert talk.chat.system_prompt == "Be kind."
    assert "/reset          start" in said.err
    assert "unknown command /nothing" in said.err
    assert "error: /save needs a file name" in said.err
    assert "tokens" in said.err


def test_a_conversation_is_saved_in_the_home_folder(chatty, tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    interact(conversation(chatty), typed("/save ~/said.json"))
    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.json")] == ["home/said.json"]


def test_a_pipe_talks_and_obeys_too(chatty, capsys):
    talk = conversation(chatty)
    answer_lines(talk, ["Hello", "", "/reset", "/help", "Hi", "/quit", "not read"])
    said = capsys.readouterr()
    assert said.out == "Yes.\nYes.\n"
    assert "/reset          start" in said.err
    assert [message["content"] for message in talk.chat.messages] == ["Hi", "Yes."]
    with pytest.raises(SGPEError, match=r"line 2: unknown command /etc/passwd"):
        answer_lines(talk, ["", "/etc/passwd is a file", "not read"])


def test_surrogates_in_a_message_are_replaced(chatty, tmp_path):
    talk = conversation(chatty)
    interact(talk, typed("a\udcff", f"/save {tmp_path / 'said.json'}"))
    assert json.loads((tmp_path / "said.json").read_text())[0]["content"] == "a\ufffd"


def test_ctrl_c_ends_an_answer_and_then_the_conversation(chatty, capsys):
    talk = conversation(chatty, "one two")
    say, talk.answer = talk.answer, None

    def interrupted(text):
        def pieces():
            yield next(say(text))
            raise KeyboardInterrupt

        return pieces()

    talk.answer = interrupted
    interact(talk, typed("Hi", KeyboardInterrupt, "not read"))
    assert capsys.readouterr().out == "o\n"


def test_an_error_does_not_end_a_conversation(chatty, capsys):
    talk = conversation(chatty)
    talk.generator.engine.context_length = 30
    interact(talk, typed("word " * 100, "Hi"))
    said = capsys.readouterr()
    assert "error: the prompt has" in said.err
    assert said.out == "Yes.\n"


def test_without_a_template_it_goes_on_from_what_is_typed(tokenizer, capsys):
    talk = Conversation(TextGenerator(tokenizer, Parrot(tokenizer.encode("lanka"))), GenerationOptions())
    once(talk, "sri ")
    assert capsys.readouterr().out == "lanka\n"
    assert talk.generator.engine.asked == [tokenizer.encode("sri ")]
    interact(talk, typed("/reset"))
    assert "/reset needs a chat template" in capsys.readouterr().err
    with pytest.raises(SGPEError, match="--system needs a chat template"):
        Conversation(talk.generator, GenerationOptions(), system_prompt="x")


def test_a_terminal_is_not_given_orders_by_a_model(tokenizer, capsys, monkeypatch):
    talk = Conversation(TextGenerator(tokenizer, Parrot(tokenizer.encode("a\x1b[2J\r\x9b\x7f\tb\n"))), GenerationOptions())
    once(talk, "x")
    assert capsys.readouterr().out == "a\x1b[2J\r\x9b\x7f\tb\n\n"  # a file gets all of it
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    once(talk, "x")
    assert capsys.readouterr().out == "a␛[2J␍\ufffd␡\tb\n\n"


def test_json_lines_each_stand_for_themselves(chatty):
    talk = conversation(chatty)
    lines = ['{"prompt": "Hi"}', "", '{"messages": [{"role": "user", "content": "Hi"}], "max_new_tokens": 1}']
    first, second = map(json.loads, json_lines(talk, lines))
    assert (first["text"], first["tokens"]) == ("Yes.", len(chatty.encode("Yes.")))
    assert second["tokens"] == 1
    assert first["prompt_tokens"] == second["prompt_tokens"]
    assert talk.chat.messages == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"stdin, line 2: not JSON"),
        ("[]", "expected an object"),
        ("{}", "expected an object"),
        ('{"prompt": "a", "messages": []}', "expected an object"),
        ('{"prompt": 3}', '"prompt" must be a string'),
        ('{"messages": 3}', 'and "messages" must be a list'),
        ('{"prompt": "a", "heat": 3}', "line 2: unknown field: heat"),
        ('{"prompt": "a", "temperature": -3}', "line 2: temperature"),
        ('{"messages": [{"role": "user"}]}', "needs a string as 'content'"),
    ],
)
def test_bad_lines_are_named(chatty, line, message):
    with pytest.raises(SGPEError, match=message):
        list(json_lines(conversation(chatty), ['{"prompt": "Hi"}', line]))
