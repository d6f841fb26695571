"""Feed random text made of characters that are difficult for tokenizers to the native kernels, and check the results.

Every text goes through splitting, counting, encoding, decoding, syllables and normalization; one in 40 is also compared with
the readable kernels. `scripts/sanitize.sh` runs it on a build with address and undefined-behaviour sanitizers.

Example: python tests/tools/fuzz_kernels.py --inputs 1000000
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterable
from itertools import pairwise, product
from types import ModuleType
from typing import Annotated, Any
from unittest import mock

import numpy as np
import typer
from tqdm import tqdm

from hf_sgpe import SPLIT_PATTERNS, LinguisTrie, RegexPreTokenizer, SGPEError, Splitting, kernels
from hf_sgpe.bpe.merging import MergeTable, apply_merges
from hf_sgpe.bpe.parity import CountedWords, learn_in_parity
from hf_sgpe.bpe.trainer import TIE_BREAKS, learn_merges
from hf_sgpe.cli import run_script
from hf_sgpe.counts.counters import LONGEST_WORD
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.scripts.script_registry import every_script
from hf_sgpe.splitting.scripts.script_tables import TEN
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.vocabulary.special_tokens import any_of

_COMPARE_ONE_IN = 40
_ALPHABETS = (
    "abcXYZ '’\r\n\t.,!?/(|019",
    "කගයරල්ාිීු්ංඃෲ\u0d81\u200d\u200c ",
    "कषऱ्ािँः।०தமிழ்ஸ்ரீ \u200d\u200c",
    "ʰǅaA\u0301\u0323\u0345éßſK½Ⅷ²'sStTdDlLvVrReEmM ",
    "".join("".join(sorted(script.letters_and_marks())[:5]) for script in every_script().values())
    + "\u0301\u0951\u200b\u200d ",
    "မြန်္ား့ႉ្ក្ាកាัเกำไ་ཀྲིཿ\u200b\u200c\u200d ",
    "שָּׁلُّ한ᄀ\u1161\u11a8👩🏽🇱🇰\ufe0f\u200d\u0301 ",
    "中あ한\u1100\u1161\u11a8가😀👩\ufe0f\u3000\u2581\u2028\u0085\u00a0\ufeff ",
    "".join(map(chr, [*range(0x80), 0x88F, 0xA7CE, 0xC5C, 0x11DE0, 0x16EBB, 0x1C900, 0x10FFFF, 0xFFFF])),
)


def random_text(source: random.Random) -> str:
    """Up to 600 characters, seldom 20,000: of one alphabet, of all, from all of Unicode, or one character repeated."""
    length = source.choice((0, 1, 2, 5, 12, 30, 80, 400)) * source.randint(1, 3) // 2
    if source.random() < 0.002:  # scanners read some kilobytes at a time
        length = source.randint(2_000, 20_000)
    kind = source.random()
    if kind < 0.55:
        return "".join(source.choices(source.choice(_ALPHABETS), k=length))
    if kind < 0.8:
        return "".join(source.choices("".join(_ALPHABETS), k=length))
    if kind < 0.9:
        return source.choice(source.choice(_ALPHABETS)) * length
    points = (source.randrange(0x110000) for _ in range(length))
    return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)


def _vocabulary(native: ModuleType, tokens: Iterable[str]) -> Any:
    return native.Vocabulary({token.encode(): id for id, token in enumerate(tokens)}, [])


class Fuzzer:
    """The kernels under test and the readable ones that they must agree with."""

    def __init__(self, native: ModuleType, seed: int) -> None:
        self.native = native
        self.source = random.Random(seed)
        every = tuple(name for name, script in every_script().items() if script.own_words)
        splittings = [Splitting("bpe", pattern=name, normalization="none") for name in SPLIT_PATTERNS]
        splittings += [Splitting("hybrid", every, name, "none") for name in SPLIT_PATTERNS]
        splittings.append(Splitting("sgpe", tuple(script.name for script in TEN), normalization="none"))
        self.pre_tokenizers = list(map(RegexPreTokenizer.of, splittings))
        with mock.patch.dict(os.environ, HF_SGPE_KERNEL="python"):
            self.readable = list(map(RegexPreTokenizer.of, splittings))
            self.readable_trie = LinguisTrie(every, whole_clusters=True)
        self.trie = LinguisTrie(every, whole_clusters=True)
        self.new_encoder()

    def new_encoder(self) -> None:
        """Changes the merges and the scanner. The memory of words is so small that it is often emptied."""
        pieces = [list(random_text(self.source).encode()) for _ in range(30)]
        self.merges = learn_merges(pieces, [1] * 30, vocabulary=[bytes([i]) for i in range(256)], num_merges=60)
        tokens = [bytes([byte]) for byte in range(256)]
        for left, right in self.merges:
            tokens.append(tokens[left] + tokens[right])
        triples = [(left, right, 256 + rank) for rank, (left, right) in enumerate(self.merges)]
        self.place = self.source.randrange(len(self.pre_tokenizers))
        native = self.native
        scanner = self.pre_tokenizers[self.place].scanner
        self.encoder = native.Encoder(range(256), triples, scanner, [b"<|x|>"], 1 << 18)
        self.decoder = native.Decoder(native.Vocabulary({}, []), list(enumerate(tokens)), [], [])
        self.table = MergeTable(((left, right), 256 + rank) for rank, (left, right) in enumerate(self.merges))
        self.new_character_encoder()

    def new_character_encoder(self) -> None:
        """Changes the characters that have a token, their merges, and the added tokens. Many merges make the same token."""
        source, native = self.source, self.native
        tokens = sorted({*random_text(source), *random_text(source), " "})
        characters = len(tokens)
        pairs = {(source.choice(tokens), source.choice(tokens)): None for _ in range(100)}
        while len(pairs) < 200:
            tokens += dict.fromkeys(map("".join, pairs)).keys() - set(tokens)
            pairs |= {(source.choice(tokens), source.choice(tokens)): None for _ in range(40)}
        tokens += dict.fromkeys(map("".join, pairs)).keys() - set(tokens)
        self.characters = {token: 256 + place for place, token in enumerate(tokens)}
        added = {random_text(source)[: source.randint(1, 4)] for _ in range(source.randint(0, 12))} - {""}
        self.added = {token: 256 + len(tokens) + place for place, token in enumerate(sorted(added))}
        self.prefix = bool(source.getrandbits(1))
        self.neighbours = native.Neighbours(_vocabulary(native, tokens), False, False)
        known = {chr(source.randrange(0xD800)) for _ in range(source.randint(0, 99))}
        self.keeping = native.Neighbours(_vocabulary(native, known), False, True)
        ids = self.characters
        triples = [(ids[left], ids[right], ids[left + right]) for left, right in pairs]
        self.character_table = MergeTable(((left, right), result) for left, right, result in triples)
        self.character_encoder = native.Encoder(
            range(256),
            triples,
            self.neighbours,
            [],
            1 << 18,
            characters=[(token.encode(), ids[token]) for token in tokens[:characters]],
            added_tokens=[(token.encode(), id) for token, id in self.added.items()],
            prefix=self.prefix,
        )

    def check(self, text: str) -> None:
        """Runs every kernel on one text."""
        source, native = self.source, self.native
        compare = source.randrange(_COMPARE_ONE_IN) == 0
        place = source.randrange(len(self.pre_tokenizers))
        words = self.pre_tokenizers[place].split(text)
        assert "".join(words) == text
        assert all(words)

        units = self.trie.tokenize(text, leading_space=bool(source.getrandbits(1)))
        assert "".join(units) == text
        assert self.trie.ends(text).tolist()[-1:] == ([len(text)] if text else [])

        normal = prepare(text, "nfc")
        counter = native.WordCounter(self.pre_tokenizers[place].scanner, True, [b"<|x|>"], LONGEST_WORD)
        counter.add_prepared([normal])
        counts = counter.counts()
        assert list(counts) == sorted(counts)
        assert sum(len(word) * count for word, count in counts.items()) == len(normal.encode())

        batch = self.encoder.encode_batch([text, normal], False, True, source.randint(1, 3))
        ids = self.encoder.encode(text, False, False)
        if batch[0] is not None:
            assert batch[0] == ids
        assert self.decoder.decode(ids, False) == text.encode()
        if compare:
            with mock.patch.dict(os.environ, HF_SGPE_KERNEL="python"):
                assert words == self.readable[place].split(text)
                assert self.trie.tokenize(text) == self.readable_trie.tokenize(text)
                assert normal == prepare(text, "nfc")
                split = self.readable[self.place].split(text)
            assert ids == [id for word in split for id in apply_merges(word.encode(), self.table)]

        self.check_characters(text, compare)

    def check_characters(self, text: str, compare: bool) -> None:
        """Encodes one text whose words begin as characters."""
        encoder = self.character_encoder
        assert "".join(self.neighbours.split(text)) == text
        assert "".join(self.keeping.split(text)) == text
        ids = encoder.encode(text, False, True)
        assert encoder.encode_batch([text, text], False, True, self.source.randint(1, 2)) == [ids, ids]
        if not compare:
            return
        expected: list[int] = []
        position = 0
        for match in [*any_of(frozenset(self.added)).finditer(text), None]:
            part = text[position : match.start() if match else None].replace("\u2581", " ")
            start = [self._start(character) for character in " " * (self.prefix and part != "") + part]
            expected += apply_merges([id for some in start for id in some], self.character_table)
            if match:
                expected.append(self.added[match.group()])
                position = match.end()
        assert ids == expected

    def _start(self, character: str) -> list[int]:
        id = self.characters.get(character)
        return list(character.encode()) if id is None else [id]

    def train(self) -> None:
        """Trains both kernels on a few random words."""
        source = self.source
        words = [source.choices(range(4), k=source.randrange(20)) for _ in range(source.randint(1, 12))]
        counts = [source.randint(0, 5) for _ in words]
        vocabulary, tie_break = [b"b", b"a", b"\xff", b"ab"], source.choice(TIE_BREAKS)
        options: dict[str, Any] = {"vocabulary": vocabulary, "num_merges": 30, "tie_break": tie_break}
        merges = learn_merges(words, counts, **options)
        stop = source.randint(0, len(merges))
        resumed = learn_merges(words, counts, merged=merges[:stop], **options)
        assert merges[stop:] == resumed[: len(merges) - stop]
        with mock.patch.dict(os.environ, HF_SGPE_KERNEL="python"):
            assert merges == learn_merges(words, counts, **options)
        assert len(set(pairwise(map(tuple, merges)))) >= len(merges) - 1
        middle = len(words) // 2
        parts = [CountedWords(words[:middle], counts[:middle]), CountedWords(words[middle:], counts[middle:])]
        in_parity = learn_in_parity(parts, parts[::-1], **options)
        with mock.patch.dict(os.environ, HF_SGPE_KERNEL="python"):
            assert in_parity == learn_in_parity(parts, parts[::-1], **options)

    def read_file(self) -> None:
        """A tokenizer.json of random tokens is read, and a damaged one does no harm."""
        source, model = self.source, self.native.ModelFile
        tokens = {text: id for id, text in enumerate({random_text(source)[:9].replace(" ", "") for _ in range(20)} - {""})}
        pairs = [pair for pair in product(tokens, tokens) if "".join(pair) in tokens]
        content = {"model": {"vocab": tokens, "merges": pairs}}
        whole = json.dumps(content, ensure_ascii=source.random() < 0.5).encode(errors="surrogatepass")
        for damage in range(20):
            data = bytearray(whole)
            for _ in range(source.randint(1, 4) if damage else 0):
                place = source.randrange(len(data))
                data[place : place + source.randint(0, 3)] = source.randbytes(source.randint(0, 3))
            places = model.places_in(bytes(data))
            file = places and model.read(bytes(data), places, True)
            if file:
                file.merged_among([*tokens][:3])
                file.finish([*tokens][:2])
            if not damage and file and (vocabulary := file.finish([])):
                assert vocabulary.ids() == {text.replace("\u2581", " ").encode(): id for text, id in tokens.items()}
                assert vocabulary.number_of_merges == len(vocabulary.merges()) == len(pairs)

    def misuse(self) -> None:
        """Wrong arguments must raise an error and do no harm."""
        native = self.native
        for wrong in (
            lambda: native.learn_in_parity([([[0, 9]], [1])], [([], [])], [b"a"], 1, "smallest-pair-id", 1, None),
            lambda: native.learn_in_parity([([[0]],)], [([], [])], [b"a"], 1, "smallest-pair-id", 1, None),
            lambda: native.Encoder(range(255), (), None, (), 0),
            lambda: native.Encoder(range(256), [(1, 1 << 21, 2)], None, (), 0),
            lambda: native.Encoder(range(256), [(-1, 1, 2)], None, (), 0),
            lambda: native.Encoder(range(256), (), None, [b""], 0),
            lambda: native.Encoder(range(256), (), None, [], 0, added_tokens=[(b"", 1)]),
            lambda: native.Encoder(range(256), (), None, [], 0, characters=[(b"\xe0\xb6", 1)]),
            lambda: native.Encoder(range(256), (), None, [], 0, characters=[(b"ab", 1)]),
            lambda: native.Encoder([-2] * 256, (), None, [], 0, characters=[(b"a", 1)]),
            lambda: native.Neighbours(native.Vocabulary({b"a\xc3": 0}, []), False, False),
            lambda: native.Vocabulary({b"a": 0}, [(b"a", b"a")]),
            lambda: native.Vocabulary({b"a": 0, b"aa": 1}, [(b"a",)]),
            lambda: native.Vocabulary({b"a": 1 << 40}, []),
            lambda: native.ModelFile.read(b"{}", (0, 1, 2, 3), True),
            lambda: native.ModelFile.read(b"{}", (2, 1, 0, 1), True),
            lambda: native.Encoder(range(256), (), None, (), 0).encode("x", False, False),
            lambda: native.Decoder(native.Vocabulary({}, []), [(-1, b"a")], [], []),
            lambda: native.Decoder(native.Vocabulary({b"a": -5}, []), [], [], []),
            lambda: native.Decoder(native.Vocabulary({b"a": 0}, []), [], [], [1]),
            lambda: self.decoder.offsets(np.array([97, 98], dtype=np.int32), "a"),
            lambda: self.decoder.offsets(np.array([97], dtype=np.int32), "ab"),
            lambda: self.decoder.offsets(np.array([1 << 30], dtype=np.int32), "a"),
            lambda: native.Scanner("gpt3", [], []),
            lambda: native.Scanner("gpt2", [[(0xD80, 0x110000)]], []),
            lambda: native.learn_merges([[4, -1]], [1], [b"a"], [], 1, "smallest-pair-id", 1, None),
            lambda: native.learn_merges([b"aa"], [1], [b"a"] * 98, [(97, 5)], 1, "smallest-pair-id", 1, None),
            lambda: native.learn_merges([b"ab"], [], [b"a"], [], 1, "smallest-pair-id", 1, None),
            lambda: self.encoder.encode_batch([1], False, False, 1),
            lambda: self.encoder.merge_words([b"\xff"]),
            lambda: self.trie.count_units([b"\xe0\xb6"], [1]),
        ):
            try:
                wrong()
            except (ValueError, TypeError, RuntimeError, IndexError, SGPEError):
                continue
            raise AssertionError(f"line {wrong.__code__.co_firstlineno}: wrong arguments were accepted")
        assert self.decoder.decode([-1], False) is None
        assert self.decoder.decode([1 << 40], False) is None
        assert self.decoder.decode([1 << 70], False) is None


def run(
    inputs: Annotated[int, typer.Option(help="Number of texts.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of the texts.")] = 0,
) -> None:
    if not kernels.is_native():
        raise SGPEError(f"there are no native kernels to fuzz: {kernels.describe()}")
    import hf_sgpe._native as native

    fuzzer = Fuzzer(native, seed)
    for number in tqdm(range(inputs), disable=not somebody_watches(), unit=" texts"):
        if number % 500 == 0:
            fuzzer.new_encoder()
            fuzzer.train()
            fuzzer.read_file()
            fuzzer.misuse()
        text = random_text(fuzzer.source)
        try:
            fuzzer.check(text)
        except BaseException:
            print(f"input {number} of seed {seed}: {text!a}", file=sys.stderr)
            raise
    print(f"{inputs:,} inputs, no difference")


if __name__ == "__main__":
    run_script(run, __doc__)
