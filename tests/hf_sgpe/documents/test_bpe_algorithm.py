"""The pseudocode of ``bpe_algorithm.txt``, against the code."""

import re
from collections import Counter
from itertools import pairwise

import pytest
import regex
from hypothesis import given, strategies as st
from support.documents import BYTES, CORPUS, learned, merge_in
from support.texts import texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, Splitting
from hf_sgpe.splitting.regex_pre_tokenizer import engines_agree
from trainers import train_bpe

pytestmark = pytest.mark.kernels

END = "<|endoftext|>"
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def test_the_lexicographically_greatest_of_tied_pairs_merges():
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
