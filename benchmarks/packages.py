"""Adapters that encode and train with hf_sgpe and with other packages.

This module also runs in interpreters that lack hf_sgpe. It therefore imports only the standard library at the top, and each
adapter imports its own package.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Texts = list[str]
Rows = list[list[int]]
Task = tuple[Callable[[], Any], Callable[[Any], Iterable[Any]]]
"""A pair of functions. The first function is timed, and the second makes the result of the first comparable."""


class Lacks(Exception):
    """The error that an adapter raises if its package lacks a function or cannot load the tokenizer."""


# ---------------------------------------------------------------- encoding and decoding with each package


def _no_caller() -> Callable[[Texts], Any]:
    raise Lacks("no tokenizer for transformers")


@dataclass
class Package:
    """The functions of a package that has loaded one tokenizer.

    Attributes:
        lists: Function that encodes many texts to lists of ids.
        one: Function that encodes one text.
        decode: Function that decodes many rows of ids to texts, or to bytes if the package can decode only to bytes.
        batch: Function that encodes many texts to the fastest output format of the package. If None, ``lists`` is used.
        rows: Function that converts the result of ``batch`` to lists. This function is not timed.
        caller: Function that returns a transformers tokenizer, or the package's replacement for it.
    """

    lists: Callable[[Texts], Any]
    one: Callable[[str], Any]
    decode: Callable[[Rows], Any]
    batch: Callable[[Texts], Any] | None = None
    rows: Callable[[Any], Any] = list
    caller: Callable[[], Callable[[Texts], Any]] = _no_caller


def _hf_sgpe(folder: str, threads: int) -> Package:
    from hf_sgpe import BPETokenizer

    tokenizer = BPETokenizer.from_pretrained(folder)

    def caller() -> Callable[[Texts], Any]:
        from hf_sgpe import SGPETokenizerFast

        return SGPETokenizerFast.from_bpe(tokenizer)

    return Package(
        lists=lambda texts: tokenizer.encode_batch(texts, threads=threads),
        one=tokenizer.encode,
        decode=tokenizer.decode_batch,
        batch=lambda texts: tokenizer.encode_batch_to_numpy(texts, threads=threads),
        rows=lambda batch: _split(batch[0], batch[1][:-1]),
        caller=caller,
    )


def _tokenizers(folder: str, threads: int, *, is_version_1: bool = False) -> Package:
    """Load a tokenizer with ``tokenizers``. transformers does not support version 1.0, which has no batch decoding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    encode = tokenizer.encode_batch if is_version_1 else tokenizer.encode_batch_fast
    batch = partial(encode, add_special_tokens=False)

    def rows(batch: Any) -> Rows:
        return [encoding.ids for encoding in batch]

    def decode(rows: Rows) -> Any:
        if is_version_1:
            return [tokenizer.decode(row, skip_special_tokens=False) for row in rows]
        return tokenizer.decode_batch(rows, skip_special_tokens=False)

    def caller() -> Callable[[Texts], Any]:
        if is_version_1:
            raise Lacks("transformers does not support this version")
        return _standard_tokenizer(folder)

    one = lambda text: tokenizer.encode(text, add_special_tokens=False).ids  # noqa: E731
    return Package(lambda texts: rows(batch(texts)), one, decode, batch, rows, caller)


def _gigatoken(folder: str, threads: int) -> Package:
    import gigatoken

    # gigatoken recognises the GPT-2 pattern only as ByteLevel with use_regex.
    content = json.loads(Path(folder, "tokenizer.json").read_text(encoding="utf-8"))
    if _is_gpt2(json.dumps(content["pre_tokenizer"])):
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        content["pre_tokenizer"] = byte_level
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "tokenizer.json"
        path.write_text(json.dumps(content), encoding="utf-8", newline="\n")
        tokenizer = gigatoken.Tokenizer(str(path))
    decode, parallel = tokenizer.backend.decode, threads > 1
    return Package(
        lists=lambda texts: tokenizer.encode_batch_list(texts, parallel=parallel),
        one=lambda text: tokenizer.encode(text).tolist(),
        decode=lambda rows: [decode(row) for row in rows],
        batch=lambda texts: tokenizer.encode_batch(texts, parallel=parallel),
        rows=lambda batch: batch.to_list(),
        caller=tokenizer.as_hf,
    )


