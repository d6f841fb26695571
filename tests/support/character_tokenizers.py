"""Small tokenizers in SentencePiece's manner, as values, with runs as Gemma has them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hf_sgpe import BPETokenizer
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.byte_strings import string_to_text
from hf_sgpe.vocabulary.special_tokens import Template
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from support.sentencepiece_like import pieces_of

SPECIALS = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
ROLES = {f"{role}_token": f"<{role}>" for role in ("pad", "eos", "bos", "unk")}
NORMALIZATIONS = ("metaspace", "metaspace-prefix", "metaspace-always", "metaspace-first")


def character_tokenizer(
    texts: Iterable[str],
    normalization: str = "metaspace",
    *,
    size: int = 700,
    specials: Sequence[str] = SPECIALS,
    runs: Sequence[str] = (),
    added: Sequence[str] = (),
    **parts: Any,
) -> BPETokenizer:
    """Return a tokenizer that is learned from texts.

    Each pair of tokens that makes a token is a merge, as in converted models of SentencePiece.

    Args:
        size: The number of ids.
        runs: Runs of one character that are also tokens; their merges are the first ones and in Gemma's order.
        added: Tokens to add; those that merges make keep their ids.
        parts: Other parts of `TokenizerData`.
    """
    first = len(specials) + 256
    before = [*dict.fromkeys("".join(runs)), *runs]
    tokens = dict.fromkeys(map(string_to_text, before))
    characters, strings = pieces_of(texts, size)
    learned = [string_to_text(piece) for piece in (*characters, *strings)]
    tokens |= dict.fromkeys(learned[: size - first - len(tokens)])
    vocab = {token: first + id for id, token in enumerate(tokens)}
    of_runs = [pair for run in runs for pair in _pairs(string_to_text(run), vocab)]
    of_runs.sort(key=lambda pair: (-len(pair[0]), -len(pair[1])))
    merges = list(dict.fromkeys([*of_runs, *(pair for token in vocab for pair in _pairs(token, vocab))]))
    data = TokenizerData(
        vocab,
        merges,
        byte_tokens=range(len(specials), first),
        splitting=Splitting("bpe", pattern=(), normalization=normalization),
        special_tokens={token: id for id, token in enumerate(specials)},
        added_tokens={text: vocab.get(string_to_text(text), size + place) for place, text in enumerate(added)},
        **{"roles": {role: token for role, token in ROLES.items() if token in specials}, **parts},
    )
    return BPETokenizer.of(data)


def with_template(tokenizer: BPETokenizer) -> BPETokenizer:
    return BPETokenizer.of(replace(tokenizer.data, template=Template.around(["<bos>"], [])))


def _pairs(token: bytes, vocab: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    parts = ((token[:place], token[place:]) for place in range(1, len(token)))
    return [pair for pair in parts if pair[0] in vocab and pair[1] in vocab]
