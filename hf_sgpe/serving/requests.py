"""Reading requests in the format of OpenAI's API: the JSON of a request is parsed into prompts and options.

If a parameter is wrong, the error names it. An unsupported parameter is accepted only if its value has no effect on the
answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from hf_sgpe.serving.answer_parts import with_parts
from hf_sgpe.serving.answer_rules import read_rule
from hf_sgpe.serving.limits import Limits
from hf_sgpe.serving.messages import read_messages
from hf_sgpe.serving.parameters import MOST_LEVELS, Parameters, RequestError, about, are_ids, is_too_deep, kind
from hf_sgpe.serving.stopping import STOPPING, read_stopping
from hf_sgpe.serving.template_parameters import PROMPT, TEMPLATE, read_encoder, read_template
from hf_sgpe.serving.thinking import Thinking, read_thinking
from hf_sgpe.serving.tool_use import Tool, ToolUse, read_tools
from hf_sgpe.splitting.normalization import well_formed


@dataclass(frozen=True)
class Served:
    """A served model: its name, its generator and the limits for clients.

    Args:
        chat: Object that encodes conversations. None if there is no chat template.
        response_template: The tokenizer's response template, with which transformers parses answers; None if there is none.
        template_variables: Variables of the chat template. A request may set them to other values.
    """

    name: str
    generator: TextGenerator
    chat: Chat | None
    limits: Limits = field(default_factory=Limits)
    response_template: Mapping[str, Any] | None = None
    template_variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """The content of a request.

    Args:
        prompts: Token ids of each prompt.
        options: Options for all prompts.
        n: Number of answers to each prompt.
        echo: If the answers repeat the prompts, the texts of the prompts. Otherwise None.
        top: How many of the most probable tokens to return for each token of the answer. None means that no
            log-probabilities are returned.
        has_answers: Whether anything is generated. With ``max_tokens: 0``, only the prompt is returned.
        continues: If True, the answers continue the text of the prompt. If False, they are new messages.
        tool_use: The tools that an answer may call, if any.
        rule: The rule that the text of an answer must follow, if any.
        left_out: The constraints of the rule that the answer may violate, because no grammar can express them.
        thinking: The reasoning that an answer may begin with, if any.
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
        """True if each answer includes its prompt and the log-probabilities of the prompt's tokens."""
        return self.echo is not None and self.top is not None

    def options_of(self, choice: int) -> GenerationOptions:
        """Return the options for one of ``n`` answers. If the request has a seed, each answer gets its own seed from it."""
        seed = self.options.seed
        return self.options if seed is None else replace(self.options, seed=(seed + choice) % ((1 << 32) - 1))

    @property
    def marks(self) -> Mapping[int, str]:
        """Dict from ids to strings, for the tokens that begin or end reasoning or tool calls. The generator does not show
        these tokens as text, but reports them.
        """
        return {**(self.tool_use.marks if self.tool_use else {}), **(self.thinking.marks if self.thinking else {})}

    def reading(self, pieces: Iterator[Piece], prompt: Callable[[], str]) -> Iterator[Piece]:
        """Return the pieces of an answer, with its reasoning and tool calls parsed; see `with_parts`.

        Args:
            prompt: Function that returns the text of the prompt, with special tokens.
        """
        reader: AnswerReader | None = self.tool_use.reader(prompt) if self.tool_use else None
        if self.thinking is not None and not isinstance(reader, ResponseReader):  # which separates the reasoning itself
            reader = self.thinking.reader(reader, is_exact=self.rule is not None)
        has_text = not (self.tool_use and self.tool_use.required)
        return pieces if reader is None else with_parts(pieces, reader, has_text=has_text)

    def watch(self, generator: TextGenerator) -> Watch | None:
        """Return the function that restricts each next token so that an answer follows the rule. If there is no rule, return
        None.

        Raises:
            SGPEError: the model has no token that ends an answer.
        """
        if self.rule is None:
            return None
        stop_ids = generator.engine.stop_ids.union(self.options.stop_ids)
        if self.thinking is not None:
            return self.thinking.watch(self.rule, generator, stop_ids)
        return generator.constrainer.watch(self.rule, stop_ids)


