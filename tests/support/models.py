"""Small Llamas, trained for a minute on real text for greedy decoding, and random models of any type."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from trainers.language_models.language_model import pack


def train_llama(folder: Path, tokenizer: BPETokenizer, texts: list[str], *, steps: int, **config: Any) -> Path:
    """Train a Llama and save it with its tokenizer.

    Args:
        config: Fields of `LlamaConfig`; ``vocab_size`` is that of the tokenizer by default.
    """
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    torch.manual_seed(1)
    settings: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "max_position_embeddings": 256,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
        "initializer_range": 0.05,
    }
    model = LlamaForCausalLM(LlamaConfig(**{**settings, **config}))
    rows = torch.tensor(list(pack(texts, fast, 64)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    for step in range(steps):
        batch = rows[torch.randint(len(rows), (8,))]
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * (1 - step / steps)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


_SIZES: dict[str, Any] = {
    # No square: MLX rounds the root of Gemma's to 16 bits.
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 128,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    # So large that one left out would be seen.
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon", "layer_norm_epsilon"), 0.05),
    "n_embd": 48,
    "n_layer": 2,
    "n_head": 6,
    "n_positions": 128,
    "n_inner": 40,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_FORMS: dict[str, dict[Any, dict[str, Any]]] = {
    "rope": {
        "default()": {"rope_type": "default"},
        "linear(factor)": {"rope_type": "linear", "factor": 4.0},
        "yarn(factor, original_max_position_embeddings)": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
        },
        "llama3(factor, high_freq_factor, low_freq_factor, original_max_position_embeddings)": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
}


def variants(row: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    number = max(map(len, row.values()))
    return [{name: values[place % len(values)] for name, values in row.items()} for place in range(number)]


def random_model(folder: Path, model_type: str, row: Mapping[str, Any], **config: Any) -> Path:
    """Save a model with random weights, biases and norms.

    Args:
        row: A result of `variants`.
        config: Further fields of the configuration.
    """
    known = AutoConfig.for_model(model_type).to_dict()
    fields = {name: value for name, value in _SIZES.items() if name in known}
    fields |= {name: value for name, value in row.items() if name != "rope"}
    if row.get("rope") in _FORMS["rope"]:
        fields["rope_parameters"] = {"rope_theta": 500.0, **_FORMS["rope"][row["rope"]]}
        if "partial_rotary_factor" in row:
            fields["rope_parameters"]["partial_rotary_factor"] = row["partial_rotary_factor"]
    if "sliding_window" in row:
        fields["sliding_window"] = 16 if row["sliding_window"] else 4096
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **{**fields, **config})).float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    return folder


def permuted(tokenizer: SGPETokenizerFast, *, seed: int = 1) -> SGPETokenizerFast:
    """Return a tokenizer with shuffled ids, including those of special tokens."""
    bpe = tokenizer.to_bpe()
    ids = sorted(bpe.get_vocab().values())
    new_id = dict(zip(ids, random.Random(seed).sample(ids, len(ids)), strict=True))
    shuffled = BPETokenizer(
        {token: new_id[id] for token, id in bpe.vocab.items()},
        bpe.merges,
        special_tokens={token: new_id[id] for token, id in bpe.special_tokens.items()},
        splitting=bpe.splitting,
        roles=bpe.roles,
    )
    return SGPETokenizerFast.from_bpe(shuffled)
