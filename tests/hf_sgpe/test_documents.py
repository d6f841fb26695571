"""The worked examples and the pseudocode of the documents that the package implements: the code must do what they say."""

import heapq
import random
import re
import unicodedata
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
import regex
from hypothesis import given, strategies as st
from support.texts import texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, RegexPreTokenizer, Splitting
from hf_sgpe.bpe.encoder import MergeTable, apply_merges
from hf_sgpe.bpe.trainer import MergeJob, Word, learn_merges
from hf_sgpe.byte_strings import bytes_to_string, string_to_bytes
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.regex_splits import engines_agree
from trainers import train_bpe

BYTES = [bytes([byte]) for byte in range(256)]
END = "<|endoftext|>"
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

CORPUS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def learned(words, **options):
    """Pairs of byte strings in the order they merge, each with its count."""
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


# ---------------------------------------------------------------- bpe_algorithm.txt


def test_of_tied_pairs_the_lexicographically_greatest_merges():
    assert learned(CORPUS, num_merges=1, tie_break="greatest-pair-bytes") == [(b"s", b"t", 9)]


def test_ids_are_bytes_then_special_tokens_then_merges(tmp_path):
    (tmp_path / "corpus").write_text("low low low lower", encoding="utf-8")
    specials = [END, "<|pad|>"]
    vocab, merges = train_bpe(tmp_path / "corpus", 262, specials)
    assert list(vocab) == list(range(262))
    assert [vocab[id] for id in range(256)] == BYTES
    assert [vocab[256], vocab[257]] == [END.encode(), b"<|pad|>"]
    assert [vocab[id] for id in range(258, 262)] == [left + right for left, right in merges]


def train_by_the_document(text, vocab_size, special_tokens):
    """Part 3, training."""
    vocab = dict(enumerate(BYTES))
    for token in special_tokens:
        vocab[len(vocab)] = token.encode()
    chunks = re.split("|".join(map(re.escape, special_tokens)), text) if special_tokens else [text]
    words = Counter()
    for chunk in chunks:
        words.update(tuple(bytes([byte]) for byte in word.encode()) for word in regex.findall(GPT2, chunk))
    merges = []
    while len(vocab) < vocab_size:
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        vocab[len(vocab)] = best[0] + best[1]
        merges.append(best)
        after = Counter()
        for word, count in words.items():
            after[merge_in(word, best)] += count
        words = after
    return vocab, merges


def merge_in(word, pair):
    merged, place = [], 0
    while place < len(word):
        if word[place : place + 2] == pair:
            merged.append(pair[0] + pair[1])
            place += 2
        else:
            merged.append(word[place])
            place += 1
    return tuple(merged)


@given(
    text=st.lists(st.sampled_from([*"aab bé😀'st\n1.", END, "<|", "න්"]), min_size=1, max_size=60).map("".join),
    size=st.integers(0, 12),
)
def test_training_by_the_pseudocode(tmp_path_factory, text, size):
    file = tmp_path_factory.getbasetemp() / "corpus"
    file.write_text(text, encoding="utf-8", newline="")
    if not text.replace(END, ""):
        return
    assert train_bpe(file, 257 + size, [END]) == train_by_the_document(text, 257 + size, [END])


def encode_by_the_document(text, vocab, merges, special_tokens):
    """Part 3, encoding: the first merge of the whole list that applies, at its first place, again and again."""
    ids = {token: id for id, token in vocab.items()}
    encoded = []
    for part in re.split("(" + "|".join(map(re.escape, special_tokens)) + ")", text):
        if part in special_tokens:
            encoded.append(ids[part.encode()])
            continue
        for word in regex.findall(GPT2, part):
            tokens = [bytes([byte]) for byte in word.encode()]
            while True:
                for pair in merges:
                    places = [place for place in range(len(tokens) - 1) if (tokens[place], tokens[place + 1]) == pair]
                    if places:
                        tokens[places[0] : places[0] + 2] = [pair[0] + pair[1]]
                        break
                else:
                    break
            encoded += [ids[token] for token in tokens]
    return encoded


