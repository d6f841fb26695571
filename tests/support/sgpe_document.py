"""Slow twins of the SGPE document's trainer and encoder, on strings: recount after every merge, rescan for every token."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from hf_sgpe import LinguisTrie, segment_into_words
from support.naive import merged

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNKNOWN = ""  # in place of a pruned syllable, as the document's -1


def is_boundary_token(token: str) -> bool:
    return not any("\u0d80" <= character <= "\u0dff" or character == "\u200d" for character in token)


def train(texts: Iterable[str], *, vocab_size: int, prune_freq: int, min_freq: int) -> dict:
    """Return the content of ``vocab.json`` (sections 3.2 to 3.7); syllables are symbols in sorted order."""
    word_counter: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        for word in segment_into_words(LinguisTrie().tokenize(text, leading_space=True)):
            word_counter[tuple(word)] += 1
    frequency = Counter()
    for word, count in word_counter.items():
        for token in word:
            frequency[token] += count
    boundary = sorted(filter(is_boundary_token, frequency))
    surviving = sorted(t for t, count in frequency.items() if count >= prune_freq and t not in boundary)
    symbols = boundary + surviving
    kept = set(symbols)
    words = [([t if t in kept else UNKNOWN for t in word], count) for word, count in word_counter.items()]

    merges = []
    for _ in range(max(vocab_size - len(SPECIAL_TOKENS) - len(symbols), 0)):
        pairs = Counter()
        for word, count in words:
            for pair in pairwise(word):
                if UNKNOWN not in pair:
                    pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], symbols.index(pair[0]), symbols.index(pair[1])))
        if pairs[best] < min_freq:
            break
        merges.append(best)
        symbols.append("".join(best))
        words = [(merged(word, best, "".join(best)), count) for word, count in words]

    final = Counter()
    for word, count in words:
        for token in word:
            final[token] += count
    ordered = sorted(symbols, key=lambda token: -final[token])
    vocab = {token: id for id, token in enumerate(SPECIAL_TOKENS + ordered)}
    return {"merges": [list(pair) for pair in merges], "vocab": vocab}


def tokenize(text: str, vocab: dict[str, int], merges: list[tuple[str, str]]) -> list[str]:
    """Encode a text (sections 4.2 and 4.3)."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    result = []
    for word in segment_into_words(LinguisTrie().tokenize(text, leading_space=True)):
        if len(word) == 1 and is_boundary_token(word[0]):
            result.append(word[0])
            continue
        tokens = [token if token in vocab else "[UNK]" for token in word]
        while True:
            ranked = [(ranks[pair], place) for place, pair in enumerate(pairwise(tokens)) if pair in ranks]
            if not ranked:
                break
            _, place = min(ranked)
            tokens[place : place + 2] = ["".join(tokens[place : place + 2])]
        result += tokens
    return result
