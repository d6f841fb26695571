import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from support.command import COMMAND, ROOT, hf_sgpe
from support.serving import wait_until

from hf_sgpe import serving

openai = pytest.importorskip("openai", reason="clients are of: pip install openai")


@contextmanager
def started(model, *options, **environment):
    """A process that serves, its first line on stderr, and its address."""
    command = [*COMMAND, "serve", str(model), "--engine", "transformers", "--port", "0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        try:
            line = process.stderr.readline()
            yield process, line, re.search(r"at (http://[^ ]+) ", line)[1]
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals that end a process so")
@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_those_with_the_key_until_a_signal_ends_it_in_the_middle_of_an_answer(model, ending):
    with started(model, "--name", "mine", HF_SGPE_API_KEY="secret") as (process, line, url):
        assert re.fullmatch(r"mine on transformers at http://127\.0\.0\.1:\d+/v1 \(Ctrl-C stops it\)\n", line)
        with openai.OpenAI(base_url=url, api_key="wrong") as client, pytest.raises(openai.AuthenticationError):
            client.models.list()
        with openai.OpenAI(base_url=url, api_key="secret") as client:
            assert [one.id for one in client.models.list()] == ["mine"]
        told = []

        def ask():
            with openai.OpenAI(base_url=url, api_key="secret", max_retries=0) as client:
                try:
                    while True:
                        done = client.completions.create(model="mine", prompt="අ", max_tokens=200, temperature=0)
                        told.append(done.usage.completion_tokens)
                except openai.APIError as error:
                    told.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: told)
        process.send_signal(ending)
        assert process.wait(60) == 0
        for thread in threads:
            thread.join()
        assert type(told[0]) is int and 0 < told[0] <= 200
        errors = [type(error) for error in told if type(error) is not int]
        assert len(errors) == 4
        assert set(errors) <= {openai.InternalServerError, openai.APIConnectionError}
        assert process.stdout.read() == process.stderr.read() == ""


STUCK = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support.calling import served_by
from support.engines import Parrot
from hf_sgpe.serving import routes, server

def stuck(*given, **settings):
    print("stuck", flush=True)
    time.sleep(3600)

def stuck_tokens(*given):
    yield stuck()

server._SECONDS_TO_EXIT = 2
served = served_by(Parrot([5]), "qwen")
if sys.argv[2] == "reading":
    served.generator.encode = stuck
else:
    served.generator.engine._go_on = stuck_tokens
