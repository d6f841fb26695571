"""The pseudocode of ``incremental_bpe_pseudocode.txt``, against the code."""

import heapq
import random
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from support.documents import BYTES
from support.texts import texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer
from hf_sgpe.bpe.merging import MergeTable, apply_merges
from hf_sgpe.bpe.trainer import Word, _MergeJob, learn_merges

pytestmark = pytest.mark.kernels


def merge_pair_by_the_document(ids, pair, new_id):
    """``Word.merge_pair``: the new ids, and the changes of counts."""
    a, b = pair
    out, deltas, i = [], [], 0
    while i < len(ids):
        if i + 1 < len(ids) and ids[i] == a and ids[i + 1] == b:
            left = out[-1] if out else None
            right = ids[i + 2] if i + 2 < len(ids) else None
            if left is not None:
                deltas += [((left, a), -1), ((left, new_id), +1)]
            deltas.append(((a, b), -1))
            if right is not None:
                deltas += [((b, right), -1), ((new_id, right), +1)]
            out.append(new_id)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out, deltas


@given(st.lists(st.integers(0, 3), max_size=20), st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_merge_pair_changes_counts_as_described(ids, pair):
    word = Word(list(ids))
    assert list(word.pairs()) == [(ids[i], ids[i + 1]) for i in range(len(ids) - 1)]
    changes = word.merge_pair(pair, 9)
    expected, deltas = merge_pair_by_the_document(ids, pair, 9)
    assert word.ids == expected
    assert Counter(changes) == Counter(deltas)


def test_merge_pair_by_example():
    word = Word([1, 2, 3, 1, 2])
    assert sorted(word.merge_pair((1, 2), 4)) == [
        ((1, 2), -1),
        ((1, 2), -1),
        ((2, 3), -1),
        ((3, 1), -1),
        ((3, 4), 1),
        ((4, 3), 1),
    ]
    assert word.ids == [4, 3, 4]
    word = Word([1, 1, 1, 1, 1])
    word.merge_pair((1, 1), 2)
    assert word.ids == [2, 2, 1]
    assert Word([1]).merge_pair((1, 1), 2) == Word([]).merge_pair((1, 1), 2) == []


@given(st.lists(st.tuples(st.integers(1, 4), st.tuples(st.integers(0, 3), st.integers(0, 3))), max_size=20))
def test_jobs_leave_the_heap_most_frequent_first_and_then_by_ascending_pair(jobs):
    heap = [_MergeJob(-count, pair, pair) for count, pair in jobs]
    heapq.heapify(heap)
    popped = [heapq.heappop(heap) for _ in jobs]
    expected = sorted(jobs, key=lambda job: (-job[0], job[1]))
    assert [(-job.negative_count, job.pair) for job in popped] == expected


def train_core_incremental(words, counts, num_merges):
    """``Tokenizer.train_core_incremental``: pair → new id."""
    words = [list(word) for word in words]
    pair_counts, where = defaultdict(int), defaultdict(set)
    for i, word in enumerate(words):
        for pair in pairwise(word):
            pair_counts[pair] += counts[i]
            where[pair].add(i)
    heap = [(-count, pair, where[pair]) for pair, count in pair_counts.items() if count > 0]
    heapq.heapify(heap)
    merges = {}
    while len(merges) < num_merges and heap:
        count, pair, positions = heapq.heappop(heap)
        if -count != pair_counts[pair]:
            if pair_counts[pair] > 0:
                heapq.heappush(heap, (-pair_counts[pair], pair, positions))
            continue
        new_id = 256 + len(merges)
        merges[pair] = new_id
        appeared = defaultdict(set)
        for i in positions:
            words[i], deltas = merge_pair_by_the_document(words[i], pair, new_id)
            for changed, delta in deltas:
                pair_counts[changed] += delta * counts[i]
                if delta > 0:
                    appeared[changed].add(i)
        for changed, where_new in appeared.items():
            if pair_counts[changed] > 0:
                heapq.heappush(heap, (-pair_counts[changed], changed, where_new))
    return merges


@given(
    words=st.dictionaries(st.binary(min_size=1, max_size=8).map(lambda word: bytes(b % 4 for b in word)), st.integers(1, 5)),
    num_merges=st.integers(0, 15),
)
def test_training_by_the_incremental_pseudocode(words, num_merges):
    merges = learn_merges(list(words), list(words.values()), vocabulary=BYTES, num_merges=num_merges)
    expected = train_core_incremental(list(words), list(words.values()), num_merges)
    assert {pair: 256 + rank for rank, pair in enumerate(merges)} == expected


def encode_by_rank(word, merges):
    """``Tokenizer.encode``: of all pairs that have a merge, the one of smallest new id, the leftmost first."""
    ids = list(word)
    while True:
        found = [(merges[pair], i) for i, pair in enumerate(pairwise(ids)) if pair in merges]
        if not found:
            return ids
        new_id, i = min(found)
        ids[i : i + 2] = [new_id]


@pytest.fixture(scope="module")
def incremental(sample):
    """A tokenizer with the ids of the document, and its merges: pair → new id."""
    tokenizer = BPETokenizer.train_from_iterator(iter([*sample.values(), "aaaaaaaa abababab " * 9]), 900)
    assert [tokenizer.vocab[byte] for byte in BYTES] == list(range(256))
    merges = {(tokenizer.vocab[a], tokenizer.vocab[b]): 256 + rank for rank, (a, b) in enumerate(tokenizer.merges)}
    return tokenizer, merges


@given(text=texts | st.text("abe ", max_size=60))
def test_encoding_by_the_incremental_pseudocode(incremental, text):
    tokenizer, merges = incremental
    words = tokenizer.pre_tokenizer.split(text)
    assert tokenizer.encode(text) == [id for word in words for id in encode_by_rank(word.encode(), merges)]
    table = MergeTable(merges.items())
    for word in words:
        assert apply_merges(word.encode(), table) == encode_by_rank(word.encode(), merges)


def test_mergeable_ranks_are_the_bytes_and_then_the_merges_by_id(incremental):
    tokenizer, merges = incremental
    token_bytes = list(BYTES)
    for (left, right), id in sorted(merges.items(), key=lambda item: item[1]):
        assert id == len(token_bytes)
        token_bytes.append(token_bytes[left] + token_bytes[right])
    assert tokenizer.get_mergeable_ranks() == [(token, id) for id, token in enumerate(token_bytes)]
    assert tokenizer.get_pattern() == SPLIT_PATTERNS["cl100k"]


@pytest.mark.parametrize("buffer_size", [1, 3, 8192])
def test_the_size_of_the_buffer_changes_nothing(incremental, sample, buffer_size):
    texts = iter([*sample.values(), "aaaaaaaa abababab " * 9])
    assert BPETokenizer.train_from_iterator(texts, 900, buffer_size=buffer_size).merges == incremental[0].merges


def test_decoding_is_the_inverse_on_random_sequences_of_bytes(incremental):
    tokenizer = incremental[0]
    generator = random.Random(5)
    for _ in range(200):
        data = generator.randbytes(generator.randint(0, 40))
        ids = list(tokenizer.encode_streaming([data]))
        assert tokenizer.decode(ids) == data.decode(errors="replace")
