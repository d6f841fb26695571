"""From counted words to a tokenizer: the configuration, the counts as a value, and the two tiers put together.

Nothing here reads files; that is the business of `trainers`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hf_sgpe import kernel
from hf_sgpe.atomic import atomic_file
from hf_sgpe.bpe.encoder import Pair, merge_words
from hf_sgpe.bpe.trainer import TIE_BREAKS, learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, build_unit_tier, choose_units
from hf_sgpe.byte_strings import reads_as_bytes
from hf_sgpe.errors import SGPEError
from hf_sgpe.model import BPETokenizer, Template, any_of
from hf_sgpe.normalization import NORMALIZATIONS, normalize
from hf_sgpe.pretokenizers.abugidas import SCRIPTS
from hf_sgpe.pretokenizers.linguis_trie import LinguisTrie
from hf_sgpe.pretokenizers.regex import RegexPreTokenizer
from hf_sgpe.pretokenizers.words import RECIPES, LinguisTriePreTokenizer, make_pre_tokenizer

logger = logging.getLogger(__name__)

Track = Callable[[Collection[Any], str], Iterable[Any]]

SPECIAL_TOKENS_POSITIONS = ("end", "start", "after-bytes")

# What a recipe takes where the configuration says None.
_RECIPE_DEFAULTS: dict[str, dict[str, Any]] = {
    "hybrid": {"normalization": "nfc", "special_tokens": ("<|endoftext|>",), "special_tokens_position": "end"},
    "bpe": {"normalization": "none", "special_tokens": ("<|endoftext|>",), "special_tokens_position": "end"},
    "sgpe": {
        "normalization": "none",
        "special_tokens": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        "special_tokens_position": "start",
    },
}


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides, together with the text, which tokenizer comes out.

    After construction no field is None but ``min_unit_frequency``: recipe defaults are filled in.

    Args:
        vocab_size: Number of tokens in the finished tokenizer, special tokens included.
        recipe: ``hybrid`` (words of ``scripts`` by syllable, the rest by ``pattern``), ``sgpe`` (the SGPE document's words)
            or ``bpe`` (``pattern`` only).
        scripts: Scripts whose syllables are units; unused by ``bpe``.
        pattern: Name of one of `SPLIT_PATTERNS`, or a regular expression; unused by ``sgpe``.
        min_frequency: A pair that occurs less often is never merged.
        letter_coverage: Share of each script's running letters that get a token of their own.
        syllable_coverage: The same for syllables.
        min_unit_frequency: Instead of both: letters and syllables that occur at least so often (SGPE's ``prune_freq``).
        tie_break: Which of equally frequent pairs merges first, one of `TIE_BREAKS`.
        normalization: ``nfc`` or ``none``; None takes the recipe's own: NFC for ``hybrid`` only.
        special_tokens: Their text; none of it is ever learned from. None takes the recipe's own.
        special_tokens_position: Where their ids lie: ``end``, ``start`` or ``after-bytes``. None takes the recipe's own.

    Raises:
        SGPEError: a value is out of range or unknown; the message lists the known ones.

    >>> TrainingConfig(vocab_size=1000).normalization
    'nfc'
    """

    vocab_size: int
    recipe: str = "hybrid"
    scripts: tuple[str, ...] = ("sinhala",)
    pattern: str = "o200k"
    min_frequency: int = 2
    letter_coverage: float = 0.99999
    syllable_coverage: float = 0.9998
    min_unit_frequency: int | None = None
    tie_break: str = "smallest-pair-id"
    normalization: str | None = None
    special_tokens: tuple[str, ...] | None = None
    special_tokens_position: str | None = None

    def __post_init__(self) -> None:
        _check_known("recipe", self.recipe, RECIPES)
        for name, default in _RECIPE_DEFAULTS[self.recipe].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        for name in ("scripts", "special_tokens"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise SGPEError(f"{name} must be a list, not the text {value!r}: write [{value!r}]")
            if not isinstance(value, Iterable):
                raise SGPEError(f"{name} must be a list, not {value!r}")
            object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "scripts", tuple(dict.fromkeys(self.scripts)))
        _check_known("tie_break", self.tie_break, TIE_BREAKS)
        _check_known("normalization", self.normalization, NORMALIZATIONS)
        _check_known("special_tokens_position", self.special_tokens_position, SPECIAL_TOKENS_POSITIONS)
        for name in ("letter_coverage", "syllable_coverage"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise SGPEError(f"{name} must lie between 0 and 1, not {value!r}")
        for name in ("min_frequency", "min_unit_frequency"):
            value = getattr(self, name)
            if (value is not None or name == "min_frequency") and (not isinstance(value, int) or value < 1):
                raise SGPEError(f"{name} must be a whole number of at least 1, not {value!r}")
        assert self.special_tokens is not None
        for token in self.special_tokens:
            _check_special_token(token, str(self.normalization))
        if len(set(self.special_tokens)) < len(self.special_tokens):
            raise SGPEError(f"special tokens occur twice: {', '.join(self.special_tokens)}")
        if not isinstance(self.vocab_size, int):
            raise SGPEError(f"vocab_size must be a whole number, not {self.vocab_size!r}")
        least = len(BYTES) + len(self.special_tokens)
        if self.vocab_size < least:
            raise SGPEError(
                f"vocab_size {self.vocab_size} is too small: {len(BYTES)} bytes and {len(self.special_tokens)} special "
                f"tokens need at least {least}"
            )
        self.pre_tokenizer()

    def pre_tokenizer(self) -> RegexPreTokenizer | LinguisTriePreTokenizer:
        """The readable pre-tokenizer of this recipe: words and units."""
        return make_pre_tokenizer(self.recipe, self.scripts, self.pattern)

    def counting(self) -> dict[str, Any]:
        """The part of the configuration that decides which words a text has; equal parts give addable counts."""
        return {
            "patterns": list(self.pre_tokenizer().patterns),
            "normalization": self.normalization,
            "special_tokens": sorted(self.special_tokens or ()),
        }

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """The inverse of `to_dict`; keys that are no field are passed over."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


def _check_known(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SGPEError(f"unknown {name} {value!r}: known are {', '.join(known)}")


def _check_special_token(token: str, normalization: str) -> None:
    if not isinstance(token, str):
        raise SGPEError(f"special tokens must be text, not {token!r}")
    if len(token) < 2:
        raise SGPEError(f"special token {token!r} is too short: it would be taken for ordinary text")
    if normalize(token, "none") != token:
        raise SGPEError(f"special token {token!r} is not well-formed text: it holds a lone surrogate")
    if reads_as_bytes(token):
        raise SGPEError(f"special token {token!r} reads as bytes in tokenizer.json: use ASCII or letters beyond U+0143")
    if normalization == "nfc" and unicodedata.normalize("NFD", token) != token:
        # It is looked for before the text is normalized, and other text could be normalized into it.
        raise SGPEError(f"special token {token!r} holds a character that NFC composes: use another")


class WordCounts:
    """How often each word occurs in some text: all that training needs to know of it, and a value.

    Counts of parts add up to the counts of the whole, wherever and in whatever order the parts were counted; training on
    the sum gives the identical tokenizer. Memory grows with distinct words.

    Args:
        counts: Word (UTF-8) → how often it occurs.
        counting: `TrainingConfig.counting` of the configuration that the words were cut with.

    >>> config = TrainingConfig(vocab_size=1000, recipe="bpe", pattern="gpt2")
    >>> counts = WordCounts.from_texts(["a b"], config) + WordCounts.from_texts(["a"], config)
    >>> sorted(counts.items())
    [(b' b', 1), (b'a', 2)]
    """

    def __init__(self, counts: Mapping[bytes, int], counting: Mapping[str, Any]) -> None:
        self.counting = dict(counting)
        self._counts = dict(counts)

    @classmethod
    def from_texts(cls, texts: Iterable[str], config: TrainingConfig) -> WordCounts:
        """Counts the words of ``texts``, each text by itself, without its special tokens.

        Raises:
            SGPEError: ``texts`` is one text, whose characters would be taken for texts, or holds something else.
        """
        counter = make_word_counter(config)
        for batch in in_batches(only_texts(texts)):
            counter.add(batch)
        return counter.result()

    def __add__(self, other: WordCounts) -> WordCounts:
        if self.counting != other.counting:
            raise SGPEError("word counts cannot be added: they were cut by different patterns, normalization or specials")
        total = Counter(self._counts)
        total.update(other._counts)
        return WordCounts(total, self.counting)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WordCounts):
            return NotImplemented
        return self.counting == other.counting and self._counts == other._counts

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """The number of distinct words."""
        return len(self._counts)

    def __getitem__(self, word: bytes) -> int:
        return self._counts.get(word, 0)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._counts)

    def items(self) -> Collection[tuple[bytes, int]]:
        """(word, count), in no particular order."""
        return self._counts.items()

    def values(self) -> Collection[int]:
        """The counts, in the order of `items`."""
        return self._counts.values()

    def total(self) -> int:
        """The number of running words."""
        return sum(self._counts.values())

    def __repr__(self) -> str:
        return f"WordCounts({len(self):,} distinct words, {self.total():,} running words)"

    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the words, their counts and how they were cut: equal counts, equal digest."""
        hasher = hashlib.sha256()
        for array in self._arrays().values():
            hasher.update(array.tobytes())
        return hasher.hexdigest()

    def _arrays(self) -> dict[str, Any]:
        """What is saved: the words in order, one after another, their lengths and counts, and how they were cut."""
        import numpy as np

        words = sorted(self._counts)
        return {
            "counting": np.frombuffer(json.dumps(self.counting, sort_keys=True).encode(), dtype=np.uint8),
            "words": np.frombuffer(b"".join(words), dtype=np.uint8),
            "lengths": np.array(list(map(len, words)), dtype=np.int64),
            "counts": np.array(list(map(self._counts.__getitem__, words)), dtype=np.int64),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one file (a numpy ``.npz`` whatever its name), the same bytes for the same counts."""
        import numpy as np

        with atomic_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> WordCounts:
        """Reads what `save` wrote.

        Raises:
            SGPEError: the file holds no word counts, or damaged ones.
            OSError: the file cannot be opened.
        """
        import numpy as np

        with Path(path).open("rb") as raw:
            try:
                if not zipfile.is_zipfile(raw):
                    raise ValueError("no .npz")
                raw.seek(0)
                with np.load(raw, allow_pickle=False) as file:
                    counting = json.loads(file["counting"].tobytes())
                    blob, lengths, counts = file["words"].tobytes(), file["lengths"], file["counts"]
                return cls(_unpack_words(blob, lengths, counts), dict(counting))
            except Exception as error:  # each layer of the format has exceptions of its own
                reason = str(error) or type(error).__name__
                raise SGPEError(f"{path}: not a file of word counts, or damaged ({reason}): count the text again") from None


def _unpack_words(blob: bytes, lengths: Any, counts: Any) -> dict[bytes, int]:
    if lengths.dtype.kind != "i" or counts.dtype.kind != "i" or lengths.shape != counts.shape or lengths.ndim != 1:
        raise ValueError("its arrays do not fit together")
    if lengths.sum() != len(blob) or (lengths <= 0).any() or (counts <= 0).any():
        raise ValueError("its numbers do not fit together")
    words: dict[bytes, int] = {}
    start = 0
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        words[blob[start : start + length]] = count
        start += length
    if len(words) != len(counts):
        raise ValueError("a word occurs twice")
    b"\n".join(words).decode()  # words are text; better known here than in the middle of training
    return words


def only_texts(texts: Iterable[str]) -> Iterator[str]:
    """``texts`` as they are.

    Raises:
        SGPEError: it is a single text, whose characters would be taken for texts, or gives something that is none.
    """
    if isinstance(texts, str):
        raise SGPEError("expected an iterable of texts, not one text: put it in a list")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise SGPEError(f"item {number} of the iterator is no text but {type(text).__name__}")
        yield text


def in_batches(texts: Iterable[str], characters: int = 1 << 20) -> Iterator[list[str]]:
    """The texts in lists of at least so many characters, the last one excepted."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class WordCounter:
    """Counts words as texts come: special tokens taken out, the rest normalized and split. The readable form.

    Args:
        config: Decides what a word is.
    """

    def __init__(self, config: TrainingConfig) -> None:
        self._counting = config.counting()
        self._splitter = RegexPreTokenizer(*config.pre_tokenizer().patterns)
        self._normalization = config.normalization or "none"
        self._special_pattern = any_of(frozenset(config.special_tokens)) if config.special_tokens else None
        self._counts: Counter[str] = Counter()

    def add(self, texts: Sequence[str]) -> None:
        """Counts the words of texts, each by itself."""
        for text in texts:
            for part in self._prepared(text):
                self._counts.update(self._splitter.split(part))

    def result(self) -> WordCounts:
        """What was counted so far, as a value."""
        return WordCounts({word.encode(): count for word, count in self._counts.items()}, self._counting)

    def _prepared(self, text: str) -> list[str]:
        """The parts of a text between special tokens, normalized."""
        pattern = self._special_pattern
        parts = pattern.split(text) if pattern and pattern.search(text) else [text]
        return [normalize(part, self._normalization) for part in parts]


class NativeWordCounter(WordCounter):
    """The same by the native kernels, which release the GIL: several counters can be at work in threads."""

    def __init__(self, config: TrainingConfig) -> None:
        super().__init__(config)
        special_tokens = [token.encode() for token in config.special_tokens or ()]
        scanner = self._splitter.scanner
        self._native = kernel.native().WordCounter(scanner, self._normalization == "nfc", special_tokens)

    def add(self, texts: Sequence[str]) -> None:
        """Counts the words of texts, each by itself."""
        for left_out in self._native.add(texts):
            self._native.add_prepared(self._prepared(texts[left_out]))

    def update(self, other: NativeWordCounter) -> None:
        """Adds what ``other``, of the same configuration, has counted."""
        self._native.merge(other._native)

    def result(self) -> WordCounts:
        """What was counted so far, as a value."""
        return WordCounts(self._native.counts(), self._counting)


def make_word_counter(config: TrainingConfig) -> WordCounter:
    """The word counter of the kernel in use; the readable one where no native scanner knows the split pattern."""
    chosen = NativeWordCounter if kernel.scanner(config.pre_tokenizer().patterns) is not None else WordCounter
    return chosen(config)


def train_from_counts(
    counts: WordCounts,
    config: TrainingConfig,
    *,
    on_merge: Callable[[int, Pair, int], None] | None = None,
    track: Track = lambda steps, what: steps,
) -> BPETokenizer:
    """Learns a tokenizer from counted words: the unit tier, then the statistical tier on what that leaves of each word.

    If the words give fewer merges than ``config.vocab_size`` asks for, the tokenizer is smaller and a warning is logged.

    Args:
        on_merge: Called at each merge of the statistical tier with the number of tokens before it, the pair (two such
            numbers) and its count.
        track: Given a collection and what is done with it, yields its items: a progress bar's place.

    Raises:
        SGPEError: there are no words, they were cut for another configuration, or the vocabulary is too small for the
            chosen units (the message says what would do).
    """
    if counts.counting != config.counting():
        raise SGPEError("the word counts were cut by other patterns, normalization or specials than the configuration's")
    if not len(counts):
        raise SGPEError("the corpus is empty: it has no words to learn from")

    pre_tokenizer = config.pre_tokenizer()
    words, times = list(counts), list(counts.values())
    chosen: list[str] = []
    if isinstance(pre_tokenizer, LinguisTriePreTokenizer):
        _warn_of_other_scripts(words, times, pre_tokenizer)
        chosen = choose_units(
            pre_tokenizer.trie.count_units(track(words, "Finding units"), times, every_word=config.recipe == "sgpe"),
            pre_tokenizer.trie,
            letter_coverage=config.letter_coverage,
            syllable_coverage=config.syllable_coverage,
            min_unit_frequency=config.min_unit_frequency,
        )
    unit_merges = build_unit_tier([unit.encode() for unit in chosen])

    specials = config.special_tokens or ()
    num_merges = config.vocab_size - len(BYTES) - len(specials) - len(unit_merges)
    if num_merges < 0:
        raise SGPEError(
            f"vocab_size {config.vocab_size} is too small for the {len(chosen)} chosen units: it takes at least "
            f"{config.vocab_size - num_merges}, or a lower letter_coverage or syllable_coverage"
        )

    vocabulary = list(BYTES)
    for left, right in unit_merges:
        vocabulary.append(vocabulary[left] + vocabulary[right])
    sequences: Sequence[Sequence[int]] = words
    if config.recipe == "sgpe":
        sequences, times = _runs_of_chosen(track(words, "Applying units"), times, pre_tokenizer, vocabulary, set(chosen))
    elif unit_merges:
        sequences = merge_words(track(words, "Applying units"), unit_merges)
    with ThreadPoolExecutor(1) as beside:
        digest = beside.submit(counts.digest)  # merging natively leaves the interpreter to others
        learned = learn_merges(
            sequences,
            times,
            vocabulary=vocabulary,
            num_merges=num_merges,
            tie_break=config.tie_break,
            min_frequency=config.min_frequency,
            on_merge=on_merge,
        )
    for left, right in learned:
        vocabulary.append(vocabulary[left] + vocabulary[right])
    if len(learned) < num_merges:
        logger.warning(
            "the corpus gives %d tokens of the %d asked for: no further pair occurs %d times",
            len(vocabulary) + len(specials),
            config.vocab_size,
            config.min_frequency,
        )
    return _assemble(vocabulary, unit_merges + learned, config, pre_tokenizer.patterns, digest.result())


def _warn_of_other_scripts(words: list[bytes], counts: list[int], pre_tokenizer: LinguisTriePreTokenizer) -> None:
    """Says so if words of a script that could be kept whole are not, which is easily overlooked."""
    others = LinguisTrie(name for name in SCRIPTS if name not in pre_tokenizer.scripts)
    total = sum(counts)
    running = others.count_scripts(words, counts)
    for script, count in sorted(running.items(), key=lambda item: -item[1]):
        if count and count * 100 >= total:
            logger.warning(
                "%.0f %% of the words are %s, which is not among the scripts: their syllables will be cut",
                100 * count / total,
                script,
            )


def _runs_of_chosen(
    words: Iterable[bytes],
    counts: Iterable[int],
    pre_tokenizer: RegexPreTokenizer | LinguisTriePreTokenizer,
    vocabulary: list[bytes],
    chosen: set[str],
) -> tuple[list[tuple[int, ...]], list[int]]:
    """What ``sgpe`` learns from: a unit without a token takes no part in any pair, so it ends one run and the next begins
    after it."""
    ids = {token: id for id, token in enumerate(vocabulary)}
    runs: Counter[tuple[int, ...]] = Counter()
    for word, count in zip(words, counts, strict=True):
        run: list[int] = []
        for unit in pre_tokenizer.segment(word.decode()):
            assert isinstance(unit, str)
            if unit in chosen:
                run.append(ids[unit.encode()])
            else:
                runs[tuple(run)] += count
                run = []
        runs[tuple(run)] += count
    return list(runs), list(runs.values())


def _assemble(
    vocabulary: list[bytes],
    merges: list[Pair],
    config: TrainingConfig,
    patterns: tuple[str, ...],
    digest: str,
) -> BPETokenizer:
    """Gives tokens their final ids, special tokens where the configuration wants them."""
    specials = config.special_tokens or ()
    before_specials = {"start": 0, "after-bytes": len(BYTES), "end": len(vocabulary)}[config.special_tokens_position or ""]
    vocab = {token: rank + (len(specials) if rank >= before_specials else 0) for rank, token in enumerate(vocabulary)}
    has_template = config.recipe == "sgpe" and {"[CLS]", "[SEP]"} <= set(specials)
    return BPETokenizer(
        vocab,
        [(vocabulary[left], vocabulary[right]) for left, right in merges],
        special_tokens={token: before_specials + number for number, token in enumerate(specials)},
        patterns=patterns,
        normalization=config.normalization or "none",
        template=Template.around(["[CLS]"], ["[SEP]"]) if has_template else None,
        metadata={"training": config.to_dict(), "word_counts": digest},
    )
