"""BPETokenizer: a BPE tokenizer that can be trained, loaded, saved and used without transformers."""

from __future__ import annotations

import codecs
import operator
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from hf_sgpe.chat.marked_text import Finder, Written, parts
from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.formats import loading, tiktoken, tokenizer_json
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.package import named_above
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.added_patterns import AddedPatterns, Matching
from hf_sgpe.vocabulary.batches import Padding, make_batch, results
from hf_sgpe.vocabulary.codec import CacheInfo, Codec, make_codec
from hf_sgpe.vocabulary.growing_text import CharacterRestarts, GrowingText, Restarts
from hf_sgpe.vocabulary.special_tokens import Template, bos_eos_template_of
from hf_sgpe.vocabulary.spelling import Spelling
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData, Unknown

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from tiktoken import Encoding

    from hf_sgpe.counts.word_counts import WordCounts
    from hf_sgpe.learning.assembling import Languages
    from hf_sgpe.learning.training_config import TrainingConfig

AllowedSpecial = Literal["all", "none"] | Collection[str]


def _part(name: str) -> Any:
    """Return a read-only property that returns the field ``name`` of the tokenizer's data."""
    doc = getattr(TokenizerData, name, None)
    return property(lambda self: getattr(self.data, name), doc=doc.__doc__ if isinstance(doc, property) else None)