def read_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        RequestError: the body is not a JSON object, has an object with two equal keys, is nested too deeply, or contains a
            number with too many digits.
    """
    too_deep = RequestError(f"the body is nested too deeply: send JSON with at most {MOST_LEVELS} levels")
    try:
        record = json.loads(body, object_pairs_hook=_with_unique_keys, parse_constant=_no_number)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not JSON ({error})") from None
    except RecursionError:
        raise too_deep from None
    except ValueError:  # Python converts no longer texts to numbers
        raise RequestError("the body has a number with too many digits: send a shorter number") from None
    if is_too_deep(record):
        raise too_deep
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


def read_completion(record: Mapping[str, Any], served: Served) -> Asked:
    """Check the JSON of a request for ``/v1/completions``, and return its content.

    Raises:
        RequestError: the request is invalid, or has an unsupported parameter.
    """
    given = Parameters(record, {*_COMMON, *_COMPLETION}, {**_WITHOUT_EFFECT, "suffix": ("",), "best_of": (1,)})
    prompts = _prompts_of(given)
    _check_count(given, served, len(prompts))  # before prompts are encoded, which takes more time
    encode = read_encoder(given, served.generator)
    ids = [encode(well_formed(part)) if isinstance(part, str) else part for part in prompts]
    asked = _asked(given, served, ids, 16, ("max_tokens",), least_tokens=0)
    asked = _with_rule(asked, *read_rule(given, served.generator))
    if given.get("logprobs") is not None:
        asked = replace(asked, top=given.whole_number("logprobs", 0, _MOST_TOP, least=0))
    if not given.flag("echo"):
        return asked
    if asked.rule is not None and asked.top is not None:
        message = "echo with logprobs cannot be combined with structured output: leave one out"
        raise RequestError(message, param="echo")
    with about("prompt"):
        return replace(asked, echo=[served.generator.tokenizer.decode(ids) for ids in asked.prompts])


def read_chat(record: Mapping[str, Any], served: Served) -> Asked:
    """Check the JSON of a request for ``/v1/chat/completions``, and return its content.

    Raises:
        RequestError: the request is invalid, or has an unsupported parameter.
    """
    given = Parameters(record, {*_COMMON, *_CHAT}, {**_WITHOUT_EFFECT, **_OF_CHATS})
    chat = _chat_of(served)
    tool_use = read_tools(given, chat.template, served.generator.tokenizer, served.response_template)
    _check_count(given, served, 1)
    ids = read_conversation(given, served, tools=tool_use.tools if tool_use else [])
    asked = _asked(given, served, [ids], served.limits.max_new_tokens, ("max_completion_tokens", "max_tokens"))
    top = given.whole_number("top_logprobs", 0, _MOST_TOP, least=0)
    has_logprobs = given.flag("logprobs")
    if top and not has_logprobs:
        raise RequestError("top_logprobs needs logprobs: true", param="top_logprobs")
    rule, left_out = read_rule(given, served.generator, chat.stop_ids, tool_use)
    continues = given.flag("continue_final_message")
    thinking = read_thinking(
        chat.template,
        served.generator,
        ids,
        last=read_messages(given.get("messages"), chat.template)[-1] if continues else None,
        skips_special=asked.options.skip_special_tokens,
    )
    asked = replace(asked, options=chat.ending(asked.options), tool_use=tool_use, thinking=thinking)
    asked = _with_rule(asked, rule, left_out)
    return replace(asked, top=top if has_logprobs else None, continues=continues)


def read_tokenize(record: Mapping[str, Any], served: Served) -> tuple[list[int], bool]:
    """Check the JSON of a request for ``/tokenize``. Return the ids, and whether the response includes the text of each
    token.

    Raises:
        RequestError: the request is invalid.
    """
    if "messages" in record and "prompt" in record:
        raise RequestError("prompt and messages exclude each other: give only one of them", param="prompt")
    of_texts, of_chats = {"prompt", *PROMPT}, {"messages", "tools", *TEMPLATE}
    given = Parameters(record, {"model", "return_token_strs", *(of_chats if "messages" in record else of_texts)}, {})
    with_spellings = given.flag("return_token_strs")
    if "messages" in record:
        tool_use = read_tools(given, _chat_of(served).template, served.generator.tokenizer, served.response_template)
        return read_conversation(given, served, tools=tool_use.tools if tool_use else []), with_spellings
    text = given.get("prompt")
    if not isinstance(text, str):
        raise RequestError("prompt must be a string; for a chat, give messages", param="prompt")
    return read_encoder(given, served.generator)(well_formed(text)), with_spellings


def read_detokenize(record: Mapping[str, Any], served: Served) -> str:
    """Check the JSON of a request for ``/detokenize``, and return the text of its tokens.

    Raises:
        RequestError: the request is invalid.
    """
    given = Parameters(record, {"model", "tokens"}, {})
    tokens = given.get("tokens")
    if not are_ids(tokens):
        raise RequestError("tokens must be a list of token ids", param="tokens")
    with about("tokens"):
        return served.generator.tokenizer.decode(tokens)


def _prompts_of(given: Parameters) -> list[str | list[int]]:
    """Return the prompts in a request for a completion. The parameter ``prompt`` is a string, a list of token ids, or a list
    of such prompts.
    """
    prompt = given.get("prompt")
    prompts = [prompt] if isinstance(prompt, str) or (are_ids(prompt) and prompt) else prompt
    if not isinstance(prompts, list) or not prompts or not all(isinstance(part, str) or are_ids(part) for part in prompts):
        raise RequestError("prompt must be a string, token ids, or a non-empty list of either", param="prompt")
    return prompts


def read_conversation(given: Parameters, served: Served, *, tools: Sequence[Tool] = ()) -> list[int]:
    """Return the ids of a chat's messages, including the text that the template writes about the tools."""
    chat = _chat_of(served)
    messages = read_messages(given.get("messages"), chat.template)
    variables = {**served.template_variables, "tools": [*tools] or None}
    arguments = read_template(given, messages, variables, chat.template)
    with about("messages"):
        return chat.encode(messages, **arguments)


