"""Tools of a chat in OpenAI's format, and tool calls in its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hf_sgpe.chat.response_reader import ResponseReader, marks_in, response_parser
from hf_sgpe.chat.tool_calls import FORMATS, CallFormat, CallReader, format_of, has_tools
from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.json_schemas import LIMITS, check_length, check_schema
from hf_sgpe.serving.call_grammar import CallGrammar
from hf_sgpe.serving.messages import well_formed_json
from hf_sgpe.serving.parameters import Parameters, RequestError, about, kind, wrong
from hf_sgpe.tokenizer import BPETokenizer

Tool: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ToolUse:
    """The tools of a chat, and the format in which its answers call them.

    Args:
        written: The format in which the model writes calls. None if only the response template describes it.
        marks: The ids of those marks, such as ``<tool_call>``, that are tokens of the vocabulary.
        most: Maximum number of calls in an answer.
        required: Names of tools, at least one of which the answer must call. None if the answer may be text.
        response_template: The tokenizer's response template, if transformers can parse answers with it.
    """

    tools: list[Tool]
    written: CallFormat | None
    marks: Mapping[int, str]
    most: int | None = None
    required: tuple[str, ...] | None = None
    response_template: Mapping[str, Any] | None = None

    def grammar(self) -> list[str]:
        """Return the lines of a Lark grammar whose rule ``calls`` matches tool calls in the model's format."""
        assert self.written is not None
        functions = [tool["function"] for tool in self.tools]
        if self.required:
            functions = [function for function in functions if function["name"] in self.required]
        return CallGrammar(self.written, {mark: id for id, mark in self.marks.items()}).lines(functions, self.most)

    def reader(self, prompt: Callable[[], str]) -> CallReader | ResponseReader:
        """Return the reader that finds tool calls in an answer. ``prompt`` returns the prompt with special tokens."""
        if self.response_template is not None:
            return ResponseReader(self.response_template, prompt(), self.tools, self.most)
        assert self.written is not None
        parameters = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in self.tools}
        return CallReader(self.written, parameters, tokens=self.marks.values(), most=self.most)


def read_tools(
    given: Parameters, template: str, tokenizer: BPETokenizer, response_template: Mapping[str, Any] | None = None
) -> ToolUse | None:
    """Return the tools of a request; None if answers contain only text. ``template`` is the source of the chat template."""
    tools = given.get("tools") or []
    if not isinstance(tools, list):
        raise wrong("tools", f"must be a list, not {kind(tools)}")
    with about("tools"):
        check_length("tools", len(tools), LIMITS.tools)
    read = [_tool(tool, f"tools[{place}]") for place, tool in enumerate(tools)]
    names = [tool["function"]["name"] for tool in read]
    (name, times), *_ = [*Counter(names).most_common(1), ("", 0)]
    if times > 1:
        raise RequestError(f"tools: {times} functions have the name {name!r}", param="tools")
    is_parallel = given.flag("parallel_tool_calls", True)
    choice = given.get("tool_choice")
    required = _required(choice, names)
    if response_template is not None and response_parser() is None:
        response_template = None
    read = [] if choice == "none" else read
    if not read and response_template is None:
        return None
    if read and not has_tools(template):
        raise RequestError("the model's chat template does not use tools: leave tools out", param="tools")
    written = format_of(template)
    if written is None and response_template is None:
        known = ", ".join(known.name for known in FORMATS)
        raise RequestError(
            f"tools: the format of this model's tool calls is unknown (known formats: {known}): leave tools out, or send "
            "tool_choice: none",
            param="tools",
        )
    added = tokenizer.added_ids
    named = marks_in(response_template, added) if response_template is not None else written.marks if written else ()
    marks = {added[mark]: mark for mark in named if mark in added}
    most = None if is_parallel and not isinstance(choice, dict) else 1
    if required is not None and written is None:
        raise RequestError(
            "tool_choice: a call cannot be required, because only the tokenizer's response template describes the format of "
            "this model's calls: send auto or none",
            param="tool_choice",
        )
    return ToolUse(read, written, marks, most, required, response_template)


def _required(choice: Any, names: list[str]) -> tuple[str, ...] | None:
    """Return the names of the tools, one of which must be called according to ``tool_choice``; None if none must."""
    if choice in (None, "none", "auto"):
        return None
    named = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    name = named.get("name") if isinstance(named, dict) else None
    if choice != "required" and not isinstance(name, str):
        raise wrong("tool_choice", "must be none, auto, required, or an object with a function")
    if not names:
        raise wrong("tool_choice", "requires a call, but the request has no tools: give tools")
    if isinstance(name, str) and name not in names:
        raise RequestError(f"tool_choice: there is no tool with the name {name[:100]!r}", param="tool_choice")
    return (name,) if isinstance(name, str) else tuple(names)


def _tool(tool: Any, param: str) -> Tool:
    if not isinstance(tool, dict) or tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        raise wrong(param, "must be an object with a function and the type function")
    function = Parameters(tool["function"], {"name", "description", "parameters", "strict"}, {}, f"{param}.function.")
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not name:
        raise wrong(f"{param}.function.name", "must be a non-empty string")
    if not isinstance(function.get("description") or "", str):
        raise wrong(f"{param}.function.description", "must be a string")
    try:
        check_schema(parameters or {})
    except SGPEError as error:
        where = f"{param}.function.parameters"
        raise RequestError(f"{where}, of the tool {name!r}: {error}", param=where) from None
    function.flag("strict")
    fields = {key: value for key, value in function.record.items() if value is not None and key != "strict"}
    return {"type": "function", "function": well_formed_json(fields)}
