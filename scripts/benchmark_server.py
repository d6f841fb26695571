"""How a server holds out, and how much of an engine's speed it takes.

Clients ask at once for minutes, a third of them going away at random moments: what is printed is how many requests were
answered, broken off and wrong, and the server's memory at the start and at the end. Then tokens per second of one text after
another, through the server and by `TextGenerator` in this process, in turns: the median, the median of the ratios, and the
time of processors, which other work on the machine changes least. A new model has random weights: speed does not depend on
what it says.

Example: python scripts/benchmark_server.py --minutes 2 --clients 64
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median
from typing import Any

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from trainers.language_models.language_model import small_llama

PROMPT = "some words"
KINDS = 40


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--engine", default="transformers", help="that runs the model (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=5.0, help="of load (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=64, help="that ask at once (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="of the model (default: %(default)s)")
    parser.add_argument("--width", type=int, default=256, help="of the model (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=100, help="to generate in a turn (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=9, help="of each (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    import torch
    from transformers import LlamaForCausalLM

    tokenizer = BPETokenizer.train_from_iterator(["some words"], 260)
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(1)
        model = LlamaForCausalLM(small_llama(8192, layers=args.layers, width=args.width, heads=4, length=512))
        model.save_pretrained(folder)
        tokenizer.save(folder)
        with TextGenerator.load(folder, args.engine) as generator, server(folder, args.engine) as (process, host):
            print(f"{model.num_parameters():,} parameters on {args.engine}", flush=True)
            answers = [generator.generate(PROMPT, options_of(kind)) for kind in range(KINDS)]
            if args.minutes:
                load(args, process, host, answers)
            compare(args, generator, process, host)


@contextmanager
def server(folder: str, engine: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves, and its address."""
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


def options_of(kind: int) -> GenerationOptions:
    return GenerationOptions(max_new_tokens=4 + kind, temperature=1, top_p=1, seed=kind)


def record_of(kind: int, **more: Any) -> dict[str, Any]:
    return {"prompt": PROMPT, "max_tokens": 4 + kind, "seed": kind, **more}


def ask(connection: http.client.HTTPConnection, record: dict[str, Any]) -> http.client.HTTPResponse:
    connection.request("POST", "/v1/completions", json.dumps(record), {"Content-Type": "application/json"})
    return connection.getresponse()


def load(args: argparse.Namespace, process: subprocess.Popen[str], host: str, answers: list[str]) -> None:
    """Many clients, each asking again and again until the time is over."""
    begun = memory(process.pid)
    end = time.monotonic() + args.minutes * 60
    done: Counter[str] = Counter()
    lock = threading.Lock()

    def client(number: int) -> None:
        draw = random.Random(number)
        while time.monotonic() < end:
            kind = draw.randrange(KINDS)
            outcome = broken_off(kind, draw) if draw.random() < 1 / 3 else answered(kind, draw)
            with lock:
                done[outcome] += 1

    def answered(kind: int, draw: random.Random) -> str:
        connection = http.client.HTTPConnection(host, timeout=600)
        try:
            if draw.random() < 0.5:
                response = ask(connection, record_of(kind))
                said = json.load(response)["choices"][0]["text"] if response.status == 200 else None
            else:
                events = ask(connection, record_of(kind, stream=True)).read().decode().split("\n\n")
                said = "".join(json.loads(event[6:])["choices"][0]["text"] for event in events[:-2])
            return "answered" if said == answers[kind] else "wrong"
        finally:
            connection.close()

    def broken_off(kind: int, draw: random.Random) -> str:
        connection = http.client.HTTPConnection(host, timeout=draw.uniform(0.01, 1.0))
        try:
            ask(connection, record_of(kind, stream=draw.random() < 0.5)).read(draw.randrange(300))
        except TimeoutError:
            pass
        finally:
            connection.close()
        return "broken off"

    threads = [threading.Thread(target=client, args=(number,)) for number in range(args.clients)]
    for thread in threads:
        thread.start()
    warm = 0.0
    for thread in threads:
        while thread.is_alive():
            thread.join(1)
            # What PyTorch and the allocator take for good they have by then.
            warm = warm or (memory(process.pid) if time.monotonic() > end - args.minutes * 54 else 0.0)
    counts = ", ".join(f"{done[outcome]:,} {outcome}" for outcome in ("answered", "broken off", "wrong"))
    print(f"{args.clients} clients, {args.minutes:g} minutes: {counts}", flush=True)
    print(f"memory {begun:.1f} MB at the start, {warm:.1f} after a tenth of the time, {memory(process.pid):.1f} at the end")
    if done["wrong"]:
        raise SGPEError("answers differ from those of TextGenerator")


def memory(pid: int) -> float:
    """Megabytes that a process has in memory."""
    import psutil

    return float(psutil.Process(pid).memory_info().rss) / 1e6


def compare(args: argparse.Namespace, generator: TextGenerator, process: subprocess.Popen[str], host: str) -> None:
    """Prints the speeds, and what part of the engine's the server's is."""
    import psutil

    options = GenerationOptions(max_new_tokens=args.tokens, temperature=0)

    def alone() -> None:
        generator.generate(PROMPT, options)

    def served(stream: bool = False) -> None:
        record = {"prompt": PROMPT, "max_tokens": args.tokens, "temperature": 0, "stream": stream}
        # A connection of its own: one that is idle for as long as another turn may take is closed.
        with closing(http.client.HTTPConnection(host, timeout=600)) as connection:
            ask(connection, record).read()

    def cpu_of(pid: int) -> float:
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)

    ways: dict[str, tuple[Callable[[], None], int]] = {
        "alone": (alone, os.getpid()),
        "through the server": (served, process.pid),
        "as a stream": (lambda: served(True), process.pid),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu = dict.fromkeys(ways, 0.0)
    for turn in range(-1, args.turns):  # the first warms up
        for name, (work, pid) in list(ways.items())[:: 1 if turn % 2 else -1]:
            begun, cpu_begun = time.perf_counter(), cpu_of(pid)
            work()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - begun)
                cpu[name] += cpu_of(pid) - cpu_begun
    for name, taken in seconds.items():
        ratios = [alone / other for alone, other in zip(seconds["alone"], taken, strict=True)]
        print(
            f"{name:20} {args.tokens / median(taken):8.1f} tokens a second, {median(ratios):.1%} of the engine alone; "
            f"{1000 * cpu[name] / args.turns / args.tokens:.2f} ms of a processor for each, "
            f"{cpu[name] / cpu['alone']:.1%}"
        )


if __name__ == "__main__":
    sys.exit(main())
