from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st
from support.kernels import needs_native
from support.naive import apply_merges_by_rescan
from tokenizers import AddedToken, Tokenizer, models, normalizers

from hf_sgpe.bpe.merging import MergeTable, symbols
from hf_sgpe.splitting.normalization import Space
from hf_sgpe.vocabulary.neighbours import Neighbours
from hf_sgpe.vocabulary.special_tokens import any_of

pytestmark = [pytest.mark.kernels, needs_native]

LETTERS = "ab <\n\0\u0301කා中\uffff😀\U0010ffff"
MARK = "\u2581"
UNKNOWN = 256
"""The token for characters without one comes after those of bytes, which have the numbers of their bytes."""

strings = st.text(st.one_of(st.sampled_from(LETTERS + MARK), st.characters(exclude_categories=["Cs"])), max_size=80)
seeds = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=40)
added_texts = st.sets(st.text(LETTERS + MARK, min_size=1, max_size=4), max_size=6)


def native_neighbours(tokens, *, cuts_at_spaces=False, keeps_unknown=False):
    import hf_sgpe._native as _native

    vocabulary = _native.Vocabulary({token: id for id, token in enumerate(tokens)}, [])
    return _native.Neighbours(vocabulary, cuts_at_spaces, keeps_unknown)


class Vocabulary(NamedTuple):
    """A vocabulary of characters and merges, of which many make the same token."""

    tokens: list[str]
    merges: list[tuple[int, int]]

    @classmethod
    def of(cls, seeds):
        """Return the vocabulary of merges between the tokens with these places; places wrap around at the end."""
        tokens, merges = list(LETTERS), {}
        for left, right in seeds:
            pair = left % len(tokens), right % len(tokens)
            made = tokens[pair[0]] + tokens[pair[1]]
            if len(made) <= 8:
                merges[pair] = None
                if made not in tokens:
                    tokens.append(made)
        return cls(tokens, list(merges))

    def id_of(self, token):
        return UNKNOWN + 1 + self.tokens.index(token)

    @property
    def triples(self):
        first = UNKNOWN + 1
        return [(first + a, first + b, self.id_of(self.tokens[a] + self.tokens[b])) for a, b in self.merges]

    def start(self, word):
        """Return the ids of a word's characters, and of the bytes of other characters."""
        for character in word:
            yield from [self.id_of(character)] if character in LETTERS else character.encode()

    def encoder(self, scanner=None, added=(), prefix=False):
        import hf_sgpe._native as _native

        return _native.Encoder(
            range(256),
            self.triples,
            scanner,
            [],
            1 << 18,
            characters=[(letter.encode(), self.id_of(letter)) for letter in LETTERS],
            added_tokens=[(token.encode(), id) for token, id in dict(added).items()],
            prefix=prefix,
        )

    def neighbours(self):
        return native_neighbours(token.encode() for token in self.tokens)

    def library(self, added, prefix):
        """Return a tokenizer of the library `tokenizers`, in which a space is written as U+2581."""
        marked = [token.replace(" ", MARK) for token in self.tokens]
        vocab = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"<unk>": UNKNOWN}
        vocab |= {token: UNKNOWN + 1 + place for place, token in enumerate(marked)}
        merges = [(marked[a], marked[b]) for a, b in self.merges]
        tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        steps = [normalizers.Prepend(MARK)] if prefix else []
        tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", MARK)])
        tokenizer.add_tokens([AddedToken(token, normalized=False) for token in sorted(added)])
        return tokenizer


@given(seeds, st.lists(strings, max_size=4))
def test_words_merge_from_characters_and_the_bytes_of_others(seeds, words):
    vocabulary = Vocabulary.of(seeds)
    table = MergeTable(((left, right), result) for left, right, result in vocabulary.triples)
    expected = [apply_merges_by_rescan(list(vocabulary.start(word)), table) for word in words]
    # Neither words nor their encoder look for added tokens, or replace U+2581.
    encoder = vocabulary.encoder(added=[("a", 999), (MARK, 998)], prefix=True)
    assert list(encoder.merge_words([word.encode() for word in words])) == expected
    assert encoder.encode_words(words) == [id for ids in expected for id in ids]