def _is_gpt2(pattern: str) -> bool:
    """Return whether a pattern, or the JSON that contains it, is that of GPT-2. Later patterns ignore case."""
    return "'s|'t|" in pattern and "(?i:" not in pattern


def _of_flat_batches(name: str, folder: str, threads: int) -> Package:
    """Load a tokenizer with a package that encodes a batch to joined ids and their offsets."""
    package = importlib.import_module(name)
    tokenizer = package.Tokenizer.from_file(f"{folder}/tokenizer.json")

    def rows(batch: tuple[bytes, bytes]) -> Rows:
        import numpy as np  # not before the measured part

        return _split(np.frombuffer(batch[0], np.uint32), np.frombuffer(batch[1], np.uint64)[1:-1].astype(int))

    def caller() -> Callable[[Texts], Any]:
        with contextlib.redirect_stdout(io.StringIO()):  # fastokens prints a message if it was patched before
            package.patch_transformers()
        return _standard_tokenizer(folder)

    return Package(
        lists=lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts)],
        one=lambda text: tokenizer.encode(text).ids,
        decode=tokenizer.decode_batch,
        batch=tokenizer.encode_batch_flat,
        rows=rows,
        caller=caller,
    )


def _tiktoken(folder: str, threads: int) -> Package:
    import tiktoken

    content = json.loads(Path(folder, "tiktoken.json").read_text(encoding="utf-8"))
    ranks = {base64.b64decode(token): rank for token, rank in content["ranks"].items()}
    tokenizer = tiktoken.Encoding("x", pat_str=content["pattern"], mergeable_ranks=ranks, special_tokens={})
    return Package(
        lists=lambda texts: tokenizer.encode_ordinary_batch(texts, num_threads=threads),
        one=tokenizer.encode_ordinary,
        decode=lambda rows: tokenizer.decode_batch(rows, num_threads=threads),
    )


def _kitoken(folder: str, threads: int) -> Package:
    import kitoken

    tokenizer = kitoken.Kitoken.from_tokenizers_file(f"{folder}/tokenizer.json")
    return Package(
        lists=lambda texts: tokenizer.encode_all(texts, False),
        one=lambda text: tokenizer.encode(text, False),
        decode=tokenizer.decode_all,
    )


def _quicktok(folder: str, threads: int) -> Package:
    """Load a tokenizer with quicktok-v1. (Another package on PyPI is also imported as quicktok.)"""
    quicktok = importlib.import_module("quicktok")
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(io.StringIO()):
        quicktok.import_tokenizer(f"{folder}/tokenizer.json", "imported", temporary)
        tokenizer = quicktok.Tokenizer("imported", temporary)

    def rows(batch: Any) -> Rows:
        return _split(batch[0], batch[1][1:-1])

    def batch(texts: Texts) -> Any:
        return tokenizer.encode_batch(texts, threads)

    return Package(lambda texts: rows(batch(texts)), tokenizer.encode_ordinary, tokenizer.decode_batch, batch, rows)


PACKAGES: dict[str, Callable[[str, int], Package]] = {
    "hf_sgpe": _hf_sgpe,
    "tokenizers": _tokenizers,
    "tokenizers-1": partial(_tokenizers, is_version_1=True),
    "gigatoken": _gigatoken,
    "fastokens": partial(_of_flat_batches, "fastokens"),
    "snaptokens": partial(_of_flat_batches, "snaptokens"),
    "tiktoken": _tiktoken,
    "kitoken": _kitoken,
    "quicktok": _quicktok,
}
"""Functions that load a tokenizer, keyed by the name of the package. Each function takes a folder with ``tokenizer.json``
and ``tiktoken.json``, and a number of threads. Some packages need this number with each call; the others read
RAYON_NUM_THREADS.
"""


def _split(ids: Any, ends: Any) -> Rows:
    import numpy as np

    return [row.tolist() for row in np.split(ids, ends)]


