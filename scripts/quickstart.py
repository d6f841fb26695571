"""Train a tokenizer, look at its tokens, and load it with plain AutoTokenizer.

This script trains a syllable-safe tokenizer and, for comparison, plain byte-level BPE of the same size. Every tenth line of
the text is held out. The script shows words of these lines as tokens of both tokenizers, and measures both tokenizers on
these lines. Without --corpus, the script uses the small sample in the package.

Example: python scripts/quickstart.py --corpus my-text.txt more.jsonl.gz --vocab-size 16000 --out my-tokenizer
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from hf_sgpe import BPETokenizer, LinguisTrie, SGPEError
from hf_sgpe.cli import run_script
from hf_sgpe.evaluation.comparison import has_conjunct
from hf_sgpe.evaluation.measurable import load_measurable
from hf_sgpe.evaluation.metrics import ends_inside, evaluate, syllable_spans
from hf_sgpe.files.folder_contents import tokenizer_file
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.terminal.options import SEVERAL, option, option_list
from hf_sgpe.terminal.printing import print_table
from trainers import SAMPLE, CorpusFile, TokenizerTrainer, TrainingConfig, find_files, read_lines

# This program loads the tokenizer with transformers alone, without this package.
PLAIN_LOADER = """
import json, sys
sys.modules["hf_sgpe"] = None
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
json.dump([type(tokenizer).__name__, [tokenizer(line)["input_ids"] for line in json.load(sys.stdin)]], sys.stdout)
"""
HELD_OUT_LINES = 5_000
TRIE = LinguisTrie(SCRIPTS, whole_clusters=True)
# The names of the two tokenizers in the output, and their recipes.
SYLLABLE_SAFE, PLAIN = "syllable-safe", "plain BPE"
RECIPES = {SYLLABLE_SAFE: "hybrid", PLAIN: "bpe"}
# Hide the warning of transformers that PyTorch is missing, because tokenizers do not need PyTorch.
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@dataclass(frozen=True)
class _Arguments:
    """The training text, and the output folder."""

    corpus: list[str] = option_list("Your own text: files, folders or globs (default: the sample).", metavar=SEVERAL)
    vocab_size: int = option("Number of tokens of each tokenizer.", 4_500)
    out: Path = option("Folder to write the tokenizers to.", Path("out"))
    overwrite: bool = option("Replace a tokenizer in --out that this script did not write.", False)


def _run(args: _Arguments) -> None:
    out, plain_folder = args.out, args.out / "plain-bpe"
    check_is_folder(out)
    # If the folder has both tokenizers of an earlier run, they are replaced without --overwrite.
    check_new_folder(out, overwrite=args.overwrite or tokenizer_file(plain_folder) is not None)
    files = find_files(args.corpus or [SAMPLE])
    held_out = held_out_lines(files)
    folders = {SYLLABLE_SAFE: out, PLAIN: plain_folder}
    for name, folder in folders.items():
        config = TrainingConfig(vocab_size=args.vocab_size, recipe=RECIPES[name], scripts=tuple(SCRIPTS))
        TokenizerTrainer(config).train(iterator=training_lines(files)).save_pretrained(folder)

    tokenizers = {name: BPETokenizer.from_pretrained(folder) for name, folder in folders.items()}
    sizes = " and ".join(f"{name} ({len(tokenizer):,} tokens)" for name, tokenizer in tokenizers.items())
    print(f"Two tokenizers were trained on nine of every ten lines: {sizes}.")
    print(f"Neither was trained on every tenth line, which is held out. Below are {len(held_out):,} of these lines.\n")
    words = _example_words(held_out)
    if words:
        _print_words(words, tokenizers)
        print()
    _print_measures(held_out, folders)
    known, cut = _known_syllables(held_out, tokenizers[SYLLABLE_SAFE])
    print(
        f"\nOf {known:,} held-out syllables that have a {SYLLABLE_SAFE} token, {cut:,} were cut. Rarer syllables are split."
    )
    print(_check_with_auto_tokenizer(out, held_out))
    print(f"\nThe {SYLLABLE_SAFE} tokenizer is in {out}, {PLAIN} in {plain_folder}. What to type next:\n")
    print_next(
        {
            "use it": f"echo {shlex.quote(words[0] if words else held_out[0])} | {command_line('hf-sgpe', 'encode', out)}",
            "measure it on a file": command_line(
                "hf-sgpe", "evaluate", out, files[-1], "--baseline", f"plain={shown_path(plain_folder)}"
            ),
            "extend a model instead": shlex.join(["bash", shown_path(Path(__file__).with_name("quickstart_extend.sh"))]),
        }
    )


def print_next(commands: dict[str, str]) -> None:
    """Print commands that the user can type next, keyed by purpose."""
    width = max(map(len, commands)) + 2
    for purpose, line in commands.items():
        print(f"  {purpose + ':':{width}}{line}")


def command_line(program: str, *words: object) -> str:
    """Return a command line that works in the current folder.

    Args:
        program: ``python`` or ``hf-sgpe``. If the shell would not run this environment's program under this name, the path
            of the program is used.
        words: The arguments. A `Path` is written as `shown_path` returns it.
    """
    own = Path(sys.executable).with_name(program)
    name = shown_path(own) if own.exists() and shutil.which(program) != str(own) else program
    return shlex.join([name, *(shown_path(word) if isinstance(word, Path) else str(word) for word in words)])


def shown_path(path: Path) -> str:
    """Return a path for the user: relative if it is inside the current folder, otherwise absolute."""
    absolute, here = path.absolute(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def check_is_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise SGPEError(f"{out} is a file: give a folder")


def held_out_lines(files: list[CorpusFile]) -> list[str]:
    """Return every tenth line of each file. The number of lines is limited, with the same limit for each file."""
    share = -(-HELD_OUT_LINES // len(files))
    held_out = [line for file in files for line in islice(filter(str.strip, islice(read_lines(file), 9, None, 10)), share)]
    if not held_out:
        raise SGPEError("the corpus is too short to hold out every tenth line: it needs at least ten lines of text")
    return held_out


def training_lines(files: list[CorpusFile]) -> Iterator[str]:
    """Yield the lines that are not held out, with their line ends."""
    for file in files:
        yield from (f"{line}\n" for number, line in enumerate(read_lines(file), 1) if number % 10)


def _check_with_auto_tokenizer(folder: Path, lines: list[str]) -> str:
    """Check that plain AutoTokenizer encodes ``lines`` to the same ids as this package, in a process that cannot import this
    package. Return a sentence about the result.
    """
    from hf_sgpe import SGPETokenizerFast

    ours = SGPETokenizerFast.from_pretrained(folder)
    expected = [ours(line)["input_ids"] for line in lines]
    command = [sys.executable, "-c", PLAIN_LOADER, str(folder)]
    process = subprocess.run(command, input=json.dumps(lines), capture_output=True, text=True)
    if process.returncode:
        raise SGPEError(f"plain AutoTokenizer cannot load {folder}: {process.stderr.strip().splitlines()[-1]}")
    name, ids = json.loads(process.stdout)
    if ids != expected:
        raise SGPEError(f"{folder}: the ids of plain AutoTokenizer differ from those of hf_sgpe")
    return f"Plain AutoTokenizer loads it as {name}, without hf_sgpe, with the same ids on {len(lines):,} held-out lines."


def _example_words(lines: list[str]) -> list[str]:
    """Return the five most frequent words of each script (with a conjunct, if there are any), and then of English."""
    counts: dict[str, Counter[str]] = {}
    with_conjuncts: dict[str, Counter[str]] = {}
    english: Counter[str] = Counter()
    for word in (word for line in lines for word in line.split()):
        syllables = TRIE.tokenize(word)
        script = TRIE.script_of(word)
        if script and len(syllables) > 1 and all(map(TRIE.script_of, syllables)):
            counts.setdefault(script, Counter())[word] += 1
            if has_conjunct(TRIE, word):
                with_conjuncts.setdefault(script, Counter())[word] += 1
        elif word.isascii() and word.isalpha() and len(word) > 6:
            english[word] += 1
    chosen = [*(counts | with_conjuncts).values(), english]
    return [word for counted in chosen for word, _ in counted.most_common(5)]


def _print_words(words: list[str], tokenizers: dict[str, BPETokenizer]) -> None:
    """Print the syllables of each word, and its tokens from each tokenizer."""
    print("Held-out words and their tokens (␣: a space alone, ◌: part of a character)")
    rows = []
    for word in words:
        units = TRIE.tokenize(word) if TRIE.script_of(word) else [word]
        tokens = [pieces(tokenizer, word) for tokenizer in tokenizers.values()]
        rows.append((word, *(" | ".join(parts) for parts in (units, *tokens))))
    print_table(("word", "syllables", *(f"{name} tokens" for name in tokenizers)), rows)


def pieces(tokenizer: BPETokenizer, word: str) -> list[str]:
    """Return the tokens of a word in running text. The sign ◌ marks a part of a character."""
    tokens = [tokenizer.token_bytes(id).decode(errors="replace") for id in tokenizer.encode(f" {word}")]
    return [token.strip().replace("\ufffd", "◌") or "␣" for token in tokens]


def _known_syllables(lines: list[str], tokenizer: BPETokenizer) -> tuple[int, int]:
    """Return the number of syllables that have a token, and the number of these that are cut."""
    known = cut = 0
    for line in lines:
        text = prepare(line, tokenizer.normalization)
        ends = list(accumulate(len(tokenizer.token_bytes(id)) for id in tokenizer.encode(text)))
        for syllable, start, stop in syllable_spans(TRIE, text):
            if syllable.encode() in tokenizer.vocab:
                known += 1
                cut += ends_inside(ends, start, stop)
    return known, cut


def _print_measures(lines: list[str], folders: dict[str, Path]) -> None:
    """Print the measures of both tokenizers, with the lines grouped by their main script."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        scripts = Counter(TRIE.script_of(character) or "other" for character in line if character.isalpha())
        groups.setdefault(scripts.most_common(1)[0][0] if scripts else "other", []).append(line)
    rows = []
    measured = {name: load_measurable(folder) for name, folder in folders.items()}
    for script, group in sorted(groups.items()):
        for name, token_ends in measured.items():
            result = evaluate(token_ends, group)
            shares = [
                "–" if share is None else f"{share:.2%}" for share in (result.cut_syllable_share, result.cut_letter_share)
            ]
            per_word = "–" if result.tokens_per_word is None else f"{result.tokens_per_word:.3f}"
            rows.append((script, name, f"{result.lines:,}", per_word, *shares))
    print("Measured on the held-out lines")
    print_table(("script", "tokenizer", "lines", "tokens/word", "cut syllables", "cut letters"), rows, texts=2)


if __name__ == "__main__":
    run_script(_run, __doc__)
