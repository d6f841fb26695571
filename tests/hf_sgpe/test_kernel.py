"""The native kernels against the readable ones and the engine of `tokenizers`."""

import contextlib
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import pickle
import random
import re
import subprocess
import sys
import threading
import types
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.data import DATA, corpus, needs_data
from support.texts import indic, newest, texts
from tokenizers import Regex
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import Split

from hf_sgpe import (
    SPLIT_PATTERNS,
    BPETokenizer,
    LinguisTrie,
    RegexPreTokenizer,
    SGPEError,
    TrainingConfig,
    WordCounts,
    kernel,
    train_from_counts,
)
from hf_sgpe.bpe import codec
from hf_sgpe.bpe.encoder import MergeTable, apply_merges_by_rescan, merge_words
from hf_sgpe.bpe.trainer import TIE_BREAKS, learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, build_unit_tier
from hf_sgpe.counts.counters import make_word_counter
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.script_tables import TEN
from hf_sgpe.splitting.words import LinguisTriePreTokenizer
from trainers.counting import count_texts

if kernel.is_native():
    import hf_sgpe._native as native
needs_native = pytest.mark.skipif(not kernel.is_native(), reason=f"compares the native kernels: {kernel.describe()}")

EVERY = (*(script.name for script in TEN), "myanmar", "khmer", "thai", "tibetan", "hebrew", "hangul", "emoji")
SCANNED = {
    **{name: (pattern,) for name, pattern in SPLIT_PATTERNS.items()},
    **{f"hybrid-{name}": LinguisTriePreTokenizer(EVERY, name).patterns for name in SPLIT_PATTERNS},
    "hybrid-sinhala": LinguisTriePreTokenizer(["sinhala"], "o200k").patterns,
    "sgpe": LinguisTriePreTokenizer(["sinhala"], None).patterns,
    "sgpe-all": LinguisTriePreTokenizer([script.name for script in TEN], None).patterns,
}


def by_engine(pre_tokenizer, text):
    return [word for word, _ in pre_tokenizer.to_native().pre_tokenize_str(text)]


# ---------------------------------------------------------------- characters


@needs_native
def test_character_classes_are_the_engines_for_every_code_point():
    text = "".join(chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000)
    for number, name in kernel.CHARACTER_CLASSES.items():
        split = Split(Regex(name), behavior="removed", invert=True)
        found = set()
        for start in range(0, len(text), 1 << 15):
            for match, _ in split.pre_tokenize_str(text[start : start + (1 << 15)]):
                found.update(match)
        assert found == {character for character in text if native.class_of(ord(character)) == number}, name


@needs_native
def test_another_unicode_version_of_the_engine_is_noticed(monkeypatch):
    assert RegexPreTokenizer("gpt2").scanner is not None
    assert kernel.describe() == "native"
    kernel.classes_agree.cache_clear()
    monkeypatch.setitem(kernel.CHARACTER_CLASSES, 5, r"[\p{N}Ⅷ中]")
    try:
        # The characters that are asked about are those whose classes have changed, so this must touch one of them.
        monkeypatch.setitem(kernel.CHARACTER_CLASSES, 2, rf"[\p{{Ll}}{chr(native.CANARIES[-1])}]")
        assert RegexPreTokenizer("gpt2").scanner is None
        assert "another version of Unicode" in kernel.describe()
        assert RegexPreTokenizer("gpt2").split("It's so") == ["It", "'s", " so"]
    finally:
        monkeypatch.undo()
        kernel.classes_agree.cache_clear()


@needs_native
def test_nfc_leaves_every_character_alone_that_is_said_to_stay():
    library = NFC()
    for point in range(0x110000):
        if not 0xD800 <= point < 0xE000 and not native.nfc_spans(chr(point)):
            assert library.normalize_str(chr(point)) == chr(point), hex(point)


