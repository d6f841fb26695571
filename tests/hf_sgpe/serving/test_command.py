"""``hf-sgpe serve`` as a process."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from support.serving import wait_until

pytest.importorskip("starlette", reason="serving needs: pip install starlette uvicorn")
pytest.importorskip("uvicorn", reason="serving needs: pip install starlette uvicorn")
openai = pytest.importorskip("openai", reason="clients are of: pip install openai")

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals that end a process so")


@contextmanager
def started(model, *options, **environment):
    """A process that serves, its first line on stderr that is no warning, and its address."""
    command = [sys.executable, "-m", "hf_sgpe", "serve", str(model), "--engine", "transformers", "--port", "0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as process:
        try:
            line = process.stderr.readline()
            if line.startswith("warning"):
                line += process.stderr.readline()
            yield process, line, re.search(r"at (http://[^ ]+) ", line)[1]
        finally:
            process.kill()


@POSIX
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_answers_and_ends_when_told(model, ending):
    with started(model) as (process, line, url):
        assert re.fullmatch(r"my-model on transformers at http://127\.0\.0\.1:\d+/v1 \(Ctrl-C ends it\)\n", line)
        client = openai.OpenAI(base_url=url, api_key="none")
        assert client.completions.create(model="my-model", prompt="අ", max_tokens=2).usage.completion_tokens == 2
        client.close()
        process.send_signal(ending)
        assert process.wait(60) == 0
        assert process.stdout.read() == process.stderr.read() == ""


@POSIX
def test_it_ends_in_the_middle_of_an_answer(model):
    with started(model) as (process, _, url):
        told = []

        def ask():
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
                try:
                    while True:
                        client.completions.create(model="my-model", prompt="අ", max_tokens=200, temperature=0)
                        told.append("an answer")
                except openai.APIError as error:
                    told.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: told)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        for thread in threads:
            thread.join()
        errors = [error for error in told if error != "an answer"]
        assert len(errors) == 4
        assert {type(error) for error in errors} <= {openai.InternalServerError, openai.APIConnectionError}
        assert process.stderr.read() == ""


@POSIX
def test_a_key_from_the_environment_is_asked_for_and_openness_without_one_is_warned_of(model):
    with started(model, "--name", "mine", HF_SGPE_API_KEY="secret") as (process, line, url):
        assert line.startswith("mine on transformers")
        with openai.OpenAI(base_url=url, api_key="wrong") as client, pytest.raises(openai.AuthenticationError):
            client.models.list()
        with openai.OpenAI(base_url=url, api_key="secret") as client:
            assert [one.id for one in client.models.list()] == ["mine"]
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    with started(model, "--host", "0.0.0.0") as (process, line, _):
        assert re.match(r"warning: whoever reaches http://0\.0\.0\.0:\d+/v1 can use this model: set HF_SGPE_API_KEY\n", line)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def refused(*arguments, **environment):
    command = [sys.executable, "-m", "hf_sgpe", "serve", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_what_is_wrong_is_one_line(model, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = rf"error: 127\.0\.0\.1 port {port}: cannot listen there \(.*\): name others by --host and --port\n"
        assert re.fullmatch(message, refused(model, "--port", port))
    assert refused(model, "--port", 70_000) == "error: --port must be from 0 to 65535, not 70000\n"
    assert "cannot listen there" in refused(model, "--host", "no.such.host.invalid")
    assert refused(model, "--max-choices", 0) == "error: max_choices must be at least 1, not 0\n"
    (tmp_path / "starlette.py").write_text("raise ModuleNotFoundError\n", encoding="utf-8", newline="\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    expected = "error: serving needs Starlette and uvicorn: pip install starlette uvicorn (or the extra [serve])\n"
    assert refused(model, PYTHONPATH=path) == expected


def test_programs_are_told_in_json_where_it_is(model):
    command = [sys.executable, "-m", "hf_sgpe", "serve", str(model), "--engine", "transformers", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            told = json.loads("".join(process.stdout.readline() for _ in range(5)))
            assert told["engine"] == "transformers"
            client = openai.OpenAI(base_url=told["url"], api_key="none", max_retries=0)
            assert [one.id for one in client.models.list()] == [told["model"]]
        finally:
            process.kill()
