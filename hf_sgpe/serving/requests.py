"""Reading requests in the format of OpenAI's API: the JSON of a request is parsed into prompts and options.

If a parameter is wrong, the error names it. An unsupported parameter is accepted only if its value has no effect on the
answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hf_sgpe.chat.reasoning import AnswerReader
from hf_sgpe.chat.response_reader import ResponseReader
from hf_sgpe.generation.conversation import Chat
from hf_sgpe.generation.engines.engine import Watch
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.pieces import Piece
from hf_sgpe.generation.structured_output import Rule
from hf_sgpe.generation.text_generator import TextGenerator
from hf_sgpe.serving.answer_rules import read_rule
from hf_sgpe.serving.limits import Limits
from hf_sgpe.serving.messages import read_messages
from hf_sgpe.serving.parameters import Parameters, RequestError, about, are_ids, kind, parse_json, wrong
from hf_sgpe.serving.template_parameters import PROMPT, TEMPLATE, read_encoder, read_template
from hf_sgpe.serving.thinking import Thinking, read_thinking, with_parts
from hf_sgpe.serving.tool_use import ToolUse, read_tools
from hf_sgpe.splitting.normalization import well_formed


@dataclass(frozen=True)
class Served:
    """A served model, and the limits for its clients. A request may set other values of ``template_variables``."""

    name: str
    generator: TextGenerator
    chat: Chat | None
    limits: Limits = field(default_factory=Limits)
    response_template: Mapping[str, Any] | None = None
    template_variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CompletionRequest:
    """The content of a request.

    Args:
        n: Number of answers to each prompt.
        echo: The texts of the prompts, if the answers repeat them.
        top: How many of the most probable tokens to return for each token of the answer. None: no log-probabilities.
        left_out: The constraints of the rule that the answer may violate, because no grammar can express them.
        has_answers: Whether anything is generated. With ``max_tokens: 0``, only the prompt is returned.
        continues: Whether the answers continue the text of the prompt. Otherwise, they are new messages.
    """

    prompts: list[list[int]]
    options: GenerationOptions
    n: int
    is_streamed: bool
    has_usage: bool
    echo: list[str] | None = None
    top: int | None = None
    tool_use: ToolUse | None = None
    rule: Rule | None = None
    left_out: tuple[str, ...] = ()
    thinking: Thinking | None = None
    has_answers: bool = True
    continues: bool = True

    @property
    def scores_prompts(self) -> bool:
        return self.echo is not None and self.top is not None

    def options_of(self, choice: int) -> GenerationOptions:
        """Return the options for one of ``n`` answers. Each gets its own seed from that of the request."""
        seed = self.options.seed
        return self.options if seed is None else replace(self.options, seed=(seed + choice) % ((1 << 32) - 1))

    @property
    def marks(self) -> Mapping[int, str]:
        """The ids and strings of the tokens that begin or end reasoning or tool calls, which are not shown as text."""
        return {**(self.tool_use.marks if self.tool_use else {}), **(self.thinking.marks if self.thinking else {})}

    def reading(self, pieces: Iterator[Piece], prompt: Callable[[], str]) -> Iterator[Piece]:
        """Return the pieces of an answer, with its reasoning and tool calls parsed. ``prompt`` returns the prompt's text."""
        reader: AnswerReader | None = self.tool_use.reader(prompt) if self.tool_use else None
        if self.thinking is not None and not isinstance(reader, ResponseReader):  # which separates the reasoning itself
            reader = self.thinking.reader(reader, is_exact=self.rule is not None)
        has_text = not (self.tool_use and self.tool_use.required)
        return pieces if reader is None else with_parts(pieces, reader, has_text=has_text)

    def watch(self, generator: TextGenerator) -> Watch | None:
        """Return the function that restricts each next token so that an answer follows the rule, if there is one."""
        if self.rule is None:
            return None
        stop_ids = generator.engine.stop_ids.union(self.options.stop_ids)
        if self.thinking is not None:
            return self.thinking.watch(self.rule, generator, stop_ids)
        return generator.constrainer.watch(self.rule, stop_ids)


