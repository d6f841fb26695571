"""Measurements of a tokenizer and of baselines on texts in several languages, and the files with these texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise, takewhile

from tqdm import tqdm

from hf_sgpe.corpora.held_out import HeldOut, named_files
from hf_sgpe.corpora.measured_text import normalized, words_of
from hf_sgpe.corpora.text_files import CorpusFile
from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.languages import language, language_in_name
from hf_sgpe.evaluation.metrics import (
    Measurable,
    evaluate,
    measurable,
    without_transformers,
)
from hf_sgpe.evaluation.results import REFERENCE as REFERENCE, Comparison, Word
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.terminal.progress import bar_disabled
from hf_sgpe.tokenizer import BPETokenizer

# Longer ones do not fit into a table, and are hardly words.
_LONGEST_WORD = 40


def texts_of(values: Iterable[str], *, text_field: str = "text") -> dict[str, HeldOut]:
    """Return held-out text by language: ``NAME=FILE``, where the name is a language's, or ``FILE`` whose own name tells it.

    Raises:
        SGPEError: there is no such file, or no name tells its language.
    """
    files: dict[str, list[CorpusFile]] = {}
    for name, file in named_files(values):
        code = language_in_name(file.name) if name is None else language(name).code
        if code is None:
            raise SGPEError(f"{file}: its name does not tell the language: write si={file} if it is in Sinhala")
        files.setdefault(code, []).append(file)
    return {code: HeldOut(tuple(some), text_field=text_field) for code, some in files.items()}


def compare(
    tokenizer: BPETokenizer,
    texts: Mapping[str, Sequence[str] | HeldOut],
    *,
    name: str = "this tokenizer",
    baselines: Mapping[str, BPETokenizer | Measurable] | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Measure a tokenizer and baselines on texts in several languages.

    Args:
        texts: Code of a language → its lines: a list, or `HeldOut`. They are read several times.
        name: What to call the tokenizer.
        baselines: Name → tokenizer, as `hf_sgpe.evaluation.metrics.load` returns them.
        progress: As for `TokenizerTrainer`.

    Raises:
        SGPEError: a text is empty, there is no text, two tokenizers have the same name, or one cannot be measured.

    >>> tokenizer = BPETokenizer.train_from_iterator(["කා"], 257)
    >>> compare(tokenizer, {"si": ["කා"]}).measure("tokens_per_word", "si", "this tokenizer")
    5.0
    """
    if name in (baselines or {}):
        raise SGPEError(f"two tokenizers are called {name}: give the baseline another name")
    if not texts:
        raise SGPEError("no text to measure on: give at least one language")
    sources = {code: [file.name for file in lines.files] for code, lines in texts.items() if isinstance(lines, HeldOut)}
    tokenizer = without_transformers(tokenizer)
    others = {other: without_transformers(baseline) for other, baseline in (baselines or {}).items()}
    comparison = Comparison({name: tokenizer, **others}, sources)
    forms = {name: measurable(tokenizer) for name, tokenizer in comparison.tokenizers.items()}
    sizes = compression_sizes(tokenizer.vocab_size)
    total = len(texts) * (len(forms) + len(sizes))
    with tqdm(total=total, desc="Measuring", unit=" runs", disable=bar_disabled(progress), leave=False) as bar:
        for code, lines in texts.items():
            row = comparison.evaluations[code] = {}
            for each, form in forms.items():
                row[each] = evaluate(form, lines)
                bar.update()
            if not row[name].tokens:
                raise SGPEError(f"{', '.join(sources.get(code, [code]))}: holds no text to measure")
            words = frequent_words(lines) if comparison.spaced(code) else []
            comparison.words[code] = [
                Word(word, {each: _pieces(form, word) for each, form in forms.items()}) for word in words
            ]
            comparison.compression[code] = {}
        # One smaller tokenizer for all languages, and only one in memory at a time.
        for size in sizes:
            smaller = with_first_merges(tokenizer, size)
            for code, lines in texts.items():
                comparison.compression[code][size] = bytes_per_token(smaller, lines) or 0.0
                bar.update()
    return comparison


def compression_sizes(vocab_size: int) -> list[int]:
    """Return the sizes of vocabularies at which compression is measured: 1,000, its doubles, and the size itself.

    >>> compression_sizes(5000)
    [1000, 2000, 4000, 5000]
    """
    return [*takewhile(lambda size: size < vocab_size, (1000 << power for power in count())), vocab_size]


def with_first_merges(tokenizer: BPETokenizer, vocab_size: int) -> BPETokenizer:
    """Return the same tokenizer with its first merges only, as many as make a vocabulary of ``vocab_size`` tokens.

    Single bytes and special tokens stay. Tokens that no merge makes are left out, unless ``vocab_size`` is its own.

    >>> tokenizer = BPETokenizer.train_from_iterator(["abcd abcd"], 260)
    >>> with_first_merges(tokenizer, 257).merges
    [(b'a', b'b')]
    """
    if vocab_size >= tokenizer.vocab_size:
        return tokenizer
    vocab = {token: id for token, id in tokenizer.vocab.items() if len(token) == 1}
    room = vocab_size - len(vocab) - len(tokenizer.special_tokens) - len(tokenizer.added_tokens)
    merges = []
    for left, right in tokenizer.merges:
        token = left + right
        if left not in vocab or right not in vocab:  # of a token that no merge makes
            continue
        if token not in vocab:
            if room <= 0:
                break
            room -= 1
            vocab[token] = tokenizer.vocab[token]
        merges.append((left, right))
    return BPETokenizer.of(replace(tokenizer.data, vocab=vocab, merges=merges))


def bytes_per_token(tokenizer: BPETokenizer, lines: Iterable[str]) -> float | None:
    """Return `Evaluation.bytes_per_token` alone, in a fraction of the time that all measures take."""
    size = tokens = 0
    for line in lines:
        text = normalized(line)
        size += len(text.encode())
        tokens += tokenizer.count_tokens(text)
    return size / tokens if tokens else None


def frequent_words(lines: Iterable[str], most: int = 3) -> list[str]:
    """Return the most frequent words: those with a conjunct in a text of a script of `SCRIPTS`, else those of seven letters
    and more.

    >>> frequent_words(["ශ්‍රී ලංකාව", "example"]), frequent_words(["an example"])
    (['ශ්\u200dරී'], ['example'])
    """
    trie = LinguisTrie(SCRIPTS, whole_clusters=True)
    counts = Counter(word for line in lines for word in words_of(normalized(line)))
    ranked = [word for word, _ in counts.most_common() if len(word) <= _LONGEST_WORD]
    if sum(counts[word] for word in ranked if trie.script_of(word)) > counts.total() / 2:
        return [word for word in ranked if _has_conjunct(trie, word)][:most]
    return [word for word in ranked if word.isalpha() and len(word) > 6][:most]


def _has_conjunct(trie: LinguisTrie, word: str) -> bool:
    units = trie.tokenize(word)
    return all(map(trie.script_of, units)) and any("CHC" in trie.shape(unit).replace("J", "") for unit in units)


def _pieces(tokenizer: Measurable, word: str) -> list[str | None]:
    content = f" {word}".encode()
    ends = tokenizer(f" {word}")
    pieces = [content[start:end].decode(errors="surrogateescape") for start, end in pairwise([0, *ends])]
    # A space is shown only where it is a token of its own, not at the start of a word's first token.
    return [None if re.search("[\udc80-\udcff]", piece) else piece.removeprefix(" ") or "␣" for piece in pieces]
