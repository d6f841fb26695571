"""What clients do to a server that no library would: go away, be slow, send too much, or send no HTTP."""

import contextlib
import json
import select
import socket
import time
from unittest.mock import Mock

import pytest
from support.serving import serving, wait_until

from hf_sgpe.serving import routes, server
from hf_sgpe.serving.limits import Limits
from hf_sgpe.serving.requests import Served


@pytest.fixture
def engine(endless):
    return endless.generator.engine


@pytest.fixture
def running(endless):
    limits = Limits(max_new_tokens=10**9, max_body=2000)
    with serving(Served("endless", endless.generator, endless.chat, limits), body_seconds=2) as running:
        yield running


def connect(running):
    return socket.create_connection((running.host, running.port), timeout=60)


def request(body, path="/v1/completions", headers=(), length=None):
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    head = [f"POST {path} HTTP/1.1", "Host: here", "Content-Type: application/json", *headers]
    head += [f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost:"])
def test_a_connection_whose_headers_never_end_is_closed(running, monkeypatch, sent):
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    with connect(running) as connection:
        connection.sendall(sent)
        assert is_closed(connection)
    with connect(running) as connection:  # also after a first request
        connection.sendall(request({"prompt": "a", "max_tokens": 1}) + sent)
        assert answer(connection)[0] == 200
        assert is_closed(connection)


def test_a_long_answer_keeps_its_connection(running, engine, monkeypatch):
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(server, "most_connections", lambda: 1)
    with connect(running) as connection, connect(running) as silent:
        connection.sendall(request({**LONG, "stream": True}))
        wait_until(lambda: engine.said > 2000)
        assert is_closed(silent)
        assert connection.recv(15) == b"HTTP/1.1 200 OK"


def test_silent_connections_make_room_for_requests(running, monkeypatch):
    monkeypatch.setattr(server, "most_connections", lambda: 20)
    silent = [connect(running) for _ in range(60)]
    try:
        with connect(running) as connection:
            connection.sendall(request({"prompt": "a", "max_tokens": 1}))
            assert answer(connection)[0] == 200
        wait_until(lambda: len(running.server.server_state.connections) <= 20)
    finally:
        for connection in silent:
            connection.close()


def test_bodies_that_arrive_slowly_make_room_for_requests(endless, monkeypatch):
    monkeypatch.setattr(server, "most_connections", lambda: 8)
    with serving(endless) as running, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(running)) for _ in range(30)]
        for connection in slow:
            connection.sendall(request(b"{", length=400))
        wait_until(lambda: len(select.select(slow, [], [], 0)[0]) == 22)
        assert all(is_closed(connection) for connection in select.select(slow, [], [], 0)[0])
        with connect(running) as connection:
            connection.sendall(request({"prompt": "a", "max_tokens": 1}))
            assert answer(connection)[0] == 200


def test_a_new_connection_stays_open_although_too_many_are_busy(running, engine, monkeypatch):
    monkeypatch.setattr(server, "most_connections", lambda: 1)
    with connect(running) as first, connect(running) as second:
        for connection in (first, second):
            connection.sendall(request(LONG))
        wait_until(lambda: len(running.queue) == 2)
        with connect(running) as new:
            said = engine.said
            wait_until(lambda: engine.said > said + 300)  # the server looks at its connections ten times in a second
            new.sendall(request(b"{}", "/v1/nothing"))
            assert answer(new)[0] == 404


@pytest.fixture
def long_response(endless):
    """A server, and a client that has not yet read its response of some megabytes."""
    served = Served("endless", endless.generator, None, Limits(max_body=1 << 20))
    with serving(served) as running, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((running.host, running.port))
        client.sendall(request({"prompt": "a b " * 100_000, "return_token_strs": True}, "/tokenize"))
        wait_until(
            lambda: any(each.cycle and each.cycle.response_complete for each in running.server.server_state.connections)
        )
        yield running, client


def test_a_response_is_sent_whole_to_a_client_that_pauses(long_response, monkeypatch):
    running, client = long_response
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.1)
    time.sleep(1)
    assert len(running.server.server_state.connections) == 1
    assert answer(client)[2]["count"] > 100_000


