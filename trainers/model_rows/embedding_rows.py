"""Embedding rows for a new tokenizer. The row of an old token moves to the token's new id. The row of a new token starts
from the rows of the token's pieces, which are the old tokens that spell it.

`token_tables.fit_embeddings` changes a model in memory, and `transplanting.transplant` changes a model in files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.vocabulary.byte_strings import bytes_spelled, bytes_to_string, string_to_bytes
from hf_sgpe.vocabulary.reserved_tokens import is_reserved
from hf_sgpe.vocabulary.trimming import keeps_old_ids

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

# Roles take over old rows in this order. Two new tokens never take over the same row, since the model could not distinguish
# them.
_ROLES = ("eos", "bos", "pad", "unk")
# SentencePiece's mark for a space, and its tokens for bytes.
_SPACE = "\u2581"
_BYTE_TOKENS = {f"<0x{byte:02X}>": byte for byte in range(256)}
# Number of rows of a table in a file that are in memory at a time.
_ROWS = 4096


@dataclass(frozen=True)
class RowMap:
    """A description of how the embedding rows for a new tokenizer are computed from the rows for the old tokenizer.

    Args:
        rows: Number of new rows. Rows without a token are padding.
        known: The ids of the old tokenizer. If a new token has no pieces, its row starts at the mean of all their rows.
        kept: The old ids of the tokens that both tokenizers have, keyed by new id. The row of such a token is copied bit for
            bit. No old id occurs twice.
        pieces: The old ids of each new token's pieces, keyed by new id; empty if the old tokenizer cannot spell the token.
            The row of a new token starts at the mean of the rows of its pieces.
        weights: The weights of each new token's pieces, keyed by new id. With weights, a row starts at the weighted sum of
            the rows of the pieces instead of their mean.
        copied: The old ids of similar tokens, keyed by new id. The row of such a new token is a copy of the old row. An old
            language code is similar to a new one.
    """

    rows: int
    known: Sequence[int]
    kept: Mapping[int, int]
    pieces: Mapping[int, Sequence[int]]
    weights: Mapping[int, Sequence[float]] | None = None
    copied: Mapping[int, int] = field(default_factory=dict)

    @property
    def changes_nothing(self) -> bool:
        return not self.pieces and self.keeps_ids

    @property
    def keeps_ids(self) -> bool:
        """True if all old tokens keep their ids, as in an extended tokenizer."""
        return len(self.kept) == len(self.known) and all(new == old for new, old in self.kept.items())

    @property
    def new(self) -> list[int]:
        """Ids of the tokens that the old tokenizer does not have, ascending."""
        return sorted(self.pieces)

    def within(self, rows: int, ids: int) -> RowMap:
        """Return the map for a table with ``rows`` rows in a model with ``ids`` ids. A table with fewer rows than ids
        (Gemma 3n's per-layer embeddings) keeps its size if it has a row for each new token.
        """
        if rows >= ids or not self.keeps_ids or any(id >= rows for id in self.pieces):
            return self
        known = [id for id in self.known if id < rows]
        return replace(self, rows=rows, known=known, kept={id: id for id in known})

    def apply(self, old: torch.Tensor, started: torch.Tensor | None = None, *, ids: int = 0) -> torch.Tensor:
        """Return the rows for the new tokenizer, computed from an embedding, an output or its bias.

        Means are not scaled to the usual length of a row. In an output, a mean makes a new token as likely as the geometric
        mean of its pieces, so new tokens take little probability from the tokens that the model knows. When the means were
        scaled in a test, new tokens took 8 % of the probability in English text, and this text needed 20 % more bits
        (SmolLM2-135M, 12,000 Sinhala tokens).

        Args:
            old: One row for each old id, possibly followed by spare rows. If all old tokens keep their ids, spare rows are
                also kept.
            started: The rows of the ids in `new`, in 32 bits; None to compute them from the pieces.
            ids: Number of ids of the old model. If the tensor has fewer rows, ids without a row use the first row, as in
                Gemma 3n.
        """
        import torch

        return torch.cat(list(self.parts(old, started, ids=ids)))

    def parts(self, old: torch.Tensor, started: torch.Tensor | None = None, *, ids: int = 0) -> Iterator[torch.Tensor]:
        """Yield the rows that `apply` returns, a few thousand at a time: a table in a file may not fit into memory."""
        import torch

        # `no_grad` is not used here, because it would also affect the caller until the generator ends.
        flat = old.detach().reshape(len(old), -1)
        spare = min(max(len(old), ids), self.rows) if self.keeps_ids else 0
        source = torch.full((self.rows,), -1, dtype=torch.long)
        source[:spare] = torch.arange(spare)
        source[_index(self.pieces)] = -1
        whole = {**self.kept, **self.copied}
        source[_index(whole)] = _index(whole.values())
        source = _inside(flat, source)
        place = {id: row for row, id in enumerate(self.new)}
        mean: torch.Tensor | None = None
        for first in range(0, self.rows, _ROWS):
            some = range(first, min(first + _ROWS, self.rows))
            origin = source[first : some.stop]
            part = flat[origin.clamp(min=0)]
            unknown = [id for id in some if origin[id - first] < 0]
            if unknown:
                mean = self._mean(flat) if mean is None else mean
                made = mean.repeat(len(unknown), 1)
                if spelled := [row for row, id in enumerate(unknown) if self.pieces.get(id)]:
                    made[spelled] = self._combined(flat, [unknown[row] for row in spelled])
                if started is not None and (given := [row for row, id in enumerate(unknown) if id in place]):
                    rows = started.detach()[[place[unknown[row]] for row in given]]
                    made[given] = rows.reshape(len(given), -1).to(made.device, made.dtype)
                part[(origin < 0).to(part.device)] = made.to(part.dtype)
            yield part.reshape(len(part), *old.shape[1:])

    def _mean(self, flat: torch.Tensor) -> torch.Tensor:
        """Return the mean of the rows of known tokens. Read them in parts: the table may be in a file."""
        import torch

        total = torch.zeros(flat.shape[1], dtype=torch.float64, device=flat.device)
        known = [id for id in self.known if id < len(flat)]
        for first in range(0, len(known), _ROWS):
            total += flat[_index(known[first : first + _ROWS])].double().sum(0)
        return (total / len(known)).to(_wide(flat))

    def _combined(self, flat: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
        from torch import tensor
        from torch.nn.functional import embedding_bag

        pieces = [self.pieces[id] for id in ids]
        used = sorted(set(chain.from_iterable(pieces)))
        row_of = {id: row for row, id in enumerate(used)}
        table = flat[_inside(flat, _index(used))].to(_wide(flat))
        joined = tensor([row_of[piece] for spelling in pieces for piece in spelling], device=flat.device)
        ends = list(accumulate(map(len, pieces), initial=0))[:-1]
        weights = None
        if self.weights is not None:
            weights = tensor([*chain.from_iterable(self.weights[id] for id in ids)], dtype=table.dtype, device=flat.device)
        how = {"mode": "mean"} if weights is None else {"mode": "sum", "per_sample_weights": weights}
        return embedding_bag(joined, table, tensor(ends, device=flat.device), **how)

    def __str__(self) -> str:
        lost = sum(not pieces for pieces in self.pieces.values())
        counts = {
            "rows kept": len(self.kept),
            "copied from similar language codes": len(self.copied),
            "started from their pieces": len(self.pieces) - len(self.copied) - lost,
            "started from the mean of all": lost,
            "of the old tokenizer dropped": len(self.known) - len(self.kept),
            "spare": self.rows - len(self.kept) - len(self.pieces),
        }
        return ", ".join(f"{number:,} {label}" for label, number in counts.items() if number)


def _inside(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Replace each id for which a table has no row by 0, and return all ids."""
    return ids.where(ids < len(table), ids.new_zeros(()))


def _index(ids: Iterable[int]) -> torch.Tensor:
    import torch

    return torch.tensor(list(ids), dtype=torch.long)


def _wide(table: torch.Tensor) -> torch.dtype:
    """Return the number type (with at least 32 bits) in which means are computed."""
    import torch

    return torch.promote_types(table.dtype, torch.float32)


def map_rows(tokenizer: PreTrainedTokenizerBase, old: PreTrainedTokenizerBase, *, rows: int) -> RowMap:
    """Return a `RowMap` from the rows for the tokenizer ``old`` to the ``rows`` rows for ``tokenizer``.

    Ordinary tokens are the same if they have the same bytes. Special and added tokens are the same if they have the same
    text or, if their texts differ, the same role: eos, bos, pad or unk. Reserved tokens that the new tokenizer lacks do not
    count as old tokens, so that new tokens can take their ids and all old tokens keep theirs.
    """
    vocab = old.get_vocab()
    known = sorted(set(vocab.values()))
    if tokenizer.get_vocab() == vocab:
        return RowMap(rows, known, {id: id for id in known}, {})
    new_tokens, old_tokens = _Tokens(tokenizer, "the new tokenizer"), _Tokens(old, "the model's tokenizer")
    kept = {id: old_tokens.ordinary[token] for token, id in new_tokens.ordinary.items() if token in old_tokens.ordinary}
    kept |= {id: old_tokens.added[text] for text, id in new_tokens.added.items() if text in old_tokens.added}
    # Reserved tokens whose ids belong to new tokens now.
    dropped = {id for text, id in old_tokens.added.items() if text not in new_tokens.added and is_reserved(text)}
    # The free ids of a trimmed tokenizer keep their rows, unless an earlier trimming changed the ids of the model's tokens.
    if keeps_old_ids(tokenizer.init_kwargs.get("sgpe")) and all(id == old_id for id, old_id in kept.items()):
        dropped |= set(known)
    known = sorted(set(known) - dropped.difference(kept.values()))
    for role in _ROLES:
        new_id, old_id = (getattr(one, f"{role}_token_id") for one in (tokenizer, old))
        if None not in (new_id, old_id) and new_id not in kept and old_id not in kept.values():
            kept[new_id] = old_id
    spelled = {id: token for token, id in new_tokens.ordinary.items() if id not in kept}
    spelled |= {id: new_tokens.bytes_of.get(id, text.encode()) for text, id in new_tokens.added.items() if id not in kept}
    pieces = dict(zip(spelled, old_tokens.pieces(spelled.values()), strict=True))
    metadata = tokenizer.init_kwargs.get("sgpe") or {}
    copied = {
        new_tokens.added[code]: old_tokens.added[like]
        for code, like in metadata.get("languages", {}).items()
        if new_tokens.added.get(code) in pieces and like in old_tokens.added
    }
    return RowMap(rows, known, kept, pieces | {id: [like] for id, like in copied.items()}, copied=copied)


def token_lengths(tokenizer: PreTrainedTokenizerBase) -> dict[int, int]:
    """Return the number of bytes of each token, keyed by id."""
    tokens = _Tokens(tokenizer, "the tokenizer")
    contents = {id: text.encode() for text, id in tokens.added.items()} | tokens.bytes_of
    return {id: len(token) for id, token in contents.items()}


class _Tokens:
    """A tokenizer's tokens, keyed by content. The content of an ordinary token is its bytes; that of a special or added
    token is its text.

    The tokens are read from the backend, because `BPETokenizer` refuses tokenizers whose ids it cannot reproduce exactly,
    such as tokenizers with BART's ``<mask>``, or tokenizers that lack tokens for some bytes.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        from tokenizers import Tokenizer

        backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        content = json.loads(backend.to_str()) if isinstance(backend, Tokenizer) else {}
        model = content.get("model", {})
        decoder = content.get("decoder") or {}
        kinds = {part.get("type") for part in decoder.get("decoders", [decoder])}
        where = f"{name} ({tokenizer.name_or_path})" if tokenizer.name_or_path else name
        self.kind = "byte-level" if model.get("type") == "BPE" and "ByteLevel" in kinds else model.get("type")
        if self.kind not in ("byte-level", "BPE", "Unigram", "WordPiece"):
            raise SGPEError(
                f"{where} is of an unknown kind, so its tokens cannot be compared with those of another tokenizer"
            )
        self.added = {token["content"]: token["id"] for token in content["added_tokens"]}
        vocab = model["vocab"]
        if isinstance(vocab, list):
            vocab = {piece: id for id, (piece, _) in enumerate(vocab)}
        self.unknown = model["unk_id"] if "unk_id" in model else vocab.get(model.get("unk_token"))
        # The tokens of bytes are compared by their texts, since a character may be written by the same byte.
        byte_tokens = {text: vocab[text] for text in _BYTE_TOKENS if text in vocab and self.kind != "byte-level"}
        self.added |= byte_tokens
        if self.kind == "byte-level":  # the vocabulary of Command R+ and Aya has a raw U+200D
            raw = {token: id for token, id in vocab.items() if len(token) == 1 and bytes_spelled(token) is None}
            self.added = {**raw, **self.added}
        try:
            self.ordinary = {self._to_bytes(token): id for token, id in vocab.items() if token not in self.added}
        except NotByteLevelError as error:
            raise SGPEError(f"{where} is not byte-level BPE, although its decoder is ({error})") from None
        cut = {"padding": None, "truncation": None}
        # Parsing Gemma's half a million merges takes seconds.
        is_whole = content == content | cut
        self._backend = backend if is_whole else Tokenizer.from_str(json.dumps(content | cut))
        # If merging the bytes of an added token produces this token, it is also an ordinary token.
        for text in self.added.keys() & vocab.keys() - byte_tokens.keys():
            token = bytes_spelled(text) if self.kind == "byte-level" else self._to_bytes(text)
            if token and [piece.id for piece in self._backend.model.tokenize(text)] == [vocab[text]]:
                self.ordinary[token] = vocab[text]
        self.bytes_of = {id: token for token, id in self.ordinary.items()}
        self.bytes_of |= {id: bytes([_BYTE_TOKENS[text]]) for text, id in byte_tokens.items()}

    def pieces(self, tokens: Iterable[bytes]) -> list[list[int]]:
        """Return the ids of the ordinary tokens that spell each of ``tokens``. If a tokenizer with an unknown token cannot
        spell a token, these are the ids of the parts that it knows; otherwise, there are none.
        """
        given = list(tokens)
        # The whole tokenizer encodes the tokens first. If a normalizer, a prefix or a special token interferes, only the
        # merges are used.
        texts = [token.decode(errors="replace") for token in given]
        encodings = self._backend.encode_batch(texts, add_special_tokens=False)
        return [self._spelling(token, encoding.ids) for token, encoding in zip(given, encodings, strict=True)]

    def _to_bytes(self, token: str) -> bytes:
        if self.kind == "byte-level":
            return string_to_bytes(token)
        if self.kind == "WordPiece":
            return (token[2:] if token.startswith("##") and token != "##" else f" {token}").encode()
        return token.replace(_SPACE, " ").encode()

    def _spelling(self, token: bytes, ids: list[int]) -> list[int]:
        if self._spells(ids, token):
            return ids
        if self.kind == "WordPiece":
            return self._word_pieces(token.decode(), ids)
        text = bytes_to_string(token) if self.kind == "byte-level" else token.decode(errors="replace").replace(" ", _SPACE)
        merged = [piece.id for piece in self._backend.model.tokenize(text)]
        if self._spells(merged, token):
            return merged
        return [] if self.unknown is None else [id for id in merged if id in self.bytes_of and id != self.unknown]

    def _word_pieces(self, token: str, ids: list[int]) -> list[int]:
        """Return the ids for a token whose ``ids`` at the beginning of a word do not spell it: a part of a word, or a word
        with unknown characters.
        """
        if self.unknown not in ids and self._spells(ids, f" {token}".encode()):
            first = self.bytes_of[ids[0]][1:]  # in its form inside a word, if there is one
            return [self.ordinary.get(first, ids[0]), *ids[1:]]
        begins = token.startswith(" ")
        forms = [f" {c}" if begins and not place else c for place, c in enumerate(token.removeprefix(" "))]
        return [self.ordinary[form.encode()] for form in forms if form.encode() in self.ordinary]

    def _spells(self, ids: list[int], token: bytes) -> bool:
        return all(id in self.bytes_of for id in ids) and b"".join(map(self.bytes_of.__getitem__, ids)) == token
