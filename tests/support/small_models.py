"""Small models: Llamas for a tokenizer, and models of many kinds in folders, each with its tokenizer."""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from hf_sgpe import SGPETokenizerFast
from trainers.language_models.language_model import small_llama
from trainers.model_rows.token_tables import embedding_rows, fit_embeddings


def make_llama(tokenizer: SGPETokenizerFast, *, seed: int = 1, **options: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = small_llama(embedding_rows(tokenizer), layers=2, width=16, heads=2, length=64)
    for name, value in {"initializer_range": 0.5, **options}.items():  # so that predictions differ
        setattr(config, name, value)
    return LlamaForCausalLM(config).eval()


LAYERS = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL = LAYERS | {"num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
BART = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16) | dict.fromkeys(
    ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1
)
KINDS = {
    "llama": lambda ids: LlamaForCausalLM(LlamaConfig(**SMALL, **ids, tie_word_embeddings=False)),
    "smollm": lambda ids: LlamaForCausalLM(LlamaConfig(**SMALL, **ids, tie_word_embeddings=True)),
    "qwen2": lambda ids: Qwen2ForCausalLM(Qwen2Config(**SMALL, **ids, tie_word_embeddings=True)),
    "qwen3": lambda ids: Qwen3ForCausalLM(Qwen3Config(**SMALL, **ids, tie_word_embeddings=False)),
    "gemma": lambda ids: Gemma2ForCausalLM(Gemma2Config(**SMALL, **ids)),
    # Reads images, too; transformers has other names for its weights in memory than in files.
    "gemma3": lambda ids: Gemma3ForConditionalGeneration(
        Gemma3Config(
            text_config=SMALL | ids,
            vision_config=LAYERS | {"num_hidden_layers": 1, "image_size": 28, "patch_size": 14},
            mm_tokens_per_image=4,
            image_token_index=7,
        )
    ),
    "mistral": lambda ids: MistralForCausalLM(MistralConfig(**SMALL, **ids)),
    # Its output has another name in files, too.
    "neox": lambda ids: GPTNeoXForCausalLM(GPTNeoXConfig(**LAYERS, **ids, max_position_embeddings=64)),
    "gpt2": lambda ids: GPT2LMHeadModel(GPT2Config(**GPT, **ids)),
    "biased": lambda ids: GPTJForCausalLM(GPTJConfig(**GPT, **ids, rotary_dim=4, tie_word_embeddings=False)),
    "bart": lambda ids: BartForConditionalGeneration(
        BartConfig(**BART, **ids, max_position_embeddings=64, decoder_start_token_id=0)
    ),
}


def saved_model(kind: str, tokenizer: Path, folder: Path, *, rows: int = 512, **options: Any) -> Path:
    """Save a half-precision model with distinct weights, and its tokenizer.

    Args:
        kind: One of `KINDS`.
        tokenizer: The folder of the tokenizer.
        folder: The folder to write.
        rows: The number of embedding rows.
        **options: Options of ``save_pretrained``.
    """
    torch.manual_seed(1)
    end = SGPETokenizerFast.from_pretrained(tokenizer).eos_token_id
    model = KINDS[kind]({"vocab_size": rows, "bos_token_id": end, "eos_token_id": end, "pad_token_id": None})
    with torch.no_grad():
        for tensor in (*model.parameters(), *(model.final_logits_bias for _ in range(kind == "bart"))):
            tensor.normal_(std=0.3)
    shutil.copytree(tokenizer, folder)
    model.to(torch.bfloat16).save_pretrained(folder, **options)
    return folder


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            tensors |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    return tensors


def load(folder: Path) -> Any:
    is_bart = "Bart" in (folder / "config.json").read_text(encoding="utf-8")
    return (AutoModelForSeq2SeqLM if is_bart else AutoModelForCausalLM).from_pretrained(folder)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def fitted(extended: Any) -> tuple[Any, list[int]]:
    folder, new, old = extended
    model = load(folder).float()
    row_map = fit_embeddings(model, new, old, multiple=1)
    return model, row_map.new
