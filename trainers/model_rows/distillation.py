"""Distillation of the rows of new tokens from the model itself. (A row is a token's vector in an embedding or output table.)
A new token should produce the same hidden states as the old tokens that spell the same text.

This is token distillation (arXiv 2505.20133), for causal models and for encoders such as XLM-R and e5. The model reads each
snippet of text twice: once in old tokens, to produce the target states, and once in new tokens. Only the new rows are
trained. The embedding is trained with the distance between the hidden states, and the output of a causal model with the loss
on the next token. A table that is both is trained with the sum of both losses.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from hf_sgpe.counts.counters import in_batches
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.atomic import atomic_file
from hf_sgpe.terminal.progress import bar_disabled
from hf_sgpe.weights.model_loading import GENERATES, auto_class, encode_texts, ids_around, load_config, load_whole_model
from trainers.model_rows.embedding_rows import RowMap, token_lengths
from trainers.model_rows.token_tables import NewRows, fit_embeddings, layers_of, tables_of

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

Ids = Sequence[int]

# Number of texts that are encoded together.
_TEXTS = 256
# Number of times that a run saves its state.
_SAVES = 20


@dataclass(frozen=True)
class Distillation:
    """Settings of a distillation. The defaults were the best values found for SmolLM2-135M (see the documentation).

    Args:
        per_token: Number of snippets for each new token. A snippet with several new tokens counts for each of these tokens.
        length: Maximum length of a snippet, in old tokens.
        layer: The layer whose hidden states are compared, counted from 1. None compares the states after the final norm.
        predict: Weight of the loss on the next token, relative to the loss on hidden states. It only matters if one table is
            both embedding and output.
        batch_size: Number of snippets in a step. Each snippet is used once, so the batch size also determines the number of
            steps.
        learning_rate: The learning rate. It rises over the first twentieth of the steps, then falls linearly to zero.
        seed: Seed for the random order of the snippets.
    """

    per_token: int = 8
    length: int = 100
    layer: int | None = None
    predict: float = 1.0
    batch_size: int = 128
    learning_rate: float = 3e-3
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least in {"per_token": 1, "length": 2, "batch_size": 1, "layer": 1}.items():
            number = getattr(self, name)
            if number is not None and number < least:
                raise SGPEError(f"{name} must be at least {least}, not {number}")
        if not self.learning_rate > 0:
            raise SGPEError(f"learning_rate must be above 0, not {self.learning_rate}")
        if not self.predict >= 0:
            raise SGPEError(f"predict must be at least 0, not {self.predict}")


class _LayerReachedError(Exception):
    """The forward pass has computed the states of the layer that is compared."""


@dataclass(frozen=True)
class Snippet:
    """A short text in old and new ids. The tokens at corresponding indices in the ``ends`` end at the same position."""

    old: Ids
    new: Ids
    old_ends: Ids
    new_ends: Ids


@dataclass(frozen=True)
class _Reader:
    """The form in which a model reads the ids of a text.

    Attributes:
        predicts_next: Whether the model is causal. Any other model also reads the text after a token.
        before: The special tokens that precede a text.
        after: The special tokens that follow a text.
    """

    predicts_next: bool = True
    before: Ids = ()
    after: Ids = ()

    @classmethod
    def of(cls, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase) -> _Reader:
        if config.is_encoder_decoder:
            raise SGPEError("distilling is for causal models and encoders, but this model has a decoder: use other new rows")
        if auto_class(config).endswith(GENERATES):
            return cls()
        return cls(False, *ids_around(tokenizer))

    def batch(self, model: PreTrainedModel, rows: Sequence[Ids]) -> dict[str, Any]:
        """Return the arguments of the model for the ids of some texts."""
        from torch import tensor
        from torch.nn.utils.rnn import pad_sequence

        whole = [tensor([*self.before, *row, *self.after], device=model.device) for row in rows]
        ids = {"input_ids": pad_sequence(whole, batch_first=True)}
        if self.predicts_next:
            return {**ids, "use_cache": False}
        return {**ids, "attention_mask": pad_sequence([row.new_ones(len(row)) for row in whole], batch_first=True)}


def distilled_rows(
    row_map: RowMap,
    model: str,
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    texts: Iterable[str],
    settings: Distillation | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
) -> list[torch.Tensor]:
    """Train the rows of new tokens with `distil`. Return these rows in 32 bits, as one tensor for each table of the model.

    The whole model is in memory in 32 bits, on a GPU if there is one.

    Args:
        model: Folder, or repository on the Hub.
    """
    import torch

    if not row_map.keeps_ids:
        raise SGPEError("distilling needs an extended tokenizer, but old tokens have new ids: extend the model's tokenizer")
    settings, reader = settings or Distillation(), _Reader.of(load_config(model), tokenizer)
    snippets = choose_snippets(tokenizer, old, row_map.new, texts, settings)
    net = load_whole_model(model).to("cuda" if torch.cuda.is_available() else "cpu")
    fit_embeddings(net, tokenizer, old, multiple=1, start=lambda _: row_map)
    distil(net, row_map.new, snippets, settings, reader=reader, state=state)
    return [table.detach()[row_map.new].float().cpu() for table in tables_of(net)]


def choose_snippets(
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    ids: Sequence[int],
    texts: Iterable[str],
    settings: Distillation,
    *,
    progress: bool | None = None,
) -> list[Snippet]:
    """Return snippets of texts for `distil`: if possible, ``settings.per_token`` snippets with each new token.

    Texts are read in order, until there are enough snippets. Each text is cut into consecutive pieces of at most
    ``settings.length`` old tokens. A piece becomes a snippet if one of its new tokens is in too few snippets so far.

    Args:
        tokenizer: The extended tokenizer.
        old: The tokenizer before the extension.
        ids: Ids of the new tokens.
        texts: Lines or whole texts in the new language.
    """
    new, missing = frozenset(ids), dict.fromkeys(ids, settings.per_token)
    snippets: list[Snippet] = []
    wanted = len(missing) * settings.per_token
    with tqdm(total=wanted, desc="Choosing snippets", unit=" uses", disable=bar_disabled(progress), leave=False) as bar:
        for snippet in _pieces(tokenizer, old, new, texts, settings.length):
            present = Counter(id for id in snippet.new if id in missing)
            if not present:
                continue
            snippets.append(snippet)
            for id in present:
                missing[id] -= 1
                if not missing[id]:
                    del missing[id]
            bar.update(len(present))
            if not missing:
                break
    if not snippets:
        raise SGPEError(
            "the text for distilling has none of the new tokens in a line that the model's own tokenizer can read: "
            "give text in the new language, or use --init mean"
        )
    return snippets


def distil(
    model: PreTrainedModel,
    ids: Sequence[int],
    snippets: Sequence[Snippet],
    settings: Distillation | None = None,
    *,
    reader: _Reader | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> None:
    """Train only the rows of new tokens in a model that `fit_embeddings` has fitted to an extended tokenizer.

    States are compared at the positions at which both an old and a new token end. The loss is the squared distance between
    the states, divided by the squared length of the target state.

    Args:
        model: The model in 32 bits, on the device for training. Its old tokens must have kept their ids.
        ids: Ids of the new rows.
        snippets: Snippets from `choose_snippets`. Each snippet is used once.
        reader: How the model reads ids; None for a causal model.
        state: File for the state of the run. If the file exists, the run continues from the state in it. This requires the
            same snippets and settings.
        progress: Whether to show a bar on stderr; None shows it only on a terminal.
    """
    import torch

    settings, reader = settings or Distillation(), reader or _Reader()
    if not snippets:
        raise SGPEError("there are no snippets to distil from")
    if settings.layer is not None and settings.layer > len(layers_of(model)):
        layers = len(layers_of(model))
        raise SGPEError(f"layer must be at most {layers}, the number of the model's layers, not {settings.layer}")
    order = list(range(len(snippets)))
    random.Random(settings.seed).shuffle(order)
    steps = -(-len(order) // settings.batch_size)
    with _only_tables(model):
        rows = NewRows(model, ids)
        optimizer = torch.optim.AdamW(rows.parameters, lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
        rows.attach(optimizer)
        warm_up = max(steps // 20, 1)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warm_up, (steps - step) / max(steps - warm_up, 1))
        )
        made_with = {**asdict(settings), "ids": len(ids), "snippets": len(snippets)}
        stepped: dict[str, Any] = {"optimizer": optimizer, "schedule": schedule}
        done = _load(state, made_with, rows, stepped)
        bar = {"desc": "Distilling", "unit": " steps", "disable": bar_disabled(progress), "leave": False}
        for step in tqdm(range(done, steps), total=steps, initial=done, **bar):
            chosen = [snippets[place] for place in order[step * settings.batch_size : (step + 1) * settings.batch_size]]
            with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
                distance, predicted = _losses(model, chosen, settings.layer, reader)
            _backward(model, distance, predicted, settings.predict)
            optimizer.step()
            schedule.step()
            model.zero_grad()
            if state is not None and (step + 1) % max(steps // _SAVES, 1) == 0:
                kept = {"settings": made_with, "step": step + 1, "rows": [one.detach() for one in rows.parameters]}
                with atomic_file(state) as temporary:
                    torch.save(kept | {name: one.state_dict() for name, one in stepped.items()}, temporary)


@contextmanager
def _only_tables(model: PreTrainedModel) -> Iterator[None]:
    """Inside the ``with`` block, train only the tables of a model, without dropout: equal text must give equal states."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    was_training = model.training
    model.eval()
    model.requires_grad_(False)
    for table in tables_of(model):
        if table.is_leaf:
            table.requires_grad_(True)
    try:
        yield
    finally:
        model.requires_grad_(False)
        for parameter in trained:
            parameter.requires_grad_(True)
        model.train(was_training)


