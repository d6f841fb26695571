"""Comparison of llama.cpp's built-in tokenizer ``llama`` with tokenizers whose merges join characters: on which text do the
ids differ?

Like SentencePiece, ``llama`` joins any two neighbouring symbols whose joined text is a token. It joins the pair with the
best score first; if scores are equal, it joins the leftmost pair first. So llama.cpp returns the same ids as a tokenizer on
two conditions. First, every pair of symbols that forms a token is a merge. Second, all merges that form the same token are
adjacent in the order of merges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from hf_sgpe.bpe.closed_pairs import pairs_of
from hf_sgpe.formats.llama_cpp_pre_tokenizers import PreTokenizer
from hf_sgpe.splitting.normalization import METASPACE, Normalization
from hf_sgpe.vocabulary.byte_strings import SPACE_MARK, byte_token
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

KIND = "llama"
"""The value of ``tokenizer.ggml.model`` in a GGUF file."""

_Pairs = Sequence[tuple[str, str]]

_SPACE_DIFFERS = {
    "metaspace-always": "text that begins with a space",
    "metaspace-first": "text that begins with a space or is after an added token",
}


def record_of(data: TokenizerData) -> PreTokenizer:
    """Return a record, without regexes, of the text for which llama.cpp returns different ids than this tokenizer."""
    tokens = {token.decode() for token in data.vocab}
    # llama.cpp joins tokens and single characters.
    parts = tokens.union(*tokens, *map(byte_token, range(256)), *data.added_ids, " ")
    differs = text_differs(data.normalization) or _differs(data, tokens, parts)
    return PreTokenizer(KIND, (), differs=differs, rarely=_rarely(data, parts))


def text_differs(normalization: Normalization) -> str:
    """Return a description of the text that llama.cpp and this normalization change differently, or an empty string."""
    if normalization.steps:
        return f"text that the normalizer {normalization.normalizers[0]['type']} changes"
    return _SPACE_DIFFERS.get(normalization.scheme, "")


def scores(data: TokenizerData) -> dict[int, float]:
    """Return the score of each token produced by merges: the negated rank of the first merge that produces the token."""
    first: dict[bytes, int] = {}
    for rank, (left, right) in enumerate(data.merges):
        first.setdefault(left + right, rank)
    return {data.vocab[token]: float(-rank) for token, rank in first.items()}


def is_ordinary(data: TokenizerData, text: str) -> bool:
    """Return whether an added token must be an ordinary token for llama.cpp: it has U+2581 and an ordinary token's spelling.

    llama.cpp searches text for added tokens before it replaces spaces by U+2581, and decodes them to their exact spelling.
    """
    return SPACE_MARK in text and data.spelling.find(text) in data.vocab


def _differs(data: TokenizerData, tokens: Set[str], parts: Set[str]) -> str:
    """Return a description of ordinary text for which llama.cpp returns different ids, or an empty string."""
    if not data.byte_tokens:
        return "characters without a token"
    if data.ignore_merges:
        return "words that are a token but that merges do not make"
    if data.splitting.cuts_at_spaces and (right := next((right for _, right in data.merges if right[:1] == b" "), None)):
        return f"text with {right.decode()!r}, before which the tokenizer cuts"
    if data.normalized_tokens and data.normalization != METASPACE:
        return f"text after the added token {min(data.normalized_tokens)}"
    for text in data.added_tokens:
        spaced = data.spelling.decoded(text)
        if SPACE_MARK in text and spaced not in data.vocab and pairs_of(spaced.decode(), parts):
            return f"text with {spaced.decode()!r}"
    merges = [(left.decode(), right.decode()) for left, right in data.merges]
    known = set(merges)
    pairs = (pair for token in tokens for pair in pairs_of(token, parts))
    if (pair := min((pair for pair in pairs if pair not in known), default=None)) is not None:
        return f"text with {pair[0]!r} before {pair[1]!r}, which no merge joins"
    if token := _token_with_two_ranks(merges):
        return f"text with {token!r}, which its merges make at different times"
    return ""


def _rarely(data: TokenizerData, parts: Set[str]) -> str:
    """Return a description of rare text for which llama.cpp returns different ids, or an empty string."""
    names = [
        *map(byte_token, range(256)),
        *(text for text in data.special_tokens if data.spelling.find(text) not in data.vocab),
    ]
    texts = [name for name in names if pairs_of(name, parts)][:3]
    if any(is_ordinary(data, text) for text in data.added_tokens):
        texts.append("the character U+2581")
    return ", ".join(texts)


def _token_with_two_ranks(merges: _Pairs) -> str:
    """Return a token that several merges form, with another merge between them that can change ids, or an empty string."""
    ranks: dict[str, list[int]] = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, []).append(rank)
    apart = [token for token, places in ranks.items() if places[-1] - places[0] >= len(places)]
    firsts = {token[0] for token in apart}
    safe = {character for character in firsts if _grows_from_left(character, merges, ranks)}
    return next((token for token in apart if token[0] not in safe or token.strip(token[0])), "")


def _grows_from_left(character: str, merges: _Pairs, ranks: Mapping[str, list[int]]) -> bool:
    """Return whether merges build each run of a character from the left, before all other merges with the character.

    If so, the order of the remaining merges that form such runs never matters. In Gemma, these are scattered among the
    merges for runs of other characters.
    """
    runs = {token: places for token, places in ranks.items() if not token.strip(character)}
    lengths = range(2, len(runs) + 2)
    if not runs or {character * length for length in lengths} != runs.keys():
        return False
    first, last = min(places[0] for places in runs.values()), runs[2 * character][0]
    before = dict.fromkeys(merges[:last])
    if any((character * length, character) not in before for length in lengths[:-1]):
        return False
    others = (
        (rank, left, right)
        for rank, (left, right) in enumerate(before)
        if character in left + right and left + right not in runs
    )
    return all(rank < first and left not in runs and right not in runs for rank, left, right in others)
