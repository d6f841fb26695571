import json
import re
import socket
import urllib.error
import urllib.request

import pytest
from support.engines import Parrot
from support.serving import serving, wait_until

from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.limits import Limits
from hf_sgpe.serving.monitoring import Metrics, Observed
from hf_sgpe.serving.requests import Served

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\d+(?:\.\d+)?)')


def read(text):
    """Return the samples of a text in Prometheus's format, and check the format."""
    samples, described = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            described[name] = kind
        elif not line.startswith("# HELP "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            base = re.sub("_(bucket|sum|count)$", "", name)
            assert name in described or described[base] == "histogram", line
            samples[name, labels or ""] = float(value)
    return samples


def ask(running, path, record=None):
    body = None if record is None else json.dumps(record).encode()
    request = urllib.request.Request(
        running.url.removesuffix("/v1") + path, body, {"Content-Type": "application/json"} if body else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def test_requests_tokens_and_times_are_counted(chatty):
    yes = chatty.encode("Yes.")
    served = Served("says", TextGenerator(chatty, Parrot(yes)), None)
    lines = []
    with serving(served, log=lines.append) as running:
        for stream in (False, True):
            ask(running, "/v1/completions", {"prompt": [65, 66], "stream": stream, "n": 2})
        ask(running, "/v1/completions", {"prompt": []})
        ask(running, "/v1/models/says")
        ask(running, "/%0aother?key=secret")
        wait_until(lambda: len(lines) == 5)
        samples = read(ask(running, "/metrics"))
        assert samples["hf_sgpe_info", 'model="says",engine="parrot"'] == 1
        assert samples["hf_sgpe_requests_total", 'route="/v1/completions",status="200"'] == 2
        assert samples["hf_sgpe_requests_total", 'route="/v1/completions",status="400"'] == 1
        assert samples["hf_sgpe_requests_total", 'route="/v1/models/{name}",status="200"'] == 1
        assert samples["hf_sgpe_requests_total", 'route="other",status="404"'] == 1
        assert samples["hf_sgpe_prompt_tokens_total", ""] == 4
        assert samples["hf_sgpe_generated_tokens_total", ""] == 4 * len(yes)
        assert samples["hf_sgpe_first_token_seconds_count", ""] == 2
        assert samples["hf_sgpe_request_seconds_count", 'route="/v1/completions"'] == 3
        assert samples["hf_sgpe_requests_running", ""] == samples["hf_sgpe_requests_waiting", ""] == 0
    expected = [
        "POST /v1/completions 200",
        "POST /v1/completions 200",
        "POST /v1/completions 400",
        "GET /v1/models/says 200",
    ]
    for line, request in zip(lines, [*expected, "GET /%0aother 404"], strict=False):
        tokens = f"2+{2 * len(yes)}" if request.endswith("completions 200") else r"0+0"
        moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
        assert re.fullmatch(rf"{moment} 127\.0\.0\.1 {re.escape(request)} \d+\.\d{{3}} {re.escape(tokens)}", line), line


def test_running_and_waiting_requests_are_shown_and_those_that_go_away_are_counted(endless):
    served = Served("endless", endless.generator, endless.chat, Limits(max_new_tokens=10**9))
    with serving(served) as running:
        import openai

        with openai.OpenAI(base_url=running.url, api_key="none", max_retries=0) as client:
            streams = [
                client.completions.create(model="endless", prompt="a", max_tokens=10**9, stream=True) for _ in range(3)
            ]
            samples = read(ask(running, "/metrics"))
            assert samples["hf_sgpe_requests_running", ""] == 1
            assert samples["hf_sgpe_requests_waiting", ""] == 2
            for stream in streams:
                stream.close()
        wait_until(
            lambda: ("hf_sgpe_requests_total", 'route="/v1/completions",status="200"') in read(ask(running, "/metrics"))
        )
        wait_until(lambda: read(ask(running, "/metrics"))["hf_sgpe_requests_waiting", ""] == 0)
        assert read(ask(running, "/metrics"))["hf_sgpe_generated_tokens_total", ""] > 0


def test_who_goes_away_before_the_body_is_there_is_counted_as_gone(endless):
    lines = []
    with serving(endless, log=lines.append) as running:
        with socket.create_connection((running.host, running.port), timeout=60) as connection:
            head = ["POST /v1/completions HTTP/1.1", f"Host: {running.host}", "Content-Type: application/json"]
            connection.sendall("\r\n".join([*head, "Content-Length: 100", "", "{"]).encode())
        wait_until(lambda: lines)
        assert " POST /v1/completions 499 " in lines[0]
        samples = read(ask(running, "/metrics"))
        assert samples["hf_sgpe_requests_total", 'route="/v1/completions",status="499"'] == 1


def test_names_are_quoted_and_times_fall_into_buckets():
    metrics = Metrics()
    observed = Observed(route="/r", status=200)
    observed.first = observed.begun + 0.3
    metrics.add(observed)
    text = metrics.text({'a"b\\c\nd': "engine", "e": "other"}, running=0, waiting=0)
    assert r'model="a\"b\\c\nd",engine="engine"' in text and 'model="e",engine="other"' in text
    samples = read(text)
    buckets = [samples["hf_sgpe_first_token_seconds_bucket", f'le="{bound}"'] for bound in ("0.25", "0.5", "300.0", "+Inf")]
    assert buckets == [0, 1, 1, 1]
    assert samples["hf_sgpe_first_token_seconds_sum", ""] == pytest.approx(0.3, abs=1e-6)


class Keeping(Parrot):
    """A parrot that says that it has kept all but one token of the prompt."""

    def _go_on(self, ids, *arguments):
        self.reused = len(ids) - 1
        yield from super()._go_on(ids, *arguments)


def test_tokens_that_were_kept_are_counted(chatty):
    served = Served("says", TextGenerator(chatty, Keeping(chatty.encode("Yes."))), None)
    with serving(served) as running:
        answer = json.loads(ask(running, "/v1/completions", {"prompt": [[65, 66, 67], [65]], "n": 2}))
        assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
        record = {"prompt": [65, 66], "stream": True, "stream_options": {"include_usage": True}}
        events = ask(running, "/v1/completions", record).split("\n\n")
        assert json.loads(events[-3].removeprefix("data: "))["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}
        samples = read(ask(running, "/metrics"))
        assert samples["hf_sgpe_reused_tokens_total", ""] == 2 * 2 + 1  # once for each answer
