"""The model that generates, and the engine that runs it."""

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
    """Which model is loaded, how it is run, and how it is spoken to."""

    model: str = argument("Folder of a model of transformers, OpenVINO or MLX, GGUF file or Hub repository.")
    tokenizer: str | None = option(f"{TOKENIZER_HELP} (default: the model's)", None, "-t")
    engine: str | None = option("One of those that hf-sgpe engines shows (default: the best one here).")
    device: str | None = option("cpu, cuda and others of transformers; CPU, GPU, NPU, AUTO of OpenVINO.")
    n_ctx: int | None = option("Tokens in the context of llama.cpp (default: the model's, up to 8192).")
    n_gpu_layers: int | None = option("Layers of llama.cpp on a GPU (default: -1, all).")
    exact: bool = option("Compute in 32 bits, the same tokens on every engine.", False)
    template: str | None = option("Chat template: llama3, chatml, alpaca or a .jinja file.")

    def load(self) -> TextGenerator:
        """Return the model and its tokenizer. Each engine has settings of its own, and refuses others."""
        from hf_sgpe.generation import TextGenerator

        settings = {
            name: value for name in ("device", "n_ctx", "n_gpu_layers") if (value := getattr(self, name)) is not None
        }
        return TextGenerator.load(self.model, self.engine, tokenizer=self.tokenizer, exact=self.exact, **settings)

    def read_template(self) -> str | None:
        """Return the chat template that ``--template`` names."""
        return self.template and read_chat_template(self.template, "--template")


def read_chat_template(name: str, option: str = "--chat-template") -> str:
    """Return what an option names: a template of ours, or the content of a file."""
    from hf_sgpe.chat.templates import SPECIAL_TOKENS, check_template

    if name in SPECIAL_TOKENS:
        return name
    try:
        template = read_utf8(Path(name))
    except FileNotFoundError:
        raise SGPEError(f"{option} {name}: no such file, and not one of {', '.join(SPECIAL_TOKENS)}") from None
    except SGPEError as error:
        raise SGPEError(f"{option} {error}") from None
    try:
        check_template(template)
    except SGPEError as error:
        raise SGPEError(f"{option} {name}: {error}") from None
    return template