@needs_native
@needs_data
def test_nfc_is_the_librarys_on_unicodes_own_cases():
    library = NFC()
    for line in (DATA / "unicode" / "NormalizationTest.txt").read_text(encoding="utf-8").splitlines():
        if line and line[0] not in "#@":
            for column in line.split(";")[:5]:
                text = "".join(chr(int(point, 16)) for point in column.split())
                for one in (text, f"a{text}b", text * 2):
                    assert prepare(one, "nfc") == library.normalize_str(one)


marks = st.sampled_from(
    "aeéẹoǖ\u0301\u0302\u0307\u0308\u0323\u0327\u0345\u0344\u093c\u094dऩक़\u0dd9\u0dda\u0dca\u0dcf\u1100\u1161\u11a8가각🠀"
)


@needs_native
@given(st.text(marks, max_size=12) | texts)
def test_nfc_is_the_librarys_on_random_text(text):
    assert prepare(text, "nfc") == NFC().normalize_str(text)


def test_lone_surrogates_are_replaced_and_pairs_joined():
    for normalization in ("nfc", "none"):
        assert prepare("a\ud800b \ud83d\ude00", normalization) == "a\ufffdb \U0001f600"


# ---------------------------------------------------------------- splitting


@needs_native
@pytest.mark.parametrize("name", SCANNED)
@given(text=texts | newest | indic)
def test_scanners_split_as_the_engine_does_on_random_text(name, text):
    pre_tokenizer = RegexPreTokenizer(*SCANNED[name])
    assert pre_tokenizer.scanner is not None
    assert pre_tokenizer.split(text) == by_engine(pre_tokenizer, text)


@needs_native
@needs_data
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "qwen2", "o200k", "bloom", "hybrid-o200k", "hybrid-bloom", "sgpe-all"])
def test_scanners_split_as_the_engine_does_on_every_corpus(name):
    pre_tokenizer = RegexPreTokenizer(*SCANNED[name])
    for path in sorted((DATA / "corpora").glob("*.txt.xz")):
        text = corpus(path.name.removesuffix(".txt.xz"), 60_000)
        assert pre_tokenizer.split(text) == by_engine(pre_tokenizer, text), path


@needs_native
@needs_data
@pytest.mark.parametrize("name", SCANNED)
def test_scanners_split_as_the_engine_does_on_unicodes_files(name):
    pre_tokenizer = RegexPreTokenizer(*SCANNED[name])
    for path in sorted((DATA / "unicode").iterdir()):
        text = path.read_text(encoding="utf-8")[:100_000]
        if path.suffix == ".json":
            text += "\n".join(strings(json.loads(path.read_text(encoding="utf-8"))))
        assert pre_tokenizer.split(text) == by_engine(pre_tokenizer, text), path


def strings(value):
    if isinstance(value, str):
        return ["".join(c for c in value if not 0xD800 <= ord(c) < 0xE000)]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [string for item in items for string in strings(item)]


@needs_native
@pytest.mark.parametrize(
    "patterns",
    [
        ("[a]+",),
        (r" ?[a-z]+| ?[^ \t\n\r]|[ \t\n\r]",),
        ("gpt2", "gpt2"),
        (" ?[ක][ක]*",),
        (" ?[a][ab]*|x",),
        (r" ?[\w][\wb]*",),
    ],
)
def test_other_patterns_have_no_scanner(patterns):
    assert RegexPreTokenizer(*patterns).scanner is None


@cache
def tries():
    """Native and readable ones, in pairs."""
    which = ((EVERY, True), (EVERY, False), (("sinhala",), False))
    with kernel.readable_only():
        readable = [LinguisTrie(*one) for one in which]
    return [(LinguisTrie(*one), other) for one, other in zip(which, readable, strict=True)]


@needs_native
@given(text=texts | indic)
def test_linguis_trie_is_the_readable_one(text):
    for one, other in tries():
        for leading_space in (False, True):
            units = other.tokenize(text, leading_space)
            assert one.tokenize(text, leading_space) == units
            assert one.ends(text, leading_space).tolist() == other.ends(text, leading_space).tolist()
        words = [word.encode() for word in text.split("a") if word]
        for every_word in (False, True):
            expected = other.count_units(words, range(1, len(words) + 1), every_word=every_word)
            assert one.count_units(words, range(1, len(words) + 1), every_word=every_word) == expected
        assert one.count_scripts(words, [2] * len(words)) == other.count_scripts(words, [2] * len(words))


