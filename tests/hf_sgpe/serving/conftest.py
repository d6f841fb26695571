import pytest
from support.engines import Parrot
from support.serving import serving

from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.requests import Served


@pytest.fixture(scope="session")
def model(chatty, sample, tmp_path_factory):
    """A folder with a small Llama, and the tokenizer."""
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch transformers")
    from support.models import train_llama

    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    folder = tmp_path_factory.mktemp("served") / "my-model"
    return train_llama(folder, chatty, [sample["si"]], steps=40, num_key_value_heads=1, **size)


@pytest.fixture(scope="session")
def generator(model):
    # Prompts that are computed in parts differ by rounding, and these tests compare log-probabilities.
    with TextGenerator.load(model, "transformers", device="cpu", keep_prefixes=0) as generator:
        yield generator


@pytest.fixture(scope="module")
def running(generator):
    with serving(Served("my-model", generator, generator.chat())) as running:
        yield running


@pytest.fixture
def endless(chatty):
    generator = TextGenerator(chatty, Parrot(chatty.encode("a"), is_endless=True, pause=0.001))
    return Served("endless", generator, generator.chat())
