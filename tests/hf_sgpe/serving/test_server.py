import json
import signal
import threading
import urllib.error
import urllib.request

import pytest
from support.engines import Parrot
from support.serving import serving

from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.serving import answers
from hf_sgpe.serving.answers import to_json
from hf_sgpe.serving.limits import Limits
from hf_sgpe.serving.requests import Served

openai = pytest.importorskip("openai", reason="clients are of: pip install openai")

PROMPT = "ශ්‍රී ලංකාව"
HELLO = [{"role": "user", "content": "ආයුබෝවන්! <|im_end|>"}]


def client_of(running, api_key="none"):
    return openai.OpenAI(base_url=running.url, api_key=api_key, max_retries=0)


@pytest.fixture(scope="module")
def client(running):
    with client_of(running) as client:
        yield client


def options(**given):
    return GenerationOptions(**{"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 16, **given})


def test_a_completion_is_the_generators(client, generator):
    answer = client.completions.create(model="my-model", prompt=PROMPT, seed=5)
    assert answer.choices[0].text == generator.generate(PROMPT, options(seed=5))
    assert (answer.object, answer.model, answer.choices[0].finish_reason) == ("text_completion", "my-model", "length")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(generator.encode(PROMPT)), 16)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 16


def test_a_stream_joins_to_the_same_text(client, generator):
    stream = client.completions.create(
        model="my-model", prompt=PROMPT, seed=6, max_tokens=40, stream=True, stream_options={"include_usage": True}
    )
    *parts, last = stream
    assert "".join(part.choices[0].text for part in parts) == generator.generate(PROMPT, options(seed=6, max_new_tokens=40))
    assert len(parts) > 10
    assert {part.choices[0].finish_reason for part in parts[:-1]} == {None}
    assert parts[-1].choices[0].finish_reason == "length"
    assert (last.choices, last.usage.completion_tokens) == ([], 40)
    assert {part.usage for part in parts} == {None}
    assert len({part.id for part in (*parts, last)}) == 1


def test_a_chat_is_the_generators(client, generator):
    chat = generator.chat()
    expected = "".join(chat.answer(HELLO, options(seed=7, max_new_tokens=30)))
    for name in ("max_tokens", "max_completion_tokens"):
        answer = client.chat.completions.create(model="my-model", messages=HELLO, seed=7, **{name: 30})
        assert answer.choices[0].message.content == expected
        assert answer.choices[0].message.role == "assistant"
        assert answer.usage.prompt_tokens == len(chat.encode(HELLO))
    stream = client.chat.completions.create(model="my-model", messages=HELLO, seed=7, max_tokens=30, stream=True)
    first, *parts = stream
    assert first.choices[0].delta.role == "assistant"
    assert "".join(part.choices[0].delta.content or "" for part in parts) == expected
    assert parts[-1].choices[0].finish_reason in ("stop", "length")


def test_a_chat_without_a_number_goes_on_to_the_end_of_the_context(client, generator):
    answer = client.chat.completions.create(model="my-model", messages=HELLO, seed=1, extra_body={"top_k": 40})
    if answer.choices[0].finish_reason == "length":
        assert answer.usage.total_tokens == generator.engine.context_length
    expected = generator.chat().answer(HELLO, options(seed=1, top_k=40, max_new_tokens=4096))
    assert answer.choices[0].message.content == "".join(expected)


def test_an_answer_ends_at_the_token_that_ends_a_turn(chatty):
    ends = chatty.special_tokens["<|im_end|>"]

    generator = TextGenerator(chatty, Parrot([*chatty.encode("Yes."), ends, *chatty.encode("never said")]))
    with serving(Served("says", generator, generator.chat())) as running, client_of(running) as client:
        answer = client.chat.completions.create(model="says", messages=HELLO)
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Yes.", "stop")
        assert answer.usage.completion_tokens == len(chatty.encode("Yes."))


def test_where_an_answer_ends_is_chosen_by_the_client(chatty):
    ends = chatty.special_tokens["<|im_end|>"]
    yes, more = chatty.encode("Yes."), chatty.encode(" And more.")
    generator = TextGenerator(chatty, Parrot([*yes, ends, *more]))
    with serving(Served("says", generator, generator.chat())) as running, client_of(running) as client:

        def said(**given):
            answer = client.chat.completions.create(model="says", messages=HELLO, extra_body=given)
            completed = client.completions.create(model="says", prompt="a", max_tokens=50, extra_body=given)
            return answer.choices[0].message.content, completed.choices[0].text

        assert said() == ("Yes.", "Yes. And more.")
        assert said(ignore_eos=True) == ("Yes. And more.", "Yes. And more.")
        assert said(ignore_eos=True, skip_special_tokens=False) == ("Yes.<|im_end|> And more.", "Yes.<|im_end|> And more.")
        assert said(stop="<|im_end|>", ignore_eos=True) == ("Yes.", "Yes.")
        assert said(stop_token_ids=[more[0]], ignore_eos=True) == ("Yes.", "Yes.")
        assert said(stop=["."], ignore_eos=True) == ("Yes", "Yes")
        assert said(stop=["."], ignore_eos=True, min_tokens=len(yes) + 1) == ("Yes. And more", "Yes. And more")


def test_a_message_is_continued_and_special_tokens_are_recognised(client, generator):
    begun = [*HELLO, {"role": "assistant", "content": PROMPT}]
    ids = generator.chat().encode(begun, continue_final_message=True)
    assert generator.tokenizer.decode(ids).endswith(PROMPT)
    given = {"temperature": 0, "max_tokens": 9}
    continued = {"continue_final_message": True, "add_generation_prompt": False}
    answer = client.chat.completions.create(model="my-model", messages=begun, extra_body=continued, **given)
    same = client.completions.create(
        model="my-model", prompt=ids, extra_body={"stop_token_ids": list(generator.chat().stop_ids)}, **given
    )
    assert answer.choices[0].message.content == same.choices[0].text
    text = generator.tokenizer.decode(ids)
    # The template's special tokens are recognised; the text of one in the user's message is one, too.
    again = client.completions.create(model="my-model", prompt=text, extra_body={"special_tokens": "allowed"}, **given)
    assert again.usage.prompt_tokens == len(generator.tokenizer.encode(text, allowed_special="all")) < len(ids)


def test_several_answers_differ_and_repeat(client, generator):
    answers = [client.completions.create(model="my-model", prompt=[PROMPT, "අ"], n=3, seed=9) for _ in range(2)]
    texts = [[choice.text for choice in sorted(answer.choices, key=lambda choice: choice.index)] for answer in answers]
    expected = [generator.generate(prompt, options(seed=seed)) for prompt in (PROMPT, "අ") for seed in (9, 10, 11)]
    assert texts == [expected, expected]
    assert len(set(expected)) == 6
    assert answers[0].usage.prompt_tokens == len(generator.encode(PROMPT)) + len(generator.encode("අ"))
    assert answers[0].usage.completion_tokens == 6 * 16
    streamed = [""] * 6
    for part in client.completions.create(model="my-model", prompt=[PROMPT, "අ"], n=3, seed=9, stream=True):
        streamed[part.choices[0].index] += part.choices[0].text
    assert streamed == expected


def test_an_answer_ends_before_a_text_to_stop_at(client, generator):
    whole = generator.generate(PROMPT, options(seed=3, max_new_tokens=60))
    stop = whole[20:23]
    answer = client.completions.create(model="my-model", prompt=PROMPT, seed=3, max_tokens=60, stop=[stop, "never\n"])
    assert answer.choices[0].text == whole[: whole.index(stop)]
    assert answer.choices[0].finish_reason == "stop"
    assert 0 < answer.usage.completion_tokens < 60
    stream = client.completions.create(model="my-model", prompt=PROMPT, seed=3, max_tokens=60, stop=stop, stream=True)
    *parts, last = stream
    assert "".join(part.choices[0].text for part in parts) == whole[: whole.index(stop)]
    assert last.choices[0].finish_reason == "stop"


def test_ids_are_a_prompt_and_a_prompt_can_come_back(client, generator):
    ids = generator.encode(PROMPT)
    answer = client.completions.create(model="my-model", prompt=ids, seed=2, echo=True)
    assert answer.choices[0].text == PROMPT + generator.generate(PROMPT, options(seed=2))
    stream = client.completions.create(model="my-model", prompt=ids, seed=2, echo=True, stream=True)
    assert "".join(part.choices[0].text for part in stream) == answer.choices[0].text


def test_greedy_answers_and_other_options_arrive(client, generator):
    for given in (
        {"temperature": 0},
        {"temperature": 0.5, "top_p": 0.7},
        {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.3},
    ):
        named = {name: given[name] for name in given.keys() & {"temperature", "top_p"}}
        others = {name: given[name] for name in given.keys() - named.keys()}
        answer = client.completions.create(model="my-model", prompt=PROMPT, seed=4, extra_body=others, **named)
        assert answer.choices[0].text == generator.generate(PROMPT, options(seed=4, **given))


def test_tokens_come_with_their_log_probabilities(client, generator):
    given = options(seed=8, max_new_tokens=30)
    ids = generator.encode(PROMPT)
    scored = list(generator.engine.generate_scored(ids, given, top=3))
    answer = client.completions.create(model="my-model", prompt=PROMPT, seed=8, max_tokens=30, logprobs=3)
    (choice,) = answer.choices
    assert choice.text == generator.generate(PROMPT, given)
    logprobs = choice.logprobs
    assert logprobs.token_logprobs == [token.logprob for token in scored]
    for top, name, logprob in zip(logprobs.top_logprobs, logprobs.tokens, logprobs.token_logprobs, strict=True):
        assert top[name] == logprob
        assert 3 <= len(top) <= 4
    for offset, name in zip(logprobs.text_offset, logprobs.tokens, strict=True):
        assert name.startswith("bytes:") or choice.text.startswith(name, offset)
    parts = list(client.completions.create(model="my-model", prompt=PROMPT, seed=8, max_tokens=30, logprobs=3, stream=True))
    parts = [part.choices[0].logprobs for part in parts if part.choices[0].logprobs]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [value for part in parts for value in getattr(part, name)] == getattr(logprobs, name)


@pytest.mark.parametrize("most", [0, 1, 20])
def test_a_prompt_comes_with_the_log_probabilities_of_its_tokens(client, generator, most):
    prompts = [generator.encode(text) for text in (PROMPT, "අම්මා x")]
    given = {"model": "my-model", "prompt": prompts, "max_tokens": most, "temperature": 0, "seed": 1, "echo": True}
    answer = client.completions.create(**given, logprobs=2)
    expected = options(temperature=0, max_new_tokens=max(most, 1))
    for ids, choice in zip(prompts, answer.choices, strict=True):
        answers = list(generator.engine.generate_scored(ids, expected, with_stop=True)) if most else []
        logprobs = choice.logprobs
        assert (logprobs.token_logprobs[0], logprobs.top_logprobs[0]) == (None, None)
        scores = [*generator.engine.logprobs(ids), *(token.logprob for token in answers)]
        assert logprobs.token_logprobs[1:] == pytest.approx(scores)
        assert len(logprobs.tokens) == len(logprobs.text_offset) == len(ids) + len(answers)
        for top, name, logprob in list(zip(logprobs.top_logprobs, logprobs.tokens, logprobs.token_logprobs, strict=True))[
            1:
        ]:
            assert top[name] == logprob <= max(top.values())
            assert 2 <= len(top) <= 3
        for offset, name in zip(logprobs.text_offset, logprobs.tokens, strict=True):
            assert name.startswith(("bytes:", "<|")) or choice.text.startswith(name, offset)
        text = generator.tokenizer.decode(ids)
        assert choice.text == text + (generator.generate(text, expected) if most else "")
    assert answer.usage.completion_tokens <= 2 * most
    parts = list(client.completions.create(**given, logprobs=2, stream=True))
    for number, choice in enumerate(answer.choices):
        mine = [part.choices[0] for part in parts if part.choices[0].index == number]
        assert "".join(part.text for part in mine) == choice.text
        assert mine[-1].finish_reason == choice.finish_reason
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            streamed = [value for part in mine if part.logprobs for value in getattr(part.logprobs, name)]
            assert streamed == getattr(choice.logprobs, name)
    plain = client.completions.create(**given)
    assert [choice.text for choice in plain.choices] == [choice.text for choice in answer.choices]


def test_tokens_of_a_chat_come_with_their_bytes(client):
    given = {"model": "my-model", "messages": HELLO, "seed": 8, "max_tokens": 40, "temperature": 2, "logprobs": True}
    answer = client.chat.completions.create(**given, top_logprobs=2)
    tokens = answer.choices[0].logprobs.content
    written = b"".join(bytes(token.bytes) for token in tokens if not token.token.startswith("<|"))
    assert written.decode("utf-8", "ignore") == answer.choices[0].message.content.replace("\ufffd", "")
    assert answer.usage.completion_tokens == len(tokens)
    assert [len(token.top_logprobs) for token in tokens] == [2] * len(tokens)
    assert any(token.token.startswith("bytes:") for token in tokens)
    streamed = client.chat.completions.create(**given, top_logprobs=2, stream=True)
    assert [token for part in streamed if part.choices[0].logprobs for token in part.choices[0].logprobs.content] == tokens
    alone = client.chat.completions.create(**given).choices[0].logprobs.content
    assert [(token.logprob, token.top_logprobs) for token in alone] == [(token.logprob, []) for token in tokens]


def test_a_text_to_stop_at_is_not_among_the_tokens(client, generator):
    whole = generator.generate(PROMPT, options(seed=3, max_new_tokens=60))
    stop = whole[20:23]
    given = {"model": "my-model", "prompt": PROMPT, "seed": 3, "max_tokens": 60, "stop": stop, "logprobs": 0}
    (choice,) = client.completions.create(**given).choices
    assert choice.logprobs.text_offset[-1] < len(choice.text)
    assert choice.text.endswith(choice.logprobs.tokens[-1])


def test_models_are_listed(client, generator):
    (model,) = client.models.list()
    assert (model.id, model.max_model_len) == ("my-model", generator.engine.context_length)
    assert client.models.retrieve("my-model") == model
    with pytest.raises(openai.NotFoundError, match="unknown model 'other': this server has 'my-model'"):
        client.models.retrieve("other")


def test_errors_are_those_of_openai(client):
    for given, error, param, code in (
        ({"model": "other"}, openai.NotFoundError, "model", "model_not_found"),
        ({"temperature": -1}, openai.BadRequestError, "temperature", None),
        ({"logit_bias": {"5": 1}}, openai.BadRequestError, "logit_bias", "unsupported_parameter"),
        ({"prompt": "අ" * 300}, openai.BadRequestError, "prompt", "context_length_exceeded"),
        ({"prompt": ""}, openai.BadRequestError, "prompt", None),
        ({"prompt": [10**6]}, openai.BadRequestError, "prompt", None),
        ({"extra_body": {"heat": 1}}, openai.BadRequestError, "heat", "unknown_parameter"),
    ):
        with pytest.raises(error) as raised:
            client.completions.create(**{"model": "my-model", "prompt": PROMPT, **given})
        assert (raised.value.param, raised.value.code) == (param, code)
        assert raised.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError, match="template does not use tools"):
        client.chat.completions.create(
            model="my-model", messages=HELLO, tools=[{"type": "function", "function": {"name": "f"}}]
        )