@pytest.fixture(scope="module")
def trained(sample, tmp_path_factory):
    """What `train_bpe` gives, and the same as a tokenizer."""
    file = tmp_path_factory.mktemp("documents") / "corpus"
    file.write_text(END.join((sample["en"][:6000], sample["si"][:3000], "aaaa aaa baab abab" * 9)), encoding="utf-8")
    vocab, merges = train_bpe(file, 600, [END])
    ids = {token: id for id, token in vocab.items()}
    del ids[END.encode()]
    return vocab, merges, BPETokenizer(ids, merges, special_tokens={END: 256}, splitting=Splitting("bpe", pattern=GPT2))


@given(text=st.lists(texts | st.sampled_from([END, "aaaaaaa", "abaabab", " lower"]), max_size=4).map("".join))
def test_encoding_and_decoding_by_the_pseudocode(trained, text):
    vocab, merges, tokenizer = trained
    ids = tokenizer.encode(text, allowed_special="all")
    if engines_agree(text, (GPT2,)):
        assert ids == encode_by_the_document(text, vocab, merges, [END])
    assert tokenizer.decode(ids) == b"".join(vocab[id] for id in ids).decode(errors="replace") == text


@given(ids=st.lists(st.integers(0, 599), max_size=20))
def test_decoding_puts_replacement_characters_for_what_is_not_utf8(trained, ids):
    vocab, _, tokenizer = trained
    assert tokenizer.decode(ids) == b"".join(vocab[id] for id in ids).decode("utf-8", errors="replace")


@given(text=texts)
def test_both_spellings_of_gpt2s_pattern_cut_alike(text):
    assert regex.findall(GPT2, text) == regex.findall(SPLIT_PATTERNS["gpt2"], text)


# ---------------------------------------------------------------- incremental_bpe_pseudocode.txt


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
    heap = [MergeJob(-count, pair, pair) for count, pair in jobs]
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


# ---------------------------------------------------------------- tokenizers_for_llms.txt


def test_words_of_the_running_example():
    text = "Hello, world! I'm learning tokenization."
    words = ["Hello", ",", " world", "!", " I", "'m", " learning", " tokenization", "."]
    for pattern in ("cl100k-any-space", "cl100k-typographic", "cl100k", "gpt2"):
        assert RegexPreTokenizer(pattern).split(text) == words
    assert RegexPreTokenizer("cl100k-any-space").split("Hello, world!") == ["Hello", ",", " world", "!"]


def test_the_documents_two_patterns_differ_in_the_apostrophe():
    text = "I\u2019m here, it\u2019s 12345 \t!?\r\n"
    plain, typographic = (RegexPreTokenizer(name).split(text) for name in ("cl100k-any-space", "cl100k-typographic"))
    assert plain == ["I", "\u2019m", " here", ",", " it", "\u2019s", " ", "123", "45", " ", "\t!?\r\n"]
    assert typographic == plain
    assert RegexPreTokenizer("cl100k-typographic").split("\u2019said") == ["\u2019s", "aid"]
    assert RegexPreTokenizer("cl100k-any-space").split("\u2019said") == ["\u2019said"]
    assert RegexPreTokenizer("cl100k").split(" \t!?") == [" ", "\t", "!?"]
    assert RegexPreTokenizer("cl100k-any-space").split(" \t!?") == [" ", "\t!?"]


def test_compressing_by_the_example():
    steps = learned({"aaabdaaabac": 1}, num_merges=3)
    assert steps[0] == (b"a", b"a", 4)  # overlapping neighbours count, too
    word = Word(list(b"aaabdaaabac"))
    word.merge_pair((97, 97), 256)
    assert bytes(90 if id == 256 else id for id in word.ids) == b"ZabdZabac"
    assert len(word.ids) == 9
    assert [left + right for left, right, _ in steps] == [b"aa", b"ab", b"aaab"]


