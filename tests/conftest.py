import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support import examples  # noqa: F401 - registers the profiles
from support.corpora import DATA
from support.hub import running
from support.paths import ROOT

# No test talks to the Hub unless it starts a server of its own.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
# Small models gain nothing by several threads, and those of tests that run side by side wait for each other by turning.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.load_profile("quick")

_MISSED = pytest.StashKey[int]()


def pytest_configure() -> None:
    if DATA is not None and not (DATA / "corpora").is_dir():
        raise pytest.UsageError(f"HF_SGPE_DATA={DATA}: there is no folder corpora in it: name another folder, or unset it")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests as slow by ``one_in``. Leave out the tests that need large text if HF_SGPE_DATA is not set."""
    seen: Counter[str] = Counter()
    for item in items:
        if marker := item.get_closest_marker("one_in"):
            name = item.nodeid.partition("[")[0]
            if seen[name] % marker.args[0]:
                item.add_marker("slow")
            seen[name] += 1
    if DATA is not None:
        return
    missed = [item for item in items if item.get_closest_marker("data")]
    items[:] = [item for item in items if not item.get_closest_marker("data")]
    config.hook.pytest_deselected(items=missed)
    config.stash[_MISSED] = len(missed)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["missed"] = session.config.stash.get(_MISSED, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the number of tests that were left out from a process of pytest-xdist. It is the same in each process."""
    node.config.stash[_MISSED] = getattr(node, "workeroutput", {}).get("missed", 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if missed := config.stash.get(_MISSED, 0):
        terminalreporter.write_line(f"{missed} tests were left out, because HF_SGPE_DATA names no folder with large text")


SAMPLE = ROOT / "hf_sgpe" / "corpora" / "sample"


@pytest.fixture(scope="session")
def sample() -> dict[str, str]:
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(SAMPLE.glob("*.txt"))}


@pytest.fixture(scope="session")
def sinhala_file(sample, tmp_path_factory) -> Path:
    """A file with the Sinhala sample."""
    file = tmp_path_factory.mktemp("corpus") / "si.txt"
    file.write_text(sample["si"], encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def config():
    from hf_sgpe import TrainingConfig

    return TrainingConfig(vocab_size=4000, scripts=("sinhala", "devanagari", "tamil"))


@pytest.fixture(scope="session")
def tokenizer(sample, config):
    """A hybrid BPETokenizer trained on the sample."""
    from hf_sgpe import WordCounts, train_from_counts

    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


@pytest.fixture(scope="session")
def lm_tokenizer(sample):
    """A tokenizer of transformers with a token of its own for padding."""
    from trainers import TokenizerTrainer, TrainingConfig

    config = TrainingConfig(700, "bpe", special_tokens=("<|endoftext|>", "<|pad|>"))
    return TokenizerTrainer(config).train(iterator=[sample["si"][:20_000], sample["en"][:20_000]])


@pytest.fixture(scope="session")
def saved(tokenizer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / "saved"
    tokenizer.save(folder)
    return folder


@pytest.fixture
def hub(tmp_path):
    with running(tmp_path / "home") as hub:
        yield hub


@pytest.fixture
def here(hub, monkeypatch):
    hub.patch(monkeypatch)
    return hub