def test_lone_surrogates_are_no_text_and_break_nothing(running, generator):
    answer = post(running, "/v1/completions", b'{"prompt": "a\\ud800", "seed": 1, "echo": true}')
    assert answer["choices"][0]["text"] == "a\ufffd" + generator.generate("a\ufffd", options(seed=1))
    assert post(running, "/v1/completions", b'{"prompt": "a", "\\ud800": 1}')["error"]["code"] == "unknown_parameter"


def test_texts_become_tokens_and_back(running, generator):
    ids = generator.encode(PROMPT)
    answer = post(running, "/tokenize", {"model": "my-model", "prompt": PROMPT})
    assert answer == {"count": len(ids), "max_model_len": 256, "tokens": ids, "token_strs": None}
    spelled = post(running, "/tokenize", {"prompt": PROMPT, "return_token_strs": True})
    assert spelled["token_strs"] == generator.tokenizer.convert_ids_to_tokens(ids)
    chat = post(running, "/tokenize", {"messages": HELLO})
    assert chat["tokens"] == generator.chat().encode(HELLO)
    assert post(running, "/detokenize", {"tokens": ids}) == {"prompt": PROMPT}
    assert post(running, "/detokenize", {"tokens": [-1]})["error"]["param"] == "tokens"


def test_other_paths_and_methods_are_named(running):
    assert get(running, "/health") == (200, {"status": "ok"})
    status, answer = get(running, "/v1/images")
    assert (status, answer["error"]["message"]) == (404, "unknown path /v1/images")
    status, answer = get(running, "/v1/completions")
    assert (status, answer["error"]["message"]) == (405, "/v1/completions does not accept GET")