def test_pair_counts_of_the_example():
    counts = Counter()
    for word, times in CORPUS.items():
        for left, right in Word(list(word)).pairs():
            counts[left + right] += times
    assert (counts["es"], counts["st"], counts["we"], counts["lo"], counts["ow"]) == (9, 9, 8, 7, 7)
    assert (counts["ne"], counts["ew"], counts["wi"], counts["id"], counts["de"], counts["er"]) == (6, 6, 3, 3, 3, 2)
    assert len(counts) == 11


def test_merges_of_the_example():
    steps = learned(CORPUS, num_merges=4)
    assert steps == [(b"e", b"s", 9), (b"es", b"t", 9), (b"l", b"o", 7), (b"lo", b"w", 7)]
    assert learned(CORPUS, num_merges=99, min_frequency=9) == steps[:2]


def byte_to_char_by_the_document():
    nice = {*range(33, 127), *range(161, 173), *range(174, 256)}
    mapping, extra = {}, 256
    for byte in range(256):
        if byte in nice:
            mapping[byte] = chr(byte)
        else:
            mapping[byte], extra = chr(extra), extra + 1
    return mapping


def test_bytes_are_written_as_the_document_maps_them():
    mapping = byte_to_char_by_the_document()
    assert {byte: bytes_to_string(bytes([byte])) for byte in range(256)} == mapping
    assert {byte: string_to_bytes(char) for byte, char in mapping.items()} == {byte: bytes([byte]) for byte in range(256)}
    assert len(set(mapping.values())) == 256
    assert all(char.isprintable() and not char.isspace() for char in mapping.values())
    assert sum(ord(char) >= 256 for char in mapping.values()) == 68


def test_hello_merges_step_by_step():
    merges = [(b"H", b"e"), (b"He", b"l"), (b"Hel", b"l"), (b"Hell", b"o")]
    vocab = {token: id for id, token in enumerate([*BYTES, *(left + right for left, right in merges)])}
    for known in range(len(merges) + 1):
        tokenizer = BPETokenizer(vocab, merges[:known])
        tokens = [["H", "e", "l", "l", "o"], ["He", "l", "l", "o"], ["Hel", "l", "o"], ["Hell", "o"], ["Hello"]][known]
        assert tokenizer.tokenize("Hello") == tokens
    reverse = BPETokenizer(vocab, merges[::-1])
    assert reverse.tokenize("Hello") == ["Hello"]  # each needs the one before it
    other = BPETokenizer({**vocab, b"lo": 999}, [*merges[:2], (b"l", b"o"), *merges[2:]])
    assert other.tokenize("Hello") == ["Hel", "lo"]


def test_an_emoji_may_be_four_tokens():
    tokenizer = BPETokenizer({token: id for id, token in enumerate(BYTES)}, [])
    assert tokenizer.encode("\U0001f600") == [0xF0, 0x9F, 0x98, 0x80]
    assert tokenizer.decode([0xF0, 0x9F, 0x98, 0x80]) == "\U0001f600"
    assert tokenizer.decode([0xF0, 0x9F, 0x98]) == "\ufffd"


def train_on_characters(words, num_merges, min_frequency):
    """``BPETokenizer.train``: on the characters that stand for bytes, ties to the greatest pair of strings."""
    mapping = byte_to_char_by_the_document()
    state = {tuple(mapping[byte] for byte in word.encode()): count for word, count in words.items()}
    merges = []
    for _ in range(num_merges):
        pairs = Counter()
        for word, count in state.items():
            for pair in pairwise(word):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair), default=None)
        if best is None or pairs[best] < min_frequency:
            break
        merges.append(best)
        state = {merge_in(word, best): count for word, count in state.items()}
    return merges


@given(
    words=st.dictionaries(st.text("abcxyz!~", min_size=1, max_size=8), st.integers(1, 5), min_size=1, max_size=8),
    num_merges=st.integers(0, 15),
    min_frequency=st.integers(1, 4),
)
def test_training_by_the_documents_class(words, num_merges, min_frequency):
    """Where every byte is written as itself; the document compares the strings that stand for bytes, we the bytes."""
    steps = learned(words, num_merges=num_merges, min_frequency=min_frequency, tie_break="greatest-pair-bytes")
    named = [(bytes_to_string(left), bytes_to_string(right)) for left, right, _ in steps]
    assert named == train_on_characters(words, num_merges, min_frequency)


