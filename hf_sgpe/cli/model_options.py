"""Options for the model and the engine that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import read_utf8
from hf_sgpe.terminal.options import argument, option

if TYPE_CHECKING:
    from hf_sgpe.generation import TextGenerator


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The model, its engine, and its chat template."""

    model: str = argument("The model: a folder for transformers, OpenVINO or MLX, a GGUF file, or a Hub repository.")
    tokenizer: str | None = option(f"{TOKENIZER_HELP.rstrip('.')} (default: the model's tokenizer).", None, "-t")
    engine: str | None = option(
        "Engine that runs the model (default: the best installed engine). To list the engines, run hf-sgpe engines."
    )
    device: str | None = option(
        "Device that runs the model: cpu, cuda or another PyTorch device for transformers; CPU, GPU, NPU or AUTO for "
        "OpenVINO."
    )
    n_ctx: int | None = option(
        "With llama.cpp: context length in tokens (default: the model's context length, but at most 8192)."
    )
    n_gpu_layers: int | None = option("With llama.cpp: number of layers on the GPU (default: -1, all).")
    keep_prefixes: int | None = option(
        "Number of texts whose keys and values are kept in memory. If a prompt shares a prefix with a kept text, the "
        "prefix is not computed again. With llama.cpp, 0 or 1; not with OpenVINO (default: 1, and 0 with --exact)."
    )
    exact: bool = option("Compute in 32-bit floating point, so that all engines generate the same tokens.", False)
    template: str | None = option(
        "Chat template: llama3, chatml, alpaca or a .jinja file (default: the tokenizer's template)."
    )

    def load(self) -> TextGenerator:
        from hf_sgpe.generation import TextGenerator

        names = ("device", "n_ctx", "n_gpu_layers", "keep_prefixes")
        settings = {name: value for name in names if (value := getattr(self, name)) is not None}
        return TextGenerator.load(self.model, self.engine, tokenizer=self.tokenizer, exact=self.exact, **settings)

    def read_template(self) -> str | None:
        return self.template and read_chat_template(self.template, "--template")


def read_chat_template(name: str, option: str = "--chat-template") -> str:
    """Return the chat template that an option names: a built-in template's name, or the content of a file."""
    from hf_sgpe.chat.templates import SPECIAL_TOKENS, check_template

    if name in SPECIAL_TOKENS:
        return name
    try:
        template = read_utf8(Path(name))
    except FileNotFoundError:
        raise SGPEError(f"{option} {name}: no such file: name a .jinja file or one of {', '.join(SPECIAL_TOKENS)}") from None
    except SGPEError as error:
        raise SGPEError(f"{option} {error}") from None
    try:
        check_template(template)
    except SGPEError as error:
        raise SGPEError(f"{option} {name}: {error}") from None
    return template
