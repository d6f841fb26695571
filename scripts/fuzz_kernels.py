#!/usr/bin/env python3
"""Feeds the native kernels random text made of the characters that trip tokenizers, and checks what comes back.

Every input goes through splitting, counting, encoding, decoding, syllables and normalization; one in some dozens is also
compared with the readable kernels. `scripts/sanitize.sh` runs it on a build with address and undefined-behaviour sanitizers.

    python scripts/fuzz_kernels.py --inputs 1000000
"""

from __future__ import annotations

import random
import sys
from itertools import pairwise

from tqdm import tqdm

from hf_sgpe import SPLIT_PATTERNS, LinguisTrie, RegexPreTokenizer, SGPEError, kernel
from hf_sgpe.bpe.encoder import MergeTable, apply_merges
from hf_sgpe.bpe.trainer import TIE_BREAKS, learn_merges
from hf_sgpe.command import ArgumentParser
from hf_sgpe.counts.counters import LONGEST_WORD
from hf_sgpe.quiet import somebody_watches
from hf_sgpe.splitting.normalization import normalize
from hf_sgpe.splitting.scripts import SCRIPTS
from hf_sgpe.splitting.words import LinguisTriePreTokenizer

_COMPARE_ONE_IN = 40
_ALPHABETS = (
    "abcXYZ '’\r\n\t.,!?/(|019",
    "කගයරල්ාිීු්ංඃෲ\u0d81\u200d\u200c ",
    "कषऱ्ािँः।०தமிழ்ஸ்ரீ \u200d\u200c",
    "ʰǅaA\u0301\u0323\u0345éßſK½Ⅷ²'sStTdDlLvVrReEmM ",
    "中あ한\u1100\u1161\u11a8가😀👩\ufe0f\u3000\u2028\u0085\u00a0\ufeff ",
    "".join(map(chr, [*range(0x80), 0x88F, 0xA7CE, 0xC5C, 0x11DE0, 0x16EBB, 0x1C900, 0x10FFFF, 0xFFFF])),
)


def random_text(source: random.Random) -> str:
    """Up to a few hundred characters: of one alphabet, of all, or anywhere in Unicode; sometimes one again and again."""
    length = source.choice((0, 1, 2, 5, 12, 30, 80, 400)) * source.randint(1, 3) // 2
    kind = source.random()
    if kind < 0.55:
        return "".join(source.choices(source.choice(_ALPHABETS), k=length))
    if kind < 0.8:
        return "".join(source.choices("".join(_ALPHABETS), k=length))
    if kind < 0.9:
        return source.choice(source.choice(_ALPHABETS)) * length
    points = (source.randrange(0x110000) for _ in range(length))
    return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)


