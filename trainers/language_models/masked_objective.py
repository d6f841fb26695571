"""The objective of masked language models, such as XLM-R and BERT: predict masked tokens from the tokens around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from hf_sgpe.corpora.text_files import Text
from hf_sgpe.errors import SGPEError
from hf_sgpe.weights.model_loading import ids_around
from trainers.language_models.encoded_texts import MEASURED_TOKENS, EncodedTexts, ForwardPass, count_unknown_bytes
from trainers.language_models.language_model import pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# The share of masked tokens in training: that of BERT and XLM-R.
_MASKED = 0.15
# Number of tokens from which a measured token is predicted.
_WINDOW = 128


class MaskedObjective:
    """The training and the measurement of masked models."""

    options: Mapping[str, Any] = {}

    def examples(self, texts: Iterable[Text], tokenizer: PreTrainedTokenizerBase, length: int) -> Iterator[list[int]]:
        before, after = _template(tokenizer)
        return ([*before, *row, *after] for row in pack(texts, tokenizer, length - len(before) - len(after)))

    def collator(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Callable[[Any], dict[str, Any]]:
        from transformers import DataCollatorForLanguageModeling

        masking = DataCollatorForLanguageModeling(tokenizer, mlm_probability=_MASKED)
        return lambda rows: masking([list(map(int, row)) for row in rows])

    def encode(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], length: int | None
    ) -> EncodedTexts:
        """Encode each line in windows of at most ``length`` tokens (128 by default), and predict each token of a window.

        When a token is predicted, it and the later tokens of its word are masked. So the bits of a word are the bits of its
        tokens from left to right, given the text around the word. They can be compared between tokenizers, which simple
        pseudo-perplexity cannot, because it lets a model complete a word from its own parts (Kauf & Ivanova, arXiv
        2305.10588).
        """
        before, after = _template(tokenizer)
        size = (length or _WINDOW) - len(before) - len(after)
        windows: list[tuple[list[int], list[int]]] = []  # ids and the number of the word of each id
        unknown_bytes = 0
        lines = list(filter(str.strip, chain.from_iterable(map(str.splitlines, texts))))
        for line in lines:
            encoding = tokenizer(line, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            ids, spans = encoding["input_ids"], encoding["offset_mapping"]
            begins = (before_it.isspace() and not one.isspace() for before_it, one in zip(" " + line, line, strict=False))
            word_at = [0, *accumulate(begins)]  # the number of the word before each place
            words = [word_at[end] for _, end in spans]
            unknown_bytes += count_unknown_bytes(line, encoding, tokenizer)
            windows += [(ids[at : at + size], words[at : at + size]) for at in range(0, len(ids), size)]
        places = [
            (window, place)
            for window, (ids, _) in enumerate(windows)
            for place, id in enumerate(ids)
            if id != tokenizer.unk_token_id
        ]
        per_pass = max(MEASURED_TOKENS // (length or _WINDOW), 1)
        mask = tokenizer.mask_token_id

        def forward_pass(first: int) -> ForwardPass:
            import torch

            chosen = places[first : first + per_pass]
            rows = []
            for window, place in chosen:
                ids, words = windows[window]
                hidden = (at >= place and word == words[place] for at, word in enumerate(words))
                rows.append([*before, *(mask if one else id for one, id in zip(hidden, ids, strict=True)), *after])
            batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt", verbose=False)
            counted = torch.zeros(batch["input_ids"].shape, dtype=torch.bool)
            counted[range(len(chosen)), [len(before) + place for _, place in chosen]] = True
            inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
            return ForwardPass(inputs, counted, torch.tensor([windows[window][0][place] for window, place in chosen]))

        return EncodedTexts(
            bytes=sum(len(line.encode()) for line in lines),
            tokens=len(places),
            largest_id=max(chain.from_iterable(ids for ids, _ in windows), default=0),
            repetitions=sum(len(windows[window][0]) for window, _ in places) / max(len(places), 1),
            passes=[partial(forward_pass, first) for first in range(0, len(places), per_pass)],
            unknown_bytes=unknown_bytes,
        )


def _template(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids that a tokenizer puts before and after a text, such as those of ``[CLS]`` and ``[SEP]``."""
    if tokenizer.mask_token_id is None:
        raise SGPEError("the tokenizer has no mask token, which masked models need: set mask_token in tokenizer_config.json")
    return ids_around(tokenizer)
