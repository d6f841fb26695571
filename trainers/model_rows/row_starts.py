"""Initial rows for new tokens, as alternatives to the mean of the rows of the token's pieces (the old tokens that spell it).

SmolLM2-135M with 12,000 new Sinhala tokens, before any training, needed this many bits per byte of Sinhala: 1.757 before the
change of tokenizer, 1.302 with the mean, 1.295 with `by_position`, 1.302 to 1.310 with weights that depend on the lengths or
ids of the pieces, and 1.461 with only the last piece.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hf_sgpe.errors import SGPEError
from trainers.model_rows.embedding_rows import RowMap, map_rows

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

# Number of new tokens that are computed together.
_BATCH = 512


def by_position(row_map: RowMap) -> RowMap:
    """Return a map in which later pieces of a token, which are nearer to the text after it, have greater weights.

    >>> by_position(RowMap(4, [0, 1], {0: 0, 1: 1}, {2: [0, 1], 3: []})).weights
    {2: [0.3333333333333333, 0.6666666666666666], 3: []}
    """
    weights = {}
    for id, pieces in row_map.pieces.items():
        total = len(pieces) * (len(pieces) + 1) / 2
        weights[id] = [place / total for place in range(1, len(pieces) + 1)]
    return replace(row_map, weights=weights)


def by_pursuit(
    row_map: RowMap,
    tokenizer: PreTrainedTokenizerBase,
    donor: PreTrainedTokenizerBase,
    donor_rows: torch.Tensor,
    *,
    terms: int = 16,
) -> RowMap:
    """Return a map whose weights are computed by orthogonal matching pursuit in a second model, the donor, which knows the
    new tokens (arXiv 2506.06607).

    The donor's row for a new token is approximated by a weighted sum of the donor's rows for tokens that both models have.
    If the donor does not have the new token, the mean of the donor's rows for the token's pieces is approximated instead.
    The tokens in the sum are chosen one by one, and the weights of all chosen tokens are computed again each time by least
    squares. The new row is the sum of the model's own rows for the chosen tokens, with the same weights.

    Args:
        tokenizer: The tokenizer of the new rows.
        donor: The donor's tokenizer.
        donor_rows: The donor's embedding (rows × width).
        terms: Number of tokens in each weighted sum.
    """
    import torch

    of_donor = map_rows(tokenizer, donor, rows=row_map.rows)
    common = sorted(row_map.kept.keys() & of_donor.kept.keys())
    if len(common) < 2 * terms:
        raise SGPEError(
            f"the donor has {len(common):,} tokens in common with the model, but needs {2 * terms:,}: choose another donor"
        )
    known = donor_rows[[of_donor.kept[id] for id in common]].float()
    directions = torch.nn.functional.normalize(known, dim=1)
    new = [id for id in row_map.new if of_donor.kept.get(id) is not None or of_donor.pieces.get(id)]
    wanted = of_donor.apply(donor_rows)
    pieces, weights = dict(row_map.pieces), {id: [1 / len(ids)] * len(ids) for id, ids in row_map.pieces.items()}
    old_id = torch.tensor([row_map.kept[id] for id in common])
    for first in range(0, len(new), _BATCH):
        ids = new[first : first + _BATCH]
        target = wanted[ids].float()
        chosen, factors = _pursue(target, known, directions, terms)
        for id, row, numbers in zip(ids, old_id[chosen.cpu()].tolist(), factors.tolist(), strict=True):
            pieces[id], weights[id] = row, numbers
    return replace(row_map, pieces=pieces, weights=weights)


def _pursue(
    target: torch.Tensor, known: torch.Tensor, directions: torch.Tensor, terms: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each row of ``target``, return the indices and weights of ``terms`` rows of ``known`` that approximate it."""
    import torch

    rest = target
    chosen = torch.empty(len(target), 0, dtype=torch.long, device=target.device)
    for _ in range(terms):
        match = (rest @ directions.T).abs()
        match.scatter_(1, chosen, -1)  # choose no row twice
        chosen = torch.cat([chosen, match.argmax(1, keepdim=True)], 1)
        basis = known[chosen]
        gram = basis @ basis.transpose(1, 2)
        # Nearly equal rows would make the system singular.
        gram.diagonal(dim1=1, dim2=2).mul_(1 + 1e-4)
        factors = torch.linalg.solve(gram, (basis @ target[:, :, None]))[..., 0]
        rest = target - (factors[:, None] @ basis)[:, 0]
    return chosen, factors
