"""PieceFolder: the files of a tokenizer that looks up pieces instead of merging: Unigram (XLM-R, T5) or WordPiece (BERT).

Unigram gives each piece a score, and cuts a text into the pieces with the greatest sum of scores. WordPiece cuts a word from
left to right into the longest pieces, and writes ``##`` before a piece inside a word. The ``tokenizers`` library encodes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.files.atomic import write_utf8
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.tokenizer_files import TokenizerFiles, read_files, settings_of_class
from hf_sgpe.kernels import tokenizers_library
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK, byte_token
from hf_sgpe.vocabulary.trimming import COMPACT, Trimming, surplus, with_note

if TYPE_CHECKING:
    from tokenizers import Tokenizer

UNIGRAM, WORDPIECE = "Unigram", "WordPiece"
VOCABULARY_FILE = "vocab.txt"


def is_piece_model(content: Mapping[str, Any]) -> bool:
    """Return whether the content of a ``tokenizer.json`` is that of a Unigram or WordPiece tokenizer."""
    model = content.get("model")
    return isinstance(model, Mapping) and model.get("type") in (UNIGRAM, WORDPIECE)


def read_pieces(path_or_repo: str | os.PathLike[str]) -> PieceFolder | None:
    """Read a Unigram or WordPiece tokenizer without the settings of its class in transformers. Return None if the tokenizer
    is of another kind.
    """
    files, path, _ = read_files(path_or_repo)
    if not is_piece_model(files.content):
        return None
    folder = PieceFolder(**vars(files))
    with tokenizer_json.errors_name(path):
        folder._check()
    return folder


@dataclass(frozen=True)
class PieceFolder(TokenizerFiles):
    """The files of a Unigram or WordPiece tokenizer, and what they say about its model."""

    @classmethod
    def read(cls, path_or_repo: str | os.PathLike[str], *, revision: str | None = None) -> PieceFolder:
        """Read a Unigram or WordPiece tokenizer from a folder, its ``tokenizer.json``, or a repository on the Hub."""
        return cls.of_files(*read_files(path_or_repo, revision=revision))

    @classmethod
    def of_files(cls, files: TokenizerFiles, path: Path, own_settings: Mapping[str, Any] | None = None) -> PieceFolder:
        """Return the tokenizer in files, with the settings of its class. The arguments are the results of `read_files`."""
        folder = cls(**vars(files))
        with tokenizer_json.errors_name(path):
            folder._check()
        settings = {**settings_of_class(path.parent, files.settings, folder.added), **files.settings}
        return replace(folder, settings=settings)

    def _check(self) -> None:
        model = self.content["model"]
        if self.kind == WORDPIECE and model.get("continuing_subword_prefix") != "##":
            raise SGPEError("its WordPiece model does not write ## before a piece inside a word: use another tokenizer")
        if not _is_sound(model.get("vocab"), self.kind):
            raise SGPEError(f"it is damaged: the vocabulary of its {self.kind} model has a wrong type")
        tokens = self.content.get("added_tokens") or []
        if not isinstance(tokens, list) or not all(map(_is_added_token, tokens)):
            raise SGPEError("it is damaged: an added token lacks its content or its id")
        if self.kind == UNIGRAM and model.get("unk_id") is None and not model.get("byte_fallback"):
            raise SGPEError("its Unigram model has neither unk_id nor byte_fallback, so it cannot encode all text")
        if self.kind == UNIGRAM and SPACE_MARK not in json.dumps(
            [self.content.get("pre_tokenizer"), self.content.get("normalizer")], ensure_ascii=False
        ):
            raise SGPEError("its Unigram model does not write a space as U+2581: use another tokenizer")

    @property
    def keeps_class(self) -> bool:
        return True

    @property
    def kind(self) -> str:
        """`UNIGRAM` or `WORDPIECE`."""
        return str(self.content["model"]["type"])

    @cached_property
    def vocab(self) -> dict[str, int]:
        """Ids of the pieces, keyed by piece. Most added tokens are also pieces."""
        vocab = self.content["model"]["vocab"]
        return {piece: id for id, (piece, _) in enumerate(vocab)} if self.kind == UNIGRAM else dict(vocab)

    @property
    def added(self) -> dict[str, int]:
        """Ids of the special and the other added tokens, keyed by text."""
        return {token["content"]: token["id"] for token in self.content.get("added_tokens") or ()}

    @property
    def unknown(self) -> int | None:
        """The id of the unknown token, or None."""
        model = self.content["model"]
        found = model.get("unk_id") if self.kind == UNIGRAM else self.vocab.get(model.get("unk_token"))
        return found if isinstance(found, int) else None

    @property
    def ids(self) -> set[int]:
        """The ids of all tokens."""
        return {*self.vocab.values(), *self.added.values()}

    @property
    def vocab_size(self) -> int:
        """Number of tokens, including special tokens."""
        return len(self.ids)

    @property
    def highest_id(self) -> int:
        return max(self.ids)

    @cached_property
    def backend(self) -> Tokenizer:
        """The tokenizer of the ``tokenizers`` library, without truncation and padding."""
        content = {**self.content, "truncation": None, "padding": None}
        try:
            return tokenizers_library.load(json.dumps(content))
        except SGPEError:
            raise
        except Exception as error:  # the library raises the bare class
            raise SGPEError(f"{self.name} is damaged or not a tokenizer.json ({error})") from None

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text, without the special tokens of the template."""
        return [encoding.ids for encoding in self.backend.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.backend.decode(list(ids), skip_special_tokens=False))

    def encode(self, text: str, *, add_special_tokens: bool = False, with_special: bool = False) -> list[int]:
        """Return the ids of a text.

        Args:
            add_special_tokens: Whether to add the special tokens of the template.
            with_special: Whether special tokens that are written in the text become special tokens.
        """
        self.backend.encode_special_tokens = not with_special
        ids: list[int] = self.backend.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def text_of(self, id: int) -> str:
        """Return a piece as the text that it represents."""
        piece = str(self.backend.id_to_token(id))
        if id in self.added.values():
            return piece
        if self.kind == UNIGRAM:
            return piece.replace(SPACE_MARK, " ")
        return piece.removeprefix("##") if piece.startswith("##") else f" {piece}"

    def normalize(self, text: str) -> str:
        """Return a text after the tokenizer's normalizer.

        Raises:
            NotInstalledError: the ``tokenizers`` library is a version that does not show its normalizers to Python.
        """
        if not tokenizers_library.shows_its_parts():
            need = f"{self.name}: extending a {self.kind} tokenizer needs tokenizers before 1.0"
            raise not_installed(need, "'tokenizers<1'")
        normalizer = self.backend.normalizer
        return str(normalizer.normalize_str(text)) if normalizer is not None else text

    def parts_of_word(self, word: str) -> list[str]:
        """Return the parts of a normalized word that are looked up one by one. A part at the beginning of a word begins
        with a space.
        """
        if self.kind == UNIGRAM:  # a space is a character of the pieces
            return [word]
        splitter = self.backend.pre_tokenizer
        return [f" {part}" for part, _ in splitter.pre_tokenize_str(word)] if splitter is not None else [f" {word.strip()}"]

    def piece_of(self, token: str) -> str:
        """Return the piece for a token, which begins with a space if it begins a word.

        >>> PieceFolder("", {"model": {"type": "WordPiece"}}, {}, {}, None, frozenset(), None, None).piece_of("ක")
        '##ක'
        """
        if self.kind == UNIGRAM:
            return token.replace(" ", SPACE_MARK)
        return token[1:] if token.startswith(" ") else f"##{token}"

    def scores(self) -> dict[str, float]:
        """Return the score of each piece of a Unigram tokenizer."""
        return {piece: float(score) for piece, score in self.content["model"]["vocab"]}

    def write(self, directory: Path, *, tokenizer_class: str | None = None) -> None:
        super().write(directory, tokenizer_class=tokenizer_class)
        if self.kind == WORDPIECE:  # BERT's own programs read this file
            pieces = {id: piece for piece, id in self.vocab.items()}
            lines = (pieces.get(id, f"[unused {id}]") for id in range(max(pieces) + 1))
            write_utf8(directory / VOCABULARY_FILE, "".join(f"{line}\n" for line in lines))

    def check_trim(self, scripts: Iterable[str], ids: str) -> None:
        """Check that the pieces can be trimmed in this way: not by scripts, and only with new ids."""
        what = f"{self.name} is a {self.kind} tokenizer"
        if [*scripts]:
            raise SGPEError(f"{what}, which cannot be trimmed by scripts: give --tokens and --for, or --unused-in")
        if ids != COMPACT:
            raise SGPEError(f"{what}, whose tokens always get new ids: give --ids {COMPACT}")

    def trimmed(self, use: Sequence[int], *, tokens: int | None = None) -> tuple[PieceFolder, Trimming[PieceFolder]]:
        """Return a copy without the pieces that a corpus does not need or, with ``tokens``, needs least. See
        `hf_sgpe.vocabulary.trimming.trimmed`, also for the arguments.

        Special and added tokens stay, and so do single characters, because their text would become unknown. The score of
        unknown text depends on the lowest score of a Unigram tokenizer, so a piece with this score stays, too.
        """
        fixed = {*self.added.values(), self.unknown}
        if self.kind == UNIGRAM:
            scores = self.scores()
            lowest = min(scores, key=scores.__getitem__)
            fixed |= {self.vocab.get(piece) for piece in (lowest, *map(byte_token, range(256)))}
        removable = {piece: id for piece, id in self.vocab.items() if len(piece.removeprefix("##")) > 1 and id not in fixed}
        ranked = sorted(removable, key=lambda piece: (-use[removable[piece]], removable[piece]))
        need = {piece: use[removable[piece]] for piece in ranked}
        unused = surplus(need, self.vocab_size, tokens)
        if not unused:
            raise SGPEError("the corpus needs all tokens of the tokenizer: name a smaller corpus")
        smaller, moved = self.without(unused)
        note = {"scripts": [], "ids": COMPACT, "unused": len(unused), "tokens": tokens}
        settings = {**smaller.settings, "sgpe": with_note(self.settings.get("sgpe") or {}, note, moved)}
        smaller = replace(smaller, settings=settings)
        return smaller, Trimming(self, smaller, (), moved, {}, len(unused), need)

    def without(self, gone: Set[str]) -> tuple[PieceFolder, dict[int, int]]:
        """Return a copy without some pieces, whose ids have no gaps, and the new id of each kept token, keyed by old id."""
        model, vocab = self.content["model"], self.content["model"]["vocab"]
        ids = enumerate(piece for piece, _ in vocab) if self.kind == UNIGRAM else map(reversed, vocab.items())
        left = {*self.added.values(), *(id for id, piece in ids if piece not in gone)}
        moved = {id: place for place, id in enumerate(sorted(left))}
        if self.kind == UNIGRAM:
            kept = [entry for entry in vocab if entry[0] not in gone]
            model = {**model, "vocab": kept, "unk_id": moved.get(model.get("unk_id"))}
        else:
            model = {**model, "vocab": {piece: moved[id] for piece, id in vocab.items() if piece not in gone}}
        smaller = self.with_ids(moved)
        return replace(smaller, content={**smaller.content, "model": model}), moved

    def with_pieces(self, pieces: Mapping[str, float], note: Mapping[str, Any]) -> PieceFolder:
        """Return the tokenizer with additional pieces, which get the ids after the highest id.

        Args:
            pieces: Scores of the pieces in the order of their ids. WordPiece ignores the scores.
            note: The record of the extension in ``tokenizer_config.json``.
        """
        vocab = self.content["model"]["vocab"]
        first = self.highest_id + 1
        longer: Any
        if self.kind == UNIGRAM:
            # The id of a piece is its place. So an added token after the last piece must become a piece.
            texts = {id: text for text, id in self.added.items()}
            least = min(score for _, score in vocab)
            filled = [[texts.get(id, f"<unused {id}>"), least] for id in range(len(vocab), first)]
            longer = [*vocab, *filled, *(list(item) for item in pieces.items())]
        else:
            longer = {**vocab, **{piece: first + place for place, piece in enumerate(pieces)}}
        record = dict(self.settings.get("sgpe") or {})
        new = {**note, "new_tokens": len(pieces), "new_ids": [[first, first + len(pieces) - 1]]}
        record["extensions"] = [*record.get("extensions", ()), new]
        content = {**self.content, "model": {**self.content["model"], "vocab": longer}}
        return replace(self, content=content, settings={**self.settings, "sgpe": record})


def _is_sound(vocab: Any, kind: str) -> bool:
    """Return whether a vocabulary has the types that its kind of model needs."""
    if kind == WORDPIECE:
        return isinstance(vocab, dict) and all(type(id) is int and id >= 0 for id in vocab.values())
    pairs = isinstance(vocab, list) and all(isinstance(entry, list) and len(entry) == 2 for entry in vocab)
    return pairs and all(isinstance(piece, str) and isinstance(score, (int, float)) for piece, score in vocab)


def _is_added_token(token: Any) -> bool:
    return isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int
