import pytest
from support.serving import serving

from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.generation import Engine, TextGenerator
from hf_sgpe.serving.requests import Served


class Endless(Engine):
    """Says the same token for as long as somebody listens."""

    name = "endless"

    def __init__(self, id, *, context_length=None):
        super().__init__()
        self.id = id
        self.vocab_size = 5000
        self.context_length = context_length
        self.stop_ids = frozenset()
        self.begun = self.said = self.ended = 0

    def _go_on(self, ids, options, stop_ids, watch):
        self.begun += 1
        try:
            while True:
                self.said += 1
                yield self.id
        finally:
            self.ended += 1

    def _logits(self, ids):
        raise NotImplementedError

    def _release(self):
        pass


@pytest.fixture(scope="session")
def chatty(sample):
    """A tokenizer with a chat template."""
    config = TrainingConfig(vocab_size=900, recipe="bpe", special_tokens=("<|endoftext|>",), chat_template="chatml")
    return train_from_counts(WordCounts.from_texts([sample["si"]], config), config)


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
    with TextGenerator.load(model, "transformers", device="cpu") as generator:
        yield generator


@pytest.fixture(scope="module")
def running(generator):
    """A server of the small model."""
    with serving(Served("my-model", generator, generator.chat())) as running:
        yield running


@pytest.fixture
def endless(chatty):
    """A model that never ends by itself, as clients see it."""
    generator = TextGenerator(chatty, Endless(chatty.encode("a")[0]))
    return Served("endless", generator, generator.chat())
