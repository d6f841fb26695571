import importlib.machinery
import importlib.util
import re
import sys
import types

import pytest
from hypothesis import settings
from support.command import TOOLS, hf_sgpe, process, script
from support.kernels import needs_native

from hf_sgpe import BPETokenizer, TrainingConfig, WordCounts, kernels
from hf_sgpe.bpe.trainer import learn_merges
from hf_sgpe.bpe.unit_tier import BYTES
from trainers.counting.parallel_counting import count_texts

pytestmark = pytest.mark.kernels


def test_the_environment_chooses_the_kernel():
    def described(code, choice):
        return process(sys.executable, "-c", "from hf_sgpe import kernels; print(kernels.describe())", code=code, **choice)

    assert described(0, {"HF_SGPE_KERNEL": "python"}).stdout == "python (HF_SGPE_KERNEL=python)\n"
    assert "HF_SGPE_KERNEL is 'fast': set it to native or python" in described(1, {"HF_SGPE_KERNEL": "fast"}).stderr
    if kernels.is_native():
        assert described(0, {"HF_SGPE_KERNEL": "native"}).stdout == "native\n"


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
    monkeypatch.setattr(kernels, "_slow_characters", 0)
    return monkeypatch


@pytest.fixture
def without_kernels(unchosen):
    unchosen.setitem(sys.modules, "hf_sgpe._native", None)
    unchosen.setattr(kernels, "_is_wanted_and_there", kernels._is_wanted_and_there.__wrapped__)
    unchosen.delattr("hf_sgpe._native", raising=False)
    return unchosen


@pytest.mark.parametrize("use", SLOW_USES)
def test_slow_use_is_said_once_with_what_to_do(use, without_kernels, caplog, capfd):
    for _ in range(2):
        SLOW_USES[use]()
    assert caplog.messages == [
        "the native kernels were not built, so this runs in readable Python, about a dozen times slower: install a C++ "
        "compiler, and then install this package again (in a clone: pip install --force-reinstall --no-deps .)"
    ]
    assert capfd.readouterr() == ("", "")  # from no process


def test_a_little_text_is_not_slow(without_kernels, caplog):
    tokenizer = BPETokenizer.train_from_iterator(["low lower lowest"], 260)
    tokenizer.encode("lower")
    assert not caplog.messages
    for _ in range(20):  # though much of it, in little texts, is
        tokenizer.encode(TEXT[:5000])
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("choice", ["HF_SGPE_KERNEL", "HF_SGPE_PURE", "installed pure"])
def test_slow_use_that_was_asked_for_is_not_remarked_on(choice, without_kernels, caplog):
    if choice.startswith("HF"):
        without_kernels.setenv(choice, "python" if choice == "HF_SGPE_KERNEL" else "1")
    if choice == "installed pure":
        module = types.ModuleType("hf_sgpe._pure")
        module.__spec__ = importlib.machinery.ModuleSpec("hf_sgpe._pure", None)
        without_kernels.setitem(sys.modules, "hf_sgpe._pure", module)
        assert kernels.describe() == "python (installed with HF_SGPE_PURE=1: see README)"
    SLOW_USES["encoding"]()
    assert not caplog.messages


@needs_native
def test_scanners_that_step_aside_say_so(unchosen, caplog):
    SLOW_USES["encoding"]()
    unchosen.setattr(kernels, "_slow_characters", 0)
    assert not caplog.messages
    unchosen.setattr(kernels, "classes_agree", lambda: False)
    for use in ("counting", "encoding"):
        SLOW_USES[use]()
    assert len(caplog.messages) == 1
    assert "another version of Unicode than the native kernels" in caplog.messages[0]


def test_kernels_that_cannot_be_loaded_are_told_from_none(without_kernels, caplog):
    without_kernels.setattr(importlib.util, "find_spec", lambda name: name if name == "hf_sgpe._native" else None)
    assert kernels.describe() == "python (the native kernels cannot be loaded: see README)"
    SLOW_USES["encoding"]()
    assert caplog.messages[0].startswith("the native kernels cannot be loaded, so this runs in readable Python")


def test_commands_say_it_beside_their_output(saved, without_kernels):
    line = TEXT[:40_000]
    done = hf_sgpe("encode", "-t", saved, stdin=f"{line}\n" * 3)
    ids = BPETokenizer.from_pretrained(saved).encode(line)
    assert done.stdout == f"{' '.join(map(str, ids))}\n" * 3
    assert re.fullmatch(r"warning: the native kernels were not built, so [^\n]+\n", done.stderr)


FUZZER = (TOOLS / "fuzz_kernels.py", "--inputs", 67 * settings.default.max_examples)


@needs_native
def test_fuzzing_finds_nothing():
    assert script(*FUZZER).stdout == f"{FUZZER[2]:,} inputs, no difference\n"


@pytest.mark.slow
@needs_native
def test_fuzzing_the_portable_forms_finds_nothing():
    done = process(sys.executable, *FUZZER, HF_SGPE_PORTABLE="portable")
    assert done.stdout == f"{FUZZER[2]:,} inputs, no difference\n"