# ---------------------------------------------------------------- counting and training


@needs_native
@needs_data
@pytest.mark.parametrize("recipe", ["hybrid", "sgpe", "bpe"])
def test_both_kernels_train_the_same_tokenizer(recipe):
    texts = [corpus(language, 250_000) for language in ("si", "hi", "en", "bn")]
    config = TrainingConfig(vocab_size=6000, recipe=recipe, scripts=("sinhala", "devanagari", "bengali"))
    counts = WordCounts.from_texts(texts, config)
    tokenizer = train_from_counts(counts, config)
    with kernel.readable_only():
        same = WordCounts.from_texts(texts, config)
        assert same == counts
        readable = train_from_counts(same, config)
    assert readable.vocab == tokenizer.vocab
    assert readable.merges == tokenizer.merges
    assert readable.metadata == tokenizer.metadata


words_and_counts = st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=14), st.integers(0, 5)), max_size=12)


@needs_native
@pytest.mark.parametrize("tie_break", TIE_BREAKS)
@given(corpus=words_and_counts, num_merges=st.integers(0, 25), min_frequency=st.integers(1, 4))
def test_the_native_trainer_reports_what_the_readable_one_does(tie_break, corpus, num_merges, min_frequency):
    words, counts = ([word for word, _ in corpus], [count for _, count in corpus])
    seen = [], []
    options = {"vocabulary": [b"b", b"a", b"\xff", b"ab"], "num_merges": num_merges, "tie_break": tie_break}
    options["min_frequency"] = min_frequency
    found = learn_merges(words, counts, **options, on_merge=lambda *step: seen[0].append(step))
    with kernel.readable_only():
        assert found == learn_merges(words, counts, **options, on_merge=lambda *step: seen[1].append(step))
    assert seen[0] == seen[1]


@needs_native
@given(st.lists(st.text(st.sampled_from("කරි්\u200daé "), min_size=1, max_size=6).map(str.encode), max_size=8))
def test_the_native_unit_tier_is_the_readable_one(units):
    merges = build_unit_tier(units)
    left = [list(word) for word in merge_words(units, merges)]
    with kernel.readable_only():
        assert build_unit_tier(units) == merges
        assert [list(word) for word in merge_words(units, merges)] == left


def test_counts_of_64_bits():
    huge = 3 << 40
    assert learn_merges([b"ab", b"cd"], [huge, huge + 1], vocabulary=BYTES, num_merges=2) == [(99, 100), (97, 98)]