def test_a_client_that_takes_nothing_of_its_response_is_given_up(long_response, monkeypatch):
    running, _ = long_response
    monkeypatch.setattr(server, "SEND_SECONDS", 0.2)
    wait_until(lambda: not running.server.server_state.connections)


def test_only_the_time_since_the_last_request_counts(endless):
    looking = server.server_of(routes.create_app(endless))
    looking._loop = Mock()
    connection = Mock()
    connection.transport.get_write_buffer_size.return_value = 0
    looking.server_state.connections = {connection}
    for seconds, is_closed in ((0, False), (10, False), (20, False), (30, False), (50, True)):
        if seconds < 50:
            connection.cycle = Mock(response_complete=True)  # another request
        looking._loop.time.return_value = seconds
        looking._close_waiting()
        assert connection.transport.abort.called == is_closed


def answer(connection):
    """Status, headers and body of an answer after which the connection is closed, or which has a length."""
    file = connection.makefile("rb")
    status = int(file.readline().split()[1])
    headers = {}
    while line := file.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return status, headers, json.loads(file.read(int(headers["content-length"])))


LONG = {"prompt": "a", "max_tokens": 10**9}


@pytest.mark.parametrize("ids", [None, [4999]], ids=["text", "rows without a token"])
@pytest.mark.parametrize("options", [{"stream": False}, {"stream": True}, {"n": 5}])
def test_a_client_that_leaves_during_an_answer_gets_no_more_of_any_choice(running, engine, options, ids):
    engine.ids = ids or engine.ids
    with connect(running) as connection:
        connection.sendall(request({**LONG, **options}))
        wait_until(lambda: engine.said > 100)
        assert engine.ended == 0
    wait_until(lambda: not len(running.queue))
    assert len(engine.asked) == engine.ended == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_while_waiting_is_never_answered(running, engine, stream):
    with connect(running) as first:
        first.sendall(request(LONG))
        wait_until(lambda: len(engine.asked) == 1)
        with connect(running) as second:
            second.sendall(request({**LONG, "stream": stream}))
            wait_until(lambda: len(running.queue) == 2)
        wait_until(lambda: len(running.queue) == 1)
    wait_until(lambda: not len(running.queue))
    assert len(engine.asked) == engine.ended == 1


def test_a_client_that_does_not_read_does_not_delay_others(running, engine):
    engine.pause = 0
    with connect(running) as lazy, connect(running) as other:
        lazy.sendall(request({"prompt": "a", "max_tokens": 20_000, "stream": True}))
        wait_until(lambda: len(engine.asked) == 1)
        other.sendall(request({"prompt": "a", "max_tokens": 3}))
        assert answer(other)[2]["choices"][0]["text"] == "aaa"