bound = server.bind("127.0.0.1", 0)
server.server_of(routes.create_app(served), lambda: print(bound.getsockname()[1], flush=True)).run([bound])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals that end a process so")
@pytest.mark.parametrize("busy", ["reading", "answering"])
def test_the_process_ends_although_a_thread_does_not(busy):
    body = b'{"prompt": "a"}'
    head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    command = [sys.executable, "-c", STUCK, str(ROOT / "tests"), busy]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline())
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(f"{head}\r\n".encode() + body)
                assert process.stdout.readline() == "stuck\n"
                process.send_signal(signal.SIGTERM)
                assert process.wait(120) == 0
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
@pytest.mark.slow
def test_sighup_loads_models_and_keys_again(model, tmp_path):
    keys, pool = tmp_path / "keys", tmp_path / "pool"
    keys.write_text("first", encoding="utf-8")
    shutil.copytree(model, pool / "one")
    with started(pool, "--api-key-file", str(keys)) as (process, line, url):

        def names(key):
            with openai.OpenAI(base_url=url, api_key=key, max_retries=0) as client:
                return [one.id for one in client.models.list()]

        assert line.startswith("one on transformers at ")
        assert names("first") == ["one"]
        shutil.copytree(model, pool / "two")
        (pool / "one" / "config.json").write_text("{", encoding="utf-8")
        keys.write_text("second", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert re.fullmatch(r"error: .*config\.json: not valid JSON .*; one stays as it was\n", process.stderr.readline())
        assert process.stderr.readline() == "loaded two\n"
        assert names("second") == ["one", "two"]
        with pytest.raises(openai.AuthenticationError):
            names("first")
        keys.unlink()
        process.send_signal(signal.SIGHUP)
        assert process.stderr.readline().endswith("no such file; the keys stay as they were\n")
        assert names("second") == ["one", "two"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_several_models_are_listed_and_have_their_own_tokenizers(model, monkeypatch, tmp_path):
    from hf_sgpe.serving import server

    def server_of(app, on_start, reload):
        return SimpleNamespace(run=lambda sockets: on_start())

    monkeypatch.setattr(server, "server_of", server_of)
    other = shutil.copytree(model, tmp_path / "other")
    serve = ("serve", model, other, "--engine", "transformers", "--port", 0)
    assert hf_sgpe(*serve).stderr.startswith("my-model on transformers, other on transformers at http://")
    assert json.loads(hf_sgpe(*serve, "--json").stdout)["models"] == ["my-model", "other"]
    for option in ("--tokenizer", "--template"):
        expected = f"error: {option} works only with one model: put the {option[2:]} into the folder of each model instead\n"
        assert hf_sgpe(*serve, option, "llama3", code=2).stderr == expected
    assert "--name names one model" in hf_sgpe(*serve, "--name", "a", code=2).stderr
    assert "other is given twice: leave one out" in hf_sgpe(*serve, other, code=2).stderr


def test_it_warns_of_openness_and_tells_programs_its_address_in_json(model, monkeypatch):
    from hf_sgpe.serving import server

    ports = []

    def server_of(app, on_start, reload):
        """One that ends as soon as it takes requests."""
        return SimpleNamespace(run=lambda sockets: ports.append(sockets[0].getsockname()[1]) or on_start())

    monkeypatch.setattr(server, "server_of", server_of)
    serve = ("serve", model, "--engine", "transformers", "--port", 0)
    said = hf_sgpe(*serve, "--host", "0.0.0.0").stderr
    url = f"http://0.0.0.0:{ports.pop()}/v1"
    warning = f"warning: anyone who can reach {url} can use this model: set HF_SGPE_API_KEY to require a key\n"
    assert said == f"{warning}my-model on transformers at {url} (Ctrl-C stops it)\n"
    said = hf_sgpe(*serve, "--host", "0.0.0.0", "--json", HF_SGPE_API_KEY="secret")
    told = {"model": "my-model", "engine": "transformers", "url": f"http://0.0.0.0:{ports.pop()}/v1"}
    assert (json.loads(said.stdout), said.stderr) == (told, "")
    assert said.stdout.count("\n") == 1


def test_only_a_server_for_this_machine_checks_its_names(model, monkeypatch):
    from hf_sgpe.serving import routes, server

    hosts, create_app = [], routes.create_app

    def watched(*served, **settings):
        hosts.append(settings["hosts"])
        return create_app(*served, **settings)

    monkeypatch.setattr(routes, "create_app", watched)
    monkeypatch.setattr(server, "server_of", lambda app, *others: SimpleNamespace(run=lambda sockets: None))
    for given in ((), ("--host", "0.0.0.0")):
        hf_sgpe("serve", model, "--engine", "transformers", "--port", 0, *given)
    assert hosts == [{"localhost", "127.0.0.1", "::1"}, set()]


def test_a_server_that_cannot_start_says_why_in_one_line(model, monkeypatch):
    def refused(*options):
        return hf_sgpe("serve", model, *options, code=2).stderr

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        choose = "choose another host with --host, or another port with --port"
        message = rf"error: 127\.0\.0\.1 port {port}: cannot listen there \(.*\): {choose}\n"
        assert re.fullmatch(message, refused("--port", port))
    assert refused("--port", 70_000) == "error: --port must be from 0 to 65535, not 70000\n"
    assert "cannot listen there" in refused("--host", "no.such.host.invalid")
    assert refused("--chat-template-kwargs", "[]") == "error: --chat-template-kwargs must be an object, not a list\n"
    assert "not an origin" in refused("--cors-origin", "example.org")
    assert "no such file" in refused("--api-key-file", "missing")
    assert refused("--max-choices", 0) == "error: --max-choices must be at least 1, not 0\n"
    monkeypatch.delattr(serving, "server")
    monkeypatch.delitem(sys.modules, "hf_sgpe.serving.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    expected = "error: serving needs Starlette and uvicorn: pip install starlette uvicorn (or the extra [serve])\n"
    assert refused() == expected
