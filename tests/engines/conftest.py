"""The engines that are installed, and small models for them. Where all have to be, HF_SGPE_ENGINES=all says so."""

import gc
import os

import pytest
from support.corpora import corpus

from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.generation import available_engines, load_engine

LANGUAGES = ("si", "hi", "ta", "bn", "en", "ru")


def pytest_generate_tests(metafunc):
    if "engine_name" in metafunc.fixturenames:
        names = [info.name for info in available_engines() if not info.why_not or os.environ.get("HF_SGPE_ENGINES") == "all"]
        metafunc.parametrize("engine_name", names, scope="module")


@pytest.fixture(scope="session", autouse=True)
def conversions(tmp_path_factory):
    """Conversions go to a folder of these tests' own."""
    before = os.environ.get("HF_SGPE_CACHE")
    os.environ["HF_SGPE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["HF_SGPE_CACHE"]
    else:
        os.environ["HF_SGPE_CACHE"] = before


@pytest.fixture(scope="module", autouse=True)
def little_garbage():
    """Keep what PyTorch and transformers are made of out of the search for garbage, with which each engine ends."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def texts():
    """Lines in six languages."""
    return {language: corpus(language, 100_000).splitlines() for language in LANGUAGES}


@pytest.fixture(scope="session")
def prompts(texts):
    found = []
    for lines in texts.values():
        long = [line for line in lines if len(line.split()) > 6]
        found += [" ".join(line.split()[: 1 + number % 4]) for number, line in enumerate(long[:: len(long) // 4][:4])]
    return found


@pytest.fixture(scope="session")
def talking(texts):
    config = TrainingConfig(
        vocab_size=2001,
        scripts=("sinhala", "devanagari", "tamil", "bengali"),
        letter_coverage=0.98,
        syllable_coverage=0.5,
        special_tokens=("<|endoftext|>",),
        chat_template="chatml",
    )
    lines = [line for each in texts.values() for line in each]
    return train_from_counts(WordCounts.from_texts(lines, config), config)


@pytest.fixture(scope="session")
def models(talking, texts, tmp_path_factory):
    """Folders of two models: grouped queries, tied and padded embedding, another rope base; and neither."""
    from support.models import train_llama

    folder = tmp_path_factory.mktemp("models")
    lines = [line for number in range(300) for each in texts.values() for line in each[number : number + 1]]
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    tied = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True, "vocab_size": 2048}
    rope = {"rope_type": "default", "rope_theta": 500_000.0}
    return {
        "tied": train_llama(folder / "tied", talking, lines, steps=200, **shape, **tied, rope_parameters=rope),
        "untied": train_llama(
            folder / "untied", talking, lines, steps=100, **{**shape, "hidden_size": 96}, num_attention_heads=3
        ),
    }


@pytest.fixture(scope="module")
def engine(engine_name, models):
    with load_engine(models["tied"], engine_name, exact=True) as engine:
        yield engine