class BPETokenizer:
    """A BPE tokenizer. It splits text into words, and merges the bytes of each word in the order of the merges' ranks.

    A tokenizer converted from SentencePiece merges characters instead. Decoding the ids of a text returns the text (after
    normalization), unless a tokenizer merges characters and has no byte tokens. Every other runtime that loads the saved
    ``tokenizer.json`` returns the same ids. For arguments, see `TokenizerData`, of which ``data`` is one.

    >>> tokenizer = BPETokenizer.train_from_iterator(["low lower lowest"] * 3, 260)
    >>> tokenizer.encode("low")
    [257]
    >>> tokenizer.decode(tokenizer.encode("any text at all ✓"))
    'any text at all ✓'
    """

    vocab: Mapping[bytes, int] = _part("vocab")
    merges: Sequence[tuple[bytes, bytes]] = _part("merges")
    byte_tokens: Sequence[int] = _part("byte_tokens")
    unknown: Unknown | None = _part("unknown")
    unmade_tokens: Mapping[str, int] = _part("unmade_tokens")
    stripping: str = _part("stripping")
    by_characters: bool = _part("by_characters")
    lacks_bytes: bool = _part("lacks_bytes")
    spelling: Spelling = _part("spelling")
    splitting: Splitting = _part("splitting")
    special_tokens: Mapping[str, int] = _part("special_tokens")
    added_tokens: Mapping[str, int] = _part("added_tokens")
    normalized_tokens: Set[str] = _part("normalized_tokens")
    matching: Mapping[str, Matching] = _part("matching")
    ignore_merges: bool = _part("ignore_merges")
    template: Template | None = _part("template")
    roles: Mapping[str, str] = _part("roles")
    metadata: Mapping[str, Any] = _part("metadata")
    chat_template: str | None = _part("chat_template")
    more_templates: Mapping[str, str] = _part("more_templates")
    settings: Mapping[str, Any] = _part("settings")
    model_max_length: int | None = _part("model_max_length")
    added_ids: Mapping[str, int] = _part("added_ids")
    ids: Set[int] = _part("ids")
    vocab_size: int = _part("vocab_size")
    rows_needed: int = _part("rows_needed")
    bos_token: str | None = _part("bos_token")
    bos_token_id: int | None = _part("bos_token_id")
    eos_token: str | None = _part("eos_token")
    eos_token_id: int | None = _part("eos_token_id")
    pad_token: str | None = _part("pad_token")
    pad_token_id: int | None = _part("pad_token_id")
    unk_token: str | None = _part("unk_token")
    unk_token_id: int | None = _part("unk_token_id")

    def __init__(self, vocab: Mapping[bytes, int], merges: Iterable[tuple[bytes, bytes]], **parts: Any) -> None:
        self.__setstate__(TokenizerData(vocab, list(merges), **parts))

    @property
    def normalization(self) -> str:
        """The name of the normalization, such as ``nfc`` or ``metaspace after NFKC``."""
        return str(self.data.normalization)

    @classmethod
    def of(cls, data: TokenizerData) -> BPETokenizer:
        """Return the tokenizer for its data."""
        tokenizer = cls.__new__(cls)
        tokenizer.__setstate__(data)
        return tokenizer

    def __getstate__(self) -> TokenizerData:
        return self.data  # unpickling makes a new codec

    def __setstate__(self, data: TokenizerData) -> None:
        self.data = data
        self._codec = make_codec(data)
        # Prepared once for each set of allowed special tokens, because some tokenizers have thousands of added tokens.
        self._finder = lru_cache(8)(partial(_finder, data))
        self._reading = lru_cache(8)(partial(_reading, data, self._codec))

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return repr(self.data).replace("TokenizerData", "BPETokenizer", 1)

    def get_vocab(self) -> dict[str, int]:
        """Return the ids of all tokens, special tokens too, by vocabulary string (see `TokenizerData.get_vocab`)."""
        return self.data.get_vocab()

    def get_mergeable_ranks(self) -> list[tuple[bytes, int]]:
        """Return pairs (token, id) for all tokens except special and added tokens, in the order of ids."""
        return self.data.get_mergeable_ranks()

    @property
    def pre_tokenizer(self) -> RegexPreTokenizer:
        return self._codec.pre_tokenizer

    @property
    def encodes_natively(self) -> bool:
        """True if the native kernels encode whole texts."""
        return self._codec.encodes_natively

    # ---------------------------------------------------------------- training, loading, saving

    @classmethod
    def train_from_iterator(
        cls,
        iterator: Iterable[str],
        vocab_size: int,
        buffer_size: int = 8192,
        pattern: str | None = None,
        *,
        min_frequency: int = 1,
        special_tokens: Sequence[str] | Mapping[str, int] = (),
        tie_break: str = "smallest-pair-id",
        normalization: str = "none",
    ) -> BPETokenizer:
        """Train plain byte-level BPE (recipe ``bpe``) on an iterator of texts. The iterator is read once and lazily.

        Args:
            vocab_size: Number of tokens, including special tokens.
            buffer_size: Number of texts to take at once, without effect on the result.
            pattern: Name of one of `SPLIT_PATTERNS`, or a regular expression. None means ``cl100k``.
            special_tokens: A list of strings, which get the last ids, or a mapping from strings to ids.
            normalization: ``none`` or ``nfc``.
        """
        from hf_sgpe.counts.counters import make_word_counter, only_texts
        from hf_sgpe.counts.word_counts import WordCounts
        from hf_sgpe.learning.learn import learn_tokenizer
        from hf_sgpe.learning.training_config import TrainingConfig

        if buffer_size < 1:
            raise SGPEError(f"buffer_size must be at least 1, not {buffer_size}")
        config = TrainingConfig(
            vocab_size=vocab_size,
            recipe="bpe",
            pattern="cl100k" if pattern is None else pattern,
            min_frequency=min_frequency,
            special_tokens=special_tokens,
            tie_break=tie_break,
            normalization=normalization,
        )
        counter = make_word_counter(config)
        texts = only_texts(iterator)
        while buffer := list(islice(texts, buffer_size)):
            counter.add(buffer)
        return cls.of(learn_tokenizer(WordCounts.of_counter(counter, config), config))

    @classmethod
    def train(
        cls,
        corpus: Iterable[str] | str | os.PathLike[str],
        vocab_size: int = 32_000,
        min_frequency: int = 2,
        special_tokens: Sequence[str] | Mapping[str, int] | None = None,
        verbose: bool = False,
        *,
        split_pattern: str = "cl100k-any-space",
    ) -> BPETokenizer:
        """Train byte-level BPE with the arguments and rules of ``BPETokenizer.train`` in a tutorial (*Tokenizers for large
        language models*).

        Text is normalized to NFC. Among equally frequent pairs, the greatest pair is merged first. If the trained tokenizer
        has BOS and EOS tokens, ``add_special_tokens=True`` puts them around a text.

        Args:
            corpus: A list of texts, a single text, or the path of a UTF-8 file with one text on each line.
            vocab_size: Number of tokens, including special tokens with ids below this number.
            special_tokens: A mapping from strings to ids, or a list of strings. Those with ids of at least ``vocab_size``
                are added to the trained tokens.
            verbose: Whether to print a description of the tokenizer.
            split_pattern: Name of one of `SPLIT_PATTERNS` or a regular expression.
        """
        among, beyond = special_tokens or (), dict[str, int]()
        if isinstance(among, Mapping):
            beyond = {token: id for token, id in among.items() if id >= vocab_size}
            among = {token: id for token, id in among.items() if token not in beyond} or ()
        tokenizer = cls.train_from_iterator(
            _texts_of(corpus),
            vocab_size,
            pattern=split_pattern,
            min_frequency=min_frequency,
            special_tokens=among,
            tie_break="greatest-pair-bytes",
            normalization="nfc",
        )
        tokenizer = tokenizer.add_special_tokens(beyond) if beyond else tokenizer
        tokenizer = cls.of(replace(tokenizer.data, template=bos_eos_template_of(tokenizer.roles)))
        if verbose:
            print(tokenizer)
        return tokenizer

    def add_special_tokens(self, special_tokens: Sequence[str] | Mapping[str, int]) -> BPETokenizer:
        """Return a copy with additional special tokens. In a list, they get the next free ids, unless they exist already.

        >>> tokenizer = BPETokenizer.train_from_iterator(["a"], 256).add_special_tokens({"<|end|>": 300})
        >>> tokenizer.encode("<|end|>", allowed_special="all")
        [300]
        """
        return self.of(self.data.with_special_tokens(special_tokens))

    @classmethod
    def from_pretrained(cls, path_or_repo: str | os.PathLike[str], *, revision: str | None = None) -> BPETokenizer:
        """Load a tokenizer from a folder or a file, such as a ``tokenizer.json``. If there is no such path, load it from a
        repository on the Hub.

        Raises:
            SGPEError: there is no such tokenizer, or it is damaged or not BPE.
        """
        return cls.of(loading.load(path_or_repo, revision=revision))

    @classmethod
    def from_huggingface(
        cls,
        model_name_or_path: str | os.PathLike[str],
        cache_dir: str | Path | None = None,
        token: bool | str | None = None,
        *,
        revision: str | None = None,
    ) -> BPETokenizer:
        """Load a tokenizer like `from_pretrained`, with the arguments ``cache_dir`` and ``token`` of huggingface_hub."""
        return cls.of(loading.load(model_name_or_path, revision=revision, cache_dir=cache_dir, token=token))

    @classmethod
    def from_tokenizer_json(cls, path: str | os.PathLike[str]) -> BPETokenizer:
        """Load a tokenizer from a ``tokenizer.json``, and from the ``tokenizer_config.json`` and chat template next to it.

        Raises:
            SGPEError: the file is damaged, or its tokenizer is not BPE or cannot be read exactly.
        """
        return cls.of(loading.read(Path(path)))

    def save(self, directory: str | os.PathLike[str], name: str | None = None) -> None:
        """Write ``tokenizer.json`` and its companion files into a folder that plain ``AutoTokenizer`` loads. After an error,
        no file has been written. ``name`` is stored in ``metadata``.

        Raises:
            SGPEError: the folder contains files of another tokenizer, and loaders would mix them with this tokenizer.
        """
        data = self.data if name is None else replace(self.data, metadata={**self.metadata, "name": name})
        tokenizer_json.save(data, directory)

    def to_tiktoken(self, name: str = "hf_sgpe") -> Encoding:
        """Return the tokenizer as an ``Encoding`` of the ``tiktoken`` package. tiktoken does not normalize, so encode only
        normalized text with it.

        Raises:
            SGPEError: tiktoken is not installed, or its ids would differ from those of this tokenizer.
        """
        return tiktoken.to_tiktoken(self.data, name)

    # ---------------------------------------------------------------- encoding

    def encode(self, text: str, *, add_special_tokens: bool = False, allowed_special: AllowedSpecial = "none") -> list[int]:
        """Return the token ids of ``text``.

        The text of a special token is encoded as ordinary text, unless ``allowed_special`` includes the token. So untrusted
        text cannot insert special tokens. The time is O(n log m) for n characters and a longest word of m.

        Args:
            add_special_tokens: Whether to put the special tokens of the tokenizer's template around the ids.
            allowed_special: The special tokens to recognise in the text: ``"none"``, ``"all"``, or a collection of them. The
                leftmost match counts, and the longest of several at the same position.

        >>> tokenizer = BPETokenizer.train_from_iterator(["a"], 257, special_tokens=["<|end|>"])
        >>> tokenizer.encode("<|end|>", allowed_special="all"), len(tokenizer.encode("<|end|>"))
        ([256], 7)
        """
        if not isinstance(text, str):
            raise TypeError(f"encode needs a str, not {type(text).__name__}")
        ids = self._codec.encode(text, self._added_pattern(allowed_special))
        return self._add_template(ids) if add_special_tokens else ids

    def encode_bytes(
        self,
        data: bytes | bytearray | memoryview,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = "none",
    ) -> list[int]:
        """Return the token ids of a text that is given as UTF-8 bytes. See `encode`.

        Raises:
            SGPEError: the bytes are not UTF-8. The message contains the position of the first wrong byte.

        >>> tokenizer = BPETokenizer.train_from_iterator(["a"], 256)
        >>> tokenizer.encode_bytes("é".encode()) == tokenizer.encode("é")
        True
        """
        if isinstance(data, str):
            raise TypeError("encode_bytes needs bytes, not str: use encode")
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise SGPEError(f"the bytes are not UTF-8 at byte {error.start}: {error.reason}") from None
        return self.encode(text, add_special_tokens=add_special_tokens, allowed_special=allowed_special)

    def encode_with_offsets(
        self, text: str, *, allowed_special: AllowedSpecial = "none"
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of ``text``, and for each id the index of its first character and the index after its last. The
        special tokens of the tokenizer's template are not added.

        A token that ends inside a character includes that character. If normalization changes a stretch of text, all its
        tokens have the range of the whole stretch.

        >>> tokenizer = BPETokenizer.train_from_iterator(["one two"] * 2, 258)
        >>> tokenizer.encode_with_offsets("two é")
        ([116, 119, 111, 32, 195, 169], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (4, 5)])
        """
        if not isinstance(text, str):
            raise TypeError(f"encode_with_offsets needs a str, not {type(text).__name__}")
        from hf_sgpe.vocabulary.offsets import encode_with_offsets

        return encode_with_offsets(self._codec, text, self._added_pattern(allowed_special))

    @overload
    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = "none",
        threads: int | None = None,
    ) -> list[list[int]]: ...
    @overload
    def encode_batch(self, texts: Iterable[str], *, threads: int | None = None, **options: Any) -> Any: ...
    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = "none",
        threads: int | None = None,
        **options: Any,
    ) -> Any:
        """Return a list of token ids for each text. The native kernels encode the texts in parallel.

        Args:
            threads: Number of threads. None means one thread per core, or a single thread for short texts.
            options: ``padding``, ``truncation``, ``max_length`` and ``return_tensors`` of `__call__`. With
                ``return_tensors``, the result is that of `__call__`. With other options, each list of ids is an
                `EncodingResult`, which also has the attributes ``attention_mask`` and ``tokens``.
        """
        batch = self._codec.encode_batch(_checked(texts, threads), self._added_pattern(allowed_special), threads)
        rows = [self._add_template(ids) for ids in batch] if add_special_tokens else batch
        if not options:
            return rows
        batch_of_rows = self._make_batch(rows, **options)
        return results(batch_of_rows, self.convert_ids_to_tokens) if options.get("return_tensors") is None else batch_of_rows

    def _make_batch(self, rows: list[list[int]], *, max_length: int | None = None, **options: Any) -> dict[str, Any]:
        length = self.model_max_length if max_length is None else max_length
        return make_batch(rows, pad_id=self.pad_token_id, max_length=length, **options)

    def __call__(
        self,
        texts: str | Iterable[str],
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = "none",
        padding: Padding = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
    ) -> dict[str, Any]:
        """Return the inputs of a model: ``input_ids``, and ``attention_mask`` (1 for an id, 0 for padding). Each has one row
        per text or, for a single text, is that row.

        Args:
            padding: True or ``"longest"`` pads rows up to the length of the longest row, and ``"max_length"`` pads them up
                to the argument ``max_length``. Rows are padded with the padding token or, if there is none, with the id 0.
                As in transformers, only ``truncation`` cuts longer rows.
            truncation: Whether to cut rows after ``max_length`` ids, including the template's special tokens.
            max_length: Length of rows for ``padding`` and ``truncation``. None means the maximum number of ids that the
                model accepts.
            return_tensors: ``"np"`` or ``"pt"`` returns int64 arrays of shape (rows, length), even for a single text.

        >>> BPETokenizer.train_from_iterator(["a"], 256)(["ab", "c"], padding=True)
        {'input_ids': [[97, 98], [99, 0]], 'attention_mask': [[1, 1], [1, 0]]}
        """
        single = isinstance(texts, str)
        rows = self.encode_batch(
            [texts] if isinstance(texts, str) else texts,
            add_special_tokens=add_special_tokens,
            allowed_special=allowed_special,
        )
        batch = self._make_batch(
            rows, padding=padding, truncation=truncation, max_length=max_length, return_tensors=return_tensors
        )
        return {name: rows[0] for name, rows in batch.items()} if single and return_tensors is None else batch

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        template: str | None = None,
        *,
        add_generation_prompt: bool = True,
        system_prompt: str | None = None,
        tokenize: bool = True,
        allowed_special: AllowedSpecial = "all",
        variables: Mapping[str, Any] | None = None,
        continue_final_message: bool = False,
    ) -> list[int] | str:
        """Return a conversation as ids or, if ``tokenize`` is False, as text. Only the template can write special tokens. If
        a message contains the text of a special token, this text is encoded as ordinary text.

        Args:
            messages: Mappings with a ``role`` and a ``content``. A message with ``tool_calls`` needs no content.
            template: ``llama3``, ``chatml``, ``alpaca`` or Jinja source. None means the tokenizer's own template or
                ``llama3``.
            add_generation_prompt: Whether to end with the beginning of the assistant's answer.
            system_prompt: Text of a system message to put first, if there is none.
            allowed_special: The special tokens that the template can write.
            variables: Other variables of the template, such as ``tools``. Like messages, they cannot contain special tokens.
            continue_final_message: Whether to end with the content of the last message, so that an answer continues it.
        """
        template = template or self.chat_template or "llama3"
        from hf_sgpe.chat import templates

        text = templates.render(
            messages,
            template,
            add_generation_prompt=add_generation_prompt,
            system_prompt=system_prompt,
            special_tokens=self.roles,
            variables=variables,
            continue_final_message=continue_final_message,
        )
        if not tokenize:
            return str.__str__(text)
        needed = templates.SPECIAL_TOKENS.get(template, ()) if allowed_special == "all" else ()
        special = self._finder(frozenset(self._allowed(allowed_special)).union(needed))
        return self._encode_written(text, special, template)

    def _encode_written(self, text: Written, special: Finder, template: str) -> list[int]:
        ids: list[int] = []
        for part in parts(text, special):
            if part.is_special and part.text not in self.special_tokens:
                raise SGPEError(
                    f"this tokenizer lacks the special token {part.text!r} of the chat template {template}: "
                    "train a tokenizer with this token"
                )
            if part.is_special:
                ids.append(self.special_tokens[part.text])
            else:
                is_inside = part.span[0] > 0 and self.data.normalization.later != self.data.normalization
                ids += self._codec.encode(part.text, self._always_added, continues=is_inside)
        return ids

    def encode_inside(self, text: str) -> list[int]:
        """Return the ids of a text that continues another text, with all added tokens as ordinary text."""
        return self._codec.encode(text, continues=True)

    def chat(
        self, messages: Sequence[Mapping[str, Any]], model_path: str | os.PathLike[str], *arguments: Any, **settings: Any
    ) -> str:
        """Return a model's answer to a conversation, as `hf_sgpe.generation.text_generator.chat_once` does."""
        answer: str = named_above("chat", "BPETokenizer.chat")(self, messages, model_path, *arguments, **settings)
        return answer

    def encode_to_numpy(
        self, text: str, *, add_special_tokens: bool = False, allowed_special: AllowedSpecial = "none"
    ) -> NDArray[np.int32]:
        """Return the ids of `encode` as a one-dimensional int32 array, which takes a tenth of the memory of a list."""
        if add_special_tokens and self.template:
            import numpy as np

            return np.array(self.encode(text, add_special_tokens=True, allowed_special=allowed_special), dtype=np.int32)
        return self._codec.encode_to_numpy(text, self._added_pattern(allowed_special))

    def encode_batch_to_numpy(
        self, texts: Iterable[str], *, allowed_special: AllowedSpecial = "none", threads: int | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of many texts as an int32 array, and the end position of each text there as an int64 array. The
        special tokens of the tokenizer's template are not added.

        >>> tokenizer = BPETokenizer.train_from_iterator(["a"], 256)
        >>> ids, ends = tokenizer.encode_batch_to_numpy(["ab", "", "c"])
        >>> ids.tolist(), ends.tolist()
        ([97, 98, 99], [2, 2, 3])
        """
        return self._codec.encode_batch_to_numpy(_checked(texts, threads), self._added_pattern(allowed_special), threads)

    def encode_batch_to_arrow(
        self, texts: Iterable[str], *, allowed_special: AllowedSpecial = "none", threads: int | None = None
    ) -> pa.LargeListArray:
        """Return the ids of `encode_batch_to_numpy` as a pyarrow array of the type ``large_list<int32>``, with one list per
        text. `datasets` and Parquet accept such an array as a column. The ids are not copied.

        Args:
            texts: Strings. To encode a pyarrow array, pass its ``to_pylist()``.

        >>> tokenizer = BPETokenizer.train_from_iterator(["a"], 256)
        >>> tokenizer.encode_batch_to_arrow(["ab", "", "c"]).to_pylist()
        [[97, 98], [], [99]]
        """
        pa = optional("pyarrow", "arrays of Arrow need pyarrow", extra="corpora")
        import numpy as np

        ids, ends = self.encode_batch_to_numpy(texts, allowed_special=allowed_special, threads=threads)
        # To convert a NumPy array, pyarrow would import pandas. That import takes a second.
        starts = pa.py_buffer(np.concatenate([[0], ends]).astype(np.int64))
        values = pa.Array.from_buffers(pa.int32(), len(ids), [None, pa.py_buffer(ids)])
        return pa.LargeListArray.from_buffers(pa.large_list(pa.int32()), len(ends), [None, starts], children=[values])

    def encode_streaming(
        self, chunks: Iterable[str] | Iterable[bytes], *, allowed_special: AllowedSpecial = "none"
    ) -> Iterator[int]:
        """Yield the ids of a text that arrives in pieces. Wherever the text is cut, the ids are the same as those of
        `encode` for the whole text.

        Pieces of UTF-8 may be cut inside a character. Invalid UTF-8 becomes U+FFFD.

        With the named split patterns, ids are yielded as soon as no later piece can change them, so the memory does not
        depend on the length of the text (see `hf_sgpe.splitting.streams`).

        >>> tokenizer = BPETokenizer.train_from_iterator(["one two"], 257)
        >>> list(tokenizer.encode_streaming(["on", "e t", "wo"])) == tokenizer.encode("one two")
        True
        """
        added, restarts = self._reading(frozenset(self._allowed(allowed_special)))
        for place, text in enumerate(restarts.texts(_decoded(chunks))):
            yield from self._codec.encode(text, added, continues=place > 0)

    def growing_text(self, text: str = "", *, allowed_special: AllowedSpecial = "none") -> GrowingText:
        """Return a text to which more text can be appended. Only the new part and a short part before it are encoded, to the
        same ids as from `encode` for the whole text (see `hf_sgpe.vocabulary.growing_text`).

        >>> tokenizer = BPETokenizer.train_from_iterator(["one two"], 257)
        >>> growing = tokenizer.growing_text("one t")
        >>> growing.append("wo")
        >>> growing.ids == tokenizer.encode("one two")
        True
        """
        growing = GrowingText(self._codec, *self._reading(frozenset(self._allowed(allowed_special))))
        growing.append(text)
        return growing

    def tokenize(self, text: str, *, allowed_special: AllowedSpecial = "none") -> list[str]:
        """Return the tokens of ``text`` as vocabulary strings, in GPT-2's spelling of bytes. See `get_vocab`."""
        return list(map(self._tokens_of.__getitem__, self.encode(text, allowed_special=allowed_special)))

    def count_tokens(self, text: str, *, allowed_special: AllowedSpecial = "none") -> int:
        return len(self.encode(text, allowed_special=allowed_special))

    def truncate(
        self, text: str, max_tokens: int, *, add_special_tokens: bool = False, allowed_special: AllowedSpecial = "none"
    ) -> str:
        """Return the beginning of ``text`` that has at most ``max_tokens`` tokens, also if it is encoded again. A shorter
        ``text`` is returned unchanged. Otherwise, the result is normalized, and ends where a token ends.

        If a cut inside a word would cause more tokens, it is moved to the left, each time twice as far.

        Args:
            add_special_tokens: Whether the limit includes the special tokens of the tokenizer's template.
        """
        if max_tokens < 0:
            raise SGPEError(f"max_tokens must be at least 0, not {max_tokens}")
        most = max_tokens - (len(self._add_template([])) if add_special_tokens else 0)
        if most < 0:
            raise SGPEError(
                f"max_tokens {max_tokens} has no room for the {max_tokens - most} special tokens of the template"
            )
        ids = self.encode(text, allowed_special=allowed_special)
        if len(ids) <= most:
            return text
        kept, step = most, 1
        while kept > 0:
            # A token may end inside a character. If it does, the character is left out.
            beginning = self._codec.decode(ids[:kept]).decode(errors="ignore")
            if self.count_tokens(beginning, allowed_special=allowed_special) <= most:
                return beginning
            kept, step = kept - step, 2 * step
        return ""

    def _added_pattern(self, allowed: AllowedSpecial) -> AddedPatterns | None:
        """Return the patterns of the allowed special tokens and of all added tokens that are not special."""
        if isinstance(allowed, str) and allowed == "none":  # the usual case: saves half a microsecond for short texts
            return self._always_added
        return _added_patterns(self.data, self._allowed(allowed))

    def _allowed(self, allowed: AllowedSpecial) -> Collection[str]:
        named: dict[str, Collection[str]] = {"all": self.special_tokens, "none": ()}
        names = named.get(allowed, allowed) if isinstance(allowed, str) else allowed
        if isinstance(names, str):
            raise SGPEError(f"allowed_special must be 'all', 'none' or a set of special tokens, not {names!r}")
        for name in names:
            if name not in self.special_tokens:
                choices = ", ".join(self.special_tokens)
                remedy = f"choose from {choices}" if choices else "it has none"
                raise SGPEError(f"{name!r} is not a special token of this tokenizer: {remedy}")
        return names

    @cached_property
    def _always_added(self) -> AddedPatterns | None:
        return _added_patterns(self.data, ())

    def _add_template(self, ids: list[int]) -> list[int]:
        before, after = self.data.ids_around
        return [*before, *ids, *after]

    # ---------------------------------------------------------------- decoding

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False, errors: str = "replace") -> str:
        """Return the text of ``ids``.

        Args:
            errors: How to handle bytes that are not UTF-8, as in `bytes.decode`. Such bytes occur if the ids end inside a
                character.

        Raises:
            SGPEError: an id is not in the vocabulary.
            TypeError: an id is not a whole number.
        """
        return self._codec.decode(ids, skip_special_tokens).decode(errors=errors)

    def decode_bytes(self, ids: Iterable[int], skip_special_tokens: bool = False) -> bytes:
        """Return the text of ``ids`` as bytes, which are not always valid UTF-8."""
        return self._codec.decode(ids, skip_special_tokens)

    def decode_batch(
        self,
        batch: Iterable[Iterable[int]],
        skip_special_tokens: bool = False,
        errors: str = "replace",
        *,
        skip_padding: bool = True,
    ) -> list[str]:
        """Return the text of each sequence of ids, without padding tokens at its end unless ``skip_padding`` is False."""
        pad = self.pad_token_id if skip_padding else None
        return [self.decode(ids if pad is None else _unpadded(ids, pad), skip_special_tokens, errors) for ids in batch]

    def decode_stream(
        self,
        ids: Iterable[int],
        skip_special_tokens: bool = False,
        errors: str = "replace",
        *,
        keep_unfinished: bool = True,
        continues: bool = False,
    ) -> Iterator[str]:
        """Yield text in pieces while ids arrive. Joined together, the pieces are equal to the text from `decode`.

        If the bytes of a character are spread over several tokens, the character is yielded with the last of these tokens.

        Args:
            continues: Whether the ids continue a text. A leading space is then kept, because encoding did not add it.
            keep_unfinished: Whether to yield an incomplete character at the end, according to ``errors``.

        >>> tokenizer = BPETokenizer.train_from_iterator(["a"], 256)
        >>> list(tokenizer.decode_stream(tokenizer.encode("aé")))
        ['a', 'é']
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors)
        pieces = self._codec.pieces if continues else self._codec.pieces_of_text
        for piece in pieces(ids, skip_special_tokens):
            if text := decoder.decode(piece):
                yield text
        if keep_unfinished and (text := decoder.decode(b"", final=True)):
            yield text

    # ---------------------------------------------------------------- tokens and ids

    def convert_tokens_to_ids(self, tokens: str | Iterable[str]) -> Any:
        """Return the id of a vocabulary string or a list of the ids of several, with -1 for an unknown string."""
        if isinstance(tokens, str):
            return self._ids_of.get(tokens, -1)
        return [self._ids_of.get(token, -1) for token in tokens]

    def convert_ids_to_tokens(self, ids: int | Iterable[int]) -> Any:
        """Return the vocabulary string of an id or a list of those of several, with an empty string for an unknown id."""
        if isinstance(ids, Iterable):
            return [self._tokens_of.get(operator.index(id), "") for id in ids]
        return self._tokens_of.get(operator.index(ids), "")

    def convert_tokens_to_string(self, tokens: Iterable[str]) -> str:
        """Return the text of a sequence of vocabulary strings (see `get_vocab`). Unknown strings are skipped."""
        return self.decode(id for id in self.convert_tokens_to_ids(tokens) if id >= 0)

    @cached_property
    def _ids_of(self) -> dict[str, int]:
        return self.get_vocab()

    @cached_property
    def _tokens_of(self) -> dict[int, str]:
        return {id: token for token, id in self._ids_of.items()}

    def token_bytes(self, id: int) -> bytes:
        """Return the bytes of a token, for a special token those of its text."""
        return next(self._codec.pieces([id]))

    def get_pattern(self) -> str:
        """Return the regex that splits text: the last of several, or an empty string if there is none."""
        return self.splitting.regexes[-1] if self.splitting.regexes else ""

    def cache_info(self) -> CacheInfo:
        return self._codec.cache_info()

    def get_cache_stats(self) -> dict[str, float]:
        """Return the values of `cache_info` under the tutorial's names. ``size`` is in words."""
        info = self.cache_info()
        return {"hits": info.hits, "misses": info.misses, "size": info.words, "hit_rate_pct": round(100 * info.hit_rate, 1)}

    def clear_cache(self) -> None:
        self._codec.clear_cache()