@given(seeds, st.lists(strings, max_size=6), added_texts, st.booleans(), st.integers(1, 3))
def test_texts_become_the_ids_of_the_library_tokenizers(seeds, texts, added, prefix, threads):
    vocabulary = Vocabulary.of(seeds)
    library = vocabulary.library(added, prefix)
    encoder = vocabulary.encoder(vocabulary.neighbours(), [(token, library.token_to_id(token)) for token in added], prefix)
    expected = [library.encode(text, add_special_tokens=False).ids for text in texts]
    assert [encoder.encode(text, False, True) for text in texts] == expected
    assert [encoder.encode_to_numpy(text, False, True).tolist() for text in texts] == expected
    assert encoder.encode_batch(texts, False, True, threads) == expected
    ids, ends, left_out = encoder.encode_batch_to_numpy(texts, False, True, threads)
    assert left_out == []
    assert [ids[end - len(row) : end].tolist() for end, row in zip(ends, expected, strict=True)] == expected


@given(seeds, st.lists(st.sampled_from([*LETTERS, "ab", "aba ", "කාකා", "ab" * 9, "ab" * 20, "ab" * 150]), max_size=200))
def test_words_that_are_merged_together_keep_their_order(seeds, words):
    """Among them are words met before, met twice before they are merged, and too long to be merged with others."""
    vocabulary = Vocabulary.of(seeds)
    encoder = vocabulary.encoder(vocabulary.neighbours())
    text = "".join(words)
    expected = vocabulary.library([], False).encode(text, add_special_tokens=False).ids
    assert [encoder.encode(text, False, True) for _ in range(2)] == [expected] * 2
    assert encoder.encode_words(words) == [id for word in words for id in encoder.encode(word, False, False)]


@given(st.sets(st.text(LETTERS, min_size=2, max_size=2), max_size=30), st.text(LETTERS, max_size=300))
def test_texts_are_cut_between_characters_that_are_no_neighbours(pairs, text):
    words = native_neighbours(pair.encode() for pair in pairs).split(text)
    expected: list[str] = []
    for character in text:
        if expected and expected[-1][-1] + character in pairs:
            expected[-1] += character
        else:
            expected.append(character)
    assert words == expected


def byte_encoder(added, special=()):
    """Return an encoder of the bytes of a text, with the numbers of added tokens from 256 on."""
    import hf_sgpe._native as _native

    ids = {token: 256 + place for place, token in enumerate(sorted(added))}
    encoded = [(token.encode(), id) for token, id in ids.items()]
    scanner = _native.Scanner("gpt2", [], [])
    return _native.Encoder(range(256), [], scanner, [token.encode() for token in special], 0, added_tokens=encoded), ids


@given(st.sets(st.text("ab<\n\0中\uffff", min_size=1, max_size=5), max_size=12), st.text("ab<\n\0中\uffff", max_size=300))
def test_added_tokens_are_the_leftmost_and_the_longest_at_one_place(added, text):
    encoder, ids = byte_encoder(added)
    expected: list[int] = []
    position = 0
    for match in any_of(frozenset(added)).finditer(text):
        expected += [*text[position : match.start()].encode(), ids[match.group()]]
        position = match.end()
    assert encoder.encode(text, False, True) == expected + list(text[position:].encode())
    assert encoder.encode(text, False, False) == list(text.encode())  # a caller that recognises no token
    assert encoder.encode(text, True, True) == (None if position else expected + list(text[position:].encode()))


def test_texts_with_special_tokens_or_surrogates_are_left_out():
    encoder, _ = byte_encoder(["<think>", "\n\n"], ["<|end|>", "<s>"])
    assert encoder.encode("a<think>b<|end|>", False, True) is None
    assert encoder.encode("a\ud800<think>", False, True) is None
    assert encoder.encode("<s<think>", False, True) == [*b"<s", 257]
    assert encoder.encode_batch(["a\n\n", "<s>", ""], False, True, 1) == [[97, 256], None, []]
    assert encoder.encode_batch_to_numpy(["a\n\n", "<s>", ""], False, True, 1)[2] == [1]


