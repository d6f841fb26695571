"""Chat templates: the built-in templates, and functions that render a conversation as one text for a model."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import lru_cache, wraps
from pathlib import Path
from pprint import pformat
from typing import Any, NoReturn

import numpy as np
from jinja2 import TemplateError, nodes, pass_eval_context
from jinja2.environment import Template
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_reverse, make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from hf_sgpe.chat.marked_text import Markup, Written, as_answer, by_template, follow, join, spelled, text_of
from hf_sgpe.chat.template_budget import Budget
from hf_sgpe.errors import SGPEError

budget = Budget()

Message = Mapping[str, Any]

SPECIAL_TOKENS: dict[str, tuple[str, ...]] = {
    "llama3": (
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ),
    "chatml": ("<|im_start|>", "<|im_end|>"),
    "alpaca": (),
}
"""The special tokens that a tokenizer needs for each chat template, keyed by the template's name."""

LLAMA3_SPECIAL_TOKENS: dict[str, int] = {
    "<|begin_of_text|>": 128000,
    "<|end_of_text|>": 128001,
    "<|reserved_special_token_0|>": 128002,
    "<|reserved_special_token_1|>": 128003,
    "<|finetune_right_pad_id|>": 128004,
    "<|reserved_special_token_2|>": 128005,
    "<|start_header_id|>": 128006,
    "<|end_header_id|>": 128007,
    "<|eom_id|>": 128008,
    "<|eot_id|>": 128009,
    "<|python_tag|>": 128010,
}
"""The special tokens of Llama 3.1, except most reserved tokens, and their ids in Llama 3.1. The template writes five of
them.
"""

CHATML_SPECIAL_TOKENS: dict[str, int] = {"<|im_start|>": 32001, "<|im_end|>": 32002}
"""The special tokens of ChatML, with ids that follow a vocabulary of 32,000 tokens."""

ROLES = frozenset(
    {"system", "developer", "user", "assistant", "model", "tool", "tool_call", "tool_response", "function", "ipython"}
)
"""Roles that count as written by the template, because some templates turn a role into a special token."""


_END = "\ue000end of the last message\ue001"
"""A text that shows where the template has written the end of a message to continue. It begins and ends with private-use
characters instead of spaces, because a template might remove spaces.
"""


