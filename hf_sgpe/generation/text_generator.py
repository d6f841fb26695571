"""Text in, text out: a tokenizer and an engine, prompts, streams and chats."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import fsum, log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hf_sgpe.chat.marked_text import Finder
from hf_sgpe.chat.templates import render
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.gguf_tokenizer import check_tokenizer
from hf_sgpe.generation.engines.detection import find_model, kind_of_model, load_engine
from hf_sgpe.generation.engines.engine import Engine, ScoredToken, Watch
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.token_healing import Healer, Healing
from hf_sgpe.splitting.streams import whole_letters
from hf_sgpe.tokenizer import BPETokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@dataclass
class Progress:
    """What a generation has done so far.

    Attributes:
        prompt_tokens: Tokens in the prompt.
        tokens: Tokens generated, without one that stopped.
        first: Seconds until the first of them, which is how long the prompt took; None before there is one.
        seconds: Since the beginning.
    """

    prompt_tokens: int
    tokens: int = 0
    first: float | None = None
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Of what was generated, without the time that the prompt took."""
        spent = self.seconds - (self.first or 0.0)
        return (self.tokens - 1) / spent if self.tokens > 1 and spent > 0 else 0.0


class PlacedToken(NamedTuple):
    """A token of an answer, how probable it was, and where it is.

    Attributes:
        token: With its log-probability.
        place: Characters of the answer before it, or before the character that it is a part of.
    """

    token: ScoredToken
    place: int


class Piece(NamedTuple):
    """A part of an answer.

    Attributes:
        text: Whole characters; none in the last piece.
        generated: Tokens of the answer until now, with those that a text to stop at was made of.
        finish_reason: In the last piece: ``stop`` where a token or a text ended the answer, ``length`` where
            ``max_new_tokens`` or the context did.
        tokens: Where they are asked for, those whose text has begun to come, each in one piece. What is only a part of a
            text to stop at is in none.
    """

    text: str
    generated: int
    finish_reason: Literal["stop", "length"] | None = None
    tokens: tuple[PlacedToken, ...] = ()


@dataclass(frozen=True)
class Score:
    """How probable a text is to a model.

    Where the tokenizer puts a special token before a text, all of the text is predicted. Otherwise nothing says how probable
    its first token is: that is given, and the rest is predicted from it.

    Attributes:
        ids: Of the tokens that were predicted.
        tokens: Their bytes; a character may be spread over several.
        logprobs: Their log-probabilities, to the base e, each given all tokens before it.
        given: The bytes of the first token, or none where it was predicted, too.
        bytes: In UTF-8, of the whole text as it came or, where its first token is given, of the tokens that were predicted.
    """

    ids: tuple[int, ...]
    tokens: tuple[bytes, ...]
    logprobs: tuple[float, ...]
    given: bytes
    bytes: int

    @property
    def total(self) -> float:
        """The log-probability of all that was predicted."""
        return fsum(self.logprobs)

    @property
    def bits_per_byte(self) -> float:
        """How many bits the model needs for a byte, as ``hf-sgpe evaluate --model`` counts them."""
        return -self.total / log(2) / self.bytes