def test_a_space_is_put_before_each_part_that_is_not_empty():
    encoder = Vocabulary.of([]).encoder(Vocabulary.of([]).neighbours(), [("<", 999)], True)
    space, a = (UNKNOWN + 1 + LETTERS.index(letter) for letter in " a")
    assert encoder.encode("", False, True) == []
    assert encoder.encode("a", False, True) == [space, a]
    assert encoder.encode(f"<<a<{MARK}<", False, True) == [999, 999, space, a, 999, space, space, 999]


def test_a_word_of_a_million_characters_is_encoded_in_a_moment():
    vocabulary = Vocabulary.of([(0, 0), (len(LETTERS),) * 2, (len(LETTERS) + 1, 0)])
    encoder = vocabulary.encoder(vocabulary.neighbours())
    start = time.perf_counter()
    assert encoder.encode("a" * 1_000_003, False, True) == [vocabulary.id_of("aaaa")] * 250_000 + [
        vocabulary.id_of(token) for token in ("aa", "a")
    ]
    assert encoder.encode("x" * 1_000_000, False, True) == list(b"x" * 1_000_000)
    assert time.perf_counter() - start < 10


@given(st.sets(st.sampled_from(LETTERS)), st.sets(st.text(LETTERS, min_size=2, max_size=2)), st.text(LETTERS, max_size=99))
def test_characters_without_a_token_stay_together(known, tokens, text):
    import hf_sgpe._native as _native

    some = [*(letter.encode() for letter in known), *(token.encode() for token in tokens)]
    for cuts_at_spaces in (False, True):
        neighbours = Neighbours(some, cuts_at_spaces=cuts_at_spaces, keeps_unknown=True)
        native = native_neighbours(some, cuts_at_spaces=cuts_at_spaces, keeps_unknown=True)
        assert native.split(text) == neighbours.split(text)
    ids = {letter.encode(): 300 + ord(letter) for letter in known}
    for unknown in (None, (7, False), (7, True)):
        encoder = _native.Encoder([-1] * 256, [], None, [], 0, characters=list({**ids, b"\x00": 1}.items()), unknown=unknown)
        expected = symbols(text.encode(), {**ids, b"\x00": 1}, [-1] * 256, unknown)
        assert list(encoder.merge_words([text.encode()])) == [[id for id in expected if id >= 0]]


def test_the_spaces_have_the_same_numbers_as_in_the_kernels():
    header = (Path(__file__).parents[3] / "hf_sgpe/csrc/text_encoder.h").read_text()
    written = re.search(r"enum class Space \{(.*)\}", header)[1]
    numbers = {name: int(number) for name, number in re.findall(r"k(\w+) = (\d+)", written)}
    assert {"".join(map(str.title, space.name.split("_"))): space.value for space in Space} == numbers


def test_wrong_arguments_are_refused():
    import hf_sgpe._native as _native

    def refused(message, byte_ids=range(256), merges=(), **arguments):
        with pytest.raises(ValueError, match=message):
            _native.Encoder(byte_ids, merges, None, [], 0, **arguments)

    refused("must be the UTF-8 of one code point", characters=[(b"", 1)])
    refused("must be the UTF-8 of one code point", characters=[(b"ab", 1)])
    refused("can't decode byte 0xff", characters=[(b"\xff", 1)])
    refused("a character has an id that is not between", characters=[(b"a", -1)])
    refused("a byte has an id that is not between", byte_ids=[-2] * 256, characters=[(b"a", 1)])
    refused("a merge has an id that is not between", merges=[(1, 2, (1 << 21) - 1)])
    refused("must not be empty", added_tokens=[(b"", 1)])
    with pytest.raises(ValueError, match="not UTF-8"):
        native_neighbours([b"a\xc3"])
    refused("the unknown token has an id that is not between", characters=[(b"a", 1)], unknown=(-1, True))