@pytest.fixture(scope="module")
def usage():
    """The tokenizer of the document's ``example_usage.py``."""
    lines = [
        "The quick brown fox jumps over the lazy dog.\n",
        "Tokenization is the process of splitting text into tokens.\n",
        "Large language models use byte-pair encoding for tokenization.\n",
        "Special tokens mark the beginning and end of sequences.\n",
        "Unicode normalization ensures consistent tokenization across encodings.\n",
    ] * 300
    return BPETokenizer.train_from_iterator(
        iter(lines),
        400,
        pattern="cl100k-any-space",
        min_frequency=2,
        special_tokens={"<|begin_of_text|>": 256, "<|end_of_text|>": 257, "<|eot_id|>": 258},
        normalization="nfc",
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "Hello, world!",
        "Tokenization is fascinating.",
        "Unicode: café, naïve, 日本語, 🎉",
        "Code: def hello(): print('world')",
        "Numbers: 42, 3.14159, 1_000_000",
    ],
)
def test_sentences_of_the_example_come_back(usage, sentence):
    assert usage.decode(usage.encode(sentence, allowed_special="all")) == sentence
    assert usage.encode(unicodedata.normalize("NFD", sentence)) == usage.encode(sentence)


def test_what_the_example_shows(usage):
    text = "<|begin_of_text|>Hello, world!<|end_of_text|>"
    ids = usage.encode(text, allowed_special="all")
    assert (ids[0], ids[-1]) == (256, 257) == (usage.bos_token_id, usage.eos_token_id)
    assert len(usage.encode(text)) > len(ids)
    assert usage.decode(ids) == text
    assert usage.decode(ids, skip_special_tokens=True) == "Hello, world!"
    assert usage.convert_tokens_to_ids(["H", "i"]) == [72, 105]
    assert usage.convert_ids_to_tokens([72, 105]) == ["H", "i"]
    shortened = usage.truncate("Hello, world! This is a test.", 5)
    assert usage.count_tokens(shortened) <= 5
    assert "Hello, world! This is a test.".startswith(shortened)

    chunks = ["The ", "quick ", "brown ", "fox ", "jumps ", "over ", "the ", "lazy ", "dog. ", "Tokenization ", "is fun!"]
    assert list(usage.encode_streaming(chunks, allowed_special="all")) == usage.encode("".join(chunks))
    batch = usage(["First sentence.", "Second, longer sentence here."], padding=True, truncation=True, max_length=6)
    assert [len(row) for row in batch["input_ids"]] == [6, 6]
    with pytest.raises(ValueError, match="max_length"):
        usage(["test"], truncation=True)
    with pytest.raises(ValueError, match="padding=True"):
        usage(["short", "much longer sentence here"], return_tensors="pt")


def test_saving_and_loading_the_example(usage, tmp_path):
    usage.save(tmp_path)
    loaded = BPETokenizer.from_pretrained(tmp_path)
    assert loaded.encode("Hello, tokenization!") == usage.encode("Hello, tokenization!")
    assert (loaded.bos_token_id, loaded.eos_token_id) == (256, 257)


def test_normalization_makes_equal_looking_text_equal():
    assert prepare("cafe\u0301", "nfc") == "caf\u00e9"
    assert prepare("cafe\u0301", "none") == "cafe\u0301"


def test_decoding_is_the_inverse_on_random_sequences_of_bytes(incremental):
    tokenizer = incremental[0]
    generator = random.Random(5)
    for _ in range(200):
        data = generator.randbytes(generator.randint(0, 40))
        ids = list(tokenizer.encode_streaming([data]))
        assert tokenizer.decode(ids) == data.decode(errors="replace")
