"""``chat``: chat with a model."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from hf_sgpe.cli.application import command
from hf_sgpe.cli.input_lines import stdin_lines, well_formed
from hf_sgpe.cli.model_options import ModelOptions
from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.terminal.options import option


@dataclass(frozen=True, kw_only=True)
class _ChatOptions:
    prompt: str | None = option("Answer this prompt and exit.", None, "-p", after="tokenizer")
    json_lines: bool = option(
        'For scripts: read JSON lines such as {"prompt": "..."} or {"messages": [...]} from stdin. For each line, '
        'print a JSON line with the answer as "text".',
        False,
        "--json",
        after="prompt",
    )
    system: str | None = option("System prompt of the conversation (default: none).")
    older_max_tokens: int | None = option("", None, "--max-tokens", hidden=True)


@command(epilog="Examples: hf-sgpe chat my-model, hf-sgpe chat my-model -p 'ශ්‍රී ලංකාව' --engine mlx")
def chat(model: ModelOptions, given: _ChatOptions, options: GenerationOptions) -> None:
    """Chat with a model, in the terminal or from scripts. A model without a chat template continues your text.

    In the terminal and from a pipe, each line is a message. A line that begins with / is a command: /help lists them.
    """
    from hf_sgpe.cli import chat_session

    if given.prompt is not None and given.json_lines:
        raise SGPEError("--prompt and --json cannot be used together: leave one out")
    if given.older_max_tokens is not None:
        options = replace(options, max_new_tokens=given.older_max_tokens)
    template = model.read_template()
    with model.load() as generator:
        conversation = chat_session.Conversation(generator, options, system_prompt=given.system, template=template)
        if given.prompt is not None:
            chat_session.once(conversation, *well_formed([given.prompt]))
        elif given.json_lines:
            for line in chat_session.json_lines(conversation, stdin_lines()):
                print(line, flush=True)
        elif sys.stdin is not None and sys.stdin.isatty():
            chat_session.interact(conversation)
        else:
            chat_session.answer_lines(conversation, stdin_lines())
