"""New rows learned from the model itself: a new token should lead to the same hidden state as its old pieces.

The hidden states of the model with its old tokens are the target, and only the new rows are trained. This is token
distillation (arXiv 2505.20133). For the rows of the output, the next token is also predicted, as in ordinary training.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from tqdm import tqdm

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.progress import bar_disabled
from hf_sgpe.weights.model_loading import load_causal_model
from trainers.model_rows.embedding_rows import RowMap, token_lengths
from trainers.model_rows.token_tables import NewRows, fit_embeddings, tables_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Ids = Sequence[int]


def distilled_rows(
    row_map: RowMap,
    model: str,
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    steps: int = 300,
) -> list[torch.Tensor]:
    """Return the new rows for each table of a model (from a folder or the Hub), trained by `distil`, in 32 bits.

    The whole model is in memory in 32 bits, on a GPU if there is one.

    Raises:
        SGPEError: the tokenizer was not extended from the old one, the model is not causal, or no text has a new token.
    """
    import torch

    if not row_map.keeps_ids:
        raise SGPEError("distilling needs an extended tokenizer, but here old tokens have new ids: extend the model's own")
    net = load_causal_model(model).to("cuda" if torch.cuda.is_available() else "cpu")
    fit_embeddings(net, tokenizer, old, multiple=1, start=lambda _: row_map)
    distil(net, tokenizer, old, row_map.new, texts, steps=steps)
    return [table.detach()[row_map.new].float().cpu() for table in tables_of(net)]


def distil(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    ids: Sequence[int],
    texts: Sequence[str],
    *,
    steps: int,
    batch_size: int = 8,
    length: int = 96,
    learning_rate: float = 1e-3,
    seed: int = 1,
    progress: bool | None = None,
) -> None:
    """Train only the rows of new tokens in a model that `fit_embeddings` fitted to an extended tokenizer.

    Each step reads some pieces of text twice: in old tokens, for the target states, and in new tokens. States are compared
    at the places where a token ends in both. The loss is the squared distance of the states, divided by the squared length
    of the target.

    Args:
        model: The model, on the device to train on, in 32 bits. Its rows for old tokens are at their old ids.
        tokenizer: The extended tokenizer.
        old: The tokenizer before the extension.
        ids: Ids of the new rows.
        texts: Lines or whole texts in the new language. Texts in other languages help to keep new tokens out of them.
        length: Greatest length of a piece of text in old tokens.
        learning_rate: The learning rate at the beginning. It falls linearly to zero.
        progress: Whether to show a bar on stderr; None shows it only on a terminal.

    Raises:
        SGPEError: no text has a new token.
    """
    import torch

    examples = list(_examples(tokenizer, old, frozenset(ids), texts, length))
    if steps < 1:
        raise SGPEError(f"distilling needs at least 1 step, not {steps}")
    if not examples:
        raise SGPEError("the text for distilling has none of the new tokens: give text in the new language")
    order = random.Random(seed)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    was_training = model.training
    model.eval()  # no dropout: the same text must give the same states
    for parameter in trained:
        parameter.requires_grad_(False)
    for table in tables_of(model):
        if table.is_leaf:
            table.requires_grad_(True)
    rows = NewRows(model, ids)
    optimizer = torch.optim.AdamW(rows.parameters, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    rows.attach(optimizer)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    on_gpu = model.device.type == "cuda"
    try:
        for _ in tqdm(range(steps), desc="Distilling", unit=" steps", disable=bar_disabled(progress), leave=False):
            chosen = [examples[order.randrange(len(examples))] for _ in range(batch_size)]
            with torch.autocast(model.device.type, torch.bfloat16, enabled=on_gpu):
                _loss(model, chosen).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            model.zero_grad()
    finally:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for parameter in trained:
            parameter.requires_grad_(True)
        model.train(was_training)


def _loss(model: PreTrainedModel, examples: Sequence[tuple[Ids, Ids, Ids, Ids]]) -> torch.Tensor:
    import torch
    from torch.nn.functional import cross_entropy

    old_ids, new_ids, old_ends, new_ends = zip(*examples, strict=True)
    with torch.no_grad():
        wanted = _states(model, old_ids)[0]
    states, logits = _states(model, new_ids, with_logits=True)
    where = [(row, place) for row, ends in enumerate(old_ends) for place in ends]
    there = [(row, place) for row, ends in enumerate(new_ends) for place in ends]
    target = wanted[tuple(zip(*where, strict=True))].float()
    found = states[tuple(zip(*there, strict=True))].float()
    distance = ((found - target) ** 2).sum(-1) / (target**2).sum(-1)
    labels = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in new_ids], batch_first=True, padding_value=-100)
    assert logits is not None
    predicted = cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten().to(logits.device))
    return distance.mean() + predicted


def _states(
    model: PreTrainedModel, rows: Sequence[Ids], *, with_logits: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the last hidden states (texts by tokens by width), and the logits if requested."""
    import torch

    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True).to(model.device)
    if not with_logits:
        return model.base_model(input_ids=padded, use_cache=False).last_hidden_state, None
    states: list[torch.Tensor] = []
    # The last of output_hidden_states is something else in Gemma 3n.
    hook = model.base_model.register_forward_hook(lambda _, __, output: states.append(output.last_hidden_state))
    try:
        logits = model(input_ids=padded, use_cache=False).logits
    finally:
        hook.remove()
    return states[-1], logits


def _examples(
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    new: frozenset[int],
    texts: Sequence[str],
    length: int,
) -> Iterator[tuple[Ids, Ids, Ids, Ids]]:
    """Yield pieces of text in old and in new tokens, each with the places where a token ends in both."""
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    lengths, old_lengths = token_lengths(tokenizer), token_lengths(old)
    for text in texts:
        ours, theirs = (one(text, **options)["input_ids"] for one in (tokenizer, old))
        ends, old_ends = _ends(ours, lengths), _ends(theirs, old_lengths)
        if not ends or not old_ends or ends[-1] != old_ends[-1]:
            continue  # a normalizer or a special token changed the text
        place_of = {end: place for place, end in enumerate(old_ends)}
        common = [(place, place_of[end]) for place, end in enumerate(ends) if end in place_of]
        first = old_first = 0
        # Each piece is as long as possible; the next one begins at its end.
        for number, (place, old_place) in enumerate(common):
            following = common[number + 1][1] if number + 1 < len(common) else None
            if following is None or following - old_first >= length:
                piece, old_piece = ours[first : place + 1], theirs[old_first : old_place + 1]
                if len(piece) > 1 and len(old_piece) <= length and not new.isdisjoint(piece):
                    pairs = [(b - old_first, a - first) for a, b in common if first <= a <= place]
                    yield old_piece, piece, [b for b, _ in pairs], [a for _, a in pairs]
                first, old_first = place + 1, old_place + 1


def _ends(ids: Ids, lengths: Mapping[int, int]) -> list[int]:
    """Return the end of each token in the bytes of a text."""
    return list(accumulate(lengths[id] for id in ids))
