"""TokenizerData: all parts of a BPE tokenizer, as one frozen value.

In a byte-level tokenizer, merges join bytes. In a tokenizer converted from SentencePiece (Gemma), merges join characters. A
character without a token becomes the tokens of its bytes, and no merge joins these tokens. Tokens are stored with spaces
instead of U+2581.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from hf_sgpe.bpe.merging import MergeTable
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.normalization import METASPACE, METASPACES, Normalization, prepare
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.added_patterns import EXACTLY, Matching
from hf_sgpe.vocabulary.byte_strings import byte_token, string_to_text
from hf_sgpe.vocabulary.special_tokens import Template, check_special_tokens, roles_of
from hf_sgpe.vocabulary.spelling import Spelling, spelling_after
from hf_sgpe.vocabulary.vocabulary_arrays import MergePairs, TokenIds, held_together

NO_ID = -1
"""The id of a byte that the vocabulary lacks."""

# Printable ASCII, and the continuation bytes of multi-byte characters.
_NEEDED = (*range(0x20, 0x7F), *range(0x80, 0xC0))
# Roles of the special tokens that a model of text needs.
_TEXT_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")


def _role(name: str) -> tuple[Any, Any]:
    """Return two properties, the special token of a role and its id. Both are None if no token has the role."""
    token = property(lambda self: self.roles.get(name), doc=f"The {name.replace('_', ' ')}, or None.")
    id = property(lambda self: self.special_tokens.get(self.roles.get(name)), doc=f"Id of the {name}, or None.")
    return token, id


STRIPPINGS = ("none", "one", "all")
"""The spaces that decoding removes from the beginning of a text: none, one, or all of the first token (the decoder
Metaspace)."""


class Unknown(NamedTuple):
    """The unknown token. It replaces characters that have no token, if merges join characters and there are no byte tokens.

    Attributes:
        is_fused: Whether it replaces a run of such characters, not each character.
    """

    token: str
    is_fused: bool


@dataclass(frozen=True, repr=False)
class TokenizerData:
    """The parts of a BPE tokenizer, as one immutable value: `dataclasses.replace` makes a changed copy.

    Formats read and write a `TokenizerData`, learning returns it, and `hf_sgpe.tokenizer.BPETokenizer` encodes with it.

    Args:
        vocab: Ids of the ordinary tokens, keyed by token. Printable ASCII and the bytes 0x80 to 0xBF, which continue
            multi-byte characters, are required. Encoding drops other bytes that are missing, as every runtime does (SmolLM2
            has 235 of the 256 bytes).
        merges: Pairs of tokens in the order of their ranks.
        byte_tokens: Ids of the tokens for the 256 bytes, in order, if merges join characters. They encode the bytes of
            characters that have no token, so ``vocab`` has only tokens of whole characters. A byte may have the id of its
            ASCII character (the tab of Gemma 1 and 2). Empty for byte-level BPE, and with ``unknown``.
        unknown: The token that replaces characters without a token, if merges join characters and there are no
            ``byte_tokens``. Without both, encoding leaves out these characters.
        unmade_tokens: Ids of tokens that encoding never produces, keyed by vocabulary string, to which they are decoded. The
            strings have characters that represent no byte (Command R+'s emoji).
        stripping: Which spaces decoding removes from the beginning of a text, one of `STRIPPINGS`. If None, the value is
            ``one`` if the normalization puts a space there, and otherwise ``none``.
        splitting: The rules that split text into words, with ``special_tokens`` instead of their own. None means plain BPE
            with the pattern ``cl100k``.
        special_tokens: Ids of special tokens, keyed by text. Two may share an id (o200k_harmony), which is decoded to the
            later one. A special or added token may have the text of an ordinary token and a different id, unless
            ``tokenizer.json`` writes both in the same way (`hf_sgpe.vocabulary.byte_strings.bytes_spelled`).
        added_tokens: Ids of added tokens that are not special, keyed by text. Decoding never skips them (Qwen's
            ``<think>``).
        normalized_tokens: The added and special tokens that are matched after normalization (GPT-NeoX's runs of spaces). The
            others are matched first, in the original text.
        matching: Rules for added and special tokens that include white space or match only whole words (RoBERTa's
            ``<mask>``, Phi-4's ``<|im_start|>``).
        ignore_merges: Whether a word that is a token is encoded as this token, without merging (Llama 3).
        template: The special tokens that ``add_special_tokens=True`` puts around a text, or None.
        roles: The special tokens of roles such as ``bos_token``. If None, spellings determine them
            (`hf_sgpe.vocabulary.special_tokens.roles_of`).
        metadata: JSON values that are saved with the tokenizer, such as the training's configuration.
        chat_template: Jinja source of the chat template, or None.
        more_templates: Jinja sources of other chat templates, keyed by name.
        settings: Other settings of ``tokenizer_config.json``, such as ``padding_side``. Saving keeps them.
        model_max_length: The maximum number of ids that the model accepts. This is the default length for truncation.
    """

    vocab: Mapping[bytes, int]
    merges: Sequence[tuple[bytes, bytes]]
    _: KW_ONLY
    byte_tokens: Sequence[int] = ()
    unknown: Unknown | None = None
    unmade_tokens: Mapping[str, int] = field(default_factory=dict)
    stripping: str = None  # type: ignore[assignment]  # filled in
    splitting: Splitting = None  # type: ignore[assignment]  # filled in
    special_tokens: Mapping[str, int] = field(default_factory=dict)
    added_tokens: Mapping[str, int] = field(default_factory=dict)
    normalized_tokens: Set[str] = frozenset()
    matching: Mapping[str, Matching] = field(default_factory=dict)
    ignore_merges: bool = False
    template: Template | None = None
    roles: Mapping[str, str] = None  # type: ignore[assignment]  # filled in
    metadata: Mapping[str, Any] = field(default_factory=dict)
    chat_template: str | None = None
    more_templates: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    model_max_length: int | None = None

    def __post_init__(self) -> None:
        splitting = self.splitting or Splitting("bpe", pattern="cl100k")
        own = {
            "vocab": self.vocab if isinstance(self.vocab, TokenIds) else dict(self.vocab),
            "merges": self.merges if isinstance(self.merges, MergePairs) else list(self.merges),
            "byte_tokens": tuple(self.byte_tokens),
            "unmade_tokens": dict(self.unmade_tokens),
            "stripping": self.stripping or ("one" if splitting.normalization.puts_space else "none"),
            "special_tokens": dict(self.special_tokens or {}),
            "added_tokens": dict(self.added_tokens or {}),
            "normalized_tokens": frozenset(self.normalized_tokens),
            "matching": {name: rules for name, rules in self.matching.items() if rules != EXACTLY},
            "splitting": replace(splitting, special_tokens=tuple(self.special_tokens or ())),
            "roles": roles_of(self.special_tokens or ()) if self.roles is None else dict(self.roles),
            "metadata": dict(self.metadata or {}),
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        vocab = self.vocab
        for byte in () if self.by_characters else _NEEDED:
            if bytes([byte]) not in vocab:
                raise SGPEError(f"the vocabulary lacks the byte 0x{byte:02X}, which every byte-level tokenizer has")
        if self.byte_tokens and len(self.byte_tokens) != 256:
            raise SGPEError(f"byte_tokens must have the ids of 256 bytes, not {len(self.byte_tokens)}")
        if self.stripping not in STRIPPINGS:
            raise SGPEError(f"unknown stripping {self.stripping!r}: choose from {', '.join(STRIPPINGS)}")
        given = {"byte_tokens": self.byte_tokens, "unknown": self.unknown, "stripping": self.stripping != "none"}
        if not self.by_characters and (part := next((name for name, value in given.items() if value), None)):
            raise SGPEError(f"{part} needs one of the normalizations {', '.join(METASPACES)}: give one of them")
        if self.unknown and self.byte_tokens:
            raise SGPEError("byte_tokens and unknown cannot be given together: with tokens for bytes, no text is unknown")
        if self.unknown and self.unknown_id is None:
            raise SGPEError(f"the unknown token {self.unknown.token!r} is not in the vocabulary")
        held = held_together(vocab, self.merges)
        for rank, (left, right) in enumerate(() if held else self.merges):
            if left not in vocab or right not in vocab or left + right not in vocab:
                missing = next(token for token in (left, right, left + right) if token not in vocab)
                raise SGPEError(f"merge {rank} uses {missing!r}, which is not in the vocabulary")
        added = [*self.special_tokens.items(), *self.added_tokens.items()]
        for text, id in added:
            if not text:
                raise SGPEError("a special token cannot be empty: give it a text")
            spelled = self.spelling.find(text)
            if spelled is not None and spelled in vocab and (vocab[spelled] != id or spelled != self.spelling.decoded(text)):
                kind = "special" if text in self.special_tokens else "added"
                raise SGPEError(
                    f"the {kind} token {text!r} (id {id}) and the ordinary token {spelled!r} (id {vocab[spelled]}) are both "
                    f"written {text!r} in tokenizer.json, so a reader cannot distinguish them: give the {kind} token "
                    "another text"
                )
        taken: dict[int, bytes | str] = {}
        named: list[tuple[bytes | str, int]] = [*self.named_bytes.items(), *added, *self.unmade_tokens.items()]
        for name, id in named if held else [*vocab.items(), *named]:
            if not isinstance(id, int) or not 0 <= id < 1 << 31:
                raise SGPEError(f"token {name!r} has the id {id!r}: an id must be a whole number from 0 to 2**31 - 1")
            other = taken.get(id)
            if other is None and held:
                other = held.token_with(id)
            if other is not None and not self._may_share(other, name):
                raise SGPEError(f"tokens {other!r} and {name!r} have the same id {id}")
            taken[id] = name
        for special in self.template.special_tokens() if self.template else ():
            if special not in self.added_ids:
                raise SGPEError(f"the template names {special!r}, which is not among the special or added tokens")
        for role, special in self.roles.items():
            if special not in self.special_tokens:
                raise SGPEError(f"the {role} {special!r} is not among the special tokens")
        if unknown := self.normalized_tokens - self.added_ids.keys():
            raise SGPEError(f"normalized_tokens names {min(unknown)!r}, which is neither a special nor an added token")
        if unknown := self.matching.keys() - self.added_ids.keys():
            raise SGPEError(
                f"matching: {min(unknown)!r} is neither a special nor an added token: add it to added_tokens first"
            )
        if self.chat_template is not None and not isinstance(self.chat_template, str):
            raise SGPEError(f"chat_template must be a string with Jinja source, not {self.chat_template!r}")
        length = self.model_max_length
        if length is not None and (type(length) is not int or length < 0):
            raise SGPEError(f"model_max_length must be a whole number of at least 0, not {length!r}")

    def _may_share(self, one: bytes | str, other: bytes | str) -> bool:
        """Return whether two tokens may share an id: two special tokens, or an added and an ordinary token of one text."""
        if isinstance(one, bytes) and isinstance(other, str):
            return one == self.spelling.decoded(other)
        return one in self.special_tokens and other in self.special_tokens

    bos_token, bos_token_id = _role("bos_token")
    eos_token, eos_token_id = _role("eos_token")
    pad_token, pad_token_id = _role("pad_token")
    unk_token, unk_token_id = _role("unk_token")

    @property
    def added_ids(self) -> dict[str, int]:
        """Ids of the special and the other added tokens, keyed by text."""
        return {**self.special_tokens, **self.added_tokens}

    @property
    def ids(self) -> set[int]:
        """The ids of all tokens."""
        return {*self.vocab.values(), *self.byte_tokens, *self.added_ids.values(), *self.unmade_tokens.values()}

    @property
    def highest_id(self) -> int:
        """The highest id of all tokens."""
        ordinary = self.vocab.native.highest_id if isinstance(self.vocab, TokenIds) else max(self.vocab.values(), default=-1)
        return max(ordinary, *self.byte_tokens, *self.added_ids.values(), *self.unmade_tokens.values(), -1)

    @property
    def unknown_id(self) -> int | None:
        """Id of the token ``unknown``, or None if there is no such token."""
        if self.unknown is None:
            return None
        name = self.unknown.token
        return self.added_ids.get(name, self.vocab.get(string_to_text(name)))

    @property
    def by_characters(self) -> bool:
        """True if merges join characters, as in SentencePiece, instead of bytes."""
        return self.normalization.is_metaspace

    @property
    def characters(self) -> Mapping[bytes, int] | None:
        """The ids of characters (and longer tokens) if merges join characters, otherwise None."""
        return self.vocab if self.by_characters else None

    @cached_property
    def byte_ids(self) -> tuple[int, ...]:
        """Ids of the tokens for the 256 bytes. The id of a byte without a token is `NO_ID`."""
        return tuple(self.byte_tokens or (self.vocab.get(bytes([byte]), NO_ID) for byte in range(256)))

    @property
    def lacks_bytes(self) -> bool:
        """True if characters without a token are lost: merges join characters, and there are no byte tokens."""
        return self.by_characters and not self.byte_tokens

    @property
    def spelling(self) -> Spelling:
        """The spelling of tokens in ``tokenizer.json``."""
        return spelling_after(self.normalization)

    @property
    def named_bytes(self) -> dict[str, int]:
        """Ids of ``byte_tokens``, keyed by vocabulary string, without those that are ids of ASCII characters."""
        ids = enumerate(self.byte_tokens)
        return {byte_token(byte): id for byte, id in ids if self.vocab.get(bytes([byte])) != id}

    @property
    def normalization(self) -> Normalization:
        """The normalization of text before it is split."""
        normalization: Normalization = self.splitting.normalization
        return normalization

    @property
    def vocab_size(self) -> int:
        """Number of tokens, including special tokens. An added token that is also an ordinary token counts once."""
        added = [*self.special_tokens.items(), *self.added_tokens.items()]
        own = sum(self.vocab.get(self.spelling.decoded(text)) != id for text, id in added)
        return len(self.vocab) + len(self.named_bytes) + len(self.unmade_tokens) + own

    def bytes_by_id(self) -> dict[int, bytes]:
        """Return the bytes to which each id decodes, keyed by id."""
        others, added = self.bytes_beside_vocab()
        return {**others, **{id: token for token, id in self.vocab.items()}, **added}

    def bytes_beside_vocab(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Return the bytes to which the ids of tokens outside ``vocab`` decode. The first dict is for byte tokens and unmade
        tokens, whose ids a token in ``vocab`` may have. The second is for added tokens.
        """
        others = {id: bytes([byte]) for byte, id in enumerate(self.byte_tokens)}
        others |= {id: text.encode() for text, id in self.unmade_tokens.items()}
        added = {id: self.spelling.decoded(text) for text, id in self.added_ids.items()}
        # As in the library, a normalized token decodes to its normalized text, which may begin with a space.
        matched = self.normalization.in_two[0]
        return others, added | {self.added_ids[text]: prepare(text, matched).encode() for text in self.normalized_tokens}

    @cached_property
    def ids_around(self) -> tuple[list[int], list[int]]:
        """The ids of the special tokens that the template puts before and after a single text."""
        names = [name for name, _ in self.template.single] if self.template else ["$A"]
        place, ids = names.index("$A"), self.added_ids
        return [ids[name] for name in names[:place]], [ids[name] for name in names[place + 1 :]]

    @property
    def rows_needed(self) -> int:
        """Number of rows that a model's embedding must have.

        A special token needs no row if it is not the bos, eos, pad or unk token, and in neither the template nor the chat
        template. Gemma 3's image token has an id beyond the embedding of the text-only models, although it has a role.
        """
        used = {self.roles.get(role) for role in _TEXT_ROLES}.union(self.template.special_tokens() if self.template else ())
        chat = self.chat_template or ""
        special = (id for text, id in self.special_tokens.items() if text in used or text in chat)
        others = self.unmade_tokens.values()
        return 1 + max(*self.vocab.values(), *self.byte_tokens, *self.added_tokens.values(), *others, *special)

    def with_special_tokens(self, special_tokens: Sequence[str] | Mapping[str, int]) -> TokenizerData:
        """Return the tokenizer with additional special tokens, and with the roles that their spellings suggest. In a list,
        new tokens get the next free ids.
        """
        new = [token for token in special_tokens if token not in self.special_tokens]
        free = self.highest_id + 1
        ids = special_tokens if isinstance(special_tokens, Mapping) else {name: free + n for n, name in enumerate(new)}
        for token, id in ids.items():
            if type(id) is not int:
                raise SGPEError(f"special_tokens maps {token!r} to {id!r}, not to an id: write {{'<s>': 5000}} or ['<s>']")
            if self.special_tokens.get(token, id) != id:
                raise SGPEError(f"special token {token!r} already has the id {self.special_tokens[token]}, not {id}")
        check_special_tokens(new, self.normalization.scheme)
        special = {**self.special_tokens, **ids}
        return replace(self, special_tokens=special, roles={**roles_of(new), **self.roles})

    def merge_table(self) -> MergeTable:
        """Return the merges as pairs of ids."""
        ids = self.vocab
        return MergeTable(((ids[left], ids[right]), ids[left + right]) for left, right in self.merges)

    def inside_text(self) -> TokenizerData:
        """Return a variant that puts no space before a text, to encode parts inside a normalized text."""
        if not self.by_characters:
            return self
        return replace(self, splitting=replace(self.splitting, normalization=METASPACE))

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        size = f"{self.vocab_size:,} tokens, {len(self.merges):,} merges"
        return f"{type(self).__name__}({size}, normalization={self.normalization})"

    def get_vocab(self) -> dict[str, int]:
        """Return the ids of all tokens in order, keyed by vocabulary string: bytes in GPT-2's spelling, or texts in
        SentencePiece's (see `hf_sgpe.vocabulary.byte_strings`).
        """
        spell = self.spelling.string_of
        tokens = {spell(token): id for token, id in self.vocab.items()}
        tokens |= {**self.unmade_tokens, **self.named_bytes, **self.added_ids}
        return dict(sorted(tokens.items(), key=lambda item: item[1]))

    def get_mergeable_ranks(self) -> list[tuple[bytes, int]]:
        """Return the pairs of ``vocab`` in the order of ids."""
        return sorted(self.vocab.items(), key=lambda item: item[1])