def train_from_counts(
    counts: WordCounts, config: TrainingConfig, *, languages: Languages = (), observer: Observer = NOBODY
) -> BPETokenizer:
    """Train a tokenizer on counted words. For arguments and errors, see `hf_sgpe.learning.learn.learn_tokenizer`.

    >>> from hf_sgpe import TrainingConfig, WordCounts
    >>> config = TrainingConfig(vocab_size=260, recipe="bpe")
    >>> len(train_from_counts(WordCounts.from_texts(["low lower lowest"] * 3, config), config))
    260
    """
    from hf_sgpe.learning.learn import learn_tokenizer

    return BPETokenizer.of(learn_tokenizer(counts, config, languages=languages, observer=observer))


def _texts_of(corpus: Iterable[str] | str | os.PathLike[str]) -> Iterable[str]:
    """Return the texts of a corpus: the lines of a file, a single text, or the items of an iterable."""
    if not isinstance(corpus, (str, os.PathLike)):
        return corpus
    if not isinstance(corpus, str) or _is_file(corpus):
        return _lines_of(Path(corpus))
    if len(corpus.split()) == 1 and ("/" in corpus or Path(corpus).suffix in (".txt", ".jsonl", ".parquet")):
        raise SGPEError(f"{corpus}: no such file: if this is a text, put the text in a list")
    return [corpus]


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # not a file name: too long, or it contains a NUL
        return False


