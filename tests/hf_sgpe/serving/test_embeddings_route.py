import base64
import threading

import numpy as np
import pytest
from support.engines import Bigram, Parrot
from support.serving import serving, wait_until

from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.requests import Served

openai = pytest.importorskip("openai", reason="clients are of: pip install openai")


class Embedder(Bigram):
    """A model whose hidden state of each token is a row of its table."""

    def __init__(self, vocab_size):
        super().__init__(vocab_size)
        self.embedding_length = self.table.shape[1]

    def _hidden(self, ids):
        for start in range(0, len(ids), 3):
            yield self.table[ids[start : start + 3]]


@pytest.fixture(scope="module")
def served(chatty):
    engine = Embedder(chatty.vocab_size)
    engine.context_length = 30
    return Served("m", TextGenerator(chatty, engine), None)


@pytest.fixture(scope="module")
def client(served):
    with serving(served) as running, openai.OpenAI(base_url=running.url, api_key="-", max_retries=0) as client:
        client.running = running
        yield client


def expected(served, ids, dimensions=None):
    mean = served.generator.engine.table[ids].mean(0)[:dimensions]
    return mean / np.linalg.norm(mean)


def test_texts_and_ids_are_embedded_in_both_forms(served, client):
    encode = served.generator.encode
    for given, inputs in (
        ("ශ්‍රී ලංකාව", [encode("ශ්‍රී ලංකාව")]),
        (["a", "bc"], [encode("a"), encode("bc")]),
        ([5, 6, 7, 8], [[5, 6, 7, 8]]),
        ([[5, 6], [7]], [[5, 6], [7]]),
    ):
        for form in (openai.omit, "float", "base64"):
            answer = client.embeddings.create(model="m", input=given, encoding_format=form)
            assert [part.index for part in answer.data] == [*range(len(inputs))]
            for part, ids in zip(answer.data, inputs, strict=True):
                found = part.embedding
                if isinstance(found, str):
                    found = np.frombuffer(base64.b64decode(found), "<f4")
                np.testing.assert_allclose(found, expected(served, ids), rtol=1e-4, atol=1e-6)
            assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, inputs))
    (part,) = client.embeddings.create(model="m", input="a", dimensions=3).data
    np.testing.assert_allclose(part.embedding, expected(served, encode("a"), 3), rtol=1e-4)


@pytest.mark.parametrize(
    ("given", "param", "problem"),
    [
        ({"input": ""}, "input", "input is empty: leave it out"),
        ({"input": ["a", ""]}, "input[1]", r"input\[1\] is empty"),
        ({"input": []}, "input", "a string, token ids, or a non-empty list"),
        ({"input": ["a"] * 2049}, "input", "2,049 texts"),
        ({"input": ["a", 3]}, "input", "input must be a string"),
        ({"input": {"a": "b"}}, "input", "input must be a string"),
        ({"input": [10**6]}, "input", "the id 1000000"),
        ({"input": [[5], [5, 10**6]]}, "input[1]", r"input\[1\] has the id 1000000"),
        ({"input": [5] * 31}, "input", "31 tokens"),
        ({"input": [[5] * 31]}, "input[0]", r"input\[0\] has 31 tokens"),
        ({"encoding_format": "int8"}, "encoding_format", "encoding_format must be float or base64"),
        ({"encoding_format": ""}, "encoding_format", "must be float or base64"),
        ({"dimensions": 0}, "dimensions", "at least 1"),
        ({"dimensions": 10**6}, "dimensions", "dimensions must be at most"),
        ({"stream": True}, "stream", "unknown parameter stream"),
    ],
)
def test_wrong_requests_are_refused_by_name(client, given, param, problem):
    with pytest.raises(openai.BadRequestError, match=problem) as refusal:
        client.post("/embeddings", body={"model": "m", "input": "a", **given}, cast_to=object)
    assert refusal.value.param == param


def test_other_requests_are_answered_while_many_embeddings_are_written(served, client, monkeypatch):
    from hf_sgpe.serving.embeddings import EmbeddingsRequest

    begun, may_go_on = threading.Event(), threading.Event()
    written = EmbeddingsRequest.formatted

    def slow(asked, embedding):
        begun.set()
        assert may_go_on.wait(60)
        return written(asked, embedding)

    monkeypatch.setattr(EmbeddingsRequest, "formatted", slow)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.embeddings.create(model="m", input=["a", "b"])))
    thread.start()
    try:
        assert begun.wait(60)
        assert [model.id for model in client.with_options(timeout=10).models.list()] == ["m"]
    finally:
        may_go_on.set()
        thread.join()
    assert [part.index for part in answers[0].data] == [0, 1]


def test_an_engine_without_embeddings_is_named(chatty):
    served = Served("m", TextGenerator(chatty, Parrot()), None)
    refused = pytest.raises(openai.BadRequestError, match="the engine parrot has no embeddings: serve the model with")
    with serving(served) as running, openai.OpenAI(base_url=running.url, api_key="-") as client, refused:
        client.embeddings.create(model="m", input="a")


def test_a_request_waits_in_line_and_ends_with_its_client(served, client, monkeypatch):
    may_go_on, begun = threading.Event(), threading.Event()
    engine = served.generator.engine
    hidden = engine._hidden

    def slow(ids):
        begun.set()
        may_go_on.wait(60)
        return hidden(ids)

    monkeypatch.setattr(engine, "_hidden", slow)
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.2).embeddings.create(model="m", input=["a", "b", "c"])
    assert begun.is_set()
    may_go_on.set()
    wait_until(lambda: len(client.running.queue) == 0)
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.embeddings.create(model="m", input=["a", "b"])))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and all(answer.data == answers[0].data for answer in answers)