def load_template(name: str) -> str:
    """Return the Jinja source of a built-in chat template, or ``name`` itself if it is Jinja source."""
    if name in SPECIAL_TOKENS:
        return (Path(__file__).parent / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
    if "{" not in name:
        names = ", ".join(SPECIAL_TOKENS)
        raise SGPEError(f"unknown chat template {reprlib.repr(name)}: choose from {names}, or give a Jinja template")
    return name


def check_template(source: str) -> None:
    """Check that Jinja source is not empty and can be compiled."""
    if not source.strip():
        raise SGPEError("the chat template is empty")
    try:
        _compile(source)
    except TemplateError as error:
        raise SGPEError(f"error in the chat template, line {getattr(error, 'lineno', 1)}: {error}") from None


def render(
    messages: Sequence[Message],
    template: str,
    *,
    add_generation_prompt: bool = True,
    system_prompt: str | None = None,
    special_tokens: Mapping[str, str] | None = None,
    variables: Mapping[str, Any] | None = None,
    continue_final_message: bool = False,
) -> Written:
    """Render a conversation as text. Characters that the template wrote are marked.

    Args:
        messages: Dictionaries with a ``role`` and a ``content``. A message with ``tool_calls`` needs no content.
        template: Name of a chat template, or Jinja source.
        add_generation_prompt: Whether the text ends with the beginning of the assistant's answer.
        system_prompt: The system message to put first, unless the conversation already has one.
        special_tokens: Special tokens as variables of the template, such as ``{"eos_token": "</s>"}``.
        variables: Other variables of the template, such as ``tools``.
        continue_final_message: Whether the text ends with the content of the last message, so that the model continues this
            message.

    Raises:
        SGPEError: a message is incomplete, the template rejects the conversation, or the template has an error.

    >>> render([{"role": "user", "content": "Hi"}], "chatml")
    '<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n'
    """
    for place, message in enumerate(messages):
        has_calls = isinstance(message, Mapping) and message.get("tool_calls")
        for key in ("role", "content"):
            if has_calls and key == "content" and message.get(key) is None:
                continue
            if not isinstance(message, Mapping) or not isinstance(message.get(key), str):
                raise SGPEError(f"message {place} needs a string as {key!r}, but is {message!r}")
    if system_prompt and not any(message["role"] == "system" for message in messages):
        messages = [{"role": "system", "content": system_prompt}, *messages]
    if continue_final_message:
        messages = [*messages[:-1], {**messages[-1], "content": messages[-1]["content"] + _END}]
        add_generation_prompt = False
    source = load_template(template)
    try:
        given = {"tools": None, "documents": None, **(variables or {}), "add_generation_prompt": add_generation_prompt}
        written = write(messages, source, special_tokens=special_tokens, variables=given)
        if not continue_final_message:
            return written
        end = written.rfind(_END)
        if end < 0:
            raise SGPEError("the template does not write the last message, or changes it: the message cannot be continued")
        return written[:end]
    except Exception as error:  # a template can raise anything
        reason = str(error).replace("\n", " ") or type(error).__name__
        raise SGPEError(f"chat template{f' {template}' if template in SPECIAL_TOKENS else ''}: {reason}") from None


def write(
    messages: Sequence[Message],
    source: str,
    *,
    special_tokens: Mapping[str, str] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Written:
    """Render messages with Jinja source, without checking the messages. If the template fails, its own error is raised, not
    SGPEError.
    """
    marked_messages = _marked(plain(list(messages)), Written)
    for message in marked_messages:
        if isinstance(message, dict) and message.get("role") in ROLES:
            message["role"] = by_template(message["role"])
    tokens = _marked(plain(special_tokens or {}), by_template)
    marked_variables = _marked(plain(variables or {}), Written)
    budget.begin()
    written = _compile(source).render({**marked_variables, **tokens, "messages": marked_messages})
    return written if isinstance(written, Written) else Written(written)


def _marked(value: Any, mark: Callable[[str], Written]) -> Any:
    if isinstance(value, str):
        return mark(value)
    if isinstance(value, Mapping):
        return {_marked(key, mark): _marked(item, mark) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_marked(item, mark) for item in value)
    return value


def plain(value: Any) -> Any:
    """Return a copy of ``value`` that contains only the types of JSON, so that a template cannot call methods of other
    objects. An object that cannot be converted is replaced by the name of its type.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(map(plain, value))
    if isinstance(value, np.generic):
        return plain(value.item())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if callable(getattr(value, "model_dump", None)):  # a pydantic model
        return plain(value.model_dump())
    return f"<{type(value).__name__}>"


# ---------------------------------------------------------------- the Jinja environment


class _Generation(Extension):
    """The tag ``{% generation %}…{% endgeneration %}``, which marks the text inside it as an answer of the assistant, for
    training.
    """

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_answer"), [], [], body).set_lineno(line)

    def _answer(self, caller: Callable[[], str]) -> Written:
        return as_answer(caller())


class _Marking(NodeTransformer):
    """A transformation of a template's syntax tree. The new template marks its own text and literals, and spends its
    budget.
    """

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return nodes.MarkSafeIfAutoescape(_constant(node.data))

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        return _constant(node.value) if isinstance(node.value, str) else node

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self._spending(node)
        node.iter = nodes.Filter(node.iter, _ITERATED, [], [], None, None)
        return node

    def _spending(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.Output([nodes.MarkSafe(nodes.EnvironmentAttribute("budget.spend()"))]))
        return node  # type: ignore[no-any-return]

    visit_Macro = visit_CallBlock = _spending

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        sides: list[Any] = [node, *node.ops]
        for side in sides:
            side.expr = nodes.Filter(side.expr, _COMPARED, [], [], None, None)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return nodes.Filter(node, _SIZED, [], [], None, None) if isinstance(node.arg, nodes.Slice) else node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        return self._container(node) if node.ctx == "load" else node

    def _container(self, node: nodes.Expr) -> nodes.Node:
        is_constant = all(isinstance(inner, nodes.Const) for inner in node.iter_child_nodes())
        self.generic_visit(node)
        return node if is_constant else nodes.Filter(node, _SIZED, [], [], None, None)

    visit_List = visit_Dict = _container

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        # No variable of the template can hide an attribute of the environment.
        return nodes.Call(nodes.EnvironmentAttribute("joined"), node.nodes, [], None, None)


def _constant(text: str) -> nodes.Expr:
    # Jinja writes the name of this node into the template's code. A `nodes.Call` would go through the sandbox. That would
    # take half of the time of rendering a conversation.
    return nodes.EnvironmentAttribute(f"by_template({text!r})")


class _Environment(ImmutableSandboxedEnvironment):
    """A Jinja sandbox with the tags, filters and functions that transformers gives to chat templates. It also marks the
    characters that come from the template.
    """

    budget = budget
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], finalize=_string)
        del self.globals["lipsum"]  # it writes random text of any length
        marking = {"join": _join, "string": _string, "tojson": _to_json, "pprint": _pprint, "reverse": _reverse}
        marking |= {"e": _escape, "escape": _escape, "forceescape": _force_escape}
        filters = {**self.filters, **marking}
        self.filters = {name: _limited(name, filter, marks=name in marking) for name, filter in filters.items()}
        self.tests = {name: _compared(test) for name, test in self.tests.items()}
        self.filters.update({_SIZED: budget.sized, _COMPARED: budget.compared, _ITERATED: budget.iterated})
        self.globals.update(raise_exception=_raise, strftime_now=_now, dict=_Dict(), namespace=_Namespace)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        text = getattr(function, "__self__", None)
        if isinstance(text, str):
            args = tuple(budget.listed(item) if isinstance(item, Iterator) else item for item in args)
            budget.check(function.__name__, text, args, kwargs)
        elif isinstance(text, (bytes, int)) and not isinstance(text, bool):
            raise SGPEError(f"calls a method of a number or of bytes, {function.__name__}: this is not possible")
        budget.charge((text, *args))
        result = budget.sized(super().call(context, function, *args, **kwargs))
        if not isinstance(text, Written) or type(result) is Written:
            return result
        return follow(result, text, *args, *kwargs.values())

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapper = super().wrap_str_format(value)
        text = getattr(value, "__self__", None)
        if wrapper is None or not isinstance(text, Written):
            return wrapper

        def format(*args: Any, **kwargs: Any) -> str:
            budget.check("format", text, args, kwargs)
            if type(text) is Written and value.__name__ == "format":
                return _Formatter(self).vformat(text, args, kwargs)
            if type(text) is Written and len(args) == 1 and not kwargs:
                return _Formatter(self).vformat(text, (), args[0])
            formatted: str = follow(wrapper(*args, **kwargs), text, *args, *kwargs.values())
            return formatted

        return format

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        return super()._generate(_Marking().visit(source), *args, **kwargs)

    by_template = staticmethod(lru_cache(1 << 12)(by_template))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget.check_operator(operator, left, right)
        return budget.sized(super().call_binop(context, operator, left, right))

    def concat(self, texts: Iterable[str]) -> Written:
        return join(budget.listed(iter(texts)))

    def joined(self, *values: object) -> Written:
        return self.concat(map(text_of, map(budget.sized, values)))


class _Formatter(SandboxedFormatter):
    """A formatter that computes ``text.format(…)`` and keeps the marks."""

    def vformat(self, text: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        self._text, self._pieces = text, list[str]()
        self._is_inside, self._specs = False, list[object]([text])  # the sources of format specs
        formatted = super().vformat(text, args, kwargs)
        marked = join(self._pieces)
        return marked if marked == formatted else follow(formatted, text, args, kwargs)

    def parse(self, text: Any) -> Iterator[tuple[str, str | None, str | None, str | None]]:
        was_inside, self._is_inside = self._is_inside, text is not self._text  # inside a format spec
        for field in super().parse(text):
            if not self._is_inside:
                self._pieces.append(follow(field[0], self._text))
            yield field
        self._is_inside = was_inside

    def convert_field(self, value: Any, conversion: Any) -> Any:
        converted = super().convert_field(value, conversion)
        spell = {"a": ascii, "r": repr}.get(conversion)
        return spelled(value, converted, spell) if spell else converted

    def format_field(self, value: Any, format: str) -> str:
        formatted: str = follow(super().format_field(value, format), value, self._specs) if format else text_of(value)
        (self._specs if self._is_inside else self._pieces).append(formatted)
        return formatted


class _Namespace(Namespace):
    """Jinja's namespace, without attributes that give access to Python's internals."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # a template may use ``self`` as a name
        self, *mappings = args
        Namespace.__init__(self)
        for name, value in dict(*mappings, **kwargs).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a namespace cannot have an attribute {name!r}")
        super().__setitem__(name, value)


class _Dict:
    """``dict`` for templates, without the attributes of the class that give access to Python's internals."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


def _limited(name: str, filter: Callable[..., Any], *, marks: bool) -> Callable[..., Any]:
    """Return a filter that spends the budget. If the filter does not mark its result itself, `follow` does."""
    first = 1 if hasattr(filter, "jinja_pass_arg") else 0  # Jinja may pass its context before the text

    @wraps(filter)
    def limited(*args: Any, **kwargs: Any) -> Any:
        before, value, rest = args[:first], args[first], args[first + 1 :]
        if isinstance(value, Iterator) and name not in _LAZY:
            value = budget.listed(value)
        budget.check(name, value, rest, kwargs)
        budget.charge((value, *rest))
        result = filter(*before, value, *rest, **kwargs)
        return budget.sized(result if marks else follow(result, value, *rest, *kwargs.values()))

    return limited


def _compared(test: Any) -> Callable[..., Any]:
    @wraps(test)
    def compared(*args: Any) -> Any:
        for value in args:
            budget.compared(value)
        return test(*args)

    return compared


def _string(value: object) -> str:
    return value if isinstance(value, str) else text_of(budget.sized(value))


def _reverse(value: Any) -> Any:
    # A reversed palindrome looks unchanged to `follow`, so `follow` would keep the marks in their old order.
    return value[::-1] if isinstance(value, str) else do_reverse(value)


def _pprint(value: object) -> Any:
    return follow(pformat(value), spelled(value, repr(value), repr))


def _escape(value: object) -> Markup:
    return Markup.escape(value if hasattr(value, "__html__") else text_of(value))


def _force_escape(value: object) -> Markup:
    return Markup.escape(text_of(value))


@pass_eval_context
def _join(context: EvalContext, values: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> Written:
    if attribute is not None:
        values = map(make_attrgetter(context.environment, attribute), values)
    texts = budget.sized([*map(text_of, values)])
    budget.check("join", texts, [d], {})
    return join([text_of(d)]).join(texts)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> Written:
    def encode(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    return spelled(value, encode(value), encode, sort_keys=sort_keys)


def _now(form: str) -> str:
    if len(form) > 200 or re.search(r"%[^a-zA-Z%]*\d{4}", form):
        raise SGPEError("writes the date in a format that is too long")
    return datetime.now().strftime(form)


def _raise(message: str) -> NoReturn:
    raise SGPEError(message)


_LAZY = ("map", "select", "reject", "selectattr", "rejectattr", "unique", "batch", "first", "default", "d")
"""Filters that take the items of an iterator one at a time."""

_SIZED, _COMPARED, _ITERATED = " sized", " compared", " iterated"
"""Names of filters that `_Marking` adds to a template. The space keeps templates from using these names."""

_environment = _Environment()


@lru_cache(64)
def _compile(source: str) -> Template:
    return _environment.from_string(source)