def read_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of a request."""
    try:
        record = parse_json(body, "the body", object_pairs_hook=_with_unique_keys, parse_constant=_no_number)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not JSON ({error})") from None
    except ValueError:  # Python converts no longer texts to numbers
        raise RequestError("the body has a number with too many digits: send a shorter number") from None
    if not isinstance(record, dict):
        raise RequestError(f"the body must be a JSON object, not {kind(record)}")
    return record


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        name = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise RequestError(f"the body has an object with two values for {name[:100]!r}: give one")
    return record


def _no_number(name: str) -> Any:
    raise RequestError(f"the body is not JSON ({name} is not a number of JSON)")


def read_completion(record: Mapping[str, Any], served: Served) -> CompletionRequest:
    """Return the content of a request for ``/v1/completions``."""
    given = Parameters(record, {*_COMMON, *_COMPLETION}, {**_WITHOUT_EFFECT, "suffix": ("",), "best_of": (1,)})
    prompts = given.texts_or_ids("prompt")
    _check_count(given, served, len(prompts))  # before prompts are encoded, which takes more time
    encode = read_encoder(given, served.generator)
    ids = [encode(well_formed(part)) if isinstance(part, str) else part for part in prompts]
    wanted = _completion_request(given, served, ids, 16, ("max_tokens",), least_tokens=0)
    wanted = _with_rule(wanted, *read_rule(given, served.generator))
    if given.get("logprobs") is not None:
        wanted = replace(wanted, top=given.whole_number("logprobs", 0, _MOST_TOP, least=0))
    if not given.flag("echo"):
        return wanted
    if wanted.rule is not None and wanted.top is not None:
        raise wrong("echo", "with logprobs cannot be combined with structured output: leave one out")
    with about("prompt"):
        return replace(wanted, echo=[served.generator.tokenizer.decode(ids) for ids in wanted.prompts])


def read_chat(record: Mapping[str, Any], served: Served) -> CompletionRequest:
    """Return the content of a request for ``/v1/chat/completions``."""
    given = Parameters(record, {*_COMMON, *_CHAT}, {**_WITHOUT_EFFECT, **_OF_CHATS})
    chat = _chat_of(served)
    tool_use = _read_tools(given, served)
    _check_count(given, served, 1)
    ids = _read_conversation(given, served, tool_use)
    wanted = _completion_request(given, served, [ids], served.limits.max_new_tokens, ("max_completion_tokens", "max_tokens"))
    top = given.whole_number("top_logprobs", 0, _MOST_TOP, least=0)
    has_logprobs = given.flag("logprobs")
    if top and not has_logprobs:
        raise wrong("top_logprobs", "needs logprobs: true")
    rule, left_out = read_rule(given, served.generator, chat.stop_ids, tool_use)
    continues = given.flag("continue_final_message")
    thinking = read_thinking(
        chat.template,
        served.generator,
        ids,
        last=read_messages(given.get("messages"), chat.template)[-1] if continues else None,
        skips_special=wanted.options.skip_special_tokens,
    )
    wanted = replace(wanted, options=chat.ending(wanted.options), tool_use=tool_use, thinking=thinking)
    wanted = _with_rule(wanted, rule, left_out)
    return replace(wanted, top=top if has_logprobs else None, continues=continues)


def read_tokenize(record: Mapping[str, Any], served: Served) -> tuple[list[int], bool]:
    """Return the ids of a request for ``/tokenize``, and whether the response includes the text of each token."""
    if "messages" in record and "prompt" in record:
        raise wrong("prompt", "and messages exclude each other: give only one of them")
    of_texts, of_chats = {"prompt", *PROMPT}, {"messages", "tools", *TEMPLATE}
    given = Parameters(record, {"model", "return_token_strs", *(of_chats if "messages" in record else of_texts)}, {})
    with_spellings = given.flag("return_token_strs")
    if "messages" in record:
        return _read_conversation(given, served, _read_tools(given, served)), with_spellings
    text = given.get("prompt")
    if not isinstance(text, str):
        raise wrong("prompt", "must be a string; for a chat, give messages")
    return read_encoder(given, served.generator)(well_formed(text)), with_spellings


def read_detokenize(record: Mapping[str, Any], served: Served) -> str:
    """Return the text of the tokens in a request for ``/detokenize``."""
    given = Parameters(record, {"model", "tokens"}, {})
    tokens = given.get("tokens")
    if not are_ids(tokens):
        raise wrong("tokens", "must be a list of token ids")
    with about("tokens"):
        return served.generator.tokenizer.decode(tokens)


def _read_conversation(given: Parameters, served: Served, tool_use: ToolUse | None) -> list[int]:
    chat = _chat_of(served)
    messages = read_messages(given.get("messages"), chat.template)
    variables = {**served.template_variables, "tools": (tool_use and tool_use.tools) or None}
    arguments = read_template(given, messages, variables, chat.template)
    with about("messages"):
        return chat.encode(messages, **arguments)


def _read_tools(given: Parameters, served: Served) -> ToolUse | None:
    return read_tools(given, _chat_of(served).template, served.generator.tokenizer, served.response_template)


def _chat_of(served: Served) -> Chat:
    if served.chat is None:
        raise RequestError("the model has no chat template: start the server with --template", param="messages")
    return served.chat


def _with_rule(wanted: CompletionRequest, rule: Rule | None, left_out: tuple[str, ...]) -> CompletionRequest:
    """Return the request with the rule that its answers must follow, if any. The rule decides where an answer ends."""
    for name, is_set in (("ignore_eos", wanted.options.ignore_eos), ("min_tokens", wanted.options.min_new_tokens)):
        if rule is not None and is_set:
            raise wrong(name, "cannot be combined with structured output, which ends an answer: leave one out")
    return replace(wanted, rule=rule, left_out=left_out)


def _check_count(given: Parameters, served: Served, prompts: int) -> None:
    answers, most = given.whole_number("n", 1) * prompts, served.limits.max_choices
    if answers > most:
        raise RequestError(f"n: the request asks for {answers:,} answers, and the maximum is {most:,}", param="n")


def _completion_request(
    given: Parameters,
    served: Served,
    prompts: list[list[int]],
    max_tokens: int,
    names: tuple[str, ...],
    *,
    least_tokens: int = 1,
) -> CompletionRequest:
    limits, context = served.limits, served.generator.engine.context_length
    most = given.whole_number(
        given.one_of(names), min(max_tokens, limits.max_new_tokens), limits.max_new_tokens, least=least_tokens
    )
    for ids in prompts:
        if context is not None and len(ids) + min(most, 1) > context:
            raise RequestError(
                f"the prompt has {len(ids):,} tokens, and the context of this model has only {context:,}: shorten the "
                "prompt",
                param="messages" if "messages" in given.record else "prompt",
                code="context_length_exceeded",
            )
    options = GenerationOptions(max_new_tokens=max(most, 1), temperature=1.0, top_p=1.0)
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed"):
        value = given.get(name)
        if value is not None and not (name == "seed" and value == -1):  # vLLM's -1 means no seed
            with about(name):
                options = replace(options, **{name: value})
    is_streamed = given.flag("stream")
    settings = given.get("stream_options")
    if settings is not None and (not is_streamed or not isinstance(settings, dict)):
        raise wrong("stream_options", "must be an object, and needs stream: true")
    settings = Parameters(settings or {}, {"include_usage"}, {"include_obfuscation": (False,)}, "stream_options.")
    options = _with_stopping(given, options, served.generator)
    n = given.whole_number("n", 1)
    return CompletionRequest(prompts, options, n, is_streamed, settings.flag("include_usage"), has_answers=most > 0)


def _with_stopping(given: Parameters, options: GenerationOptions, generator: TextGenerator) -> GenerationOptions:
    stops = given.get("stop")
    if stops is None:
        stops = []
    elif isinstance(stops, str):
        stops = [stops]
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(isinstance(text, str) for text in stops):
        raise wrong("stop", f"must be a string, or a list of up to {_MOST_STOPS} strings")
    ids = [] if given.get("stop_token_ids") is None else given.get("stop_token_ids")
    if not are_ids(ids):
        raise wrong("stop_token_ids", "must be a list of token ids")
    for id in ids:
        if not generator.has_token(id):
            raise RequestError(f"stop_token_ids: the tokenizer has no token with the id {id}", param="stop_token_ids")
    return replace(
        options,
        stop=tuple(filter(None, stops)),  # some clients send an empty string for no stop
        stop_ids=tuple(ids),
        ignore_eos=given.flag("ignore_eos"),
        min_new_tokens=given.whole_number("min_tokens", 0, options.max_new_tokens, least=0),
        skip_special_tokens=given.flag("skip_special_tokens", True),
    )


_MOST_TOP = 20
_MOST_STOPS = 16

_COMMON = (
    *("model", "n", "stream", "stream_options", "seed", "temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    *("max_tokens", "logprobs", "response_format", "structured_outputs"),
    *("stop", "stop_token_ids", "ignore_eos", "min_tokens", "skip_special_tokens"),
)
_COMPLETION = ("prompt", "echo", *PROMPT)
_CHAT = (
    *("messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls"),
    *TEMPLATE,
)
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "service_tier": ("auto", "default"),
}
_OF_CHATS: dict[str, tuple[Any, ...]] = {
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "verbosity": (),
    "store": (False,),
    "web_search_options": (),
}