def test_a_key_is_asked_for(generator):
    with serving(Served("my-model", generator, None), api_keys=["ශ්‍රී-secret".encode().decode("latin-1")]) as running:
        pass
    with serving(Served("my-model", generator, None), api_keys=["other", "secret"]) as running:
        with client_of(running, "secret") as client:
            client.completions.create(model="my-model", prompt="a", max_tokens=1)
        for key in ("Secret", "secret2", "s"):
            with client_of(running, key) as client, pytest.raises(openai.AuthenticationError) as raised:
                client.completions.create(model="my-model", prompt="a", max_tokens=1)
            assert raised.value.code == "invalid_api_key"
        for path in ("/v1/models", "/tokenize"):
            assert get(running, path)[0] in (401, 405)
        assert get(running, "/health")[0] == 200


def test_more_than_may_wait_are_told_to_come_back(endless):
    served = Served("endless", endless.generator, endless.chat, Limits(max_waiting=0, max_new_tokens=10**9))
    with serving(served) as running, client_of(running) as client:
        stream = client.completions.create(model="endless", prompt="a", max_tokens=10**9, stream=True)
        next(iter(stream))
        with pytest.raises(openai.RateLimitError, match="0 requests are already waiting") as raised:
            client.completions.create(model="endless", prompt="a")
        assert raised.value.response.headers["retry-after"] == "1"
        stream.close()


