"""Tools of a chat in OpenAI's format, and tool calls in its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

from hf_sgpe.chat.tool_calls import FORMATS, CallFormat, CallPart, CallReader, Mark, format_of, has_tools
from hf_sgpe.generation.pieces import Piece
from hf_sgpe.serving.messages import well_formed_json
from hf_sgpe.serving.parameters import Parameters, RequestError, kind
from hf_sgpe.tokenizer import BPETokenizer

Tool: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ToolUse:
    """The tools of a chat and the way in which its answers call them.

    Args:
        tools: The tools, as chat templates expect them.
        written: The format of the model's calls.
        marks: The format's marks that are tokens of the vocabulary, keyed by id.
        most: Maximum number of calls in an answer; None for no limit.
    """

    tools: list[Tool]
    written: CallFormat
    marks: Mapping[int, str]
    most: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(tool["function"]["name"] for tool in self.tools)

    def find_calls(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield the pieces of an answer, with tool calls instead of the text of tool calls.

        An answer ends when it has the maximum number of calls.
        """
        reader = CallReader(self.written, self.names, tokens=self.marks.values(), most=self.most)
        place = 0
        with closing(pieces):  # type: ignore[type-var]
            for piece in pieces:
                said = [part for text in _split(piece, place) for part in reader.read(text)]
                place += len(piece.text)
                finish_reason = "stop" if reader.is_full else piece.finish_reason
                if finish_reason is not None:
                    said += reader.end()
                    if reader.calls and finish_reason == "stop":
                        finish_reason = "tool_calls"
                calls = tuple(part for part in said if isinstance(part, CallPart))
                text = "".join(part for part in said if isinstance(part, str))
                yield Piece(text, piece.generated, finish_reason, piece.tokens, calls=calls)
                if finish_reason is not None:
                    return


def read_tools(given: Parameters, template: str, tokenizer: BPETokenizer) -> ToolUse | None:
    """Read the tools of a request; None if the answer may not call tools.

    Raises:
        RequestError: a tool is invalid, or the model cannot use tools.
    """
    tools = given.get("tools") or []
    if not isinstance(tools, list):
        raise RequestError(f"tools must be a list, not {kind(tools)}", param="tools")
    read = [_tool(tool, f"tools[{place}]") for place, tool in enumerate(tools)]
    names = [tool["function"]["name"] for tool in read]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RequestError(f"tools: two functions have the name {twice!r}", param="tools")
    choice = given.get("tool_choice")
    is_parallel = given.flag("parallel_tool_calls", True)
    if choice not in (None, "none", "auto"):
        raise RequestError("tool_choice must be none or auto", param="tool_choice")
    if not read or choice == "none":
        return None
    if not has_tools(template):
        raise RequestError("the model's chat template does not use tools: leave tools out", param="tools")
    written = format_of(template)
    if written is None:
        known = ", ".join(known.name for known in FORMATS)
        raise RequestError(
            f"tools: the format of this model's tool calls is unknown (known formats: {known}): leave tools out, or send "
            "tool_choice: none",
            param="tools",
        )
    added = {**tokenizer.added_tokens, **tokenizer.special_tokens}
    marks = {added[mark]: mark for mark in written.marks if mark in added}
    return ToolUse(read, written, marks, None if is_parallel else 1)


def _tool(tool: Any, param: str) -> Tool:
    if not isinstance(tool, dict) or tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        raise RequestError(f"{param} must be an object with type function, and function", param=param)
    function = Parameters(tool["function"], {"name", "description", "parameters", "strict"}, {}, f"{param}.function.")
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not name:
        raise RequestError(f"{param}.function.name must be a non-empty text", param=f"{param}.function.name")
    if not isinstance(function.get("description") or "", str):
        raise RequestError(f"{param}.function.description must be a text", param=f"{param}.function.description")
    if not isinstance(parameters or {}, dict):
        raise RequestError(f"{param}.function.parameters must be a JSON schema", param=f"{param}.function.parameters")
    function.flag("strict")
    fields = {key: value for key, value in function.record.items() if value is not None and key != "strict"}
    return {"type": "function", "function": well_formed_json(fields, param)}


def _split(piece: Piece, place: int) -> Iterator[str]:
    """Yield the text of a piece and its marks, in order. ``place`` is the number of characters in front of the piece."""
    done = 0
    for mark in piece.marks:
        end = max(mark.place - place, done)
        yield piece.text[done:end]
        yield Mark(mark.text)
        done = end
    yield piece.text[done:]
