"""Use of tokens: how often each token occurs in a corpus of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hf_sgpe.corpora.text_files import CorpusFile, Progress, find_files, read_documents
from hf_sgpe.counts.count_files import is_file_of_counts
from hf_sgpe.counts.counters import in_batches
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.splitting.normalization import Normalization, prepare
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.codec import make_codec
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH_CHARACTERS = 1 << 20
_BATCH_WORDS = 1 << 16


def find_counted(names: Iterable[str]) -> list[CorpusFile]:
    """Return the files that match names and globs, also between commas. Files of word counts may have any extension."""
    parts: list[str] = []
    for name in names:
        parts += [name] if Path(name).exists() else name.split(",")
    counts = [Path(part) for part in parts if Path(part).is_file() and is_file_of_counts(part)]
    return [*counts, *find_files(part for part in parts if Path(part) not in counts)]


def holds_text(tokens: Iterable[bytes]) -> bool:
    """Return whether any of the tokens contains more than white space."""
    return any(token.decode(errors="replace").strip() for token in tokens)


def use_of_tokens(
    tokenizers: Sequence[TokenizerData],
    files: Iterable[CorpusFile],
    *,
    text_field: str = "text",
    without: frozenset[int] = frozenset(),
    lines: bool = False,
    on_progress: Progress | None = None,
) -> list[NDArray[np.int64]]:
    """Count how often each token occurs in the documents of files. Return the counts for each tokenizer, indexed by id.

    A file contains text or word counts. A text file is one document; in other files of text, each row is. Memory grows with
    the vocabulary, not with the text. Added tokens are recognized, but special tokens are not.

    Args:
        tokenizers: Tokenizers. The first must have all tokens that the others have.
        without: Code points. The parts of the text without them (see `parts_without`) are counted a second time.
        lines: Whether each line is counted a second time, as a text of its own without its line end. At the beginning of a
            text and before a line end, a word may have other tokens.
        on_progress: Called with the number of bytes read.
    """
    counters = [_TokenCounter(data) for data in tokenizers]
    for file in files:
        if (counts := word_counts_in(file, tokenizers[0])) is not None:
            for counter in counters:
                counter.add_counts(counts)
            continue
        all_parts = document_parts(tokenizers[0], file, text_field=text_field, on_progress=on_progress)
        for parts in batches_of(with_lines(all_parts) if lines else all_parts):
            others = list(parts_without(parts, without, tokenizers[0].normalization)) if without else []
            for counter in counters:
                counter.add(parts)
                counter.add(others)
    return [counter.counts for counter in counters]


def use_of_pieces(pieces: PieceFolder, lines: Iterable[str]) -> list[int]:
    """Count how often each piece occurs in lines. Return the counts, indexed by id."""
    use: Counter[int] = Counter()
    for batch in in_batches(lines, _BATCH_CHARACTERS, len):
        use.update(chain.from_iterable(pieces.encode_batch(batch)))
    return [use[id] for id in range(1 + pieces.highest_id)]


def document_parts(
    data: TokenizerData, file: CorpusFile, *, text_field: str = "text", on_progress: Progress | None = None
) -> Iterator[tuple[str, bool]]:
    """Yield the documents of a file in parts, each with a flag that is True if it begins a document. The tokens of the parts
    are exactly the tokens of the whole document.
    """
    whole = not data.splitting.allows_cuts
    last_cut: Callable[[str], int] | None = None
    if data.by_characters:
        # A space may be added after each added token, even inside a document.
        whole = bool(data.normalization.steps or (data.added_tokens and data.normalization.later.puts_space))
        last_cut = make_codec(data).neighbours.last_cut
    held, begins = "", True
    for text, ends in read_documents(
        file,
        text_field=text_field,
        special_tokens=data.added_tokens,
        whole=whole,
        on_progress=on_progress,
    ):
        if held and (last_cut is None or last_cut(held[-1] + text[:1])):
            yield held, begins
            held, begins = text, False
        else:
            held += text
        if ends:
            yield held, begins
            held, begins = "", True


def with_lines(parts: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """Yield the parts of `document_parts` and, after its last part, each line as a document without a line end.

    >>> list(with_lines([("a\\nb", True), ("c\\n", False)]))
    [('a\\nb', True), ('a', True), ('c\\n', False), ('bc', True)]
    """
    held: list[str] = []

    def line() -> Iterator[tuple[str, bool]]:
        if text := "".join(held).removesuffix("\r"):
            yield text, True

    for text, begins in parts:
        if begins:
            yield from line()
            held = []
        yield text, begins
        first, *others = text.split("\n")
        held.append(first)
        for other in others:
            yield from line()
            held = [other]
    yield from line()


def parts_without(
    parts: Iterable[tuple[str, bool]], points: frozenset[int], normalization: Normalization
) -> Iterator[tuple[str, bool]]:
    """Yield each part of `document_parts` without the code points ``points``, and the lines without them of other parts."""
    for text, begins in parts:
        if points.isdisjoint(map(ord, prepare(text, normalization))):
            yield text, begins
        else:
            lines = text.splitlines(keepends=True)
            yield from ((line, False) for line in lines if points.isdisjoint(map(ord, prepare(line, normalization))))


def batches_of(parts: Iterable[tuple[str, bool]]) -> Iterator[list[tuple[str, bool]]]:
    """Group parts into lists of about a million characters."""
    return in_batches(parts, _BATCH_CHARACTERS, lambda part: len(part[0]))


class PartEncoder:
    """An encoder for the parts of `document_parts`. Only parts that begin a document count as the beginning of a text."""

    def __init__(self, data: TokenizerData) -> None:
        self.tokenizer = BPETokenizer.of(data)
        # No space is added before a part that begins inside a document.
        inside = data.inside_text()
        self.inside = self.tokenizer if inside.normalization == data.normalization else BPETokenizer.of(inside)

    def encode(self, parts: Iterable[tuple[str, bool]]) -> NDArray[np.int32]:
        """Return the ids of all parts. Those of parts that begin a document may come first."""
        if self.inside is self.tokenizer:
            return self.tokenizer.encode_batch_to_numpy([text for text, _ in parts])[0]
        beginnings = [text for text, begins in parts if begins]
        others = [text for text, begins in parts if not begins]
        both = (self.tokenizer, beginnings), (self.inside, others)
        return np.concatenate([tokenizer.encode_batch_to_numpy(texts)[0] for tokenizer, texts in both])


class _TokenCounter(PartEncoder):
    def __init__(self, data: TokenizerData) -> None:
        super().__init__(data)
        self.counts = np.zeros(1 + data.highest_id, np.int64)

    def add(self, parts: Iterable[tuple[str, bool]]) -> None:
        self.counts += np.bincount(self.encode(parts), minlength=len(self.counts))

    def add_counts(self, counts: WordCounts) -> None:
        for batch in in_batches(counts.items(), _BATCH_WORDS, lambda item: 1):
            ids, ends = self.inside.encode_batch_to_numpy([word.decode() for word, _ in batch])
            times = np.repeat(np.array([count for _, count in batch], np.int64), np.diff(ends, prepend=0))
            np.add.at(self.counts, ids, times)


def word_counts_in(file: CorpusFile, data: TokenizerData) -> WordCounts | None:
    """Return the word counts in a file, or None if the file has text."""
    if not isinstance(file, Path) or not is_file_of_counts(file):
        return None
    if data.by_characters:
        raise SGPEError(f"{file} has word counts, but this tokenizer has merges across words: give the text itself")
    counts = WordCounts.load(file)
    ours, theirs = data.splitting, counts.splitting
    if (ours.regexes, ours.normalization) != (theirs.regexes, theirs.normalization):
        setting = theirs.difference(ours) or "pattern"
        has, wants = (repr(splitting.to_dict()[setting])[:100] for splitting in (theirs, ours))
        raise SGPEError(
            f"{file}: the words were counted with {setting} {has}, but the tokenizer has {wants}: count the text again with "
            "the tokenizer's settings, or give the text itself"
        )
    return counts
