"""Training as in the SGPE document, with the files, log and checkpoints described there. Training can be resumed from a
checkpoint.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hf_sgpe.corpora.corpus import Corpus, Files
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_directory, check_directory
from hf_sgpe.files.json_files import read_json, write_json
from hf_sgpe.files.resuming import differing
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.learning.assembling import assemble, check_counts
from hf_sgpe.learning.observer import Observer
from hf_sgpe.learning.sgpe_learning import learn_vocabulary, lossless
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.sgpe.sgpe_vocabulary import VOCAB_FILE, Merges, SGPEVocabulary, merges_in
from hf_sgpe.splitting.splitting import SGPE_SPECIAL_TOKENS
from hf_sgpe.terminal.progress import bar_disabled
from trainers.counting.parallel_counting import count_corpus

logger = logging.getLogger(__name__)

SETTINGS_FILE = "training.json"
"""The file next to the checkpoints that records the settings of the run. A run with others cannot resume from them."""


class SGPETrainer:
    """A trainer of vocabularies of syllables and their merges, as in sections 3.2 to 3.9 of the SGPE document.

    The trained tokenizer is the same as that of `TokenizerTrainer` with the recipe ``sgpe`` and the same settings.
    `SGPETrainer` also writes the files of the document (vocabulary and checkpoints), and can resume from a checkpoint.

    Args:
        vocab_size: Number of tokens to aim for, including special tokens.
        prune_freq: Syllables that occur less often than this become ``[UNK]``.
        min_freq: Pairs that occur less often than this are not merged.
        checkpoint_every: Number of merges between checkpoints.
        scripts: Scripts whose syllables are used. The document covers only Sinhala.
        workers: As in `TokenizerTrainer`.
        progress: As in `TokenizerTrainer`.
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
        self.config = TrainingConfig(
            vocab_size=vocab_size,
            recipe="sgpe",
            scripts=tuple(scripts),
            min_unit_frequency=prune_freq,
            min_frequency=min_freq,
        )
        self.checkpoint_every = checkpoint_every
        self.workers = workers
        self.progress = progress

    def train(
        self,
        files: Files,
        output_dir: str | os.PathLike[str],
        *,
        text_field: str = "text",
        resume: bool | str | os.PathLike[str] = False,
    ) -> SGPEVocabulary:
        """Train on files, and return the vocabulary. Also write ``vocab.json``, checkpoints (``checkpoint_N.json``) and the
        files with which ``AutoTokenizer`` loads the tokenizer without this package.

        A run that was killed can be resumed from its last checkpoint. The resumed run writes the same files as an
        uninterrupted run, even if its ``vocab_size`` is larger than that of the earlier run.

        Args:
            files: As in `TokenizerTrainer.count`. (The document uses ``.jsonl``.)
            text_field: As in `TokenizerTrainer.count`.
            resume: True to resume from the last checkpoint in ``output_dir`` if there is one, or the path of a checkpoint.
        """
        folder = Path(output_dir)
        tokenizer_json.check_folder(output_dir)
        check_directory(output_dir, (VOCAB_FILE, SETTINGS_FILE))
        earlier = checkpoints(folder)
        if earlier and not resume:
            raise SGPEError(f"{earlier[-1]} is from an earlier run: resume that run, or choose another folder")
        merged: Merges = []
        before = 0.0
        last = earlier[-1] if earlier else None
        start = last if isinstance(resume, bool) else Path(resume)
        if start:
            merged, before = _read_checkpoint(start)
        settings: dict[str, Any] = {
            "prune_freq": self.config.min_unit_frequency,
            "min_freq": self.config.min_frequency,
            "scripts": list(self.config.scripts),
        }
        if start:
            _check_same(settings, folder / SETTINGS_FILE)  # before minutes of counting
        corpus = Corpus.of(files, text_field=text_field)

        began = time.monotonic()
        counts = count_corpus(corpus, self.config, workers=self.workers, progress=self.progress)
        check_counts(counts, self.config)
        settings["word_counts"] = counts.digest()
        if start:
            _check_same(settings, folder / SETTINGS_FILE)
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
                write_json(folder / SETTINGS_FILE, settings)
                elapsed = before + time.monotonic() - began
                content = {
                    "step": len(merges),
                    "merges": [list(pair) for pair in merges],
                    "elapsed_seconds": round(elapsed, 1),
                }
                write_json(folder / f"checkpoint_{len(merges)}.json", content)

            try:
                vocabulary = learn_vocabulary(
                    counts,
                    self.config,
                    merged=merged,
                    on_merge=on_merge,
                    observer=Observer(
                        steps=lambda items, what: tqdm(items, desc=what, unit=" words", disable=hidden, leave=False)
                    ),
                )
            except SGPEError as error:
                if start is None:
                    raise
                raise SGPEError(f"{start}: {error}") from None
        write_checkpoint(vocabulary.merges)
        with atomic_directory(folder) as temporary:
            vocabulary.save(temporary / VOCAB_FILE)
            tokenizer_json.write(assemble(lossless(vocabulary), self.config, counts.digest()), temporary)
        return vocabulary


def _check_same(settings: dict[str, Any], path: Path) -> None:
    """Check that the run to resume had the same settings, if its folder records them."""
    for name, value in differing(settings, read_json(path)).items() if path.exists() else ():
        if name == "word_counts":
            raise SGPEError(f"{path}: the run to resume has other text: give the same text, or another folder")
        old = ", ".join(value) if isinstance(value, list) else value
        raise SGPEError(f"{name}: the run to resume has {old} ({path}): give this value, or another folder")


def _read_checkpoint(path: str | os.PathLike[str]) -> tuple[Merges, float]:
    """Read a checkpoint (section 3.8 of the document). Return its merges, and the seconds that the training had taken."""
    path = Path(path)
    content = read_json(path)
    merges, elapsed = merges_in(content, path), content.get("elapsed_seconds", 0.0)
    if content.get("step") != len(merges):
        raise SGPEError(f"{path} is damaged: it has {len(merges)} merges for step {content.get('step')!r}")
    if not isinstance(elapsed, (int, float)):
        raise SGPEError(f"{path} is damaged: its elapsed_seconds must be a number, not {elapsed!r}")
    return merges, float(elapsed)


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, sorted by their number of merges."""
    files = [path for path in folder.glob("checkpoint_*.json") if path.stem.removeprefix("checkpoint_").isdecimal()]
    return sorted(files, key=lambda path: int(path.stem.removeprefix("checkpoint_")))
