"""Today's models, type by type, on every engine: the table in docs/generate.md is what this finds."""

import json
import re
from functools import cache

import pytest
from support.families import LAYERS, SHAPES, TABLE

from hf_sgpe import SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.generation import GenerationOptions, load_engine
from hf_sgpe.generation.engines.detection import ENGINES
from hf_sgpe.weights import gguf_models
from hf_sgpe.weights.model_config import transformers_config

random_model = pytest.importorskip(
    "support.models", reason="the models are made with PyTorch: pip install torch"
).random_model

pytestmark = pytest.mark.filterwarnings("ignore")

GREEDY = GenerationOptions(max_new_tokens=8, temperature=0)
# What there is on the Hub, as far as it decides what is computed.
ROPE3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
}
CONFIGS = {
    "Llama-3.2-1B": {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": ROPE3, "tie_word_embeddings": True},
    "Mistral-7B-v0.3": {"model_type": "mistral", "rope_theta": 1e6, "sliding_window": None},
    "Mixtral-8x7B-v0.1": {"model_type": "mixtral", "rope_theta": 1e6, "sliding_window": None, "router_aux_loss_coef": 0.02},
    "Qwen2.5-0.5B": {
        "model_type": "qwen2",
        "rope_theta": 1e6,
        "sliding_window": 32768,
        "max_window_layers": 24,
        "use_mrope": False,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
    },
    "Qwen3-0.6B": {
        "model_type": "qwen3",
        "rope_theta": 1e6,
        "rope_scaling": None,
        "attention_bias": False,
        "head_dim": 128,
        "sliding_window": None,
        "max_window_layers": 28,
        "use_sliding_window": False,
    },
    "Qwen3-30B-A3B": {
        "model_type": "qwen3_moe",
        "decoder_sparse_step": 1,
        "head_dim": 128,
        "mlp_only_layers": [],
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "router_aux_loss_coef": 0.001,
    },
    "gemma-2-2b": {
        "model_type": "gemma2",
        "attn_logit_softcapping": 50.0,
        "cache_implementation": "hybrid",
        "final_logit_softcapping": 30.0,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
    },
    "gemma-3-1b-it": {
        "model_type": "gemma3_text",
        "attn_logit_softcapping": None,
        "cache_implementation": "hybrid",
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256,
        "rope_local_base_freq": 10000,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
    },
    "SmolLM3-3B": {
        "model_type": "smollm3",
        "attention_bias": False,
        "max_window_layers": 28,
        "mlp_bias": False,
        "no_rope_layer_interval": 4,
        "no_rope_layers": [1, 1, 1, 0] * 9,
        "pretraining_tp": 2,
        "rope_scaling": None,
        "rope_theta": 5e6,
        "sliding_window": None,
        "use_sliding_window": False,
    },
    "phi-4": {"model_type": "phi3", "original_max_position_embeddings": 16384, "rope_scaling": None, "sliding_window": None},
    "OLMo-2-0425-1B": {"model_type": "olmo2", "attention_bias": False, "rope_scaling": None, "rope_theta": 500000},
    "granite-3.3-2b": {
        "model_type": "granite",
        "attention_multiplier": 0.015625,
        "embedding_multiplier": 12.0,
        "logits_scaling": 8.0,
        "residual_multiplier": 0.22,
        "rope_theta": 1e7,
    },
    "gpt2": {"model_type": "gpt2", "n_ctx": 1024, "task_specific_params": {"text-generation": {"do_sample": True}}},
}


@pytest.fixture(scope="session")
def tokenizer(sample):
    config = TrainingConfig(vocab_size=300, recipe="bpe", pattern="gpt2", special_tokens=("<s>",))
    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


@pytest.fixture(scope="session")
def made(tokenizer, tmp_path_factory):
    """Gives, for a type, a folder with a model of it, prompts, and what transformers says to them."""
    # Shorter than a window, as long, and longer.
    prompts = [[(7 * place * place + 3 * length) % 300 for place in range(length)] for length in (1, 6, 16, 40)]

    @cache
    def make(kind):
        folder = tmp_path_factory.mktemp("families") / kind
        layers = {} if kind == "gpt2" else {"num_hidden_layers": LAYERS.get(kind, 2)}
        random_model(folder, kind, {}, vocab_size=tokenizer.vocab_size, **layers, **SHAPES.get(kind, {}))
        tokenizer.save(folder)
        with load_engine(folder, "transformers", exact=True) as engine:
            return folder, prompts, [list(engine.generate(prompt, GREEDY)) for prompt in prompts]

    return make


def test_every_type_has_a_row_that_names_every_engine():
    assert set(TABLE) == {*gguf_models.FAMILIES, "gpt_oss"}
    assert all(set(row) == set(ENGINES) for row in TABLE.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLE)
def test_an_engine_says_what_transformers_says_or_refuses_as_the_table_has_it(kind, made, engine_name):
    folder, prompts, expected = made(kind)
    if not TABLE[kind][engine_name].startswith("✓"):
        with pytest.raises(SGPEError, match=f"{engine_name} .*choose another engine"):
            load_engine(folder, engine_name)
        return
    with load_engine(folder, engine_name, exact=True) as engine:
        assert [list(engine.generate(prompt, GREEDY)) for prompt in prompts] == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_of_models_on_the_hub_are_supported(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name]))
    assert gguf_models.why_not(transformers_config(tmp_path)) == ""


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "smollm3", "num_hidden_layers": 4, "no_rope_layers": [1, 1, 0, 1]}, "omits positions in every"),
        ({"model_type": "phi3", "head_dim": 64}, "supports only heads of the size"),
        ({"model_type": "olmo2", "head_dim": 64}, "supports only heads of the size"),
        ({"model_type": "gemma3_text", "query_pre_attn_scalar": 168}, "always uses 256 as query_pre_attn_scalar"),
        ({"model_type": "gemma2", "num_hidden_layers": 46}, "always uses 288 as query_pre_attn_scalar"),
        ({"model_type": "gemma2", "final_logit_softcapping": None}, "with final_logit_softcapping None"),
        ({"model_type": "qwen3_moe", "norm_topk_prob": True, "mlp_only_layers": [0]}, r"with mlp_only_layers \[0\]"),
    ],
)
def test_configurations_that_llama_cpp_computes_differently_are_refused(config, reason, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert re.search(reason, gguf_models.why_not(transformers_config(tmp_path)))