def _load(
    file: str | os.PathLike[str] | None, settings: Mapping[str, Any], rows: NewRows, stepped: Mapping[str, Any]
) -> int:
    """Load the state of a run, if there is a file, and return the number of steps done."""
    import torch

    if file is None or not Path(file).exists():
        return 0
    kept = torch.load(file, map_location="cpu", weights_only=True)
    if kept["settings"] != settings:
        raise SGPEError(f"{file} is from a distillation with other settings or text: remove it to start again")
    rows.set(kept["rows"])
    for name, one in stepped.items():
        one.load_state_dict(kept[name])
    return int(kept["step"])


def _backward(model: PreTrainedModel, distance: torch.Tensor, predicted: torch.Tensor | None, weight: float) -> None:
    if predicted is None:
        distance.backward()  # type: ignore[no-untyped-call]
        return
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings()
    if output is None or output.weight is embedding:
        (distance + weight * predicted).backward()  # type: ignore[no-untyped-call]
        return
    outputs = [parameter for parameter in output.parameters() if parameter.requires_grad]
    inputs = [table for table in tables_of(model) if table.requires_grad and all(table is not one for one in outputs)]
    distance.backward(inputs=inputs, retain_graph=True)  # type: ignore[no-untyped-call]
    predicted.backward(inputs=outputs)  # type: ignore[no-untyped-call]