def _standard_tokenizer(folder: str) -> Callable[[Texts], Any]:
    """Load a tokenizer that encodes with ``tokenizers``, or with a package that has patched transformers."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- training with each package; the result is the list of
# tokens, in the order of the merges


def _train_hf_sgpe(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    from trainers import TokenizerTrainer, TrainingConfig

    # The other packages have no minimum frequency, or use this one.
    config = TrainingConfig(vocab_size=size, recipe="bpe", pattern=pattern, special_tokens=(), min_frequency=1)
    trainer = TokenizerTrainer(config, workers=threads, progress=False)

    def train() -> Any:
        return trainer.learn(trainer.count(files=[texts]) if isinstance(texts, Path) else trainer.count(iterator=texts))

    return train, lambda learned: [a + b for a, b in learned.merges]


def _train_tokenizers(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    def train() -> Any:
        tokenizer = Tokenizer(models.BPE())
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=0, initial_alphabet=alphabet, show_progress=False)
        if isinstance(texts, Path):
            tokenizer.train([str(texts)], trainer)
        else:
            tokenizer.train_from_iterator(texts, trainer)
        return tokenizer

    def tokens(tokenizer: Any) -> list[bytes]:
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        return _joined(merge.split(" ") if isinstance(merge, str) else merge for merge in merges)

    return train, tokens


def _joined(merges: Iterable[Sequence[str]]) -> list[bytes]:
    from hf_sgpe.vocabulary.byte_strings import string_to_bytes

    return [string_to_bytes(left) + string_to_bytes(right) for left, right in merges]


def _train_rustbpe(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    import rustbpe

    def train() -> Any:
        tokenizer = rustbpe.Tokenizer()
        with texts.open(encoding="utf-8") if isinstance(texts, Path) else contextlib.nullcontext(texts) as lines:
            tokenizer.train_from_iterator(iter(lines), size, pattern=pattern)
        return tokenizer

    return train, lambda learned: [bytes(token) for token, rank in learned.get_mergeable_ranks() if rank >= 256]


def _train_ffbpe(texts: Texts, pattern: str, size: int, threads: int) -> Task:
    import ffbpe

    return lambda: ffbpe.train_bpe(texts, vocab_size=size), lambda learned: _by_id(learned.vocab)


def _train_gigatoken(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    import gigatoken

    # Each document is a line, as for other packages, but gigatoken drops the line breaks.
    data = texts if isinstance(texts, Path) else "<|doc|>".join(texts).encode()
    separator = b"\n" if isinstance(texts, Path) else b"<|doc|>"
    train = partial(gigatoken.train_bpe, data, size, [], separator=separator)
    return train, lambda learned: [left + right for left, right in learned[1]]


def _train_gigabpe(texts: Texts | Path, pattern: str, size: int, threads: int) -> Task:
    import gigabpe

    if not isinstance(texts, Path) or not _is_gpt2(pattern):
        raise Lacks("it trains only on files, and only with the pattern of GPT-2")
    train = partial(gigabpe.train_bpe, [str(texts)], size, pretokenizer="bytelevel", threads=threads)
    return train, lambda learned: _joined(learned[1])


def _train_bpeasy(texts: Texts, pattern: str, size: int, threads: int) -> Task:
    import bpeasy

    return lambda: bpeasy.train_bpe(iter(texts), pattern, 128, size), _by_id


def _train_sentencepiece(texts: Texts, pattern: str, size: int, threads: int) -> Task:
    import sentencepiece

    options: dict[str, Any] = {"model_type": "bpe", "num_threads": threads, "byte_fallback": True, "minloglevel": 2}

    def train() -> None:
        lines = (line for text in texts for line in text.split("\n"))
        train = sentencepiece.SentencePieceTrainer.train
        train(sentence_iterator=lines, model_writer=io.BytesIO(), vocab_size=size, **options)

    return train, lambda _: ()


def _by_id(vocab: dict[bytes, int]) -> list[bytes]:
    return sorted(vocab, key=vocab.__getitem__)[256:]


TRAINERS: dict[str, Callable[[Any, str, int, int], Task]] = {
    "hf_sgpe": _train_hf_sgpe,
    "tokenizers": _train_tokenizers,
    "rustbpe": _train_rustbpe,
    "ffbpe": _train_ffbpe,
    "gigatoken": _train_gigatoken,
    "gigabpe": _train_gigabpe,
    "bpeasy": _train_bpeasy,
    "sentencepiece": _train_sentencepiece,
}
