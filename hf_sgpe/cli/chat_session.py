"""Conversations at a terminal, and in JSON lines for scripts: what ``hf-sgpe chat`` does once a model is loaded.

A tokenizer without a chat template has no conversations: there the model continues what is typed.
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

HELP = """\
/reset          forget what was said
/system TEXT    another system prompt, from the beginning; without TEXT none
/save FILE      write what was said as JSON
/help           this
/quit           end; so does Ctrl-D
A line that ends in \\ goes on in the next. Ctrl-C breaks an answer off."""


class Conversation:
    """A `Chat`, or without a template a model that continues text.

    Args:
        template: As for `TextGenerator.chat`; None for the tokenizer's own, if it has one.
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
            raise SGPEError("a system prompt needs a chat template, and the tokenizer has none: name one by --template")
        if options.heal and has_template:
            raise SGPEError("--heal is for going on from text, and this tokenizer has a chat template: leave it out")
        self.chat: Chat | None = generator.chat(system_prompt, template=template) if has_template else None

    def answer(self, text: str) -> Iterator[str]:
        """Return the answer piece by piece."""
        return self.chat.say(text, self.options) if self.chat else self.generator.stream(text, self.options)

    def speed(self) -> str:
        """Return how fast the answer came, in a line."""
        progress = self.generator.progress
        if progress is None or progress.first is None:
            return "no tokens"
        count = f"{progress.tokens:,} token{'s' * (progress.tokens != 1)}"
        rate = f", {progress.tokens_per_second:,.1f} a second" if progress.tokens_per_second else ""
        return f"{count}{rate}; {progress.prompt_tokens:,} in the prompt, {progress.first:.2f} s to the first"


def once(conversation: Conversation, prompt: str) -> None:
    """Print the answer to one prompt as it comes."""
    with closing(conversation.answer(prompt)) as pieces:  # type: ignore[type-var]
        for piece in pieces:
            print(piece.translate(_CONTROLS) if sys.stdout.isatty() else piece, end="", flush=True)
    print()


# A terminal would obey them, whatever the model meant.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}


def interact(conversation: Conversation, read: Callable[[str], str] = input) -> None:
    """Talk until the user ends it.

    Args:
        read: Shows a prompt and gives a line; raises EOFError at the end.
    """
    with suppress(ImportError):
        import readline  # noqa: F401 - lets one edit lines and go back to earlier ones
    how = "" if conversation.chat else "; without a chat template, it goes on from what you type"
    print(f"{conversation.generator.engine.name}{how}; /help shows what else there is", file=sys.stderr)
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
                if not _command(conversation, line):
                    return
                continue
            try:
                once(conversation, line)
            except KeyboardInterrupt:
                print()
            print(f"({conversation.speed()})", file=sys.stderr)
        except (SGPEError, OSError) as error:
            is_full = "fills the context" in str(error) and conversation.chat and conversation.chat.messages
            print(f"error: {one_line(error)}{', or /reset what was said' if is_full else ''}", file=sys.stderr)


def _read(read: Callable[[str], str]) -> str:
    lines = [read("> ")]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(read("… "))
    return well_formed("\n".join(lines))  # bytes that are no text come as lone surrogates


def _command(conversation: Conversation, line: str) -> bool:
    """Obey a line with a slash, and return whether the conversation continues."""
    name, _, rest = line.partition(" ")
    chat = conversation.chat
    if name in ("/quit", "/exit"):
        return False
    if name == "/help":
        print(HELP, file=sys.stderr)
    elif name not in ("/reset", "/system", "/save"):
        print(f"unknown: {name}; /help shows what there is", file=sys.stderr)
    elif chat is None:
        print(f"{name} is for conversations, and the tokenizer has no chat template", file=sys.stderr)
    elif name == "/save":
        if not rest.strip():
            raise SGPEError("/save: name a file")
        system = [{"role": "system", "content": chat.system_prompt}] if chat.system_prompt else []
        with atomic_file(Path(rest.strip())) as file:
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
    """Return for each line, an object with ``prompt`` or ``messages``, one with ``text``, ``tokens``, ``prompt_tokens``
    and ``seconds``.

    A line may also have options by the names of `GenerationOptions`. Of other lines nothing is remembered.

    Raises:
        SGPEError: a line is no such object; the message has its number.
    """
    known = {field.name for field in fields(GenerationOptions)}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or ("prompt" in record) == ("messages" in record):
                raise SGPEError('expected an object with "prompt" or "messages"')
            if not isinstance(record.get("prompt", ""), str) or not isinstance(record.get("messages", []), list):
                raise SGPEError('"prompt" must be a text, "messages" a list of objects with "role" and "content"')
            if unknown := record.keys() - known - {"prompt", "messages"}:
                raise SGPEError(f"unknown: {', '.join(sorted(unknown))}")
            options = replace(conversation.options, **{name: record[name] for name in known & record.keys()})
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
        raise SGPEError("messages need a chat template, and the tokenizer has none: name one by --template")
    messages = record["messages"] if "messages" in record else [{"role": "user", "content": record["prompt"]}]
    return conversation.chat.answer(messages, options)