def _losses(
    model: PreTrainedModel, snippets: Sequence[Snippet], layer: int | None, reader: _Reader
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the mean distance between the hidden states of old and new tokens and, for a causal model, the mean loss on the
    next token.
    """
    import torch
    from torch.nn.functional import cross_entropy

    with torch.no_grad():
        wanted = _states(model, reader.batch(model, [snippet.old for snippet in snippets]), layer)[0]
    new_ids = [snippet.new for snippet in snippets]
    states, logits = _states(model, reader.batch(model, new_ids), layer, with_logits=reader.predicts_next)
    first = len(reader.before)
    where = [(row, first + place) for row, snippet in enumerate(snippets) for place in snippet.old_ends]
    there = [(row, first + place) for row, snippet in enumerate(snippets) for place in snippet.new_ends]
    target = wanted[tuple(zip(*where, strict=True))].float()
    found = states[tuple(zip(*there, strict=True))].float()
    distance = ((found - target) ** 2).sum(-1) / (target**2).sum(-1)
    if logits is None:
        return distance.mean(), None
    labels = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in new_ids], batch_first=True, padding_value=-100)
    predicted = cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten().to(logits.device))
    return distance.mean(), predicted


def _states(
    model: PreTrainedModel, batch: Mapping[str, Any], layer: int | None, *, with_logits: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the hidden states of a layer (texts × tokens × width), and the logits if requested."""
    states: list[torch.Tensor] = []
    # In Gemma 3n, the last of output_hidden_states is not the state after the final norm.
    module = model.base_model if layer is None else layers_of(model)[layer - 1]

    def keep(_: Any, __: Any, output: Any) -> None:
        states.append(output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", output))
        if layer is not None and not with_logits:
            raise _LayerReachedError  # the later layers are not needed

    hook = module.register_forward_hook(keep)
    logits = None
    try:
        if with_logits:
            logits = model(**batch).logits
        else:
            with suppress(_LayerReachedError):
                model.base_model(**batch)
    finally:
        hook.remove()
    return states[-1], logits


def _pieces(
    tokenizer: PreTrainedTokenizerBase,
    old: PreTrainedTokenizerBase,
    new: frozenset[int],
    texts: Iterable[str],
    length: int,
) -> Iterator[Snippet]:
    """Cut the texts into consecutive pieces, and yield a snippet for each piece that contains a new token."""
    lengths, old_lengths = token_lengths(tokenizer), token_lengths(old)
    for some in in_batches(texts, _TEXTS, lambda text: 1):
        encoded = encode_texts(some, tokenizer)
        having = [number for number, ids in enumerate(encoded) if not new.isdisjoint(ids)]
        old_encoded = encode_texts([some[number] for number in having], old)
        for new_ids, old_ids in zip([encoded[number] for number in having], old_encoded, strict=True):
            new_ends = list(accumulate(lengths[id] for id in new_ids))  # in bytes
            old_ends = list(accumulate(old_lengths[id] for id in old_ids))
            if not old_ends or new_ends[-1] != old_ends[-1]:
                continue  # a normalizer or a special token changed the text
            place_of = {end: place for place, end in enumerate(old_ends)}
            common = [(place_of[end], place) for place, end in enumerate(new_ends) if end in place_of]
            for snippet in _cut(old_ids, new_ids, common, length):
                if len(snippet.new) > 1 and len(snippet.old) <= length and not new.isdisjoint(snippet.new):
                    yield snippet


def _cut(old: Ids, new: Ids, common: Sequence[tuple[int, int]], length: int) -> Iterator[Snippet]:
    """Cut a text into consecutive pieces, each as long as possible. ``common`` has the places in ``old`` and ``new`` of
    tokens that end at the same position.
    """
    inside: list[tuple[int, int]] = []
    old_first = new_first = 0
    for number, (old_place, new_place) in enumerate(common, 1):
        inside.append((old_place - old_first, new_place - new_first))
        if number == len(common) or common[number][0] - old_first >= length:
            old_ends, new_ends = map(list, zip(*inside, strict=True))
            yield Snippet(old[old_first : old_place + 1], new[new_first : new_place + 1], old_ends, new_ends)
            old_first, new_first, inside = old_place + 1, new_place + 1, []
