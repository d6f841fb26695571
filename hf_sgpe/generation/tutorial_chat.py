"""One answer of a model to a conversation: the tutorial's ``BPETokenizer.chat``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.text_generator import TextGenerator
from hf_sgpe.tokenizer import BPETokenizer


def chat(
    tokenizer: BPETokenizer,
    messages: Sequence[Mapping[str, Any]],
    model_path: str | os.PathLike[str],
    template: str | None = None,
    system_prompt: str | None = None,
    max_new_tokens: int = 512,
    temperature: float = 0.7,
    top_p: float = 0.9,
    backend: str | None = None,
    verbose: bool = False,
    **settings: Any,
) -> str:
    """Return the answer of a model to a conversation.

    The model is loaded for the answer and closed again. For more than one answer use `TextGenerator`.

    Args:
        tokenizer: The tokenizer of the model.
        messages: As for `BPETokenizer.apply_chat_template`; so are ``template`` and ``system_prompt``.
        model_path: As for `TextGenerator.load`, as are ``backend``, its engine, and ``settings``, such as ``n_gpu_layers``
            and ``n_ctx``.
        max_new_tokens: As for `GenerationOptions`, as are ``temperature`` and ``top_p``.
        verbose: Print the engine and its speed.

    Raises:
        SGPEError: as `TextGenerator.load` and `BPETokenizer.apply_chat_template`, or the conversation is too long.
    """
    options = GenerationOptions(max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p)
    with TextGenerator.load(model_path, backend, tokenizer=tokenizer, **settings) as generator:
        conversation = generator.chat(system_prompt, template=template or tokenizer.chat_template or "llama3")
        answer = "".join(conversation.answer(messages, options))
        if verbose and (progress := generator.progress):
            speed = f"{progress.tokens} tokens, {progress.tokens_per_second:.1f} a second"
            print(f"{generator.engine.name}: {progress.prompt_tokens} tokens in the prompt, {speed}")
        return answer
