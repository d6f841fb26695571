"""Text in, text out: a tokenizer and an engine, prompts, streams and chats."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.gguf_tokenizer import check_tokenizer
from hf_sgpe.generation.conversation import Chat
from hf_sgpe.generation.engines.detection import find_model, kind_of_model, load_engine
from hf_sgpe.generation.engines.engine import Engine, ScoredToken, Watch
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.pieces import Piece, PlacedToken, Progress, Score
from hf_sgpe.generation.stop_texts import until_stop, without_beginning
from hf_sgpe.generation.token_healing import Healer, Healing
from hf_sgpe.splitting.streams import whole_letters
from hf_sgpe.tokenizer import BPETokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


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
        """Load a model and its tokenizer.

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
        """Give the model's memory back."""
        self.engine.close()

    def __enter__(self) -> TextGenerator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def generate(self, prompt: str, options: GenerationOptions | None = None) -> str:
        """Return what follows a prompt, without it.

        Raises:
            SGPEError: before anything runs: the prompt is empty or too long.
        """
        return "".join(self.stream(prompt, options))

    def generate_batch(self, prompts: Sequence[str], options: GenerationOptions | None = None) -> list[str]:
        """Return what follows each of several prompts, all at once where the engine can: with one seed for all of them.

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
        """Return what follows a prompt, piece by piece: as soon as all bytes of a character are there, never part of one.

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
        # What is chosen again is no part of the answer.
        options = replace(options, max_new_tokens=options.max_new_tokens + count)
        again = len(self.tokenizer.decode(taken))
        return self._stream(kept, options, Healing(self._healer, taken), again)

    def score(self, text: str) -> Score:
        """Return how probable a text is to the model, token by token.

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
        """Return what follows the ids of a prompt, as `stream` gives it, and at the end why it ended. `progress` is not
        kept, and ``heal`` is for prompts of text.

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
        """Return a conversation, which remembers what was said.

        Args:
            system_prompt: What to put first.
            template: Name of a chat template, or Jinja source; None for the tokenizer's own.

        Raises:
            SGPEError: the tokenizer has no chat template, and none is given.
        """
        return Chat(self.tokenizer, self._stream, system_prompt, template)

    def encode(self, prompt: str) -> list[int]:
        """Return the ids of a prompt, after what the tokenizer puts before a text, and without what it puts behind one."""
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
        """Return the text that follows ids, without as many characters at its beginning as are in the prompt already."""
        tokens = self.engine.generate(ids, options, watch=watch)
        pieces = until_stop(without_beginning(self._pieces(self._counted(tokens, len(ids))), again), options.stop)
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


def chat_once(
    tokenizer: BPETokenizer,
    messages: Sequence[Mapping[str, Any]],
    model_path: str | os.PathLike[str],
    template: str | None = None,
    system_prompt: str | None = None,
    max_new_tokens: int = 512,
    temperature: float = 0.7,
    top_p: float = 0.9,
    backend: str | None = None,
    verbose: bool = False,
    **settings: Any,
) -> str:
    """Return the answer of a model to a conversation: `BPETokenizer.chat`.

    The model is loaded for the answer and closed again. For more than one answer use `TextGenerator`.

    Args:
        tokenizer: The tokenizer of the model.
        messages: As for `BPETokenizer.apply_chat_template`; so are ``template`` and ``system_prompt``.
        model_path: As for `TextGenerator.load`, as are ``backend``, its engine, and ``settings``, such as ``n_gpu_layers``
            and ``n_ctx``.
        max_new_tokens: As for `GenerationOptions`, as are ``temperature`` and ``top_p``.
        verbose: Print the engine and its speed.

    Raises:
        SGPEError: as `TextGenerator.load` and `BPETokenizer.apply_chat_template`, or the conversation is too long.
    """
    options = GenerationOptions(max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p)
    with TextGenerator.load(model_path, backend, tokenizer=tokenizer, **settings) as generator:
        conversation = generator.chat(system_prompt, template=template or tokenizer.chat_template or "llama3")
        answer = "".join(conversation.answer(messages, options))
        if verbose and (progress := generator.progress):
            speed = f"{progress.tokens} tokens, {progress.tokens_per_second:.1f} a second"
            print(f"{generator.engine.name}: {progress.prompt_tokens} tokens in the prompt, {speed}")
        return answer


def _as_bpe(tokenizer: Any) -> BPETokenizer:
    if isinstance(tokenizer, BPETokenizer):
        return tokenizer
    if isinstance(tokenizer, (str, os.PathLike)):
        return BPETokenizer.from_pretrained(tokenizer)
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise TypeError(f"expected a tokenizer, or where to find one, not {type(tokenizer).__name__}")
    return BPETokenizer.of(tokenizer_json.from_transformers(tokenizer))
