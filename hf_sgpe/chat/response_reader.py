"""Read a model's answers by the response template of its tokenizer, with the parser of newer versions of transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from hf_sgpe.chat.tool_calls import CallPart, Reasoning
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json


def response_parser() -> Callable[..., Any] | None:
    """Return the class `ResponseParser` of transformers, or None if the installed version does not have it."""
    try:
        from transformers.utils.chat_parsing import ResponseParser
    except ImportError:
        return None
    parser: Callable[..., Any] = ResponseParser
    return parser


def read_response_template(folder: Path) -> dict[str, Any] | None:
    """Return the response template of a saved tokenizer, or None if there is none or transformers has no parser for it."""
    file = folder / "tokenizer_config.json"
    template = read_json(file).get("response_template") if file.is_file() else None
    if template is None or response_parser() is None:
        return None
    try:
        ResponseReader(template, "", ())
    except Exception as error:  # transformers raises several kinds
        raise SGPEError(f"{file}: response_template cannot be used ({error})") from None
    return dict(template)


def marks_in(template: Any, tokens: Collection[str]) -> list[str]:
    """Return the tokens that occur in the strings or regular expressions of a response template."""
    if isinstance(template, str):
        return [token for token in tokens if token in template or re.escape(token) in template]
    if isinstance(template, Mapping):
        template = list(template.values())
    if not isinstance(template, list):
        return []
    return [*dict.fromkeys(mark for value in template for mark in marks_in(value, tokens))]


class ResponseReader:
    """A reader that finds text, reasoning and tool calls in a streamed answer by a response template. It has the methods of
    `hf_sgpe.chat.tool_calls.CallReader`, but the text that it reads must include special tokens.

    Args:
        prompt: Text of the prompt, with special tokens.
        tools: The tools. Their schemas determine the types of arguments.
        most: Maximum number of calls, at which the answer is cut. None means no limit.
    """

    def __init__(
        self, template: Mapping[str, Any], prompt: str, tools: Collection[Mapping[str, Any]], most: int | None = None
    ) -> None:
        make = response_parser()
        assert make is not None
        self.calls = 0
        self._parser = make(dict(template), prefix=prompt, tools=[*tools])
        self._most = most
        self._region = ""  # the text of the current region, if it is parsed at its end
        self._is_broken = False

    @property
    def is_full(self) -> bool:
        return self.calls == self._most

    def read(self, text: str) -> Iterator[str | CallPart]:
        yield from self._parsed(lambda: self._parser.feed(str(text)), str(text))

    def end(self) -> Iterator[str | CallPart]:
        yield from self._parsed(lambda: self._parser.finalize()[1], "")

    def _parsed(self, parse: Callable[[], list[dict[str, Any]]], text: str) -> Iterator[str | CallPart]:
        """Convert the events that ``parse`` returns. If it fails, yield ``text`` unchanged."""
        if self._is_broken:
            if text:
                yield text
            return
        try:
            events = parse()
        except Exception:  # the parsers of regions can raise anything
            self._is_broken = True
            yield self._region + text
            return
        for event in events:
            if self.is_full:
                return
            if event["type"] == "region_chunk" and event.get("dirty"):
                self._region += event["text"]
            elif event["type"] == "region_chunk":
                yield event["text"] if event["field"] == "content" else Reasoning(event["text"])
            elif event["type"] == "region_close":
                self._region = ""
                if event["field"] == "tool_calls":
                    yield from self._call(event.get("value"))

    def _call(self, value: Any) -> Iterator[CallPart]:
        for call in value if isinstance(value, list) else [value]:
            function = call.get("function", call) if isinstance(call, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str) or self.is_full:
                continue
            arguments = function.get("arguments", {})
            written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            self.calls += 1
            yield CallPart(self.calls - 1, function["name"], "")
            yield CallPart(self.calls - 1, None, written)
