"""Recognition of what a file, a folder or a Hub repository contains: a model, a tokenizer of a format, or neither."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from hf_sgpe.errors import SGPEError

MODULES_FILE = "modules.json"
"""The file in which a sentence-transformers model lists its subfolders."""
SENTENCES = "SentenceTransformer"
"""The class that loads a folder with `MODULES_FILE`."""
SPEECH = "AutoModelForSpeechSeq2Seq"
"""The class that loads Whisper."""
FAIRSEQ_FILE = "sentencepiece.bpe.model"
"""The SentencePiece file of models from fairseq, such as XLM-R and NLLB. Their ids are not those in the file."""
_ADAPTER_FILE = "adapter_config.json"
_MODEL_FILES = ("*.safetensors", "pytorch_model*.bin", "openvino_model.xml", "config.json")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt", "tekken.json")


def model_file(folder: Path) -> str | None:
    """Return the name of a model file in a folder, or None. Weights take precedence over ``config.json``."""
    files = (file.name for names in _MODEL_FILES for file in sorted(folder.glob(names)))
    return next(files, None)


def tokenizer_file(folder: Path) -> str | None:
    """Return the name of a tokenizer file in a folder, or None. ``tokenizer.json`` takes precedence."""
    return next((name for name in _TOKENIZER_FILES if (folder / name).is_file()), None)


def vocabulary_file(names: Iterable[str]) -> str | None:
    """Return the most complete of a tokenizer's vocabulary files, given the names of the files in a folder, or None.

    >>> vocabulary_file(["vocab.json", "merges.txt"]), vocabulary_file(["vocab.json"])
    ('merges.txt', None)
    """
    files = set(names)
    if "vocab.json" not in files:
        files.discard("merges.txt")
    ranks = sorted(name for name in files if name.endswith(".tiktoken"))
    sentencepiece = ("tokenizer.model", "spiece.model", FAIRSEQ_FILE)
    known = ("tokenizer.json", "tekken.json", "merges.txt", *ranks, "tiktoken.model", *sentencepiece)
    return next((name for name in known if name in files), None)


def tokenizer_format(path: Path) -> str:
    """Return the format of a tokenizer's file: ``gguf``, ``gpt2``, ``tekken``, ``tiktoken``, ``sentencepiece`` or ``json``.

    The name decides, as in the libraries of these formats. Only tiktoken's ranks are also recognized by their first line, as
    in Llama 3's ``tokenizer.model``.

    >>> tokenizer_format(Path("tekken_240911.json")), tokenizer_format(Path("tokenizer.json"))
    ('tekken', 'json')
    """
    name, suffix = path.name, path.suffix
    if suffix == ".json":
        return "tekken" if "tekken" in name else "json"
    if name == "merges.txt":
        return "gpt2"
    if suffix.lower() == ".gguf":
        return "gguf"
    if suffix == ".tiktoken" or _has_ranks(path):
        return "tiktoken"
    return "sentencepiece" if suffix == ".model" else "json"


def _has_ranks(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as opened:
        return re.match(rb"[A-Za-z0-9+/]+=* [0-9]+\r?\n", opened.read(1024)) is not None


def why_no_tokenizer(names: Iterable[str], where: str) -> str:
    """Return the end of an error message: why a folder or repository has no tokenizer, and a remedy. If the reason is
    unknown, return an empty string.

    Args:
        names: Names of the files in the folder or repository.
        where: The folder, or ``user/name`` of the repository.
    """
    if "vocab.txt" in names:
        save = f"AutoTokenizer.from_pretrained({where!r}).save_pretrained({f'{Path(where).name}-hf'!r})"
        return f', but a vocab.txt: save a tokenizer.json first: python -c "from transformers import AutoTokenizer; {save}"'
    if _ADAPTER_FILE not in names:
        return ""
    merged = f"{Path(where).name}-merged"
    merge = f"AutoPeftModelForCausalLM.from_pretrained({where!r}).merge_and_unload().save_pretrained({merged!r})"
    return f', but a LoRA adapter: merge it first: python -c "from peft import AutoPeftModelForCausalLM; {merge}"'


def why_no_model(folder: Path) -> str:
    """Return the end of an error message: what a folder without a model contains, and a remedy. See `why_no_tokenizer`."""
    has_adapter = (folder / _ADAPTER_FILE).is_file()
    return why_no_tokenizer([_ADAPTER_FILE] if has_adapter else [], str(folder))


def module_folders(folder: Path) -> list[str]:
    """Return the names of the subfolders with the other modules of a sentence-transformers model, such as ``1_Pooling``."""
    if not (folder / MODULES_FILE).is_file():
        return []
    try:
        paths = [str(module["path"]) for module in json.loads((folder / MODULES_FILE).read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError):
        raise SGPEError(f"{folder / MODULES_FILE} is damaged: it lists no modules with their paths") from None
    return [path for path in paths if path and Path(path).name == path and (folder / path).is_dir()]


def no_model(folder: str | Path) -> SGPEError:
    """Return the error for a folder without a model."""
    reason = why_no_model(Path(folder)) or ": there is no config.json in the folder"
    return SGPEError(f"{folder} has no model{reason}")


def export_line(file: str, folder: str, pattern: str) -> str:
    """Return the command that converts a tokenizer file without a split pattern, such as ``merges.txt``, to a folder with a
    ``tokenizer.json``.
    """
    return f"hf-sgpe export {quote(file)} --pattern {pattern} --out {quote(f'{folder}-hf')}"