def _chat_of(served: Served) -> Chat:
    if served.chat is None:
        raise RequestError("the model has no chat template: start the server with --template", param="messages")
    return served.chat


def _with_rule(asked: Asked, rule: Rule | None, left_out: tuple[str, ...]) -> Asked:
    """Return the request with the rule that its answers must follow, if any. The rule decides where an answer ends, so
    ``ignore_eos`` and ``min_tokens`` cannot be used with it.
    """
    if rule is not None and asked.options.ignore_eos:
        message = "ignore_eos cannot be combined with structured output, which ends an answer: leave one out"
        raise RequestError(message, param="ignore_eos")
    if rule is not None and asked.options.min_new_tokens:
        message = "min_tokens cannot be combined with structured output, which ends an answer: leave one out"
        raise RequestError(message, param="min_tokens")
    return replace(asked, rule=rule, left_out=left_out)


def _check_count(given: Parameters, served: Served, prompts: int) -> None:
    answers, most = given.whole_number("n", 1) * prompts, served.limits.max_choices
    if answers > most:
        raise RequestError(f"n: the request asks for {answers:,} answers, and the maximum is {most:,}", param="n")


def _asked(
    given: Parameters,
    served: Served,
    prompts: list[list[int]],
    max_tokens: int,
    names: tuple[str, ...],
    *,
    least_tokens: int = 1,
) -> Asked:
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
        raise RequestError("stream_options must be an object, and needs stream: true", param="stream_options")
    settings = Parameters(settings or {}, {"include_usage"}, {"include_obfuscation": (False,)}, "stream_options.")
    options = read_stopping(given, options, served.generator)
    n = given.whole_number("n", 1)
    return Asked(prompts, options, n, is_streamed, settings.flag("include_usage"), has_answers=most > 0)


_MOST_TOP = 20

_COMMON = (
    *("model", "n", "stream", "stream_options", "seed", "temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    *("max_tokens", "logprobs", "response_format", "structured_outputs", *STOPPING),
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
