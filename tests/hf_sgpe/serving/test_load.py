import json
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

from support.cases import is_long
from support.serving import serving, wait_until

from hf_sgpe.generation import GenerationOptions
from hf_sgpe.serving.requests import Served

CLIENTS = 64


def asked(number, sample):
    """A request, of a few kinds, and what becomes of its client: it stays, or goes after some bytes of the answer."""
    draw = random.Random(number)
    start = draw.randrange(5000)
    prompt = sample["si"][start : start + draw.randint(1, 30)]
    record = {"max_tokens": draw.randint(1, 24), "seed": draw.randrange(50), "temperature": draw.choice([0, 0.8, 1])}
    record |= {"stream": draw.random() < 0.5, "n": draw.choice([1, 1, 2])}
    if draw.random() < 0.3:
        record["stop"] = draw.choice([" ", "ව", "න්"])
    if draw.random() < 0.5:
        record["messages"] = [{"role": "user", "content": prompt}]
    else:
        record["prompt"] = prompt
    return record, draw.choice([None, None, draw.choice([0, 0, 100, 400])])


def expected(record, generator, chat):
    """Texts of the choices."""
    for choice in range(record["n"]):
        options = GenerationOptions(
            max_new_tokens=record["max_tokens"],
            temperature=record["temperature"],
            top_p=1,
            seed=record["seed"] + choice,
            stop=record.get("stop", ()),
        )
        pieces = (
            chat.answer(record["messages"], options) if "messages" in record else generator.stream(record["prompt"], options)
        )
        yield "".join(pieces)


def answered(record, goes_after, running, gate):
    """Texts of the choices; None for a client that goes away."""
    body = json.dumps(record).encode()
    path = "/v1/chat/completions" if "messages" in record else "/v1/completions"
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nConnection: close\r\n"
    gate.wait()
    with socket.create_connection((running.host, running.port), timeout=300) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if goes_after is not None:
            connection.recv(goes_after) if goes_after else None
            return None
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), body
    if not record["stream"]:
        choices = sorted(json.loads(body)["choices"], key=lambda choice: choice["index"])
        return [choice["text"] if "text" in choice else choice["message"]["content"] for choice in choices]
    texts = [""] * record["n"]
    events = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
    assert events.pop() == b"[DONE]"
    for event in events:
        for choice in json.loads(event)["choices"]:
            texts[choice["index"]] += choice["text"] if "text" in choice else choice["delta"].get("content", "")
    return texts


def test_answers_of_many_clients_are_neither_mixed_nor_lost(generator, sample):
    threads = set(threading.enumerate())
    count = CLIENTS * (4 if is_long() else 1)
    requests = [asked(number, sample) for number in range(count)]
    gate = threading.Barrier(CLIENTS)
    with serving(Served("my-model", generator, generator.chat())) as running:
        with ThreadPoolExecutor(CLIENTS) as clients:
            for place in range(0, len(requests), CLIENTS):
                jobs = [clients.submit(answered, *request, running, gate) for request in requests[place : place + CLIENTS]]
                requests[place : place + CLIENTS] = [
                    (*request, job.result()) for request, job in zip(requests[place : place + CLIENTS], jobs, strict=True)
                ]
        wait_until(lambda: not len(running.queue))
    assert set(threading.enumerate()) <= threads
    stayed = [(record, texts) for record, goes_after, texts in requests if goes_after is None]
    assert count / 2 < len(stayed) < count * 3 / 4
    chat = generator.chat()
    for record, texts in stayed:
        assert texts == list(expected(record, generator, chat)), record