def _lines_of(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        try:
            yield from lines
        except UnicodeDecodeError:
            raise SGPEError(f"{path}: not UTF-8") from None


def _finder(data: TokenizerData, special: frozenset[str]) -> Finder:
    return Finder(special, data.added_tokens, data.matching)


def _added_patterns(data: TokenizerData, allowed: Iterable[str]) -> AddedPatterns | None:
    return AddedPatterns.of((*allowed, *data.added_tokens), data.normalized_tokens, data.matching, data.normalization)


def _reading(data: TokenizerData, codec: Codec, allowed: frozenset[str]) -> tuple[AddedPatterns | None, Restarts]:
    """Return the patterns of the added tokens and the restarts for a set of allowed special tokens."""
    pattern = _added_patterns(data, allowed)
    kind = CharacterRestarts if data.by_characters else Restarts
    return pattern, kind(codec, pattern, (*data.special_tokens, *data.added_tokens), data.matching)


def _decoded(chunks: Iterable[str] | Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in chunks:
        yield chunk if isinstance(chunk, str) else decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _unpadded(ids: Iterable[int], pad: int) -> list[int]:
    ids = list(map(operator.index, ids))
    while ids and ids[-1] == pad:
        ids.pop()
    return ids


def _checked(texts: Iterable[str], threads: int | None) -> list[str]:
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise SGPEError(f"threads must be a whole number of at least 1, not {threads!r}")
    if isinstance(texts, str):
        raise TypeError("expected an iterable of strings, not a single string: put the string in a list")
    texts = list(texts)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"expected strings, not {type(text).__name__}")
    return texts
