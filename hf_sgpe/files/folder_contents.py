"""Recognition of the files in a folder or a Hub repository: a model, a tokenizer, or an unsupported format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json

ADAPTER_FILE = "adapter_config.json"
_MODEL_FILES = ("*.safetensors", "pytorch_model*.bin", "openvino_model.xml", "config.json")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt", "tekken.json")


def model_file(folder: Path) -> str | None:
    """Return the name of a file of a model in a folder, weights before ``config.json``; None without a model."""
    files = (file.name for names in _MODEL_FILES for file in sorted(folder.glob(names)))
    return next(files, None)


def tokenizer_file(folder: Path) -> str | None:
    """Return the name of a file of a tokenizer in a folder, ``tokenizer.json`` first; None without a tokenizer."""
    return next((name for name in _TOKENIZER_FILES if (folder / name).is_file()), None)


def tokens_in(file: Path) -> int | None:
    """Return the number of tokens in any ``tokenizer.json``; None if it cannot be read."""
    try:
        content = read_json(file)
        added = {token["content"] for token in content.get("added_tokens") or ()}
        vocab = content["model"]["vocab"]
        return len({*(vocab if isinstance(vocab, dict) else (entry[0] for entry in vocab)), *added})
    except (SGPEError, OSError, KeyError, TypeError, IndexError):
        return None


def why_no_tokenizer(names: Iterable[str], where: str, *, is_here: bool) -> str:
    """Return the other tokenizer files of a place without ``tokenizer.json``, with a remedy, as the end of a message.

    Args:
        names: Names of the files.
        where: The folder, or ``user/name`` of the repository.
        is_here: Whether ``where`` is a folder.

    Returns:
        The end of a message, or an empty string if nothing is recognised.
    """
    files = set(names)
    folder = where if is_here else where.rpartition("/")[2]
    download = "" if is_here else f"hf download {quote(where)} --local-dir {quote(folder)}, then "
    if ADAPTER_FILE in files:
        return f", {_adapter(where)}"
    if {"vocab.json", "merges.txt"} <= files:
        return f", but vocab.json and merges.txt: {download}{_export(f'{folder}/merges.txt', folder, 'gpt2')}"
    ranks = next((name for name in sorted(files) if name.endswith(".tiktoken")), None)
    if ranks is None and "tokenizer.model" in files and is_here and _holds_ranks(Path(where) / "tokenizer.model"):
        copied = f"{folder}/tokenizer.tiktoken"
        copy = f"cp {quote(f'{folder}/tokenizer.model')} {quote(copied)}, then "
        return f", but tokenizer.model with the ranks of tiktoken: {copy}{_export(copied, folder)}"
    if ranks is not None:
        return f", but {ranks}: {download}{_export(f'{folder}/{ranks}', folder)}"
    save = f"AutoTokenizer.from_pretrained({where!r}).save_pretrained({f'{folder}-hf'!r})"
    line = f'python -c "from transformers import AutoTokenizer; {save}"'
    if "tekken.json" in files:
        return f", but Mistral's tekken.json: convert it with transformers 5: {line}"
    if "tokenizer.model" in files:
        measure = f"to measure it, pip install sentencepiece, then {line}"
        return f", but SentencePiece's tokenizer.model, which cannot be extended: {measure}"
    return ""


def why_no_model(folder: Path) -> str:
    """Return the reason why a folder has no model, with a remedy, as the end of a message, or an empty string."""
    return f", {_adapter(str(folder))}" if (folder / ADAPTER_FILE).is_file() else ""


def _adapter(where: str) -> str:
    merged = f"{Path(where).name}-merged"
    merge = f"AutoPeftModelForCausalLM.from_pretrained({where!r}).merge_and_unload().save_pretrained({merged!r})"
    return f'but a LoRA adapter: merge it first: python -c "from peft import AutoPeftModelForCausalLM; {merge}"'


def _export(file: str, folder: str, pattern: str = "cl100k") -> str:
    return f"hf-sgpe export {quote(file)} --pattern {pattern} (or its own) --out {quote(f'{folder}-hf')}"


def _holds_ranks(file: Path) -> bool:
    """Return whether a file begins with a token in base64 and its rank, as Llama 3's ``tokenizer.model`` does."""
    with file.open("rb") as opened:
        return re.match(rb"[A-Za-z0-9+/]+=* [0-9]+\r?\n", opened.read(256)) is not None
