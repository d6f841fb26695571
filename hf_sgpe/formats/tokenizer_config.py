"""``tokenizer_config.json`` and the Python file that it names, in a form that all loaders understand in the same way.

The loaders are transformers 5, transformers 4.57 and transformers.js. The package writes every configuration with this
module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG_FILE = "tokenizer_config.json"

# AutoTokenizer(trust_remote_code=True) runs this file and returns the class of this package if the package is installed.
AUTO_CLASS_FILE = Path(__file__).parent / "auto_class" / "tokenization_sgpe.py"
_AUTO_MAP = {"AutoTokenizer": [None, f"{AUTO_CLASS_FILE.stem}.PreTrainedTokenizerFast"]}

# If the config.json in the folder has one of these model types, transformers replaces a saved tokenizer by a slow tokenizer,
# or by a tokenizer with the pre-tokenizer of Qwen. An auto_map prevents that, even without trust_remote_code. For other
# models, an auto_map is a disadvantage: a copy that transformers saves lacks the Python file that the auto_map names.
OVERRULED = frozenset(
    ("qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen4_exp", "siglip2", "hyperclovax", "hyperclovax_vision_v2")
)

# Settings that apply to a single load, although transformers 5 saves them with the tokenizer.
_OF_LOADING = ("is_local", "local_files_only", "backend", "files_loaded")


def token_text(token: Any) -> str | None:
    """Return the text of a special token in settings, a string or an object with flags; None for other values."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else None


def for_every_loader(
    settings: Mapping[str, Any], chat_template: str | None = None, *, with_auto_map: bool = False
) -> dict[str, Any]:
    """Return the content of a ``tokenizer_config.json`` that every loader understands in the same way.

    Args:
        with_auto_map: Whether the settings name `AUTO_CLASS_FILE`. They do in any case if the given settings name it.

    >>> settings = for_every_loader({"tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<|x|>"]})
    >>> settings["tokenizer_class"], settings["additional_special_tokens"], "extra_special_tokens" in settings
    ('PreTrainedTokenizerFast', ['<|x|>'], False)
    """
    kept = {name: value for name, value in settings.items() if name not in (*_OF_LOADING, "auto_map")}
    with_auto_map = with_auto_map or settings.get("auto_map") == _AUTO_MAP
    # Transformers 4 reads a list only under the old name.
    if isinstance(extra := kept.get("extra_special_tokens"), list):
        del kept["extra_special_tokens"]
        older = kept.get("additional_special_tokens") or []
        kept["additional_special_tokens"] = [*older, *(token for token in extra if token not in older)]
    return {
        # By default, transformers 4 adds token_type_ids and transformers.js cleans up spaces.
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **kept,
        # Every loader knows this class. Other classes, such as Qwen2Tokenizer, may replace the saved split pattern.
        "tokenizer_class": "PreTrainedTokenizerFast",
        **({"auto_map": _AUTO_MAP} if with_auto_map else {}),
        # transformers.js reads the chat template only from here.
        **({"chat_template": chat_template} if chat_template is not None else {}),
    }


def config_files(
    settings: Mapping[str, Any],
    chat_template: str | None = None,
    *,
    own_class: str | None = None,
    model_type: str | None = None,
    auto_class: bool = False,
) -> dict[str, str]:
    """Return the texts of ``tokenizer_config.json`` and of the Python file that it may name, keyed by file name.

    Args:
        own_class: Name of a tokenizer class that needs no Python file, such as that of this package. None means the class
            that every loader knows.
        model_type: Model type in the ``config.json`` of the same folder. The types in `OVERRULED` need the Python file.
        auto_class: Whether to write the Python file for any model type.
    """
    content = for_every_loader(settings, chat_template, with_auto_map=auto_class or model_type in OVERRULED)
    if own_class is not None:
        content.pop("auto_map", None)
        return {CONFIG_FILE: _json({**content, "tokenizer_class": own_class})}
    code = {AUTO_CLASS_FILE.name: AUTO_CLASS_FILE.read_text(encoding="utf-8")} if "auto_map" in content else {}
    return {CONFIG_FILE: _json(content), **code}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