@needs_native
def test_an_error_of_a_callback_comes_through():
    def stop(*step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_merges([b"abab"], [1], vocabulary=BYTES, num_merges=2, on_merge=stop)


# ---------------------------------------------------------------- encoding and decoding


@st.composite
def merge_lists(draw):
    """Merges of bytes of a few characters, any of which may be learned within characters or across them."""
    alphabet = list("aක්é".encode())
    merges = []
    for number in range(draw(st.integers(0, 14))):
        tokens = alphabet + [256 + earlier for earlier in range(number)]
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if pair not in merges:
            merges.append(pair)
    return merges


@needs_native
@given(merge_lists(), st.lists(st.text(st.sampled_from("aaක්éb"), min_size=1, max_size=40), max_size=4))
def test_native_merging_equals_the_rescan(merges, words):
    table = MergeTable((pair, 256 + rank) for rank, pair in enumerate(merges))
    encoded = [word.encode() for word in words]
    assert [list(ids) for ids in merge_words(encoded, merges)] == [apply_merges_by_rescan(word, table) for word in encoded]


@contextmanager
def readable_twin(tokenizer):
    with kernel.readable_only():
        yield pickle.loads(pickle.dumps(tokenizer))


@needs_native
@given(st.lists(texts | indic, max_size=6))
def test_every_way_to_encode_gives_the_ids_of_the_readable_one(tokenizer, several):
    several.append("one<|endoftext|>two\ud800")
    for allowed in ("none", "all"):
        with readable_twin(tokenizer) as twin:
            expected = [twin.encode(text, allowed_special=allowed) for text in several]
        assert [tokenizer.encode(text, allowed_special=allowed) for text in several] == expected
        assert [tokenizer.encode_to_numpy(text, allowed_special=allowed).tolist() for text in several] == expected
        assert tokenizer.encode_batch(several, allowed_special=allowed) == expected
        ids, ends = tokenizer.encode_batch_to_numpy(several, allowed_special=allowed)
        assert ids.dtype == np.int32
        assert [part.tolist() for part in np.split(ids, ends[:-1])] == expected


@needs_native
@needs_data
def test_any_number_of_threads_gives_the_same_ids(tokenizer):
    lines = corpus("si", 300_000).splitlines() + corpus("en", 300_000).splitlines() + ["", "<|endoftext|>", "e\u0301"]
    expected = [tokenizer.encode(line) for line in lines]
    for threads in (1, 2, 5, None):
        assert tokenizer.encode_batch(lines, threads=threads) == expected
        ids, ends = tokenizer.encode_batch_to_numpy(lines, threads=threads)
        assert [part.tolist() for part in np.split(ids, ends[:-1])] == expected


def test_decoding_takes_ids_of_any_kind(tokenizer):
    text = "ශ්‍රී ලංකාව hello ✓"
    ids = tokenizer.encode(text)
    for given_ids in (
        ids,
        tuple(ids),
        iter(ids),
        np.array(ids),
        np.array(ids, np.int32),
        np.array(ids, np.uint16),
        map(int, ids),
    ):
        assert tokenizer.decode(given_ids) == text
    assert tokenizer.decode(np.array(ids * 2)[::2]) == tokenizer.decode((ids * 2)[::2])
    end = tokenizer.special_tokens["<|endoftext|>"]
    assert tokenizer.decode([*ids, end]) == text + "<|endoftext|>"
    assert tokenizer.decode([*ids, end], skip_special_tokens=True) == text
    for wrong in (-1, len(tokenizer), 1 << 40, 1 << 70):
        with pytest.raises(SGPEError, match=f"id {wrong} at position 1 is not in the vocabulary"):
            tokenizer.decode([5, wrong])
    with pytest.raises(TypeError):
        tokenizer.decode([5, "a"])


def test_the_memory_of_words_is_bounded(monkeypatch, plain_tokenizer):
    monkeypatch.setattr(codec, "MEMORY_BYTES", 1 << 20)
    tokenizer = pickle.loads(pickle.dumps(plain_tokenizer))
    generator = random.Random(5)
    for _ in range(20):
        words = ["".join(generator.choices("abcdefgh", k=generator.randint(1, 60))) for _ in range(3000)]
        text = " ".join(words)
        assert tokenizer.decode(tokenizer.encode(text)) == text
        info = tokenizer.cache_info()
        assert info.bytes <= info.max_bytes
    assert info.misses >= 50_000
    assert 0 < info.words < 50_000


@pytest.fixture(scope="module")
def plain_tokenizer(sample):
    return BPETokenizer.train_from_iterator(sample.values(), 1000)


# ---------------------------------------------------------------- hostile input

HOSTILE = {
    "one letter": lambda n: "a" * n,
    "base64": lambda n: "".join(random.Random(3).choices("ABCDEFGHabcdefgh0123456789+/", k=n)),
    "Sinhala without spaces": lambda n: ("කන්‍යාශ්‍රීලංකාවින්ද්‍රිය" * (n // 20))[:n],
    "marks": lambda n: "e" + "\u0301\u0323" * (n // 2),
    "spaces": lambda n: " " * n,
    "capitals": lambda n: "A" * n,
    "beginnings of special tokens": lambda n: "<|endoftex" * (n // 10),
    "apostrophes": lambda n: "'" * n,
}


@needs_native
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_megabyte_of_hostile_words_is_encoded_and_learned_from(kind, tokenizer):
    # A quadratic path would take hours.
    text = HOSTILE[kind](1_000_000)
    assert tokenizer.decode(tokenizer.encode(text, allowed_special="all")) == prepare(text, "nfc")
    config = TrainingConfig(vocab_size=600, recipe="bpe", pattern="o200k", normalization="nfc")
    train_from_counts(WordCounts.from_texts([text, "a"], config), config)


@needs_native
def test_the_beginnings_of_many_special_tokens_are_ordinary_text():
    text = "<" * 300_000
    tokenizer = BPETokenizer(
        {token: id for id, token in enumerate(BYTES)}, [], special_tokens={f"<|{i}|>": 256 + i for i in range(5000)}
    )
    assert len(tokenizer.encode(text, allowed_special="all")) == len(text)


@needs_native
def test_objects_that_change_while_they_are_read_do_no_harm():
    class Clears:
        def __index__(self):
            counts.clear()
            words.clear()
            return 3

    words = [b"ab", b"cd", b"ef"]
    counts = [Clears(), 2, 1]
    assert learn_merges(words, counts, vocabulary=BYTES, num_merges=3, min_frequency=1)[0] == (97, 98)


@needs_native
def test_a_counter_is_used_by_one_thread_at_a_time(sample):
    config = TrainingConfig(vocab_size=600, recipe="bpe")
    counter = make_word_counter(config)
    texts = ["".join(sample.values()) * 20]
    done, refused = [], []

    def add():
        try:
            counter.add(texts)
            done.append(1)
        except RuntimeError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=add) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"a word counter is at work already: use one in each thread"}
    once = WordCounts.from_texts(texts, config)
    assert sum(counter.counts().values()) == len(done) * once.total()


@needs_native
def test_counts_beyond_all_bounds_are_refused():
    with pytest.raises(ValueError, match="counts of more than"):
        learn_merges([b"ab", b"ab"], [1 << 61, 1 << 61], vocabulary=BYTES, num_merges=1)


# ---------------------------------------------------------------- processes and choices


def encode_in_child(arguments):
    tokenizer, lines = arguments
    return tokenizer.encode_batch(lines, threads=2)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_any_kind_encode_alike(tokenizer, sample, method):
    lines = sample["si"].splitlines() * 30
    expected = tokenizer.encode_batch(lines, threads=2)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(encode_in_child, [(tokenizer, lines)] * 3) == [expected] * 3


def described(**environment):
    command = [sys.executable, "-c", "from hf_sgpe import kernel; print(kernel.describe())"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_environment_chooses_the_kernel():
    assert described(HF_SGPE_KERNEL="python").stdout == "python (HF_SGPE_KERNEL=python)\n"
    assert "HF_SGPE_KERNEL is 'fast': known are native and python" in described(HF_SGPE_KERNEL="fast").stderr
    if kernel.is_native():
        assert described(HF_SGPE_KERNEL="native").stdout == "native\n"


# ---------------------------------------------------------------- slow ones, unasked

TEXT = "ලංකාව and the sea, again and again. " * 3000
SLOW_USES = {
    "counting": lambda: WordCounts.from_texts([TEXT], TrainingConfig(300, "bpe")),
    "counting in processes": lambda: count_texts([TEXT] * 4, TrainingConfig(300, "bpe"), workers=2),
    "training": lambda: learn_merges([list(TEXT.encode())], [1], vocabulary=BYTES, num_merges=1),
    "encoding": lambda: BPETokenizer({byte: id for id, byte in enumerate(BYTES)}, []).encode(TEXT),
}


@pytest.fixture
def unchosen(monkeypatch):
    """A process that has not said anything yet, in which nobody has chosen a kernel."""
    for name in ("HF_SGPE_KERNEL", "HF_SGPE_PURE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "hf_sgpe._pure", None)
    monkeypatch.setattr(kernel, "_slow_characters", 0)
    return monkeypatch


@pytest.fixture
def without_kernels(unchosen):
    unchosen.setitem(sys.modules, "hf_sgpe._native", None)
    unchosen.setattr(kernel, "_is_wanted_and_there", kernel._is_wanted_and_there.__wrapped__)
    unchosen.delattr("hf_sgpe._native", raising=False)
    return unchosen


@pytest.mark.parametrize("use", SLOW_USES)
def test_slow_use_is_said_once_with_what_to_do(use, without_kernels, caplog, capfd):
    for _ in range(2):
        SLOW_USES[use]()
    assert caplog.messages == [
        "the native kernels were not built, so this runs in readable Python, some dozen times slower: install a C++ "
        "compiler, and then this package anew, in a clone by pip install --force-reinstall --no-deps ."
    ]
    assert capfd.readouterr() == ("", "")  # from no process


def test_a_little_text_is_not_slow(without_kernels, caplog):
    tokenizer = BPETokenizer.train_from_iterator(["low lower lowest"], 260)
    tokenizer.encode("lower")
    assert not caplog.messages
    for _ in range(20):  # though much of it, in little texts, is
        tokenizer.encode(TEXT[:5000])
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("choice", ["HF_SGPE_KERNEL", "HF_SGPE_PURE", "installed pure", "readable_only"])
def test_slow_use_that_was_asked_for_is_not_remarked_on(choice, without_kernels, caplog):
    if choice.startswith("HF"):
        without_kernels.setenv(choice, "python" if choice == "HF_SGPE_KERNEL" else "1")
    if choice == "installed pure":
        module = types.ModuleType("hf_sgpe._pure")
        module.__spec__ = importlib.machinery.ModuleSpec("hf_sgpe._pure", None)
        without_kernels.setitem(sys.modules, "hf_sgpe._pure", module)
        assert kernel.describe() == "python (installed with HF_SGPE_PURE=1: see README)"
    with kernel.readable_only() if choice == "readable_only" else contextlib.nullcontext():
        SLOW_USES["encoding"]()
    assert not caplog.messages


@needs_native
def test_scanners_that_step_aside_say_so(unchosen, caplog):
    SLOW_USES["encoding"]()
    unchosen.setattr(kernel, "_slow_characters", 0)
    assert not caplog.messages
    unchosen.setattr(kernel, "classes_agree", lambda: False)
    for use in ("counting", "encoding"):
        SLOW_USES[use]()
    assert len(caplog.messages) == 1
    assert "another version of Unicode than the native kernels" in caplog.messages[0]


def test_kernels_that_cannot_be_loaded_are_told_from_none(without_kernels, caplog):
    without_kernels.setattr(importlib.util, "find_spec", lambda name: name if name == "hf_sgpe._native" else None)
    assert kernel.describe() == "python (the native kernels cannot be loaded: see README)"
    SLOW_USES["encoding"]()
    assert caplog.messages[0].startswith("the native kernels cannot be loaded, so this runs in readable Python")


def test_commands_say_it_beside_their_output(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    code = (
        "import sys; sys.modules |= {'hf_sgpe._native': None, 'hf_sgpe._pure': None}; from hf_sgpe.cli import main; main()"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("HF_SGPE_KERNEL", "HF_SGPE_PURE")}
    command = [sys.executable, "-c", code, "encode", "-t", str(tmp_path)]
    lines = [TEXT[:40_000]] * 3
    done = subprocess.run(command, env=environment, input="\n".join(lines), capture_output=True, encoding="utf-8")
    assert done.stdout == "".join(f"{' '.join(map(str, tokenizer.encode(line)))}\n" for line in lines)
    assert re.fullmatch(r"warning: the native kernels were not built, so [^\n]+\n", done.stderr)


@needs_native
@pytest.mark.parametrize("forms", ["", "portable"])
def test_fuzzing_finds_nothing(forms):
    script = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "fuzz_kernels.py")  # noqa: PTH118, PTH120
    environment = {**os.environ, "HF_SGPE_PORTABLE": forms} if forms else None
    command = [sys.executable, script, "--inputs", "20000"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == "20,000 inputs, no difference\n", done.stderr
