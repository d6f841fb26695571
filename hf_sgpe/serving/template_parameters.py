"""Parameters of a request that control the chat template or special tokens in prompts. Their names are vLLM's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.text_generator import TextGenerator
from hf_sgpe.serving.parameters import Parameters, RequestError, kind, wrong

TEMPLATE = ("chat_template_kwargs", "reasoning_effort", "add_generation_prompt", "continue_final_message")
PROMPT = ("add_special_tokens", "special_tokens")
_OTHERS = ("messages", "tools", "documents", "chat_template", "add_generation_prompt", "continue_final_message")


def read_variables(written: str, name: str) -> dict[str, Any]:
    """Return the template variables that the command-line option ``name`` sets."""
    try:
        variables = json.loads(written)
    except ValueError as error:
        raise SGPEError(f"{name} is not JSON ({error}): write it as '{{\"enable_thinking\": false}}'") from None
    if problem := _problem_of(variables):
        raise SGPEError(f"{name} {problem}")
    assert isinstance(variables, dict)
    return variables


def read_template(given: Parameters, messages: list[Any], defaults: Mapping[str, Any], template: str) -> dict[str, Any]:
    """Return the arguments for `hf_sgpe.generation.conversation.Chat.encode` that a request asks for."""
    variables = given.get("chat_template_kwargs")
    if variables is not None and (problem := _problem_of(variables)):
        raise wrong("chat_template_kwargs", f"{problem}")
    continues = given.flag("continue_final_message")
    if continues and given.flag("add_generation_prompt"):
        raise RequestError(
            "continue_final_message and add_generation_prompt exclude each other: set only one of them to true",
            param="continue_final_message",
        )
    last = messages[-1]
    if continues and not (last.get("role") == "assistant" and last.get("content") and isinstance(last["content"], str)):
        raise wrong("continue_final_message", "needs a last message with the role assistant and a text to continue")
    return {
        "add_generation_prompt": given.flag("add_generation_prompt", not continues),
        "continue_final_message": continues,
        "variables": {**defaults, **_effort(given, template), **(variables or {})},
    }


def _effort(given: Parameters, template: str) -> dict[str, Any]:
    effort = given.get("reasoning_effort")
    if effort is None:
        return {}
    if not isinstance(effort, str):
        raise wrong("reasoning_effort", f"must be a string, not {kind(effort)}")
    if re.search(r"\breasoning_effort\b", template):
        return {"reasoning_effort": effort}
    message = "the model's chat template does not use reasoning_effort: leave it out"
    raise RequestError(message, param="reasoning_effort", code="unsupported_parameter")


def read_encoder(given: Parameters, generator: TextGenerator) -> Callable[[str], list[int]]:
    """Return the function that converts a prompt to ids, with or without special tokens as the request asks."""
    special = given.get("special_tokens")
    if special not in (None, "text", "allowed"):
        raise wrong("special_tokens", f"must be 'text' or 'allowed', not {str(special)[:40]!r}")
    encode = generator.encode if given.flag("add_special_tokens", True) else generator.tokenizer.encode
    return lambda text: encode(text, allowed_special="all" if special == "allowed" else "none")


def _problem_of(variables: Any) -> str:
    if not isinstance(variables, dict):
        return f"must be an object, not {kind(variables)}"
    if wrong := next((name for name in variables if name in _OTHERS), None):
        return f"must not have {wrong}: it is a parameter of the request"
    return ""
