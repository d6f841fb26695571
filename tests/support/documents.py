"""The running example of the documents that the package implements, and common parts of their pseudocode."""

from hf_sgpe.bpe.trainer import learn_merges
from support.naive import merged

BYTES = [bytes([byte]) for byte in range(256)]
CORPUS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def learned(words, **options):
    """Return pairs of byte strings in the order of their merges, each with its count."""
    tokens, steps = list(BYTES), []
    merges = learn_merges(
        [list(word.encode()) for word in words],
        list(words.values()),
        vocabulary=BYTES,
        on_merge=lambda id, pair, count: steps.append(count),
        **options,
    )
    named = []
    for (left, right), count in zip(merges, steps, strict=True):
        named.append((tokens[left], tokens[right], count))
        tokens.append(tokens[left] + tokens[right])
    return named


def merge_in(word, pair):
    return tuple(merged(word, pair, pair[0] + pair[1]))
