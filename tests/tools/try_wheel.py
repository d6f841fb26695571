#!/usr/bin/env python3
"""Try what is installed: its kernels are native, and return what the readable ones return.

Run by cibuildwheel with each wheel that it builds, and by the tests, in environments where nothing else is installed.

    python tests/tools/try_wheel.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from unittest import mock


def main() -> None:
    import hf_sgpe
    from hf_sgpe import BPETokenizer, LinguisTrie, TrainingConfig, kernels
    from trainers import SAMPLE, TokenizerTrainer

    text = (SAMPLE / "si.txt").read_text(encoding="utf-8")
    # Each kind of text in memory: ASCII, Latin-1, two and four bytes a character; a surrogate that stands alone; not in NFC.
    samples = [text, "plain words, 123\n", "déjà vu", "𝒳 ශ්‍රී", "a\ud800 ක", "e\u0301 \u0dd9\u0dca", ""]

    def results() -> list[object]:
        trainer = TokenizerTrainer(TrainingConfig(vocab_size=1500), workers=2, progress=False)
        trained = trainer.learn(trainer.count(iterator=text.splitlines()))
        with tempfile.TemporaryDirectory() as folder:
            trained.save(folder)
            tokenizer = BPETokenizer.from_pretrained(folder)
        ids = [tokenizer.encode(sample) for sample in samples]
        arrays = [array.tolist() for array in tokenizer.encode_batch_to_numpy(samples)]
        syllables = [LinguisTrie().tokenize(sample) for sample in samples]
        return [trained.merges, ids, tokenizer.encode_batch(samples), arrays, tokenizer.decode_batch(ids), syllables]

    version = f"hf_sgpe {hf_sgpe.__version__}, Python {sys.version.split()[0]}"
    if not kernels.is_native():
        sys.exit(f"{version}: {kernels.describe()}")
    native = results()
    with mock.patch.dict(os.environ, HF_SGPE_KERNEL="python"):
        readable = results()
    if native != readable:
        sys.exit(f"{version}: the native kernels do not give what the readable ones give")
    print(f"{version}: kernels {kernels.describe()}, the same as the readable ones")


if __name__ == "__main__":
    # Try the installed packages, not the folders of this checkout.
    sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parents[2]]
    main()
