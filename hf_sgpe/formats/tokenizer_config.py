"""``tokenizer_config.json`` and the file of code that it names, in the one form that every loader reads alike.

Loaders are transformers 5, transformers 4.57 and transformers.js. All that this package writes goes through here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG_FILE = "tokenizer_config.json"

# ``AutoTokenizer(trust_remote_code=True)`` runs this file, and gives this package's class where this package is installed.
# That it is named also keeps transformers from putting the pre-tokenizer of Qwen, or a slow tokenizer, in the place of the
# saved one beside some models' config.json, whether remote code is trusted or not.
AUTO_CLASS_FILE = Path(__file__).parent / "auto_class" / "tokenization_sgpe.py"
_AUTO_MAP = {"AutoTokenizer": [None, f"{AUTO_CLASS_FILE.stem}.PreTrainedTokenizerFast"]}

# How a tokenizer was loaded. Transformers 5 saves it with the tokenizer.
_OF_LOADING = ("is_local", "local_files_only", "backend", "files_loaded")


def for_every_loader(settings: Mapping[str, Any], chat_template: str | None = None) -> dict[str, Any]:
    """Return settings of a tokenizer, of whatever origin, as every loader reads them.

    Args:
        settings: Content of a ``tokenizer_config.json``; its tokenizer is in a ``tokenizer.json``.
        chat_template: Jinja source that is saved as a file; None for none.

    >>> settings = for_every_loader({"tokenizer_class": "TokenizersBackend", "extra_special_tokens": ["<|x|>"]})
    >>> settings["tokenizer_class"], settings["additional_special_tokens"], "extra_special_tokens" in settings
    ('PreTrainedTokenizerFast', ['<|x|>'], False)
    """
    kept = {name: value for name, value in settings.items() if name not in _OF_LOADING}
    # Transformers 4 reads a list under the old name only.
    if isinstance(extra := kept.get("extra_special_tokens"), list):
        del kept["extra_special_tokens"]
        older = kept.get("additional_special_tokens") or []
        kept["additional_special_tokens"] = [*older, *(token for token in extra if token not in older)]
    return {
        # Left out, transformers 4 adds token_type_ids and transformers.js cleans up spaces.
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        **kept,
        # Every loader knows this class. Any other, such as Qwen2Tokenizer, may replace the saved split by one of its own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "auto_map": _AUTO_MAP,
        # transformers.js looks for it here and nowhere else.
        **({"chat_template": chat_template} if chat_template is not None else {}),
    }


def config_files(
    settings: Mapping[str, Any], chat_template: str | None = None, *, own_class: str | None = None
) -> dict[str, str]:
    """Return name → text of the files that hold the settings of a tokenizer.

    Args:
        settings: This and ``chat_template`` are as for `for_every_loader`.
        own_class: Name of a class that loaders know only with this package; None for the class that every loader knows.
    """
    content = for_every_loader(settings, chat_template)
    if own_class is not None:
        del content["auto_map"]
        return {CONFIG_FILE: _json({**content, "tokenizer_class": own_class})}
    return {CONFIG_FILE: _json(content), AUTO_CLASS_FILE.name: AUTO_CLASS_FILE.read_text(encoding="utf-8")}


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
