"""Measure how long packages take to load a tokenizer and to encode a first text, and how much memory they take.

Each measurement is a process of its own. The packages take turns. Imports are not measured.

    python benchmarks/loading.py out/ gemma3/ o200k/ my-tokenizer/ --python gigatoken=gigatoken/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from harness import ROOT, Records, command, forget_peak, machine, peak_bytes, take_turns

from hf_sgpe.errors import SGPEError

TEXT = "hello ලංකාව 12"


LOADERS = {
    "hf_sgpe": ("hf_sgpe.tokenizer", "BPETokenizer.from_pretrained", "{}"),
    "tokenizers": ("tokenizers", "Tokenizer.from_file", "{}/tokenizer.json"),
    "gigatoken": ("gigatoken", "Tokenizer", "{}/tokenizer.json"),
    "SGPETokenizerFast": ("hf_sgpe.tokenization_sgpe", "SGPETokenizerFast.from_pretrained", "{}"),
    "AutoTokenizer": ("transformers", "AutoTokenizer.from_pretrained", "{}"),
}
"""The module of each package, its function that loads a tokenizer, and the argument of this function for a folder."""


def _run(args: argparse.Namespace) -> None:
    if args.measure:
        module, function, argument = LOADERS[args.measure]
        load, path = attrgetter(function)(import_module(module)), argument.format(args.folders[0])
        before, begun = forget_peak(), time.perf_counter()
        load(path).encode(TEXT)
        print(json.dumps({"seconds": time.perf_counter() - begun, "peak": peak_bytes() - before}))
        return
    pythons = dict(value.split("=", 1) for value in args.python)
    loaders = [name for name in LOADERS if name != "gigatoken" or name in pythons]
    records = Records(args.out / "loading.jsonl")
    records.add("setting", {"text": f"{machine()}. Medians of {args.repeats} turns."})
    for folder in args.folders:
        ways = {name: partial(_measured, pythons.get(name, sys.executable), name, args.out, folder) for name in loaders}
        taken = take_turns(ways, args.repeats)
        medians = {name: {key: median(turn[key] for turn in turns) for key in turns[0]} for name, turns in taken.items()}
        records.add(folder.name, medians)
        for name, one in medians.items():
            print(f"{folder.name} {name}: {one['seconds']:.3f} s, {one['peak'] >> 20} MiB")


def _measured(python: str, name: str, out: Path, folder: Path) -> dict[str, Any]:
    """Measure a package in a process of its own."""
    arguments = [python, __file__, str(out), str(folder), "--measure", name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # other interpreters need not have this package
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:]
        raise SGPEError(f"{name} cannot load {folder} ({''.join(reason)}): leave out this package or this folder")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("out", type=Path, help="folder for the records")
        option("folders", type=Path, nargs="+", help="folders of tokenizers")
        option("--repeats", default=5, help="number of turns of each package")
        option("--measure", choices=tuple(LOADERS), help="measure one package in this process, and print the result")
        option(
            "--python", action="append", default=[], metavar="NAME=FILE", help="interpreter in which to run the package NAME"
        )
