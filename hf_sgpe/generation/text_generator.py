"""Text generation with a tokenizer and an engine: answers, streams, scores and chats."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.gguf_tokenizer import check_tokenizer
from hf_sgpe.generation.conversation import Chat
from hf_sgpe.generation.engines.detection import find_model, kind_of_model, load_engine
from hf_sgpe.generation.engines.engine import Engine, ScoredToken, Watch
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.pieces import Piece, PlacedToken, Progress, Score, answer_pieces
from hf_sgpe.generation.stop_texts import without_beginning
from hf_sgpe.generation.structured_output import Constrainer
from hf_sgpe.generation.token_healing import Healer, Healing
from hf_sgpe.tokenizer import AllowedSpecial, BPETokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class TextGenerator:
    """A tokenizer together with an engine. Engines receive only ids, so every engine gets the same tokens.

    The text of a special token in a prompt or a message is encoded as ordinary text. To free the model's memory, use the
    generator in a ``with`` block, or call `close`.

    Args:
        tokenizer: A `BPETokenizer`, a fast BPE tokenizer of transformers, or the folder or Hub repository of a tokenizer.
        engine: An engine from `hf_sgpe.generation.load_engine`.

    Attributes:
        progress: Progress of the last generation, or None before the first generation.

    Example::

        with TextGenerator.load("my-model") as generator:
            for piece in generator.stream("ශ්‍රී ලංකාව"):
                print(piece, end="", flush=True)
    """

    def __init__(self, tokenizer: BPETokenizer | PreTrainedTokenizerFast | str | os.PathLike[str], engine: Engine) -> None:
        if not isinstance(engine, Engine):
            raise TypeError(
                f"expected an engine from load_engine, not {type(engine).__name__}: to load a model and its "
                "tokenizer, use TextGenerator.load"
            )
        self.tokenizer = _as_bpe(tokenizer)
        self.engine = engine
        self.progress: Progress | None = None
        ids = self.tokenizer.get_vocab().values()
        if (needed := self.tokenizer.rows_needed) > engine.vocab_size:
            raise SGPEError(
                f"the tokenizer has the id {needed - 1}, but the model's embedding has only {engine.vocab_size} rows: "
                "use the model's own tokenizer"
            )
        self._token_ids = frozenset(ids)
        self._special_ids = frozenset(self.tokenizer.special_tokens.values())

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
            model: See `hf_sgpe.generation.load_engine`, also for ``engine``, ``exact`` and ``settings``.
            tokenizer: Tokenizer to use instead of the tokenizer in the model's folder or GGUF file. GGUF files from other
                programs contain no such tokenizer.
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
        """Free the model's memory."""
        self.end_trials()
        self.engine.close()

    def end_trials(self) -> None:
        """End the trials of rules (`hf_sgpe.generation.rule_trial`), so that nobody waits for them."""
        if "constrainer" in self.__dict__:
            self.constrainer.close()

    def __enter__(self) -> TextGenerator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def has_token(self, id: int) -> bool:
        """Return whether an id belongs to a token. Other ids belong to rows that only pad the model's embedding."""
        return id in self._token_ids

    def generate(self, prompt: str, options: GenerationOptions | None = None) -> str:
        """Return the answer to a prompt, without the prompt. See `stream`."""
        return "".join(self.stream(prompt, options))

    def generate_batch(self, prompts: Sequence[str], options: GenerationOptions | None = None) -> list[str]:
        """Return the answer to each prompt. Engines with batching compute all answers at once, with one seed for all
        answers.
        """
        if isinstance(prompts, str):
            raise TypeError("expected a list of prompts, not a single string: put the string in a list")
        options = options or GenerationOptions()
        if options.heal or options.min_new_tokens:  # each prompt needs its own watch
            return [self.generate(prompt, options) for prompt in prompts]
        options = self._with_special_stops(options)
        encoded = [self.encode(prompt) for prompt in prompts]
        pairs = zip(encoded, self.engine.generate_batch(encoded, options), strict=True)
        answers = []
        for prompt, ids in pairs:
            tokens = (id for id in ids)  # a generator, because the answer closes it
            answers.append("".join(self._texts(tokens, options, self._has_text(prompt))))
        return answers

    def stream(self, prompt: str, options: GenerationOptions | None = None) -> Iterator[str]:
        """Return an iterator over the pieces of the answer to a prompt, which is checked before the model runs. Each piece
        contains only whole characters.

        A character is yielded as soon as all its bytes are generated. Joined together, the pieces are equal to the decoded
        tokens, except for an incomplete character at the end. Closing the iterator, or Ctrl-C, ends the generation. With the
        option ``whole_syllables``, no piece ends in a letter that the next token may change. With ``heal``, the answer still
        begins after the prompt, but a longer token may complete the prompt's last word.
        """
        options = options or GenerationOptions()
        ids = self.encode(prompt)
        count = self._healer.taken_back(ids) if options.heal else 0
        if not count:
            return self._stream(ids, options, continues=self._has_text(ids))
        kept, taken = ids[:-count], ids[-count:]
        continues = self._has_text(kept)
        again = sum(map(len, self.tokenizer.decode_stream(taken, continues=continues)))
        return self._stream(kept, options, Healing(self._healer, taken), again, continues=continues)

    def score(self, text: str) -> Score:
        """Return the log-probability of each token of a text. If the tokenizer puts no special token before a text, the text
        needs at least two tokens.
        """
        ids = self.encode(text)
        before, _ = self.tokenizer.data.ids_around
        text_ids = ids[len(before) :]
        unscored = 0 if before else 1
        if len(text_ids) <= unscored:
            reason = "is one token, and the tokenizer puts no token before it" if text_ids else "is empty"
            raise SGPEError(f"no token can be scored, because the text {reason}: give a longer text")
        predicted = text_ids[unscored:]
        logprobs = self.engine.logprobs(ids)[-len(predicted) :]
        tokens = tuple(map(self.tokenizer.token_bytes, predicted))
        return Score(
            ids=tuple(predicted),
            tokens=tokens,
            logprobs=tuple(logprobs.tolist()),
            given=self.tokenizer.token_bytes(text_ids[0]) if unscored else b"",
            bytes=sum(map(len, tokens)) if unscored else len(text.encode()),
        )

    def pieces(
        self,
        ids: Iterable[int],
        options: GenerationOptions | None = None,
        *,
        top: int | None = None,
        is_over: Callable[[], bool] = lambda: False,
        is_message: bool = False,
        marks: Mapping[int, str] | None = None,
        watch: Watch | None = None,
    ) -> Iterator[Piece]:
        """Return an iterator over the pieces (`Piece`) of the answer to a prompt, which is given as ids and checked before
        the model runs. The last piece contains the finish reason.

        The text is the same as from `stream`. This method does not update `progress`, and the option ``heal`` has no effect.

        Args:
            top: Number of most probable tokens to return with each token and its log-probability. None: pieces contain no
                tokens.
            is_over: Function that is called before each token. The answer ends when the function returns True.
            is_message: Whether the answer is a message, and not the continuation of a text. In a message, the leading space
                that the tokenizer puts before a text is removed.
            marks: Texts of the control tokens that are reported in `Piece.marks` and not shown in the text, keyed by id. If
                such a text is one of the stop texts, this token also ends the answer.
            watch: See `Engine.generate`. With a watch, the text of the answer consists of exactly the bytes of its tokens.
        """
        marks = marks or {}
        options, prompt = self._with_special_stops(options or GenerationOptions(), marks), list(ids)
        generate = self.engine.generate if top is None else partial(self.engine.generate_scored, top=top)
        generate = partial(generate, watch=watch) if watch else generate
        tokens: Iterator[int | ScoredToken] = generate(prompt, options)
        if self.engine.context_length is not None:
            options = options.with_at_most(self.engine.context_length - len(prompt))
        continues = watch is not None or (not is_message and self._has_text(prompt))
        return self._answer(tokens, options, is_over, continues, marks)

    def pieces_with_prompt(
        self,
        ids: Iterable[int],
        options: GenerationOptions | None = None,
        *,
        top: int = 0,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Iterator[Piece]:
        """Return an iterator that first yields the prompt as one piece with its tokens, and then the pieces of the answer.
        See `pieces`.

        The log-probabilities of the prompt's tokens are the same as from
        `hf_sgpe.generation.engines.engine.Engine.logprobs`. If a stop token ends the answer, it is the last token of the
        last piece.

        Args:
            options: Options of the answer. None means no answer. The prompt may then fill the context.
        """
        prompt = list(ids)
        options = options and self._with_special_stops(options)
        # If the answer is only the most probable next token, the pass over the prompt can also compute this token.
        most_probable = options and replace(
            options, max_new_tokens=1, min_new_tokens=0, temperature=0.0, repetition_penalty=1.0
        )
        is_one_pass = options is not None and options == most_probable
        scored = self.engine.score(prompt, top=top, with_next=is_one_pass)
        tokens = self.engine.generate_scored(prompt, options, top=top, with_stop=True) if options else iter(())
        if options and self.engine.context_length is not None:
            options = options.with_at_most(self.engine.context_length - len(prompt))
        text, placed = "", list[PlacedToken]()

        def prompt_ids() -> Iterator[int]:
            for token in islice(scored, len(prompt)):
                if is_over():
                    return
                placed.append(PlacedToken(token, len(text)))
                yield token.id

        def pieces() -> Iterator[Piece]:
            nonlocal text
            with closing(scored):  # type: ignore[type-var]
                for part in self.tokenizer.decode_stream(prompt_ids()):
                    text += part
                yield Piece(text, 0, None if options else "length", tuple(placed))
                if options:
                    continues, following = self._has_text(prompt), scored if is_one_pass else tokens
                    yield from self._answer(following, options, is_over, continues, {}, len(text))

        return pieces()

    def _answer(
        self,
        tokens: Iterator[int | ScoredToken],
        options: GenerationOptions,
        is_over: Callable[[], bool],
        continues: bool,
        marks: Mapping[int, str],
        length: int = 0,
        again: int = 0,
    ) -> Iterator[Piece]:
        """Return the pieces of an answer without its first ``again`` characters. See `answer_pieces`."""
        decode = partial(self._decoded, options=options, continues=continues, again=again)
        stop_ids = self.engine.stop_ids_of(options)
        return answer_pieces(tokens, decode, options, stop_ids, is_over, marks, length, lambda: self.engine.reused)

    def chat(self, system_prompt: str | None = None, *, template: str | None = None) -> Chat:
        """Return a new conversation, which stores its own messages.

        Args:
            template: Name of a chat template, or Jinja source. None: the tokenizer's own template.
        """
        return Chat(self.tokenizer, self._stream, system_prompt, template)

    def encode(self, prompt: str, *, allowed_special: AllowedSpecial = "none") -> list[int]:
        """Return the ids of a prompt. If the tokenizer puts special tokens around a text, those before the text are
        included, but not those after it.
        """
        if not isinstance(prompt, str):
            raise TypeError(f"the prompt must be a string, not {type(prompt).__name__}")
        return self.tokenizer.data.ids_around[0] + self.tokenizer.encode(prompt, allowed_special=allowed_special)

    @cached_property
    def constrainer(self) -> Constrainer:
        """The model's vocabulary, prepared for answers that follow a rule (`hf_sgpe.generation.structured_output`)."""
        return Constrainer(self.tokenizer, self.engine.vocab_size)

    @cached_property
    def _healer(self) -> Healer:
        return Healer(self.tokenizer.vocab)

    def _stream(
        self,
        ids: list[int],
        options: GenerationOptions,
        healing: Healing | None = None,
        again: int = 0,
        *,
        continues: bool = False,
    ) -> Iterator[str]:
        """Return an iterator over the pieces of the answer to ``ids``, without its first ``again`` characters, which repeat
        the end of the prompt.
        """
        options = self._with_special_stops(options)
        if healing is None:
            tokens = self.engine.generate(ids, options)
        else:
            with_taken = replace(options, max_new_tokens=options.max_new_tokens + len(healing.taken))
            tokens = healing.at_most(self.engine.generate(ids, with_taken, watch=healing), options.max_new_tokens)
        return self._texts(self._counted(tokens, len(ids)), options, continues, again)

    def _texts(self, ids: Iterator[int], options: GenerationOptions, continues: bool, again: int = 0) -> Iterator[str]:
        pieces = self._answer(ids, options, lambda: False, continues, {}, again=again)
        return (piece.text for piece in pieces if piece.text)

    def _with_special_stops(self, options: GenerationOptions, marks: Mapping[int, str] | None = None) -> GenerationOptions:
        """Return options that also stop at each special token and each mark whose text is one of the stop texts. Answers do
        not contain the text of these tokens, so it could not be found there.
        """
        special = {**self.tokenizer.special_tokens, **{text: id for id, text in (marks or {}).items()}}
        ids = tuple(special[text] for text in options.stop if text in special)
        return replace(options, stop_ids=(*options.stop_ids, *ids)) if ids else options

    def _decoded(
        self, ids: Iterable[int], options: GenerationOptions, continues: bool = False, again: int = 0
    ) -> Iterator[str]:
        # Rows that pad an embedding are not tokens.
        token_ids = (id for id in ids if id in self._token_ids)
        texts = self.tokenizer.decode_stream(
            token_ids, options.skip_special_tokens, keep_unfinished=False, continues=continues
        )
        return without_beginning(texts, again) if again else texts

    def _has_text(self, ids: Sequence[int]) -> bool:
        """Return whether a prompt contains text, and not only special tokens. The answer then continues this text, so a
        space at its beginning is kept.
        """
        return not self._special_ids.issuperset(ids)

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
    """Return the answer of a model to a conversation. This function implements `BPETokenizer.chat`.

    The model is loaded only for this answer. For more than one answer, use `TextGenerator`.

    Args:
        messages: See `BPETokenizer.apply_chat_template`, also for ``template`` and ``system_prompt``.
        model_path: See `TextGenerator.load`, also for ``settings``, such as ``n_gpu_layers`` and ``n_ctx``.
        max_new_tokens: See `GenerationOptions`, also for ``temperature`` and ``top_p``.
        backend: Name of the engine. See `TextGenerator.load`.
        verbose: Print the engine and its speed.
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
        raise TypeError(
            f"expected a tokenizer, or the folder or Hub repository of a tokenizer, not {type(tokenizer).__name__}"
        )
    return BPETokenizer.of(tokenizer_json.from_transformers(tokenizer))
