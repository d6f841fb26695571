"""Trains a tokenizer and a small Llama on the sample that ships with the package, and generates with them on every engine.

It takes a minute or two. The model is far too small to be of use, but says the same on all engines, token by token.

Example: python scripts/demo_generation.py --out demo-model --prompt 'ශ්‍රී ලංකාව'
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hf_sgpe import SGPEError
from hf_sgpe.corpora.text_files import read_model_texts
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.generation import GenerationOptions, TextGenerator, available_engines
from hf_sgpe.terminal.command import ArgumentParser, exit_code
from hf_sgpe.weights.model_loading import load_tokenizer
from trainers import TokenizerTrainer, TrainingConfig
from trainers.language_models.language_model import collate, pack, small_llama
from trainers.language_models.training_runs import require_pytorch, train
from trainers.model_rows.token_tables import embedding_rows

SAMPLE = Path(__file__).parents[1] / "trainers" / "sample"
LENGTH = 128


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-model"), help="folder for the model (default: %(default)s)")
    parser.add_argument("--prompt", default="ශ්‍රී ලංකාව", help="text to go on from (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="of training (default: %(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=40, help="to generate (default: %(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace a tokenizer that is in --out without a model")
    args = parser.parse_args()
    return exit_code(lambda: run(args))


def run(args: argparse.Namespace) -> None:
    if not (args.out / "config.json").exists():
        if not any(args.out.glob("checkpoint-*")):
            check_new_folder(args.out, overwrite=args.overwrite)
        make_model(args.out, args.steps)
    options = GenerationOptions(max_new_tokens=args.max_new_tokens, temperature=0)
    first: list[int] | None = None
    for info in available_engines():
        if info.why_not:
            print(f"{info.name:13} {info.why_not}: {info.pip}")
            continue
        with TextGenerator.load(args.out, info.name, exact=True) as generator:
            ids = list(generator.engine.generate(generator.encode(args.prompt), options))
            text = generator.generate(args.prompt, options)
            assert generator.progress
            first = first or ids
            same = "the same ids" if ids == first else "OTHER IDS"
            speed = f"{generator.progress.tokens_per_second:7,.0f} tokens a second"
            print(f"{info.name:13} {speed}, {same}: {args.prompt}{text!r}")
            if ids != first:
                raise SGPEError(f"{info.name} gives other ids than the first engine")
    print(f"\nTry: hf-sgpe chat {args.out}")


def make_model(out: Path, steps: int) -> None:
    require_pytorch()
    import numpy
    import torch
    from transformers import LlamaForCausalLM

    files = sorted(SAMPLE.glob("*.txt"))
    config = TrainingConfig(4000, scripts=("sinhala", "devanagari", "tamil"), special_tokens=("<|endoftext|>",))
    TokenizerTrainer(config).train(files=[str(file) for file in files]).save_pretrained(out)
    tokenizer = load_tokenizer(str(out))
    rows = numpy.array(list(pack(read_model_texts(files), tokenizer, LENGTH)), numpy.int32)
    torch.manual_seed(1)
    model = LlamaForCausalLM(small_llama(embedding_rows(tokenizer), layers=2, width=128, heads=4, length=LENGTH))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    print(f"Training {model.num_parameters():,} parameters for {steps} steps", flush=True)
    train(model, tokenizer, rows, collate, out=out, steps=steps, batch_size=8, learning_rate=3e-3, seed=1, resume=True)


if __name__ == "__main__":
    sys.exit(main())
