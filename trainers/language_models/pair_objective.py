"""The objective of encoder–decoder models, such as NLLB, T5 and BART: write a target for a source.

A line of text with a tab is a pair: a source, the tab, and a target. From any other line, spans are left out, which the
model must restore (denoising), in the form in which T5 or BART was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import regex

from hf_sgpe.corpora.text_files import Text
from hf_sgpe.errors import SGPEError
from trainers.language_models.encoded_texts import EncodedTexts, ForwardPass, count_unknown_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# The share of the text that is left out, and the length of a span in units, as for T5.
_LEFT_OUT, _SPAN = 0.15, 3
# A unit is a word, or 16 characters of a longer word: some scripts have no spaces between words.
_UNITS = regex.compile(r"\s*(?:(?!\s)\X){1,16}")
# Greatest number of characters of a single text; a longer line is cut into several texts. Pairs that are longer than
# _MEASURED on a side are not measured.
_LONGEST, _MEASURED = 300, 600
# Number of pairs in one forward pass of a measurement, and the greatest number of tokens on each side.
_PAIRS, _TOKENS = 16, 1024
# Number of pairs that are translated for chrF.
_TRANSLATED = 50


@dataclass(frozen=True)
class _Pair:
    """A source and its target.

    Attributes:
        restored: The part of the target that is text, without sentinels.
    """

    source: str
    target: str
    restored: str


class PairObjective:
    """The training and the measurement of encoder–decoder models."""

    options: Mapping[str, Any] = {"use_cache": False}

    def examples(
        self, texts: Iterable[Text], tokenizer: PreTrainedTokenizerBase, length: int
    ) -> Iterator[dict[str, list[int]]]:
        noise = _Noise.of(tokenizer)
        for text in texts:
            pairs = noise.pairs_in(text if isinstance(text, str) else "".join(text))
            yield from encode_pairs([(pair.source, pair.target) for pair in pairs], tokenizer, length)

    def collator(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Callable[[Any], dict[str, Any]]:
        from transformers import DataCollatorForSeq2Seq

        collate: Callable[[Any], dict[str, Any]] = DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=8)
        return collate

    def encode(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], length: int | None
    ) -> EncodedTexts:
        """Encode the pairs of all lines, each side in at most ``length`` tokens (1,024 by default). Only the targets are
        predicted, and their special tokens are not counted.
        """
        from torch import isin, tensor

        noise = _Noise.of(tokenizer)
        every = [pair for text in texts for pair in noise.pairs_in(text)]
        pairs = [pair for pair in every if max(len(pair.source), len(pair.target)) <= _MEASURED]
        rows = encode_pairs([(pair.source, pair.target) for pair in pairs], tokenizer, length or _TOKENS)
        collate = self.collator(model, tokenizer)
        uncounted = {-100, *tokenizer.all_special_ids, *noise.ids}
        ignored = tensor(sorted(uncounted))

        def forward_pass(first: int) -> ForwardPass:
            batch = collate([dict(row) for row in rows[first : first + _PAIRS]])
            counted = ~isin(batch["labels"], ignored)
            return ForwardPass({**batch, **self.options}, counted, batch["labels"][counted])

        return EncodedTexts(
            bytes=sum(len(pair.restored.encode()) for pair in pairs),
            tokens=sum(id not in uncounted for row in rows for id in row["labels"]),
            largest_id=max((id for row in rows for ids in row.values() for id in ids), default=0),
            repetitions=1,
            passes=[partial(forward_pass, first) for first in range(0, len(rows), _PAIRS)],
            unknown_bytes=_unknown_bytes([pair.restored for pair in pairs], tokenizer),
        )


def encode_pairs(
    pairs: Sequence[tuple[str, str]], tokenizer: PreTrainedTokenizerBase, length: int
) -> list[dict[str, list[int]]]:
    """Return a dict with ``input_ids`` (source) and ``labels`` (target) for each pair, truncated to ``length`` ids. Both
    have the special tokens of the tokenizer's template, such as a language code, and an EOS token.
    """
    if not pairs:
        return []
    ends = tokenizer("", return_attention_mask=False)["input_ids"]
    more = [] if tokenizer.eos_token_id in ends else [tokenizer.eos_token_id]
    how = {"truncation": True, "max_length": length - len(more), "return_attention_mask": False, "verbose": False}
    sources, targets = map(list, zip(*pairs, strict=True))
    sides = tokenizer(sources, **how)["input_ids"], tokenizer(text_target=targets, **how)["input_ids"]
    return [{"input_ids": [*source, *more], "labels": [*target, *more]} for source, target in zip(*sides, strict=True)]


def translations(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, str]], length: int
) -> list[str]:
    """Return the texts that a model writes for the sources of pairs. If the targets begin with a special token, such as a
    language code, so do these texts.
    """
    model.eval()
    rows = encode_pairs(pairs, tokenizer, length)
    first = rows[0]["labels"][0]
    forced = {"forced_bos_token_id": first} if first in tokenizer.all_special_ids else {}
    written: list[str] = []
    for start in range(0, len(rows), _PAIRS):
        sources = [{"input_ids": row["input_ids"]} for row in rows[start : start + _PAIRS]]
        batch = tokenizer.pad(sources, return_tensors="pt", verbose=False).to(model.device)
        ids = model.generate(
            batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=length, do_sample=False, **forced
        )
        written += tokenizer.batch_decode(ids, skip_special_tokens=True)
    return written


def chrf(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> float | None:
    """Return the chrF++ score, from 0 to 100, of a model's translations of the first 50 pairs of texts. Return None if the
    texts have no pairs.
    """
    lines = chain.from_iterable(map(str.splitlines, texts))
    pairs = [_columns_of(line) for line in lines if "\t" in line]
    if not pairs:
        return None
    from sacrebleu.metrics import CHRF

    some = pairs[:_TRANSLATED]
    written = translations(model, tokenizer, some, length=_LONGEST)
    return float(CHRF(word_order=2).corpus_score(written, [[target for _, target in some]]).score)


@dataclass(frozen=True)
class _Noise:
    """The marks that a model knows for text that is left out: T5's sentinels, or else the mask token of BART.

    Attributes:
        ids: The ids of the sentinels.
    """

    sentinels: Sequence[str]
    ids: Sequence[int]
    mask: str | None

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> _Noise:
        vocabulary = tokenizer.get_vocab()
        names = [f"<extra_id_{number}>" for number in range(100)]
        ids = [vocabulary.get(name, vocabulary.get(f"\u2581{name}")) for name in names]  # the second is mT5's
        known = [(name, id) for name, id in zip(names, ids, strict=True) if id is not None]
        return cls([name for name, _ in known], [id for _, id in known], tokenizer.mask_token)

    def pairs_in(self, text: str) -> list[_Pair]:
        """Return the pairs in the lines of a text."""
        pairs: list[_Pair] = []
        for line in text.splitlines():
            if "\t" in line:
                source, target = _columns_of(line)
                pairs.append(_Pair(source, target, target))
            else:
                pairs += map(self._without_spans, wrap(line, _LONGEST, break_on_hyphens=False))
        return pairs

    def _without_spans(self, text: str) -> _Pair:
        """Leave spans out of a text. With sentinels, the target is the spans, and otherwise the text. The same text always
        loses the same spans.
        """
        if not (self.sentinels or self.mask):
            raise SGPEError(
                "the tokenizer has no mask token and no sentinel <extra_id_0>, so the model cannot learn from single texts: "
                "give lines with a source, a tab and a target"
            )
        units = _UNITS.findall(text)
        number = max(1, round(_LEFT_OUT * len(units) / _SPAN))
        random = Random(text)
        source, target, restored = [], [], []
        for span in range(number):
            part = units[span * len(units) // number : (span + 1) * len(units) // number]
            length = min(_SPAN, -(-len(part) // 2))
            start = random.randrange(len(part) - length + 1)
            mark = f" {self.sentinels[span] if self.sentinels else self.mask}"
            source += [*part[:start], mark, *part[start + length :]]
            target += [mark, *part[start : start + length]]
            restored += part[start : start + length]
        if not self.sentinels:
            return _Pair("".join(source).strip(), text, text)
        return _Pair("".join(source).strip(), "".join(target).strip(), "".join(restored))


def _columns_of(line: str) -> tuple[str, str]:
    columns = [part.strip() for part in line.split("\t")]
    if len(columns) != 2 or not all(columns):
        raise SGPEError(f"{line[:60]!r} is no pair: write a source, one tab and a target, or text without a tab")
    return columns[0], columns[1]


def _unknown_bytes(texts: Iterable[str], tokenizer: PreTrainedTokenizerBase) -> int:
    if tokenizer.unk_token_id is None:
        return 0
    how = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    return sum(count_unknown_bytes(text, tokenizer(text, **how), tokenizer) for text in texts)
