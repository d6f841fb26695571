"""Measuring tokenizers on text: how many tokens a word takes, and how many syllables and letters are cut.

Text is measured line by line, in NFC. A word is what stands between white space. A syllable or letter is cut if a token
ends strictly inside it, between two of its characters or between two bytes of one. Measures that compare languages take
texts that are translations of each other, line by line.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count, pairwise, takewhile
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.counts.word_counts import only_texts
from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.splitting.normalization import normalize
from hf_sgpe.splitting.scripts import SCRIPTS
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.tokenizer import BPETokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TokenEnds = Callable[[str], list[int]]
"""Text → where each of its tokens ends, in bytes of its UTF-8; a token may end inside a character."""

RENYI_ALPHA = 2.5
"""The order at which Zouhar et al. (2023, "Tokenization and the Noiseless Channel") found the best agreement with BLEU."""


@dataclass(frozen=True)
class Measurable:
    """A tokenizer in the form that `evaluate` takes; called with a text, it is a `TokenEnds`.

    Attributes:
        encode: Text → the ids of its tokens, and where each ends as in `TokenEnds`.
        vocab_size: Number of tokens, special tokens included.
    """

    encode: Callable[[str], tuple[list[int], list[int]]]
    vocab_size: int

    def __call__(self, text: str) -> list[int]:
        return self.encode(text)[1]


@dataclass
class Evaluation:
    """Sums over a text, and the measures made of them; a measure without anything to measure is None.

    Attributes:
        fallback_tokens: Tokens that are only part of a character: their bytes are not whole UTF-8.
        token_lengths: Length in characters → how many tokens; of all but the fallback tokens.
        token_counts: Id → how many tokens; empty where the ids are not known.
        vocab_size: Number of tokens in the vocabulary; 0 where it is not known.
    """

    lines: int = 0
    words: int = 0
    characters: int = 0
    bytes: int = 0
    tokens: int = 0
    syllables: int = 0
    cut_syllables: int = 0
    letters: int = 0
    cut_letters: int = 0
    fallback_tokens: int = 0
    vocab_size: int = 0
    token_lengths: Counter[int] = field(default_factory=Counter, repr=False)
    token_counts: Counter[int] = field(default_factory=Counter, repr=False)

    @property
    def tokens_per_word(self) -> float | None:
        """Fertility: tokens by words between white space."""
        return self.tokens / self.words if self.words else None

    @property
    def bytes_per_token(self) -> float | None:
        """UTF-8 bytes by tokens: compression."""
        return self.bytes / self.tokens if self.tokens else None

    @property
    def characters_per_token(self) -> float | None:
        """Code points by tokens."""
        return self.characters / self.tokens if self.tokens else None

    @property
    def cut_syllable_share(self) -> float | None:
        """Share of the syllables of the supported scripts with a token end inside, 0 to 1."""
        return self.cut_syllables / self.syllables if self.syllables else None

    @property
    def cut_letter_share(self) -> float | None:
        """Share of the visible letters of the supported scripts with a token end inside, 0 to 1."""
        return self.cut_letters / self.letters if self.letters else None

    @property
    def fallback_rate(self) -> float | None:
        """Share of the tokens that are only part of a character, 0 to 1."""
        return self.fallback_tokens / self.tokens if self.tokens else None

    @property
    def vocabulary_used(self) -> float | None:
        """Share of the vocabulary that occurs among the tokens, 0 to 1; the longer the text, the more does."""
        return len(self.token_counts) / self.vocab_size if self.token_counts else None

    @property
    def renyi_efficiency(self) -> float | None:
        """How evenly the tokens use the vocabulary: Rényi entropy of order 2.5 of their ids by its maximum, 0 to 1."""
        if not self.token_counts or self.vocab_size < 2:
            return None
        return renyi_entropy(self.token_counts.values(), RENYI_ALPHA) / log(self.vocab_size)

    def parity(self, reference: Evaluation) -> float | None:
        """Tokens here by tokens in ``reference``, the same lines in another language; None if they cannot be the same."""
        return self.tokens / reference.tokens if reference.tokens and self.lines == reference.lines else None

    def add_syllable(
        self, letters: Sequence[str], ends: list[int], start: int, stop: int, length: Callable[[str], int]
    ) -> bool:
        """Counts one syllable more with its letters, and says whether one of ``ends`` cuts it.

        Args:
            ends: Where tokens end, ascending, in the unit of ``start`` and ``stop``, where the syllable lies.
            length: Letter → how long it is in that unit.
        """
        self.syllables += 1
        self.letters += len(letters)
        if not ends_inside(ends, start, stop):
            return False
        self.cut_syllables += 1
        places = accumulate(map(length, letters), initial=start)
        self.cut_letters += sum(ends_inside(ends, *span) for span in pairwise(places))
        return True

    def to_dict(self) -> dict[str, Any]:
        """Sums and measures as plain JSON values; of the distributions only the lengths."""
        sums = {name: value for name, value in vars(self).items() if name not in ("token_counts", "token_lengths")}
        lengths = dict(sorted(self.token_lengths.items()))
        return {**sums, **{name: getattr(self, name) for name in MEASURES}, "token_lengths": lengths}


MEASURES = (
    "tokens_per_word",
    "bytes_per_token",
    "characters_per_token",
    "cut_syllable_share",
    "cut_letter_share",
    "fallback_rate",
    "renyi_efficiency",
    "vocabulary_used",
)
"""Names of the measures of one text, each a property of `Evaluation`."""


def evaluate(tokenizer: TokenEnds | BPETokenizer, lines: Iterable[str]) -> Evaluation:
    """Measures one tokenizer (a `BPETokenizer`, or any as `load_measurable` gives it) on some lines.

    Reads the lines once; memory grows with the vocabulary, not with the text.

    Args:
        tokenizer: With a mere `TokenEnds`, what is made of ids stays None.

    >>> result = evaluate(lambda text: [3, len(text.encode())], ["කා"])
    >>> result.cut_syllable_share
    1.0
    """
    trie = LinguisTrie(SCRIPTS)
    token_ends = measurable(tokenizer) if isinstance(tokenizer, BPETokenizer) else tokenizer
    result = Evaluation()
    if isinstance(token_ends, Measurable):
        result.vocab_size = token_ends.vocab_size
    for line in only_texts(lines):
        text = normalize(line, "nfc")
        if isinstance(token_ends, Measurable):
            ids, ends = token_ends.encode(text)
            result.token_counts.update(ids)
        else:
            ends = token_ends(text)
        result.lines += 1
        result.words += len(text.split())
        result.characters += len(text)
        result.bytes += len(text.encode())
        result.tokens += len(ends)
        for length, number in Counter(token_lengths(text, ends)).items():
            if length is None:
                result.fallback_tokens += number
            else:
                result.token_lengths[length] += number
        for syllable, start, stop in syllable_spans(trie, text):
            result.add_syllable(trie.letters(syllable), ends, start, stop, lambda letter: len(letter.encode()))
    return result


def token_lengths(text: str, ends: Iterable[int]) -> Iterator[int | None]:
    """The length of each token in characters; None for one that begins or ends inside a character.

    >>> list(token_lengths("aක", [1, 2, 4]))
    [1, None, None]
    """
    number_at = {offset: number for number, offset in enumerate(_byte_offsets(text))}
    start: int | None = 0
    for end in ends:
        stop = number_at.get(end)
        yield None if start is None or stop is None else stop - start
        start = stop


def _byte_offsets(text: str) -> list[int]:
    """Where each character starts in the UTF-8 of ``text``, and where the last one stops."""
    return list(accumulate((len(character.encode()) for character in text), initial=0))


def renyi_entropy(counts: Iterable[int], alpha: float) -> float:
    """The Rényi entropy of order ``alpha``, not 1, of a distribution given by counts, in nats.

    >>> round(renyi_entropy([1, 1, 1, 1], 2.5) / log(4), 9)
    1.0
    """
    counts = list(counts)
    total = sum(counts)
    return log(sum((count / total) ** alpha for count in counts)) / (1 - alpha)


def gini(costs: Iterable[float]) -> float | None:
    """How unequal costs are: 0 if all are the same, towards 1 if one bears them all; None without any.

    The mean difference of two costs by twice the mean cost: ``Σᵢ Σⱼ |xᵢ − xⱼ| / (2 n² x̄)``. Here a cost is what a language
    pays for the same text: tokens by line of line-aligned text.

    >>> gini([1, 1, 1]), gini([0, 0, 3])
    (0.0, 0.6666666666666666)
    """
    ascending = sorted(costs)
    total = sum(ascending)
    if not total:
        return None
    n = len(ascending)
    # The same sum without the double loop: the k-th smallest is the greater one k - 1 times and the lesser one n - k times.
    return sum((2 * place - n - 1) * cost for place, cost in enumerate(ascending, 1)) / (n * total)


def gini_of(evaluations: Iterable[Evaluation]) -> float | None:
    """The Gini coefficient of tokens by line over languages; None unless there are several, of equally many lines."""
    evaluations = list(evaluations)
    if len(evaluations) < 2 or len({evaluation.lines for evaluation in evaluations}) > 1:
        return None
    return gini(evaluation.tokens for evaluation in evaluations)


def syllable_spans(trie: LinguisTrie, text: str) -> Iterator[tuple[str, int, int]]:
    """Each syllable of the trie's scripts in ``text``, with where it starts and stops in bytes.

    >>> list(syllable_spans(LinguisTrie(), "a කා"))
    [('කා', 2, 8)]
    """
    start = 0
    for unit in trie.tokenize(text):
        stop = start + len(unit.encode())
        if trie.script_of(unit):
            yield unit, start, stop
        start = stop


def ends_inside(ends: list[int], start: int, stop: int) -> bool:
    """Whether one of ``ends``, which ascend, lies strictly between ``start`` and ``stop``."""
    place = bisect_right(ends, start)
    return place < len(ends) and ends[place] < stop


def compression_sizes(vocab_size: int) -> list[int]:
    """The sizes of vocabularies at which to look at compression: 1,000 and its doubles, and the size itself.

    >>> compression_sizes(5000)
    [1000, 2000, 4000, 5000]
    """
    return [*takewhile(lambda size: size < vocab_size, (1000 << power for power in count())), vocab_size]


def with_first_merges(tokenizer: BPETokenizer, vocab_size: int) -> BPETokenizer:
    """The same tokenizer with the first of its merges only: as many as make a vocabulary of ``vocab_size`` tokens.

    Single bytes and special tokens stay. What no merge makes goes, unless ``vocab_size`` is the tokenizer's own.

    >>> tokenizer = BPETokenizer.train_from_iterator(["abcd abcd"], 260)
    >>> with_first_merges(tokenizer, 257).merges
    [(b'a', b'b')]
    """
    if vocab_size >= tokenizer.vocab_size:
        return tokenizer
    vocab = {bytes([byte]): tokenizer.vocab[bytes([byte])] for byte in range(256)}
    room = vocab_size - len(vocab) - len(tokenizer.special_tokens) - len(tokenizer.added_tokens)
    merges = []
    for left, right in tokenizer.merges:
        made = left + right
        if made not in vocab:
            if room <= 0:
                break
            room -= 1
            vocab[made] = tokenizer.vocab[made]
        merges.append((left, right))
    return BPETokenizer(
        vocab,
        merges,
        added_tokens=tokenizer.added_tokens,
        patterns=tokenizer.pre_tokenizer.patterns,
        normalization=tokenizer.normalization,
        ignore_merges=tokenizer.ignore_merges,
    )


def bytes_per_token(tokenizer: BPETokenizer, lines: Iterable[str]) -> float | None:
    """`Evaluation.bytes_per_token` alone, in a fraction of the time that all measures take."""
    size = tokens = 0
    for line in lines:
        text = normalize(line, "nfc")
        size += len(text.encode())
        tokens += tokenizer.count_tokens(text)
    return size / tokens if tokens else None


def load(path_or_repo: str | os.PathLike[str]) -> BPETokenizer | Measurable:
    """Any tokenizer with a ``tokenizer.json`` (file, folder or Hub repository) to be measured.

    Special tokens are neither added nor recognised. Byte-level BPE runs in this package, anything else in ``tokenizers``.

    Raises:
        SGPEError: there is no such tokenizer, or it is damaged.
    """
    try:
        return BPETokenizer.from_pretrained(path_or_repo)
    except NotByteLevelError:
        return _foreign(tokenizer_json.find(path_or_repo))


def load_measurable(path_or_repo: str | os.PathLike[str]) -> Measurable:
    """The same in one form for all: what `load` gives, as `evaluate` works with it."""
    tokenizer = load(path_or_repo)
    return measurable(tokenizer) if isinstance(tokenizer, BPETokenizer) else tokenizer


def measurable(tokenizer: BPETokenizer) -> Measurable:
    """A tokenizer in the form that `evaluate` takes.

    >>> measurable(BPETokenizer.train_from_iterator(["ab"], 257))("abc")
    [2, 3]
    """
    lengths = {id: len(token) for token, id in tokenizer.vocab.items()}
    lengths |= {id: len(token.encode()) for token, id in tokenizer.added_tokens.items()}

    def encode(text: str) -> tuple[list[int], list[int]]:
        ids = tokenizer.encode(text)
        return ids, list(accumulate(map(lengths.__getitem__, ids)))

    return Measurable(encode, tokenizer.vocab_size)


def foreign_backend(content: str, where: str) -> Tokenizer:
    """A tokenizer of any kind from the text of its ``tokenizer.json``, run by ``tokenizers``, that cuts, fills up and
    recognises nothing.

    Raises:
        SGPEError: it is damaged; the message names ``where`` it comes from.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # the library raises the bare class
        raise SGPEError(f"{where}: damaged or not a tokenizer.json ({error})") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def _foreign(path: Path) -> Measurable:
    tokenizer = foreign_backend(path.read_text(encoding="utf-8"), str(path))

    def encode(text: str) -> tuple[list[int], list[int]]:
        byte_offsets = _byte_offsets(text)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        spans = encoded.offsets
        ends: list[int] = []
        for (_, end), (next_start, _) in zip(spans, [*spans[1:], (len(text), len(text))], strict=False):
            # Two tokens that share a character: the first ends somewhere inside it.
            ends.append(byte_offsets[end - 1] + 1 if next_start < end else byte_offsets[end])
        return encoded.ids, ends

    return Measurable(encode, tokenizer.get_vocab_size())
