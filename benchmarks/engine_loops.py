"""Measure how much slower this package generates text than an engine's own generation loop.

The two loops take turns. Both continue the same ids by greedy decoding, with the same loaded model. The script prints the
median speed of each loop in tokens per second, and the median of the ratios of the two speeds. Other work on the machine has
little effect on this ratio. The model has random weights, because the speed does not depend on the weights.

Example: python benchmarks/engine_loops.py --width 512 --layers 8
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Records, command, compare, small_model, take_turns, timed

from hf_sgpe import SGPEError
from hf_sgpe.generation import GenerationOptions, TextGenerator, available_engines

PROMPT = list(range(20, 40))


def _run(args: argparse.Namespace) -> None:
    records = Records(args.out / "engine_loops.jsonl")
    with small_model(args.vocab_size, args, heads=args.heads, length=1024) as (folder, parameters):
        print(f"{parameters:,} parameters, {args.tokens} tokens after {len(PROMPT)}, medians of {args.turns}")
        for info in available_engines():
            if info.why_not or (args.engine and info.name not in args.engine):
                continue
            with TextGenerator.load(folder, info.name) as generator:
                result = {"tokens": args.tokens, "parameters": parameters, **_measured(generator, OWN[info.name], args)}
            records.add(f"{info.name} ({info.version})", result)
            report({f"{info.name} ({info.version})": result})


def _measured(generator: TextGenerator, own: Callable[[Any, int], int], args: argparse.Namespace) -> dict[str, float]:
    options = GenerationOptions(max_new_tokens=args.tokens, temperature=0)

    def loop() -> None:
        if (count := own(generator.engine, args.tokens)) != args.tokens:
            raise SGPEError(f"speeds not comparable: the engine's own loop generated {count} tokens, not {args.tokens}")

    def ours() -> None:
        list(generator._texts(generator.engine.generate(PROMPT, options), options, continues=False))

    compared = compare(take_turns({"its own loop": timed(loop), "ours": timed(ours)}, args.turns))
    return {"own seconds": compared["its own loop"].seconds, **compared["ours"]._asdict()}


def report(results: dict[str, Any], out: Path | None = None) -> None:
    for name, result in results.items():
        ours, theirs = (result["tokens"] / result[seconds] for seconds in ("seconds", "own seconds"))
        print(
            f"{name:60} {ours:8.1f} tokens a second, by its own loop {theirs:8.1f}: "
            f"{result['ratio']:.1%} of it ({result['least']:.1%} to {result['greatest']:.1%})",
            flush=True,
        )


# ---------------------------------------------------------------- the engines' own loops, which return the number of tokens


def _transformers_loop(engine: Any, tokens: int) -> int:
    import torch
    from transformers import GenerationConfig

    config = GenerationConfig(max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    ids = torch.tensor([PROMPT])
    output = engine._model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config)
    return int(output.shape[1]) - len(PROMPT)


def _mlx_loop(engine: Any, tokens: int) -> int:
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    return len([int(token) for token, _ in generate_step(mx.array(PROMPT), engine._model, max_tokens=tokens)])


def _llama_cpp_loop(engine: Any, tokens: int) -> int:
    engine._llm.reset()
    stream = engine._llm.generate(PROMPT, temp=0.0)
    count = len([next(stream) for _ in range(tokens)])
    stream.close()
    return count


OWN: dict[str, Callable[[Any, int], int]] = {
    "transformers": _transformers_loop,
    "openvino": _transformers_loop,
    "mlx": _mlx_loop,
    "llama.cpp": _llama_cpp_loop,
}

if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("--engine", action="append", help="engine to measure (repeatable; default: all installed engines)")
        option("--layers", default=8, help="number of layers of the model")
        option("--width", default=512, help="hidden size of the model")
        option("--heads", default=8, help="number of attention heads of the model")
        option("--vocab-size", default=32_000, help="vocabulary size of the model")
        option("--tokens", default=100, help="number of tokens to generate in a turn")
        option("--turns", default=7, help="number of turns of each loop")
        option("--out", default=Path("engines"), help="folder for the records")
