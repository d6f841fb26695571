"""SGPETrainer: the training of the SGPE document, with its files, its log, its checkpoints and going on from one."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hf_sgpe.atomic import atomic_directory, atomic_file, check_directory
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import sgpe_vocab, tokenizer_json
from hf_sgpe.sgpe import Merges, SGPEVocabulary, learn_vocabulary
from hf_sgpe.special_tokens import SGPE_SPECIAL_TOKENS
from hf_sgpe.training import TrainingConfig
from trainers.corpora import find_files
from trainers.counting import bar_disabled, count_files

logger = logging.getLogger(__name__)

SETTINGS_FILE = "training.json"
"""Says what the checkpoints beside it were made from, so that nothing else goes on from them."""


class SGPETrainer:
    """Trains a vocabulary of syllables as sections 3.2 to 3.9 of the SGPE document say.

    Args:
        vocab_size: Number of tokens to aim for, special tokens included.
        prune_freq: Syllables that occur less often become ``[UNK]``.
        min_freq: Merging stops before the first pair that occurs less often.
        checkpoint_every: After how many merges each checkpoint is written.
        scripts: Whose syllables; the document knows Sinhala only.
        workers: As for `TokenizerTrainer`.
        progress: As for `TokenizerTrainer`.

    Raises:
        SGPEError: a number is below its least, or a script is unknown.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 100_000,
        prune_freq: int = 100,
        min_freq: int = 2,
        checkpoint_every: int = 20_000,
        scripts: Sequence[str] = ("sinhala",),
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        numbers = {"prune_freq": prune_freq, "min_freq": min_freq, "checkpoint_every": checkpoint_every}
        for name, number in {"vocab_size": vocab_size, **numbers}.items():
            least = len(SGPE_SPECIAL_TOKENS) if name == "vocab_size" else 1
            if not isinstance(number, int) or number < least:
                raise SGPEError(f"{name} must be a whole number of at least {least}, not {number!r}")
        self.vocab_size = vocab_size
        self.prune_freq = prune_freq
        self.min_freq = min_freq
        self.checkpoint_every = checkpoint_every
        # Decides which words are counted. Nothing written in the text is special to the document.
        self.config = TrainingConfig(vocab_size=256, recipe="sgpe", scripts=tuple(scripts), special_tokens=())
        self.workers = workers
        self.progress = progress

    def train(
        self,
        files: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
        output_dir: str | os.PathLike[str],
        *,
        text_field: str = "text",
        resume: bool | str | os.PathLike[str] = False,
    ) -> SGPEVocabulary:
        """Trains on files and writes ``vocab.json``, ``checkpoint_N.json`` and a folder that plain ``AutoTokenizer`` loads.

        A run that was killed goes on from its last checkpoint, and comes to the files that it would have come to.

        Args:
            files: As `TokenizerTrainer.count` takes them; the document's are ``.jsonl``.
            output_dir: Where all files go.
            text_field: The field with the text in .jsonl and .parquet.
            resume: Go on from the last checkpoint in ``output_dir`` if there is one, or from the one named.

        Raises:
            SGPEError: a file cannot be read; there are checkpoints and ``resume`` is not set; or what they were made from is
                not what is given now.
        """
        folder = Path(output_dir)
        tokenizer_json.check_folder(output_dir)
        check_directory(output_dir, (sgpe_vocab.VOCAB_FILE, SETTINGS_FILE))
        known = checkpoints(folder)
        if known and not resume:
            raise SGPEError(f"{known[-1]}: left by an earlier run: resume it, or choose another folder")
        merged: Merges = []
        before = 0.0
        start = (known[-1] if known else None) if isinstance(resume, bool) else Path(resume)
        if start:
            merged, before = sgpe_vocab.read_checkpoint(start)
        paths = find_files([files] if isinstance(files, (str, os.PathLike)) else files)

        began = time.monotonic()
        counts = count_files(paths, self.config, text_field=text_field, workers=self.workers, progress=self.progress)
        settings = {
            "prune_freq": self.prune_freq,
            "min_freq": self.min_freq,
            "scripts": list(self.config.scripts),
            "word_counts": counts.digest(),
        }
        _settle(settings, folder / SETTINGS_FILE, resuming=start is not None)
        hidden = bar_disabled(self.progress)
        with tqdm(desc="Merging", unit=" merges", initial=len(merged), disable=hidden, leave=False) as bar:

            def on_merge(merges: Merges, most: int, count: int) -> None:
                bar.total = most
                bar.update()
                step = len(merges)
                if step <= 10 or step % 1000 == 0:
                    logger.info("step %d of %d: %r + %r, %d times", step, most, *merges[-1], count)
                if step % self.checkpoint_every == 0:
                    write_checkpoint(merges)

            def write_checkpoint(merges: Merges) -> None:
                elapsed = before + time.monotonic() - began
                sgpe_vocab.write_checkpoint(merges, elapsed, folder / f"checkpoint_{len(merges)}.json")

            try:
                vocabulary = learn_vocabulary(
                    counts,
                    vocab_size=self.vocab_size,
                    prune_freq=self.prune_freq,
                    min_freq=self.min_freq,
                    scripts=self.config.scripts,
                    merged=merged,
                    on_merge=on_merge,
                    track=lambda steps, what: tqdm(steps, desc=what, unit=" words", disable=hidden, leave=False),
                )
            except SGPEError as error:
                if start is None:
                    raise
                raise SGPEError(f"{start}: {error}") from None
        write_checkpoint(vocabulary.merges)
        tokenizer = vocabulary.to_bpe()
        tokenizer.metadata = {"sgpe": settings}
        with atomic_directory(folder) as temporary:
            sgpe_vocab.write(vocabulary, temporary / sgpe_vocab.VOCAB_FILE)
            tokenizer_json.write(tokenizer, temporary)
        return vocabulary


def _settle(settings: dict[str, Any], path: Path, *, resuming: bool) -> None:
    """Writes down what the checkpoints are made from, or makes sure that they were made from the same."""
    if resuming and path.exists():
        for name, value in tokenizer_json.read_json(path).items():
            if settings.get(name) != value:
                what = "the text is not the same" if name == "word_counts" else f"{name} was {value!r}"
                raise SGPEError(f"{path}: the run to go on with differs: {what}")
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8", newline="\n")


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the one with the most merges last."""
    found = [path for path in folder.glob("checkpoint_*.json") if path.stem.removeprefix("checkpoint_").isdecimal()]
    return sorted(found, key=lambda path: int(path.stem.removeprefix("checkpoint_")))