def test_a_model_that_fails_is_an_error_and_the_next_is_served(chatty, caplog):
    generator = TextGenerator(chatty, Parrot([65]))
    with serving(Served("failing", generator, None)) as running, client_of(running) as client:
        for error, message in (
            (RuntimeError("no memory"), r"parrot failed to run this model \(no memory\)"),
            (TypeError("x"), "see the server's output"),
        ):
            generator.engine.error = error
            with pytest.raises(openai.InternalServerError, match=message):
                client.completions.create(model="failing", prompt="a")
            with pytest.raises(openai.APIError, match=message):
                list(client.completions.create(model="failing", prompt="a", stream=True))
        generator.engine.error = None
        assert client.completions.create(model="failing", prompt="a").choices[0].finish_reason == "stop"
    assert len(caplog.records) == 4


def test_stopping_ends_what_is_answered_and_what_waits(endless):
    served = Served("endless", endless.generator, endless.chat, Limits(max_new_tokens=10**9))
    with serving(served) as running, client_of(running) as client:
        streams = [client.completions.create(model="endless", prompt="a", max_tokens=10**9, stream=True) for _ in range(2)]
        next(iter(streams[0]))
        running.server.handle_exit(signal.SIGINT, None)
        for stream in streams:
            with pytest.raises(openai.APIError, match="the server is shutting down"):
                list(stream)
    engine = endless.generator.engine
    assert len(engine.asked) == engine.ended == 1


