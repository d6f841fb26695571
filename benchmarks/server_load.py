"""Measure a server under load, and how much slower the server is than its engine.

Under load, many clients send requests concurrently for some minutes. During a third of the requests, the client disconnects
at a random moment. The script prints how many requests were answered, broken off, or answered wrongly. It also prints the
memory of the server over time.

To compare speeds, the script generates one text at a time, in turns through the server and with `TextGenerator` in this
process. It prints the median number of tokens per second, the median of the ratios, and the CPU time. Other work on the
machine has the least effect on the CPU time. The model has random weights, because the speed does not depend on the weights.

Example: python benchmarks/server_load.py --minutes 2 --clients 64
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness import Records, command, compare, small_model, take_turns, timed

from hf_sgpe import SGPEError
from hf_sgpe.generation import GenerationOptions, TextGenerator

PROMPT = "some words"
KINDS = 40


def _run(args: argparse.Namespace) -> None:
    records = Records(args.out / "server_load.jsonl")
    with (
        small_model(8192, args, heads=4, length=512) as (folder, parameters),
        TextGenerator.load(folder, args.engine) as generator,
        _server(folder, args.engine) as (process, host),
    ):
        print(f"{parameters:,} parameters on {args.engine}", flush=True)
        if args.minutes:
            options = [
                GenerationOptions(max_new_tokens=4 + kind, temperature=1, top_p=1, seed=kind) for kind in range(KINDS)
            ]
            answers = [generator.generate(PROMPT, one) for one in options]
            records.add("load", _load(args, process.pid, host, answers))
        records.add("speed", _speeds(args, generator, process.pid, host))
    report(records.results)
    if records.results.get("load", {}).get("wrong"):
        raise SGPEError("the server gave other answers than TextGenerator")


def report(results: dict[str, Any], out: Path | None = None) -> None:
    if one := results.get("load"):
        counts = ", ".join(f"{one[outcome]:,} {outcome}" for outcome in ("answered", "broken off", "wrong"))
        print(f"{one['clients']} clients, {one['minutes']:g} minutes: {counts}")
        first, warm, last = one["megabytes"]
        print(f"memory {first:.1f} MB at the start, {warm:.1f} after a tenth of the time, {last:.1f} at the end")
    for name, one in results["speed"].items():
        print(
            f"{name:20} {one['tokens'] / one['seconds']:8.1f} tokens a second, {one['ratio']:.1%} of the engine alone; "
            f"{1000 * one['cpu'] / one['tokens']:.2f} ms of a processor for each, "
            f"{one['cpu'] / results['speed']['alone']['cpu']:.1%}"
        )


@contextmanager
def _server(folder: str, engine: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server during the ``with`` block, and yield its process and its address (HOST:PORT)."""
    command = [sys.executable, "-m", "hf_sgpe", "serve", folder, "--engine", engine, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            if (address := re.search(r"http://([^/]+)", line)) is None:
                raise SGPEError(f"the server did not start: {line}")
            yield process, address[1]
        finally:
            process.terminate()


def _request(host: str, timeout: float, read: int | None = None, **options: Any) -> tuple[int, bytes]:
    """Request a completion over a new connection, because the server closes idle connections between turns. Return the HTTP
    status and the body of the answer or, with ``read``, only the first ``read`` bytes of the body.
    """
    with closing(http.client.HTTPConnection(host, timeout=timeout)) as connection:
        body = json.dumps({"prompt": PROMPT, **options})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(read)


def _load(args: argparse.Namespace, pid: int, host: str, answers: list[str]) -> dict[str, Any]:
    """Send requests from many clients until the time is up. Return how many requests were answered, broken off or answered
    wrongly, and the server's memory in megabytes at three times.
    """
    end = time.monotonic() + args.minutes * 60

    def client(number: int) -> Counter[str]:
        draw = random.Random(number)
        done: Counter[str] = Counter()
        while time.monotonic() < end:
            kind = draw.randrange(KINDS)
            done[broken_off(kind, draw) if draw.random() < 1 / 3 else answered(kind, draw)] += 1
        return done

    def answered(kind: int, draw: random.Random) -> str:
        stream = draw.random() >= 0.5
        status, answer = _request(host, 600, max_tokens=4 + kind, seed=kind, **({"stream": True} if stream else {}))
        if status != 200:
            return "wrong"
        parts = [event[6:] for event in answer.decode().split("\n\n")[:-2]] if stream else [answer]
        said = "".join(json.loads(part)["choices"][0]["text"] for part in parts)
        return "answered" if said == answers[kind] else "wrong"

    def broken_off(kind: int, draw: random.Random) -> str:
        timeout, stream, read = draw.uniform(0.01, 1.0), draw.random() < 0.5, draw.randrange(300)
        with suppress(TimeoutError):
            _request(host, timeout, read, max_tokens=4 + kind, seed=kind, stream=stream)
        return "broken off"

    megabytes = [_memory(pid)]
    with ThreadPoolExecutor(args.clients) as pool:
        done = pool.map(client, range(args.clients))
        time.sleep(args.minutes * 6)  # by then, PyTorch and the allocator have reached their steady size
        megabytes.append(_memory(pid))
        outcomes = sum(done, Counter[str]())
    counts = {outcome: outcomes[outcome] for outcome in ("answered", "broken off", "wrong")}
    return {"clients": args.clients, "minutes": args.minutes, **counts, "megabytes": [*megabytes, _memory(pid)]}


def _memory(pid: int) -> float:
    """Return the resident memory of a process, in megabytes."""
    import psutil

    return float(psutil.Process(pid).memory_info().rss) / 1e6


def _speeds(args: argparse.Namespace, generator: TextGenerator, pid: int, host: str) -> dict[str, Any]:
    options = GenerationOptions(max_new_tokens=args.tokens, temperature=0)
    served = partial(_request, host, 600, max_tokens=args.tokens, temperature=0)
    ways = {
        "alone": timed(lambda: generator.generate(PROMPT, options)),
        "through the server": timed(partial(served, stream=False), pid),
        "as a stream": timed(partial(served, stream=True), pid),
    }
    compared = compare(take_turns(ways, args.turns))
    return {name: {"tokens": args.tokens, **one._asdict()} for name, one in compared.items()}


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("--engine", default="transformers", help="engine that runs the model")
        option("--minutes", default=5.0, help="minutes of load")
        option("--clients", default=64, help="number of concurrent clients")
        option("--layers", default=4, help="number of layers of the model")
        option("--width", default=256, help="hidden size of the model")
        option("--tokens", default=100, help="number of tokens to generate in a turn")
        option("--turns", default=9, help="number of turns with and without the server")
        option("--out", default=Path("served"), help="folder for the records")