class TextGenerator:
    """Goes on from text, with a tokenizer of its own and ids for the engine: the same tokens on every engine.

    The text of special tokens in a prompt or a message is ordinary text. Use it in a ``with`` block, or `close` it, to give
    the model's memory back.

    Args:
        tokenizer: A `BPETokenizer`, a fast tokenizer of transformers that is byte-level BPE, or where one is.
        engine: As `hf_sgpe.generation.load_engine` gives it.

    Raises:
        SGPEError: the tokenizer has ids beyond the model's embedding, or is not byte-level BPE.

    Attributes:
        progress: Of the generation begun last; None before there is one.

    Example::

        with TextGenerator.load("my-model") as generator:
            for piece in generator.stream("ශ්‍රී ලංකාව"):
                print(piece, end="", flush=True)
    """

    def __init__(self, tokenizer: BPETokenizer | PreTrainedTokenizerFast | str | os.PathLike[str], engine: Engine) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(f"expected an engine of load_engine, not {type(engine).__name__}: or use TextGenerator.load")
        self.tokenizer = _as_bpe(tokenizer)
        self.engine = engine
        self.progress: Progress | None = None
        ids = self.tokenizer.get_vocab().values()
        if max(ids) >= engine.vocab_size:
            raise SGPEError(
                f"the tokenizer has the id {max(ids)}, and the model's embedding only {engine.vocab_size} rows: "
                "they do not belong together"
            )
        self._known = frozenset(ids)

    @classmethod
    def load(
        cls,
        model: str | os.PathLike[str],
        engine: str | None = None,
        *,
        tokenizer: BPETokenizer | PreTrainedTokenizerFast | str | os.PathLike[str] | None = None,
        exact: bool = False,
        **settings: Any,
    ) -> TextGenerator:
        """Loads a model and its tokenizer.

        Args:
            model: As for `hf_sgpe.generation.load_engine`, as ``engine``, ``exact`` and ``settings``.
            tokenizer: In place of the one in the model's folder or GGUF file; files that others wrote hold none.

        Raises:
            SGPEError: as `hf_sgpe.generation.load_engine`, or there is no tokenizer, or a GGUF file has other tokens.
        """
        path = find_model(model)
        bpe = _as_bpe(path if tokenizer is None else tokenizer)
        if kind_of_model(path) == "gguf" and tokenizer is not None:
            check_tokenizer(path, bpe.data, os.fspath(tokenizer) if isinstance(tokenizer, (str, os.PathLike)) else "")
        loaded = load_engine(path, engine, exact=exact, **settings)
        try:
            return cls(bpe, loaded)
        except BaseException:
            loaded.close()
            raise

    def close(self) -> None:
        """Gives the model's memory back."""
        self.engine.close()

    def __enter__(self) -> TextGenerator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def generate(self, prompt: str, options: GenerationOptions | None = None) -> str:
        """What follows a prompt, without it.

        Raises:
            SGPEError: before anything runs: the prompt is empty or too long.
        """
        return "".join(self.stream(prompt, options))

    def generate_batch(self, prompts: Sequence[str], options: GenerationOptions | None = None) -> list[str]:
        """What follows each of several prompts, all at once where the engine can: there a seed is for all of them together.

        Raises:
            SGPEError: before anything runs: a prompt is empty or too long.
        """
        if isinstance(prompts, str):
            raise TypeError("expected several prompts, not one text: put it in a list")
        options = options or GenerationOptions()
        if options.heal:  # each is held to another ending
            return [self.generate(prompt, options) for prompt in prompts]
        answers = self.engine.generate_batch([self.encode(prompt) for prompt in prompts], options)
        return ["".join(until_stop(self._pieces(ids), options.stop)) for ids in answers]

    def stream(self, prompt: str, options: GenerationOptions | None = None) -> Iterator[str]:
        """What follows a prompt, piece by piece: as soon as all bytes of a character are there, and never part of one.

        The pieces join to what decoding all tokens at once gives, but for bytes at the end that are only part of a
        character. Closing the iterator, or Ctrl-C, ends the generation. With ``whole_syllables`` among the options no piece
        ends in a letter that the next token may change. With ``heal`` what comes is still only what follows the prompt, but
        it may finish the prompt's last word by a token that the prompt has the beginning of.

        Raises:
            SGPEError: before anything runs: the prompt is empty or too long.
        """
        options = options or GenerationOptions()
        ids = self.encode(prompt)
        count = self._healer.taken_back(ids) if options.heal else 0
        if not count:
            return self._stream(ids, options)
        kept, taken = ids[:-count], ids[-count:]
        # What is chosen anew is no part of the answer.
        options = replace(options, max_new_tokens=options.max_new_tokens + count)
        again = len(self.tokenizer.decode(taken))
        return self._stream(kept, options, Healing(self._healer, taken), again)

    def score(self, text: str) -> Score:
        """How probable a text is to the model, token by token.

        Raises:
            SGPEError: the text is empty, has too many tokens for the model's context, or is a single token with nothing
                before it to predict it from.
        """
        ids = self.encode(text)
        texts = ids[len(self._before) :]
        given = 0 if self._before else 1
        if len(texts) <= given:
            reason = "is one token, and nothing stands before it" if texts else "is empty"
            raise SGPEError(f"there is nothing to predict: the text {reason}")
        predicted = texts[given:]
        logprobs = self.engine.logprobs(ids)[-len(predicted) :]
        tokens = tuple(map(self.tokenizer.token_bytes, predicted))
        return Score(
            ids=tuple(predicted),
            tokens=tokens,
            logprobs=tuple(logprobs.tolist()),
            given=self.tokenizer.token_bytes(texts[0]) if given else b"",
            bytes=sum(map(len, tokens)) if given else len(text.encode()),
        )

    def pieces(
        self,
        ids: Iterable[int],
        options: GenerationOptions | None = None,
        *,
        top: int | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Iterator[Piece]:
        """What follows the ids of a prompt, as `stream` gives it, and at the end why it ended. `progress` is not kept, and
        ``heal`` is for prompts of text.

        Args:
            top: Give the tokens with their log-probabilities, and as many as this of the most probable ones; None for no
                tokens.
            is_over: Asked before each token; where it says so, the answer ends.

        Raises:
            SGPEError: before anything runs: the prompt is empty or too long, or has an id beyond the model's vocabulary.
        """
        options, prompt = options or GenerationOptions(), list(ids)
        generate = self.engine.generate if top is None else partial(self.engine.generate_scored, top=top)
        tokens: Iterator[int | ScoredToken] = generate(prompt, options)
        if self.engine.context_length is not None:
            options = options.with_at_most(self.engine.context_length - len(prompt))
        return self._answer(tokens, options, is_over)

    def _answer(
        self, tokens: Iterator[int | ScoredToken], options: GenerationOptions, is_over: Callable[[], bool]
    ) -> Iterator[Piece]:
        placed: deque[PlacedToken] = deque()
        generated = length = shown = 0
        is_cut = True

        def arriving() -> Iterator[int]:
            nonlocal generated, is_cut
            with closing(tokens):  # type: ignore[type-var]
                while not is_over() and (token := next(tokens, None)) is not None:
                    generated += 1
                    if isinstance(token, ScoredToken):
                        placed.append(PlacedToken(token, length))
                        token = token.id
                    yield token
            is_cut = False

        def texts() -> Iterator[str]:
            nonlocal length
            for text in self._pieces(arriving()):
                length += len(text)
                yield text

        answer = until_stop(texts(), options.stop)
        for text in whole_letters(answer) if options.whole_syllables else answer:
            shown += len(text)
            begun = [placed.popleft() for _ in range(sum(token.place < shown for token in placed))]
            yield Piece(text, generated, tokens=tuple(begun))
        ran_out = not is_cut and generated >= options.max_new_tokens
        yield Piece("", generated, "length" if ran_out else "stop", () if is_cut else tuple(placed))

    def chat(self, system_prompt: str | None = None, *, template: str | None = None) -> Chat:
        """A conversation, which remembers what was said.

        Args:
            system_prompt: What to put first.
            template: Name of a chat template, or Jinja source; None for the tokenizer's own.

        Raises:
            SGPEError: the tokenizer has no chat template, and none is given.
        """
        return Chat(self, system_prompt, template)

    def encode(self, prompt: str) -> list[int]:
        """The ids of a prompt, after what the tokenizer puts before a text, and without what it puts behind one."""
        if not isinstance(prompt, str):
            raise TypeError(f"expected a text to go on from, not {type(prompt).__name__}")
        return self._before + self.tokenizer.encode(prompt)

    @cached_property
    def _before(self) -> list[int]:
        """What the tokenizer puts before a text."""
        tokenizer = self.tokenizer
        names = [name for name, _ in tokenizer.template.single] if tokenizer.template else ["$A"]
        return [tokenizer.special_tokens[name] for name in names[: names.index("$A")]]

    @cached_property
    def _healer(self) -> Healer:
        return Healer(self.tokenizer.vocab)

    def _stream(
        self, ids: list[int], options: GenerationOptions, watch: Watch | None = None, again: int = 0
    ) -> Iterator[str]:
        """The text that follows ids, without as many characters at its beginning as are in the prompt already."""
        tokens = self.engine.generate(ids, options, watch=watch)
        pieces = until_stop(_without(self._pieces(self._counted(tokens, len(ids))), again), options.stop)
        return whole_letters(pieces) if options.whole_syllables else pieces

    def _pieces(self, ids: Iterable[int]) -> Iterator[str]:
        # Rows that an embedding is padded with are no tokens.
        known = (id for id in ids if id in self._known)
        return self.tokenizer.decode_stream(known, skip_special_tokens=True, keep_unfinished=False)

    def _counted(self, ids: Iterator[int], prompt_tokens: int) -> Iterator[int]:
        progress = self.progress = Progress(prompt_tokens)
        begun = time.perf_counter()
        with closing(ids):  # type: ignore[type-var]
            for id in ids:
                progress.tokens += 1
                progress.seconds = time.perf_counter() - begun
                progress.first = progress.first or progress.seconds
                yield id


class Chat:
    """A conversation with a model: what was said, and what is said next. Made by `TextGenerator.chat`.

    Attributes:
        messages: What was said, each with ``role`` and ``content``; the system prompt is not among it.
        system_prompt: What to put first, or None.
        stop_ids: The token that the template writes after an answer, where it ends.
    """

    def __init__(self, generator: TextGenerator, system_prompt: str | None, template: str | None) -> None:
        self.generator = generator
        self.system_prompt = system_prompt
        self.messages: list[dict[str, str]] = []
        chosen = template or generator.tokenizer.chat_template
        if not chosen:
            raise SGPEError("the tokenizer has no chat template: name one, llama3, chatml, alpaca or your own")
        self._template = chosen
        self.stop_ids = tuple(end_of_turn(generator.tokenizer, chosen))

    def say(self, text: str, options: GenerationOptions | None = None) -> Iterator[str]:
        """Says something, and gives the answer piece by piece, as `TextGenerator.stream` does.

        Both are remembered when the answer is at its end or is broken off; after an error neither is.

        Raises:
            SGPEError: before anything runs: the conversation is too long by now.
        """
        messages = [*self.messages, {"role": "user", "content": text}]
        return self._answered(messages, self.answer(messages, options))

    def answer(self, messages: Sequence[Mapping[str, str]], options: GenerationOptions | None = None) -> Iterator[str]:
        """The answer to any messages, piece by piece, after the system prompt; nothing of it is remembered.

        Raises:
            SGPEError: before anything runs: a message is incomplete, or they are too long.
        """
        options = options or GenerationOptions()
        options = replace(options, stop_ids=(*options.stop_ids, *self.stop_ids))
        return self.generator._stream(self.encode(messages), options)

    def encode(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """The ids of any messages, after the system prompt: what is written in them is ordinary text.

        Args:
            add_generation_prompt: End with what the assistant's answer begins with.

        Raises:
            SGPEError: a message is incomplete, or the template rejects it.
        """
        ids = self.generator.tokenizer.apply_chat_template(
            messages, self._template, add_generation_prompt=add_generation_prompt, system_prompt=self.system_prompt
        )
        assert not isinstance(ids, str)
        return ids

    def _answered(self, messages: list[dict[str, str]], pieces: Iterator[str]) -> Iterator[str]:
        answer: list[str] = []
        try:
            with closing(pieces):  # type: ignore[type-var]
                for piece in pieces:
                    answer.append(piece)
                    yield piece
        except (GeneratorExit, KeyboardInterrupt):
            self._remember(messages, answer)
            raise
        self._remember(messages, answer)

    def _remember(self, messages: list[dict[str, str]], answer: list[str]) -> None:
        self.messages = [*messages, {"role": "assistant", "content": "".join(answer)}]

    def reset(self) -> None:
        """Forgets what was said, but for the system prompt."""
        self.messages = []


def end_of_turn(tokenizer: BPETokenizer, template: str) -> list[int]:
    """The special token that a template writes after what the assistant says: there its answer ends.

    >>> from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
    >>> config = TrainingConfig(vocab_size=260, recipe="bpe", chat_template="chatml")
    >>> tokenizer = train_from_counts(WordCounts.from_texts(["a"], config), config)
    >>> tokenizer.convert_ids_to_tokens(end_of_turn(tokenizer, "chatml"))
    ['<|im_end|>']
    """
    messages: list[Mapping[str, str]] = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": _ANSWER}]
    try:
        text = str(render(messages, template, add_generation_prompt=False, special_tokens=tokenizer.roles))
    except SGPEError:
        return []  # a template that takes other messages
    answered = text.rfind(_ANSWER)
    if answered < 0:
        return []
    spans = Finder(tokenizer.special_tokens).spans(text, answered + len(_ANSWER))
    return [tokenizer.special_tokens[text[start:stop]] for start, stop in spans][:1]


_ANSWER = "ANSWER"


def _without(pieces: Iterator[str], characters: int) -> Iterator[str]:
    """Text without so many characters at its beginning."""
    with closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            if text := piece[characters:]:
                yield text
            characters = max(characters - len(piece), 0)


def until_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """Text up to where one of ``stops`` is first complete, without it; nothing that may be its beginning comes out early.

    Takes as many steps for each character as there are stops, on average, however they repeat themselves (Knuth, Morris,
    Pratt 1977).

    >>> list(until_stop(["ab", "c<", "e", "n", "<end>d"], ["<end>"]))
    ['ab', 'c', '<en']
    """
    seekers = [_Seeker(stop) for stop in stops]
    held = ""
    try:
        for piece in pieces:
            for place, character in enumerate(piece if seekers else ""):
                completed = [seeker.stop for seeker in seekers if seeker.found(character)]
                if completed:
                    text = held + piece[: place + 1]
                    if text := text[: len(text) - max(map(len, completed))]:
                        yield text
                    return
            held += piece
            safe = len(held) - max((seeker.matched for seeker in seekers), default=0)
            if safe > 0:
                yield held[:safe]
                held = held[safe:]
        if held:
            yield held
    finally:
        if hasattr(pieces, "close"):
            pieces.close()


class _Seeker:
    """Looks for one text in characters that come one by one; ``matched`` of its own are the last that came."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        # After how many characters to go on where the next one does not fit.
        self._back = [0]
        length = 0
        for character in stop[1:]:
            while length and stop[length] != character:
                length = self._back[length - 1]
            length += stop[length] == character
            self._back.append(length)

    def found(self, character: str) -> bool:
        while self.matched and self.stop[self.matched] != character:
            self.matched = self._back[self.matched - 1]
        self.matched += self.stop[self.matched] == character
        return self.matched == len(self.stop)


def _as_bpe(tokenizer: Any) -> BPETokenizer:
    if isinstance(tokenizer, BPETokenizer):
        return tokenizer
    if isinstance(tokenizer, (str, os.PathLike)):
        return BPETokenizer.from_pretrained(tokenizer)
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise TypeError(f"expected a tokenizer, or where to find one, not {type(tokenizer).__name__}")
    return BPETokenizer.of(tokenizer_json.from_transformers(tokenizer))
