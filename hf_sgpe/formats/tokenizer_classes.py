"""Split patterns of the tokenizer classes in transformers that define their pattern in code, not in the vocabulary files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_sgpe.files.json_files import optional_json
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE

MODEL_FILE = "config.json"


@dataclass(frozen=True)
class TokenizerClass:
    """The properties of a tokenizer that are defined by the code of its class in transformers, not by its files.

    Attributes:
        roles: Special tokens (strings or objects with flags), keyed by role.
        puts_around: Whether encoding puts the ``cls_token`` before a text and the ``sep_token`` after it, as in RoBERTa.
        special_tokens: Special tokens that get the ids after the last token of the vocabulary file. The tokens in ``roles``
            need not be repeated here.
    """

    pattern: str
    normalization: str = "none"
    roles: Mapping[str, Any] = field(default_factory=dict)
    puts_around: bool = False
    special_tokens: tuple[str, ...] = ()


_END = "<|endoftext|>"
_GPT2 = TokenizerClass("gpt2", roles=dict.fromkeys(("bos_token", "eos_token", "unk_token"), _END))
_QWEN2 = TokenizerClass("qwen2", "nfc", roles=dict.fromkeys(("eos_token", "unk_token", "pad_token"), _END))
_MASK = {"content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
_ROBERTA = TokenizerClass(
    "gpt2",
    roles={
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "cls_token": "<s>",
        "mask_token": _MASK,
    },
    puts_around=True,
)
_QWEN = TokenizerClass(
    "qwen2",
    "nfc",
    roles={"eos_token": _END},
    special_tokens=(_END, "<|im_start|>", "<|im_end|>", *(f"<|extra_{number}|>" for number in range(205))),
)

CLASSES: Mapping[str, TokenizerClass] = {
    **dict.fromkeys(("GPT2Tokenizer", "CodeGenTokenizer"), _GPT2),
    "Qwen2Tokenizer": _QWEN2,
    **dict.fromkeys(("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer"), _ROBERTA),
    "QWenTokenizer": _QWEN,
}
"""Classes, keyed by name without a trailing ``Fast``. QWenTokenizer is the class in the repositories of the first Qwen
models.
"""

_OF_MODELS = {
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "opt", "codegen", "phi"), "GPT2Tokenizer"),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe"), "Qwen2Tokenizer"),
    **dict.fromkeys(("roberta", "bart", "longformer"), "RobertaTokenizer"),
    "qwen": "QWenTokenizer",
}


def class_name_of(folder: Path) -> str | None:
    """Return the name of the class in transformers for the tokenizer in a folder, without a trailing ``Fast``, or None.

    If the settings do not name the class, the model type in ``config.json`` determines it, as in transformers.
    """
    model = optional_json(folder / MODEL_FILE)
    name = optional_json(folder / CONFIG_FILE).get("tokenizer_class") or model.get("tokenizer_class")
    name = name or _OF_MODELS.get(str(model.get("model_type")), model.get("model_type"))
    return name.removesuffix("Fast") if isinstance(name, str) else None
