"""Small Llamas, trained for a minute on real text: good enough that greedy decoding says something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from trainers.language_model import pack


def train_llama(folder: Path, tokenizer: BPETokenizer, texts: list[str], *, steps: int, **config: Any) -> Path:
    """Trains a Llama and saves it with its tokenizer.

    Args:
        config: Of `LlamaConfig`; ``vocab_size`` is that of the tokenizer unless given.
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
