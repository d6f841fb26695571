"""Conversations of ``hf-sgpe chat`` with a loaded model: in a terminal, from a pipe, and as JSON lines for scripts.

Without a chat template there are no conversations: the model continues each text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.generation.conversation import Chat
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.text_generator import TextGenerator
from hf_sgpe.splitting.normalization import well_formed
from hf_sgpe.terminal.command import one_line

_HELP = """\
/reset          start a new conversation
/system TEXT    start a new conversation with this system prompt (without TEXT: with no system prompt)
/save FILE      save the conversation as JSON
/help           show this help
/quit           exit, like Ctrl-D
A line that ends in \\ continues on the next line. Ctrl-C stops an answer."""


class Conversation:
    """A `Chat` or, if there is no chat template, a model that continues text.

    Args:
        template: See `TextGenerator.chat`. If None, the tokenizer's own template is used, if it has one.
    """

    def __init__(
        self,
        generator: TextGenerator,
        options: GenerationOptions,
        *,
        system_prompt: str | None = None,
        template: str | None = None,
    ) -> None:
        self.generator = generator
        self.options = options
        has_template = template is not None or generator.tokenizer.chat_template is not None
        if system_prompt and not has_template:
            raise SGPEError("--system needs a chat template, but the tokenizer has none: name one with --template")
        if options.heal and has_template:
            raise SGPEError("--heal works only without a chat template, but this tokenizer has one: leave out --heal")
        self.chat: Chat | None = generator.chat(system_prompt, template=template) if has_template else None

    def answer(self, text: str) -> Iterator[str]:
        """Return an iterator over the parts of the answer to ``text``, as they are generated."""
        return self.chat.say(text, self.options) if self.chat else self.generator.stream(text, self.options)

    def speed(self) -> str:
        """Return a line with the length of the last answer and the speed at which it was generated."""
        progress = self.generator.progress
        if progress is None or progress.first is None:
            return "no tokens"
        count = f"{progress.tokens:,} token{'s' * (progress.tokens != 1)}"
        rate = f", {progress.tokens_per_second:,.1f} per second" if progress.tokens_per_second else ""
        return f"{count}{rate}; {progress.prompt_tokens:,} in the prompt, {progress.first:.2f} s to the first"


def once(conversation: Conversation, prompt: str) -> None:
    """Print the answer to one prompt as it is generated."""
    with closing(conversation.answer(prompt)) as pieces:  # type: ignore[type-var]
        for piece in pieces:
            print(piece.translate(_CONTROLS) if sys.stdout.isatty() else piece, end="", flush=True)
    print()


# A terminal would execute these control characters.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}


def interact(conversation: Conversation, read: Callable[[str], str] = input) -> None:
    """Run a conversation in the terminal until the user exits. ``read`` shows a prompt and returns the typed line."""
    with suppress(ImportError):
        import readline  # noqa: F401 - gives `input` line editing and a history
    mode = "" if conversation.chat else "; without a chat template, the model continues your text"
    print(f"{conversation.generator.engine.name}{mode}; /help lists commands", file=sys.stderr)
    while True:
        try:
            line = _read(read)
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
        if not line.strip():
            continue
        try:
            if line.startswith("/"):
                if not _run_command(conversation, line):
                    return
                continue
            try:
                once(conversation, line)
            except KeyboardInterrupt:
                print()
            print(f"({conversation.speed()})", file=sys.stderr)
        except (SGPEError, OSError) as error:
            is_full = "fills the context" in str(error) and conversation.chat and conversation.chat.messages
            print(f"error: {one_line(error)}{', or type /reset' if is_full else ''}", file=sys.stderr)


def _read(read: Callable[[str], str]) -> str:
    lines = [read("> ")]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(read("… "))
    return well_formed("\n".join(lines))  # `input` returns invalid bytes as lone surrogates


def answer_lines(conversation: Conversation, lines: Iterable[str]) -> None:
    """Answer each line of a pipe or a file, and run the lines that are commands."""
    for number, line in enumerate(lines, 1):
        if not line.startswith("/"):
            if line.strip():
                once(conversation, line)
            continue
        try:
            if not _run_command(conversation, line):
                return
        except SGPEError as error:
            remedy = "A line that begins with / is a command: give other texts with --prompt or --json"
            raise SGPEError(f"stdin, line {number}: {error}. {remedy}") from None


def _run_command(conversation: Conversation, line: str) -> bool:
    """Run a line that begins with ``/`` as a command, and return whether the conversation continues."""
    name, _, rest = line.partition(" ")
    chat = conversation.chat
    if name in ("/quit", "/exit"):
        return False
    if name == "/help":
        print(_HELP, file=sys.stderr)
    elif name not in ("/reset", "/system", "/save"):
        raise SGPEError(f"unknown command {name}: /help lists all commands")
    elif chat is None:
        raise SGPEError(f"{name} needs a chat template, and the tokenizer has none")
    elif name == "/save":
        if not rest.strip():
            raise SGPEError("/save needs a file name: type /save FILE")
        system = [{"role": "system", "content": chat.system_prompt}] if chat.system_prompt else []
        with atomic_file(Path(rest.strip()).expanduser()) as file:
            file.write_text(
                json.dumps([*system, *chat.messages], ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n"
            )
        print(f"{rest.strip()}: {len(chat.messages):,} messages", file=sys.stderr)
    else:
        if name == "/system":
            chat.system_prompt = rest.strip() or None
        chat.reset()
    return True


def json_lines(conversation: Conversation, lines: Iterable[str]) -> Iterator[str]:
    """Answer JSON lines. Each line is an object with ``prompt`` or ``messages``. For each line, yield the JSON of an object
    with ``text``, ``tokens``, ``prompt_tokens`` and ``seconds``.

    A line may also set fields of `GenerationOptions`. Each line starts a new conversation.
    """
    option_names = {field.name for field in fields(GenerationOptions)}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or ("prompt" in record) == ("messages" in record):
                raise SGPEError('expected an object with either "prompt" or "messages"')
            if not isinstance(record.get("prompt", ""), str) or not isinstance(record.get("messages", []), list):
                raise SGPEError(
                    '"prompt" must be a string, and "messages" must be a list of objects with "role" and "content"'
                )
            if unknown := record.keys() - option_names - {"prompt", "messages"}:
                raise SGPEError(f"unknown field: {', '.join(sorted(unknown))}")
            options = replace(conversation.options, **{name: record[name] for name in option_names & record.keys()})
            text = "".join(_answer(conversation, record, options))
        except (ValueError, RecursionError) as error:
            reason = f"not JSON ({error})" if isinstance(error, json.JSONDecodeError) else str(error)
            raise SGPEError(f"stdin, line {number}: {reason}") from None
        progress = conversation.generator.progress
        assert progress is not None
        answer = {
            "text": text,
            "tokens": progress.tokens,
            "prompt_tokens": progress.prompt_tokens,
            "seconds": round(progress.seconds, 3),
        }
        yield json.dumps(answer, ensure_ascii=False)


def _answer(conversation: Conversation, record: dict[str, Any], options: GenerationOptions) -> Iterator[str]:
    if "prompt" in record and conversation.chat is None:
        return conversation.generator.stream(record["prompt"], options)
    if conversation.chat is None:
        raise SGPEError("messages need a chat template, but the tokenizer has none: name one with --template")
    messages = record["messages"] if "messages" in record else [{"role": "user", "content": record["prompt"]}]
    return conversation.chat.answer(messages, options)