def post(running, path, record):
    body = record if isinstance(record, bytes) else json.dumps(record).encode()
    return ask(urllib.request.Request(running.url.removesuffix("/v1") + path, body, {"Content-Type": "application/json"}))[1]


def get(running, path):
    return ask(urllib.request.Request(running.url.removesuffix("/v1") + path))


def ask(request):
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_long_values_are_encoded_in_short_parts(monkeypatch):
    scored = {"token": "ශ", "bytes": [224], "top_logprobs": [{"token": "a"}] * 20}
    value = {
        "choices": [to_json({"text": "a"})] * 2,
        "content": [scored] * 1000,
        "ids": [*range(5000)],
        "none": [],
        "n": 1.5,
    }
    value |= {"text": 'ශ\ud800"\n' * 50_000, "deep": {"a": [1, [2]], "b": "", "c": None}}
    plain = to_json({**value, "choices": [{"text": "a"}] * 2})
    lengths = []
    monkeypatch.setattr(answers, "to_json", lambda value: lengths.append(len(encoded := to_json(value))) or encoded)
    assert answers.long_json(value) == plain
    assert max(lengths) < 300_000 < len(plain)


@pytest.mark.parametrize("stream", [False, True])
def test_answers_with_many_log_probabilities_are_built_outside_the_event_loop(generator, monkeypatch, stream):
    threads = set()
    logprobs = answers.Completion._logprobs

    def watched(self, tokens):
        if len(tokens) > 100:
            threads.add(threading.current_thread())
        return logprobs(self, tokens)

    monkeypatch.setattr(answers.Completion, "_logprobs", watched)
    with serving(Served("my-model", generator, None)) as running, client_of(running) as client:
        given = {"prompt": PROMPT * 40, "echo": True, "logprobs": 2, "max_tokens": 1, "stream": stream}
        answer = client.completions.create(model="my-model", **given)
        list(answer) if stream else None
        assert threads and running._thread not in threads