@pytest.mark.parametrize("waits", ["reads nothing", "sends half a body"])
def test_the_server_ends_although_a_client_holds_its_connection(endless, monkeypatch, caplog, waits):
    monkeypatch.setattr(server, "_SECONDS_TO_END", 1)
    endless.generator.engine.pause = 0
    served = Served("endless", endless.generator, None, Limits(max_new_tokens=10**9))
    with serving(served) as running, socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect((running.host, running.port))
        if waits == "reads nothing":
            lazy.sendall(request({**LONG, "stream": True}))
            wait_until(lambda: endless.generator.engine.said > 50_000)
        else:
            lazy.sendall(request(b"{", length=100))
            wait_until(lambda: running.server.server_state.tasks)
        began = time.monotonic()
        running.stop()
        assert time.monotonic() - began < 10
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("given", ["length", "chunks"])
def test_a_body_that_is_too_long_is_refused(running, given):
    with connect(running) as connection:
        if given == "length":
            connection.sendall(request(b"", length=2001))
        else:
            head = request(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            connection.sendall(head + b"7d1\r\n" + b" " * 2001 + b"\r\n")
        status, headers, body = answer(connection)
    assert (status, headers["connection"]) == (413, "close")
    assert body["error"]["message"] == "the body has more than 2,000 bytes"


@pytest.mark.parametrize(("size", "count", "status"), [(1, 900, 200), (1, 1100, 400), (64, 1100, 200)])
def test_a_body_of_very_many_tiny_chunks_is_refused(endless, size, count, status):
    body = json.dumps({"prompt": "a", "max_tokens": 1}).encode().ljust(size * count)
    chunks = (b"%x\r\n%b\r\n" % (size, body[place : place + size]) for place in range(0, len(body), size))
    head = request(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with serving(endless) as running, connect(running) as connection:
        connection.sendall(head + b"".join(chunks) + b"0\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"%d" % status


def test_damaged_chunks_after_a_response_are_no_error(running, caplog):
    head = request(b"", "/v1/nothing").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with connect(running) as connection:
        connection.sendall(head)
        assert answer(connection)[0] == 404
        connection.sendall(b"x\r\n")
        assert is_closed(connection)
    assert caplog.records == []


def test_a_body_that_comes_in_parts_is_read_and_one_that_does_not_come_is_given_up(running):
    whole = request({"prompt": "a", "max_tokens": 2})
    with connect(running) as connection, connect(running) as other:
        other.sendall(whole[:-1])
        for place in range(0, len(whole), 7):
            connection.sendall(whole[place : place + 7])
        assert answer(connection)[2]["choices"][0]["text"] == "aa"
        status, headers, body = answer(other)
    assert (status, headers["connection"]) == (408, "close")
    assert body["error"]["message"] == "the body did not arrive within 2 seconds"


def test_a_client_that_leaves_before_its_body_arrives_is_no_error(running, caplog):
    for part in (10, 200):
        with connect(running) as connection:
            connection.sendall(request(LONG)[:part])
    with connect(running) as connection:
        connection.sendall(request({"prompt": "a", "max_tokens": 1}))
        assert answer(connection)[0] == 200
    assert caplog.records == []


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (request(b"{"), 400, "the body is not JSON"),
        (request(b"\xff"), 400, "the body is not JSON"),
        (request(b"[1]"), 400, "the body must be a JSON object, not a list"),
        (request(b'{"prompt": NaN}'), 400, "NaN is not a number of JSON"),
        (request(b'{"prompt": "a", "temperature": 1e999}'), 400, "temperature must be a number of at least 0, not inf"),
        (request(b'{"prompt": "a", "n": 1, "n": 2}'), 400, "two values for 'n'"),
        (request(b"{}").replace(b"application/json", b"text/plain"), 415, "send Content-Type: application/json"),
        (request(b"{}", "/v1/nothing"), 404, "unknown path /v1/nothing"),
        (request(b"{}", "/health"), 405, "/health does not accept POST"),
    ],
)
def test_wrong_requests_are_answered_with_status_and_message(running, sent, status, message):
    with connect(running) as connection:
        connection.sendall(sent)
        said, _, body = answer(connection)
    assert said == status
    assert message in body["error"]["message"]
    assert body["error"].keys() == {"message", "type", "param", "code"}


def test_bytes_that_are_no_http_get_status_400(running):
    with connect(running) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 400")


def test_one_connection_takes_several_requests(running):
    with connect(running) as connection:
        for tokens in (1, 2, 3):
            connection.sendall(request({"prompt": "a", "max_tokens": tokens}))
            assert answer(connection)[2]["choices"][0]["text"] == "a" * tokens


def test_a_stream_is_events_that_end_with_done(running):
    with connect(running) as connection:
        connection.sendall(request({"prompt": "a", "max_tokens": 2, "stream": True}, headers=["Connection: close"]))
        written = connection.makefile("rb").read()
    assert b"content-type: text/event-stream" in written.lower()
    events = [line for line in written.splitlines() if line.startswith(b"data: ")]
    assert events[-1] == b"data: [DONE]"
    assert [json.loads(event[6:])["choices"][0]["text"] for event in events[:-1]] == ["a", "a", ""]