class Fuzzer:
    """The kernels under test, made once, and what they should agree with."""

    def __init__(self, native: object, seed: int) -> None:
        self.native: object = native
        self.source = random.Random(seed)
        every = tuple(SCRIPTS)
        pre_tokenizers = [RegexPreTokenizer(name) for name in SPLIT_PATTERNS]
        for name in SPLIT_PATTERNS:
            pre_tokenizers.append(RegexPreTokenizer(*LinguisTriePreTokenizer(every, name).patterns))
        pre_tokenizers.append(RegexPreTokenizer(*LinguisTriePreTokenizer(every, None).patterns))
        self.pre_tokenizers = pre_tokenizers
        with kernel.readable_only():
            self.readable = [RegexPreTokenizer(*one.patterns) for one in pre_tokenizers]
            self.readable_trie = LinguisTrie(every)
        self.trie = LinguisTrie(every)
        self.new_encoder()

    def new_encoder(self) -> None:
        """Other merges, another scanner, and a memory so small that it is forgotten often."""
        pieces = [list(random_text(self.source).encode()) for _ in range(30)]
        self.merges = learn_merges(pieces, [1] * 30, vocabulary=[bytes([i]) for i in range(256)], num_merges=60)
        tokens = [bytes([byte]) for byte in range(256)]
        for left, right in self.merges:
            tokens.append(tokens[left] + tokens[right])
        triples = [(left, right, 256 + rank) for rank, (left, right) in enumerate(self.merges)]
        self.place = self.source.randrange(len(self.pre_tokenizers))
        native = self.native
        scanner = self.pre_tokenizers[self.place].scanner
        self.encoder = native.Encoder(range(256), triples, (), scanner, [b"<|x|>"], 1 << 18)  # type: ignore[attr-defined]
        self.decoder = native.Decoder(list(enumerate(tokens)), [], len(tokens))  # type: ignore[attr-defined]
        self.table = MergeTable(((left, right), 256 + rank) for rank, (left, right) in enumerate(self.merges))

    def check(self, text: str) -> None:
        """Puts one text through everything."""
        source, native = self.source, self.native
        compare = source.randrange(_COMPARE_ONE_IN) == 0
        place = source.randrange(len(self.pre_tokenizers))
        words = self.pre_tokenizers[place].split(text)
        assert "".join(words) == text
        assert all(words)

        units = self.trie.tokenize(text, leading_space=bool(source.getrandbits(1)))
        assert "".join(units) == text
        assert self.trie.ends(text).tolist()[-1:] == ([len(text)] if text else [])

        normal = normalize(text, "nfc")
        counter = native.WordCounter(self.pre_tokenizers[place].scanner, True, [b"<|x|>"], LONGEST_WORD)  # type: ignore[attr-defined]
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
            with kernel.readable_only():
                assert words == self.readable[place].split(text)
                assert self.trie.tokenize(text) == self.readable_trie.tokenize(text)
                assert normal == normalize(text, "nfc")
                split = self.readable[self.place].split(text)
            assert ids == [id for word in split for id in apply_merges(word.encode(), self.table)]

    def train(self) -> None:
        """Trains both kernels on a few random words."""
        source = self.source
        words = [source.choices(range(4), k=source.randrange(20)) for _ in range(source.randint(1, 12))]
        counts = [source.randint(0, 5) for _ in words]
        options = {"vocabulary": [b"b", b"a", b"\xff", b"ab"], "num_merges": 30, "tie_break": source.choice(TIE_BREAKS)}
        found = learn_merges(words, counts, **options)  # type: ignore[arg-type]
        stop = source.randint(0, len(found))
        assert found[stop:] == learn_merges(words, counts, merged=found[:stop], **options)[: len(found) - stop]  # type: ignore[arg-type]
        with kernel.readable_only():
            assert found == learn_merges(words, counts, **options)  # type: ignore[arg-type]
        assert len(set(pairwise(map(tuple, found)))) >= len(found) - 1

    def misuse(self) -> None:
        """What no caller should do must raise, and do no harm."""
        native = self.native
        for wrong in (
            lambda: native.Encoder(range(255), (), (), None, (), 0),  # type: ignore[attr-defined]
            lambda: native.Encoder(range(256), [(1, 1 << 21, 2)], (), None, (), 0),  # type: ignore[attr-defined]
            lambda: native.Encoder(range(256), [(-1, 1, 2)], (), None, (), 0),  # type: ignore[attr-defined]
            lambda: native.Encoder(range(256), (), (), None, [b""], 0),  # type: ignore[attr-defined]
            lambda: native.Encoder(range(256), (), (), None, (), 0).encode("x", False, False),  # type: ignore[attr-defined]
            lambda: native.Decoder([(1, b"a"), (0, b"b")], [], 2),  # type: ignore[attr-defined]
            lambda: native.Decoder([(5, b"a")], [], 2),  # type: ignore[attr-defined]
            lambda: native.Scanner("gpt3", [], []),  # type: ignore[attr-defined]
            lambda: native.Scanner("gpt2", [[(0xD80, 0x110000)]], []),  # type: ignore[attr-defined]
            lambda: native.learn_merges([[4]], [1], [b"a"], [], 1, "smallest-pair-id", 1, None),  # type: ignore[attr-defined]
            lambda: native.learn_merges([[4, -1]], [1], [b"a"], [], 1, "smallest-pair-id", 1, None),  # type: ignore[attr-defined]
            lambda: native.learn_merges([b"aa"], [1], [b"a"] * 98, [(97, 5)], 1, "smallest-pair-id", 1, None),  # type: ignore[attr-defined]
            lambda: native.learn_merges([b"ab"], [], [b"a"], [], 1, "smallest-pair-id", 1, None),  # type: ignore[attr-defined]
            lambda: self.encoder.encode_batch([1], False, False, 1),
            lambda: self.encoder.merge_words([b"\xff"]),
            lambda: self.trie.count_units([b"\xe0\xb6"], [1]),
        ):
            try:
                wrong()
            except (ValueError, TypeError, RuntimeError, IndexError, SGPEError):
                continue
            if wrong.__code__.co_consts:  # a word of one id has no pair, so nothing is wrong with it
                continue
        assert self.decoder.decode([-1], False) is None
        assert self.decoder.decode([1 << 40], False) is None
        assert self.decoder.decode([1 << 70], False) is None


def main() -> None:
    parser = ArgumentParser(__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="how many texts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if not kernel.is_native():
        sys.exit(f"error: nothing to fuzz: {kernel.describe()}")
    from hf_sgpe import _native as native

    fuzzer = Fuzzer(native, args.seed)
    for number in tqdm(range(args.inputs), disable=not somebody_watches(), unit=" texts"):
        if number % 500 == 0:
            fuzzer.new_encoder()
            fuzzer.train()
            fuzzer.misuse()
        text = random_text(fuzzer.source)
        try:
            fuzzer.check(text)
        except BaseException:
            print(f"input {number} of seed {args.seed}: {text!a}", file=sys.stderr)
            raise
    print(f"{args.inputs:,} inputs, no difference")


if __name__ == "__main__":
    main()
