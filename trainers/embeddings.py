"""Where the rows of an embedding come from when the tokenizer changes: rows follow their tokens, new ones start from pieces.

`map_rows` says for each id of the new tokenizer which old rows it begins from, which is a value; `RowMap.apply` makes the
new rows of a tensor that has one for each old id. `trainers.language_model.fit_embeddings` does that with a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from hf_sgpe.byte_strings import bytes_to_string, string_to_bytes
from hf_sgpe.errors import NotByteLevelError, SGPEError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

# They choose among the old rows in this order. No two new tokens start from the same row: they could not be told apart.
_ROLES = ("eos", "bos", "pad", "unk")


@dataclass(frozen=True)
class RowMap:
    """Where each row for a new tokenizer comes from, in rows for an old one.

    Args:
        rows: How many there are to be. Those that belong to no token are padding.
        known: The ids of the old tokenizer. Rows that come from nowhere else begin at the mean of these.
        kept: New id → old id of the same token, whose row is taken over bit for bit. No old id occurs twice.
        pieces: New id of every other token → ids of the pieces that the old tokenizer cuts it into, at the mean of whose
            rows it begins; empty if that cannot spell it.
    """

    rows: int
    known: Sequence[int]
    kept: Mapping[int, int]
    pieces: Mapping[int, Sequence[int]]

    @property
    def changes_nothing(self) -> bool:
        """Whether all tokens keep their ids, and there are no others."""
        return not self.pieces and len(self.kept) == len(self.known) and all(new == old for new, old in self.kept.items())

    def apply(self, old: torch.Tensor) -> torch.Tensor:
        """The new rows of a tensor that has one for each old id: an embedding, an output or its bias.

        A plain mean, not drawn out to the length of other rows: as an output it makes a new token as likely as the geometric
        mean of its pieces, so that it takes little from the tokens that the model knows.
        """
        import torch
        from torch.nn.functional import embedding_bag

        def index(ids: Iterable[int]) -> torch.Tensor:
            return torch.tensor(list(ids), dtype=torch.long, device=old.device)

        with torch.no_grad():
            flat = old.reshape(len(old), -1).to(torch.promote_types(old.dtype, torch.float32))
            new = flat[index(self.known)].mean(0).repeat(self.rows, 1)
            if spelled := {id: pieces for id, pieces in self.pieces.items() if pieces}:
                ends = list(accumulate(map(len, spelled.values()), initial=0))
                joined = index(piece for pieces in spelled.values() for piece in pieces)
                new[index(spelled)] = embedding_bag(joined, flat, index(ends[:-1]), mode="mean")
            new[index(self.kept)] = flat[index(self.kept.values())]
            return new.to(old.dtype).reshape(self.rows, *old.shape[1:])

    def __str__(self) -> str:
        lost = sum(not pieces for pieces in self.pieces.values())
        counts = {
            "rows kept": len(self.kept),
            "started from their pieces": len(self.pieces) - lost,
            "started from the mean of all": lost,
        }
        return ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)


def map_rows(tokenizer: PreTrainedTokenizerBase, old: PreTrainedTokenizerBase, *, rows: int) -> RowMap:
    """Which rows for ``old`` those for ``tokenizer`` begin from.

    Tokens are the same if their bytes are. Special and added tokens are the same if their text is, or else if they play the
    same part: eos, bos, pad or unk.

    Args:
        rows: How many the new embedding is to have.

    Raises:
        SGPEError: the tokenizers differ, and one of them is not byte-level BPE, so that its tokens are no bytes.
    """
    vocab = old.get_vocab()
    known = sorted(set(vocab.values()))
    if tokenizer.get_vocab() == vocab:
        return RowMap(rows, known, {id: id for id in known}, {})
    new_tokens, old_tokens = _Tokens(tokenizer, "the new tokenizer"), _Tokens(old, "the model's tokenizer")
    kept = {id: old_tokens.ordinary[token] for token, id in new_tokens.ordinary.items() if token in old_tokens.ordinary}
    kept |= {id: old_tokens.added[text] for text, id in new_tokens.added.items() if text in old_tokens.added}
    for role in _ROLES:
        new_id, old_id = (getattr(one, f"{role}_token_id") for one in (tokenizer, old))
        if None not in (new_id, old_id) and new_id not in kept and old_id not in kept.values():
            kept[new_id] = old_id
    spelled = {id: token for token, id in new_tokens.ordinary.items() if id not in kept}
    spelled |= {id: text.encode() for text, id in new_tokens.added.items() if id not in kept}
    pieces = dict(zip(spelled, old_tokens.pieces(spelled.values()), strict=True))
    return RowMap(rows, known, kept, pieces)


class _Tokens:
    """A tokenizer's tokens by what they stand for: the bytes of ordinary ones, the text of special and added ones.

    Read from the backend and not as a `BPETokenizer`, which refuses what it could not encode with exactly, such as BART's
    ``<mask>`` and vocabularies without some bytes.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        from tokenizers import Tokenizer

        backend = getattr(tokenizer, "backend_tokenizer", None)
        content = json.loads(backend.to_str()) if isinstance(backend, Tokenizer) else {}
        decoder = content.get("decoder") or {}
        kinds = {part.get("type") for part in decoder.get("decoders", [decoder])}
        where = f"{name} ({tokenizer.name_or_path})" if tokenizer.name_or_path else name
        refusal = f"{where} is not byte-level BPE, so its tokens cannot be looked up in another one"
        if content.get("model", {}).get("type") != "BPE" or "ByteLevel" not in kinds:
            raise SGPEError(refusal)
        self.added = {token["content"]: token["id"] for token in content["added_tokens"]}
        vocab = content["model"]["vocab"]
        try:
            self.ordinary = {string_to_bytes(token): id for token, id in vocab.items() if token not in self.added}
        except NotByteLevelError as error:
            raise SGPEError(f"{refusal} ({error})") from None
        self._bytes_of = {id: token for token, id in self.ordinary.items()}
        self._backend = Tokenizer.from_str(json.dumps({**content, "padding": None, "truncation": None}))

    def pieces(self, tokens: Iterable[bytes]) -> list[list[int]]:
        """The ids of the ordinary tokens that each of ``tokens``, which are bytes, is cut into; none if it cannot be."""
        given = list(tokens)
        # Split and all. Where a normalizer, a prefix or a special token comes between, the merges alone do.
        texts = [token.decode(errors="replace") for token in given]
        encodings = self._backend.encode_batch(texts, add_special_tokens=False)
        return [self._spelling(token, encoding.ids) for token, encoding in zip(given, encodings, strict=True)]

    def _spelling(self, token: bytes, ids: list[int]) -> list[int]:
        if self._spells(ids, token):
            return ids
        merged = [piece.id for piece in self._backend.model.tokenize(bytes_to_string(token))]
        return merged if self._spells(merged, token) else []

    def _spells(self, ids: list[int], token: bytes) -> bool:
        return all(id in self._bytes_of for id in ids) and b"".join(map(self._bytes_of.__getitem__, ids)) == token
