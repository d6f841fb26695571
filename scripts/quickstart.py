"""The main use, from start to end: train a tokenizer, load it with plain AutoTokenizer, and look at its tokens.

Trains a syllable-safe tokenizer and, for comparison, plain byte-level BPE of the same size on nine of every ten lines, and
measures both on the others. Without --corpus it uses the small sample that ships with the package.

Example: python scripts/quickstart.py --corpus my-text.txt more.jsonl.gz --vocab-size 16000 --out my-tokenizer
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hf_sgpe import BPETokenizer, LinguisTrie, SGPEError
from hf_sgpe.command import ArgumentParser, exit_code
from hf_sgpe.formats.folder_contents import tokenizer_file
from hf_sgpe.formats.outputs import check_new_folder
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.scripts import SCRIPTS
from hub_cards.metrics import ends_inside, evaluate, load_measurable, syllable_spans
from trainers import SAMPLE, CorpusFile, TokenizerTrainer, TrainingConfig, find_files, read_lines

# Loads the tokenizer with transformers alone, without this package.
PLAIN_LOADER = """
import json, sys
sys.modules["hf_sgpe"] = None
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
json.dump([type(tokenizer).__name__, [tokenizer(line)["input_ids"] for line in json.load(sys.stdin)]], sys.stdout)
"""
HELD_OUT_LINES = 5_000
# Hides the warning of transformers that PyTorch is missing, which tokenizers do not need.
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--corpus", nargs="+", default=[SAMPLE], metavar="PATH", help="your own files, folders or globs")
    parser.add_argument("--vocab-size", type=int, default=4_500, help="number of tokens (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace a tokenizer in --out that this did not write")
    args = parser.parse_args()
    return exit_code(lambda: run(args.corpus, args.vocab_size, args.out, overwrite=args.overwrite))


def run(corpus: list[str | Path], vocab_size: int, out: Path, *, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise SGPEError(f"{out} is a file: give a folder to write to")
    plain_folder = out / "plain-bpe"
    # Another quickstart is replaced: it has written both.
    check_new_folder(out, overwrite=overwrite or tokenizer_file(plain_folder) is not None)
    files = find_files(corpus)
    held_out = held_out_lines(files)
    if not held_out:
        raise SGPEError("the corpus is too short to hold out every tenth line: give at least ten lines of text")
    scripts = tuple(SCRIPTS)
    for recipe, folder in (("hybrid", out), ("bpe", plain_folder)):
        config = TrainingConfig(vocab_size=vocab_size, recipe=recipe, scripts=scripts)
        training = (f"{line}\n" for number, line in numbered_lines(files) if number % 10)
        tokenizer = TokenizerTrainer(config).train(iterator=training)
        tokenizer.save_pretrained(folder)
        print(f"Trained {recipe}: {len(tokenizer):,} tokens, saved in {folder}")

    print(f"\nLoaded by plain AutoTokenizer, without hf_sgpe: {check_with_auto_tokenizer(out, held_out)}\n")
    syllable_safe, plain = BPETokenizer.from_pretrained(out), BPETokenizer.from_pretrained(plain_folder)
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 160)
    console.print(words_table(held_out, syllable_safe, plain))
    console.print(measures_table(held_out, out))
    known, cut = known_syllables(held_out, syllable_safe)
    print(f"\nOf {known:,} held-out syllables that have a token, {cut:,} were cut. Rarer syllables are split.")


def held_out_lines(files: list[CorpusFile]) -> list[str]:
    """Every tenth line, with the same limit for each file."""
    share = -(-HELD_OUT_LINES // len(files))
    held_out: list[str] = []
    for file in files:
        held_out += islice((line for number, line in numbered_lines([file]) if number % 10 == 0 and line.strip()), share)
    return held_out


def numbered_lines(files: list[CorpusFile]) -> Iterator[tuple[int, str]]:
    for file in files:
        yield from enumerate(read_lines(file), 1)


def check_with_auto_tokenizer(folder: Path, lines: list[str]) -> str:
    """Encodes ``lines`` in a process that cannot import this package, and compares the ids with ours."""
    from hf_sgpe import SGPETokenizerFast

    ours = SGPETokenizerFast.from_pretrained(folder)
    expected = [ours(line)["input_ids"] for line in lines]
    command = [sys.executable, "-c", PLAIN_LOADER, str(folder)]
    process = subprocess.run(command, input=json.dumps(lines), capture_output=True, text=True)
    if process.returncode:
        raise SGPEError(f"{folder}: plain AutoTokenizer cannot load it: {process.stderr.strip().splitlines()[-1]}")
    name, ids = json.loads(process.stdout)
    if ids != expected:
        raise SGPEError(f"{folder}: plain AutoTokenizer gives different ids")
    return f"{name}, the same ids on {len(lines):,} held-out lines"


def words_table(lines: list[str], syllable_safe: BPETokenizer, plain: BPETokenizer) -> Table:
    """A table of held-out words with conjuncts, script by script, with their syllables and tokens."""
    trie = LinguisTrie(SCRIPTS, whole_clusters=True)
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        for word in line.split():
            syllables = trie.tokenize(word)
            script = trie.script_of(word)
            if script and all(map(trie.script_of, syllables)) and any("CHC" in shape_of(trie, unit) for unit in syllables):
                counts.setdefault(script, Counter())[word] += 1
            elif word.isascii() and word.isalpha() and len(word) > 6:
                counts.setdefault("latin", Counter())[word] += 1
    table = Table(
        title="Held-out words (␣: a space alone, ◌: part of a character)", title_justify="left", box=None, pad_edge=False
    )
    for title in ("word", "syllables", "tokens", "tokens of plain BPE"):
        table.add_column(title, overflow="fold")
    for counted in counts.values():
        for word, _ in counted.most_common(5):
            units = trie.tokenize(word) if trie.script_of(word) else [word]
            table.add_row(word, *(" | ".join(parts) for parts in (units, pieces(syllable_safe, word), pieces(plain, word))))
    return table


def shape_of(trie: LinguisTrie, unit: str) -> str:
    """The character classes of a unit without joiners, so that every conjunct contains CHC."""
    return trie.shape(unit).replace("J", "")


def pieces(tokenizer: BPETokenizer, word: str) -> list[str]:
    """The tokens of a word in running text; ◌ stands for a part of a character."""
    tokens = [tokenizer.token_bytes(id).decode(errors="replace") for id in tokenizer.encode(f" {word}")]
    return [token.strip().replace("\ufffd", "◌") or "␣" for token in tokens]


def known_syllables(lines: list[str], tokenizer: BPETokenizer) -> tuple[int, int]:
    """The number of syllables in ``lines`` that have a token, and how many of them are cut anyway."""
    trie = LinguisTrie(SCRIPTS, whole_clusters=True)
    known = cut = 0
    for line in lines:
        text = prepare(line, tokenizer.normalization)
        ends = list(accumulate(len(tokenizer.token_bytes(id)) for id in tokenizer.encode(text)))
        for syllable, start, stop in syllable_spans(trie, text):
            if syllable.encode() in tokenizer.vocab:
                known += 1
                cut += ends_inside(ends, start, stop)
    return known, cut


def measures_table(lines: list[str], out: Path) -> Table:
    """A table of the measures of both tokenizers on held-out lines, grouped by the main script of a line."""
    trie = LinguisTrie(SCRIPTS, whole_clusters=True)
    groups: dict[str, list[str]] = {}
    for line in lines:
        scripts = Counter(trie.script_of(character) or "other" for character in line if character.isalpha())
        groups.setdefault(scripts.most_common(1)[0][0] if scripts else "other", []).append(line)
    table = Table(title="\nHeld-out lines", title_justify="left", box=None, pad_edge=False)
    table.add_column("script")
    table.add_column("tokenizer")
    for title in ("lines", "tokens/word", "cut syllables", "cut letters"):
        table.add_column(title, justify="right")
    measured = {"syllable-safe": load_measurable(out), "plain BPE": load_measurable(out / "plain-bpe")}
    for script, group in sorted(groups.items()):
        for name, token_ends in measured.items():
            result = evaluate(token_ends, group)
            shares = [
                "–" if share is None else f"{share:.2%}" for share in (result.cut_syllable_share, result.cut_letter_share)
            ]
            per_word = "–" if result.tokens_per_word is None else f"{result.tokens_per_word:.3f}"
            table.add_row(script, name, f"{result.lines:,}", per_word, *shares)
    return table


if __name__ == "__main__":
    sys.exit(main())
