"""Comparison of a tokenizer with baselines on texts in several languages."""

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
from hf_sgpe.evaluation.measurable import Measurable, measurable, without_transformers
from hf_sgpe.evaluation.metrics import evaluate
from hf_sgpe.evaluation.results import Comparison, Word
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.terminal.progress import bar_disabled
from hf_sgpe.tokenizer import BPETokenizer

# Longer strings do not fit into a table, and are rarely words.
_LONGEST_WORD = 40


def texts_of(values: Iterable[str], *, text_field: str = "text") -> dict[str, HeldOut]:
    """Return held-out texts, keyed by language code, for values ``CODE=FILE``, or ``FILE`` with a code in its name."""
    files: dict[str, list[CorpusFile]] = {}
    for name, file in named_files(values):
        code = language_in_name(file.name) if name is None else language(name).code
        if code is None:
            raise SGPEError(
                f"{file}: the file name has no language code: put the code before it, such as si={file} for Sinhala"
            )
        files.setdefault(code, []).append(file)
    return {code: HeldOut(tuple(group), text_field=text_field) for code, group in files.items()}


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
        texts: The lines of each text, keyed by language code. The lines are read several times.
        baselines: Other tokenizers, from `hf_sgpe.evaluation.measurable.load`, keyed by name.

    >>> tokenizer = BPETokenizer.train_from_iterator(["කා"], 257)
    >>> compare(tokenizer, {"si": ["කා"]}).measure("tokens_per_word", "si", "this tokenizer")
    5.0
    """
    if name in (baselines or {}):
        raise SGPEError(f"two tokenizers are called {name}: give the baseline another name")
    if not texts:
        raise SGPEError("there is no text to measure: give text in at least one language")
    sources = {code: [file.name for file in lines.files] for code, lines in texts.items() if isinstance(lines, HeldOut)}
    tokenizer = without_transformers(tokenizer)
    loaded = {label: without_transformers(baseline) for label, baseline in (baselines or {}).items()}
    comparison = Comparison({name: tokenizer, **loaded}, sources)
    forms = {name: measurable(tokenizer) for name, tokenizer in comparison.tokenizers.items()}
    sizes = _compression_sizes(tokenizer.vocab_size)
    total = len(texts) * (len(forms) + len(sizes))
    with tqdm(total=total, desc="Measuring", unit=" runs", disable=bar_disabled(progress), leave=False) as bar:
        for code, lines in texts.items():
            row = comparison.evaluations[code] = {}
            for each, form in forms.items():
                row[each] = evaluate(form, lines)
                bar.update()
            if not row[name].tokens:
                raise SGPEError(f"{', '.join(sources.get(code, [code]))}: there is no text to measure")
            words = _frequent_words(lines) if comparison.spaced(code) else []
            comparison.words[code] = [
                Word(word, {each: _pieces(form, word) for each, form in forms.items()}) for word in words
            ]
            comparison.compression[code] = {}
        # Only one of the smaller tokenizers is in memory at a time.
        for size in sizes:
            smaller = _with_first_merges(tokenizer, size)
            for code, lines in texts.items():
                comparison.compression[code][size] = _bytes_per_token(smaller, lines) or 0.0
                bar.update()
    return comparison


def _compression_sizes(vocab_size: int) -> list[int]:
    """Return the vocabulary sizes at which compression is measured.

    >>> _compression_sizes(5000)
    [1000, 2000, 4000, 5000]
    """
    return [*takewhile(lambda size: size < vocab_size, (1000 << power for power in count())), vocab_size]


def _with_first_merges(tokenizer: BPETokenizer, vocab_size: int) -> BPETokenizer:
    """Return the tokenizer with its first merges, single bytes (or characters) and special tokens only. They are at most
    ``vocab_size`` tokens.
    """
    if vocab_size >= tokenizer.vocab_size:
        return tokenizer
    vocab = {token: id for token, id in tokenizer.vocab.items() if tokenizer.spelling.is_symbol(token)}
    added = len(tokenizer.special_tokens) + len(tokenizer.added_tokens)
    room = vocab_size - len(vocab) - len(tokenizer.data.named_bytes) - added
    merges = []
    for left, right in tokenizer.merges:
        token = left + right
        if left not in vocab or right not in vocab:  # left or right is a token without a merge
            continue
        if token not in vocab:
            if room <= 0:
                break
            room -= 1
            vocab[token] = tokenizer.vocab[token]
        merges.append((left, right))
    return BPETokenizer.of(replace(tokenizer.data, vocab=vocab, merges=merges))


def _bytes_per_token(tokenizer: BPETokenizer, lines: Iterable[str]) -> float | None:
    """Return `Evaluation.bytes_per_token` without the other measures, which is much faster."""
    size = tokens = 0
    for line in lines:
        text = normalized(line)
        size += len(text.encode())
        tokens += tokenizer.count_tokens(text)
    return size / tokens if tokens else None


def _frequent_words(lines: Iterable[str], most: int = 3) -> list[str]:
    """Return frequent words as examples: with a conjunct, if most words are in the scripts of `SCRIPTS`; otherwise long.

    >>> _frequent_words(["ශ්‍රී ලංකාව", "example"]), _frequent_words(["an example"])
    (['ශ්\u200dරී'], ['example'])
    """
    trie = LinguisTrie(SCRIPTS, whole_clusters=True)
    counts = Counter(word for line in lines for word in words_of(normalized(line)))
    ranked = [word for word, _ in counts.most_common() if len(word) <= _LONGEST_WORD]
    if sum(counts[word] for word in ranked if trie.script_of(word)) > counts.total() / 2:
        return [word for word in ranked if has_conjunct(trie, word)][:most]
    return [word for word in ranked if word.isalpha() and len(word) > 6][:most]


def has_conjunct(trie: LinguisTrie, word: str) -> bool:
    """Return whether a word consists of syllables and contains a conjunct (two consonants joined by a virama)."""
    units = trie.tokenize(word)
    return all(map(trie.script_of, units)) and any("CHC" in trie.shape(unit).replace("J", "") for unit in units)


def _pieces(tokenizer: Measurable, word: str) -> list[str | None]:
    content = f" {word}".encode()
    ends = tokenizer(f" {word}")
    pieces = [content[start:end].decode(errors="surrogateescape") for start, end in pairwise([0, *ends])]
    # A space is shown only if it is a token of its own, not if it begins the word's first token.
    return [None if re.search("[\udc80-\udcff]", piece) else piece.removeprefix(" ") or "␣" for piece in pieces]
