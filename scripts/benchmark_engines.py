"""How much of an engine's own speed this package takes: tokens per second through it, and by the engine's own loop.

Both go on from the same ids, greedily, with the same loaded model, taking turns; what is printed is the median, and the
median of the ratios, which is what counts on a machine that has other work to do. A new model has random weights: speed does
not depend on what it says.

Example: python scripts/benchmark_engines.py --width 512 --layers 8
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.generation import GenerationOptions, TextGenerator, available_engines
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from trainers.language_models.language_model import small_llama

PROMPT = list(range(20, 40))


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--engine", action="append", help="only this one (repeatable; default: all that are here)")
    parser.add_argument("--layers", type=int, default=8, help="of the model (default: %(default)s)")
    parser.add_argument("--width", type=int, default=512, help="of the model (default: %(default)s)")
    parser.add_argument("--heads", type=int, default=8, help="of the model (default: %(default)s)")
    parser.add_argument("--vocab-size", type=int, default=32_000, help="of the model (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=100, help="to generate in a turn (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=7, help="of each (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    import torch
    from transformers import LlamaForCausalLM

    tokenizer = BPETokenizer.train_from_iterator(["some words"], 260)
    options = GenerationOptions(max_new_tokens=args.tokens, temperature=0)
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(1)
        config = small_llama(args.vocab_size, layers=args.layers, width=args.width, heads=args.heads, length=1024)
        model = LlamaForCausalLM(config)
        model.save_pretrained(folder)
        tokenizer.save(folder)
        print(f"{model.num_parameters():,} parameters, {args.tokens} tokens after {len(PROMPT)}, medians of {args.turns}")
        for info in available_engines():
            if info.why_not or (args.engine and info.name not in args.engine):
                continue
            with TextGenerator.load(folder, info.name) as generator:
                own, name = OWN[info.name], f"{info.name} ({info.version})"
                ours = lambda: list(generator._pieces(generator.engine.generate(PROMPT, options)))  # noqa: E731
                theirs = lambda: own(generator.engine, args.tokens)  # noqa: B023, E731
                compare(name, args.tokens, args.turns, ours, theirs)


def compare(name: str, tokens: int, turns: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    """Prints both speeds, and how they compare."""
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(-1, turns):  # the first warms up
        for who, work in (("ours", ours), ("theirs", theirs)) if turn % 2 else (("theirs", theirs), ("ours", ours)):
            begun = time.perf_counter()
            work()
            if turn >= 0:
                seconds[who].append(time.perf_counter() - begun)
    ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds["theirs"], strict=True)]
    speeds = {who: tokens / median(taken) for who, taken in seconds.items()}
    print(
        f"{name:60} {speeds['ours']:8.1f} tokens a second, by its own loop {speeds['theirs']:8.1f}: "
        f"{median(ratios):.1%} of it ({min(ratios):.1%} to {max(ratios):.1%})",
        flush=True,
    )


def transformers_loop(engine: Any, tokens: int) -> None:
    import torch
    from transformers import GenerationConfig

    config = GenerationConfig(max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    ids = torch.tensor([PROMPT])
    output = engine._model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config)
    check(output.shape[1] - len(PROMPT), tokens)


def mlx_loop(engine: Any, tokens: int) -> None:
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    check(len([int(token) for token, _ in generate_step(mx.array(PROMPT), engine._model, max_tokens=tokens)]), tokens)


def llama_cpp_loop(engine: Any, tokens: int) -> None:
    engine._llm.reset()
    stream = engine._llm.generate(PROMPT, temp=0.0)
    check(len([next(stream) for _ in range(tokens)]), tokens)
    stream.close()


def check(count: int, tokens: int) -> None:
    if count != tokens:
        raise SGPEError(f"the engine's own loop gave {count} tokens, not {tokens}: the comparison would not be fair")


OWN: dict[str, Callable[[Any, int], None]] = {
    "transformers": transformers_loop,
    "openvino": transformers_loop,
    "mlx": mlx_loop,
    "llama.cpp": llama_cpp_loop,
}

if __name__ == "__main__":
    sys.exit(main())
