import signal
import threading

import pytest
from support.engines import Parrot
from support.serving import serving, wait_until

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.parameters import RequestError
from hf_sgpe.serving.requests import Served

openai = pytest.importorskip("openai", reason="clients are of: pip install openai")

from hf_sgpe.serving.served_models import Models  # noqa: E402

PROMPT = "අ"


@pytest.fixture
def named(chatty):
    """A function that returns a model which answers with its text, endlessly or once."""

    def make(name, text, **settings):
        generator = TextGenerator(chatty, Parrot(chatty.encode(text), **settings))
        return Served(name, generator, generator.chat())

    return make


def client_of(running):
    return openai.OpenAI(base_url=running.url, api_key="-", max_retries=0)


def said(client, model, **given):
    return client.completions.create(model=model, prompt=PROMPT, **given).choices[0].text


def test_a_request_names_its_model(named):
    with serving(named("a", "Alpha."), named("b", "Beta.", context_length=50)) as running, client_of(running) as client:
        assert [(model.id, model.max_model_len) for model in client.models.list()] == [("a", None), ("b", 50)]
        assert client.models.retrieve("b").id == "b"
        assert (said(client, "a"), said(client, "b"), said(client, "a")) == ("Alpha.", "Beta.", "Alpha.")
        for ask in (client.models.retrieve, lambda name: said(client, name)):
            with pytest.raises(openai.NotFoundError, match="unknown model 'c': this server has 'a', 'b'") as refusal:
                ask("c")
            assert refusal.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError, match="model is missing: choose from 'a', 'b'") as refusal:
            client.post("/completions", body={"prompt": PROMPT}, cast_to=object)
        assert refusal.value.param == "model"


def test_a_model_is_named_by_a_text(named):
    models = Models([named("a", "Alpha.")])
    assert models.pick(None) is models.pick("a")
    for name, kind in ((["a"], "a list"), (3, "a number"), ({}, "an object")):
        with pytest.raises(RequestError, match=f"model must be a string, not {kind}") as refusal:
            models.pick(name)
        assert refusal.value.status == 400
    models.close()
    models.join()


def test_models_answer_at_the_same_time(named):
    slow = named("slow", "a", is_endless=True, pause=0.001)
    with serving(slow, named("quick", "Yes.")) as running, client_of(running) as client:
        with client.completions.create(model="slow", prompt=PROMPT, max_tokens=4000, stream=True) as stream:
            next(iter(stream))
            assert said(client, "quick") == "Yes."
        wait_until(lambda: not running.app.state.models.running)


def reload(running, served):
    server = running.server
    server._reload = lambda: served
    server._loop.call_soon_threadsafe(server.reload)


def test_an_answer_ends_on_the_model_that_was_replaced_and_the_next_comes_from_the_new_one(named):
    old, other = named("a", "o", is_endless=True, pause=0.001), named("b", "Beta.")
    with serving(old, other) as running, client_of(running) as client:
        answers = []
        with client.completions.create(model="a", prompt=PROMPT, max_tokens=300, stream=True) as stream:
            parts = iter(stream)
            text = next(parts).choices[0].text
            waiting = threading.Thread(target=lambda: answers.append(said(client, "a", max_tokens=3)))
            waiting.start()
            wait_until(lambda: running.app.state.models.waiting)
            reload(running, [named("a", "New."), other])
            wait_until(lambda: running.app.state.models.pick("a").served is not old)
            assert said(client, "a") == "New."
            text += "".join(part.choices[0].text for part in parts)
            waiting.join()
        assert (text, answers) == ("o" * 300, ["ooo"])
        wait_until(lambda: old.generator.engine.ids == [])  # its memory is freed
        assert said(client, "b") == "Beta."
        reload(running, [other])
        wait_until(lambda: len([*running.app.state.models]) == 1)
        with pytest.raises(openai.NotFoundError, match="this server has 'b'"):
            said(client, "a")
        assert client.post("/completions", body={"prompt": PROMPT}, cast_to=dict)["model"] == "b"


def test_a_request_that_was_read_for_a_replaced_model_is_read_again(named, monkeypatch):
    from hf_sgpe.serving import routes

    old, new = named("a", "Old."), named("a", "New.")
    is_read, may_go_on = threading.Event(), threading.Event()
    read = routes.read_completion

    def slow(record, served):
        asked = read(record, served)
        if served is old:
            is_read.set()
            may_go_on.wait(60)
        return asked

    monkeypatch.setattr(routes, "read_completion", slow)
    with serving(old) as running, client_of(running) as client:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(said(client, "a")))
        asking.start()
        is_read.wait(60)
        reload(running, [new])
        wait_until(lambda: old.generator.engine.ids == [])
        may_go_on.set()
        asking.join()
    assert answers == ["New."]


def test_a_server_that_ends_during_a_replacement_ends_the_answers_of_both_models(named):
    old, new = (named("a", "o", is_endless=True, pause=0.001) for _ in range(2))
    errors = []

    def ask():
        try:
            said(client, "a", max_tokens=4000)
        except openai.APIError as error:
            errors.append(error)

    with serving(old) as running, client_of(running) as client:
        asking = [threading.Thread(target=ask) for _ in range(2)]
        asking[0].start()
        wait_until(lambda: old.generator.engine.asked)
        reload(running, [new])
        wait_until(lambda: running.app.state.models.pick("a").served is new)
        asking[1].start()
        wait_until(lambda: new.generator.engine.asked)
        running.server.handle_exit(signal.SIGINT, None)
        for thread in asking:
            thread.join()
    assert len(errors) == 2
    assert old.generator.engine.ids == []
    with pytest.raises(SGPEError, match="this engine is closed"):
        old.generator.generate("a")
