"""``model.vocab`` of ``tokenizer.json``: one map from spelling to id, in which two kinds of tokens share a name space.

An ordinary token is bytes, spelled in GPT-2's alphabet or as SentencePiece spells text. An added token is text, spelled as
itself. So "ß" can be the added token "ß" or the byte 0xDF. A spelling in ``added_tokens`` is also an ordinary token if the
model can produce the bytes that it spells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from hf_sgpe.errors import SGPEError
from hf_sgpe.vocabulary.byte_strings import BYTES_OF_TEXT, bytes_spelled, is_text, string_to_text
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


def also_ordinary(
    texts: Iterable[str],
    merges: Sequence[tuple[bytes, bytes]],
    *,
    ignore_merges: bool = False,
    by_characters: bool = False,
) -> dict[str, bytes]:
    """Return the texts of added tokens that the model would use as ordinary tokens: text → bytes of the ordinary token.

    The model uses these texts as ordinary tokens: single bytes, parts and results of merges, and, with ``ignore_merges``,
    words whose bytes are not the bytes of the text itself.

    Args:
        texts: Texts of added tokens in ``model.vocab``.
        merges: The merges of the model.
        ignore_merges: Whether a word that is a token becomes this token without merges.
        by_characters: Whether merges join characters. Then the ordinary tokens are single characters instead of single
            bytes.

    >>> also_ordinary(["ß", "ø", "Fuß", "Ġthe", "the"], [(b" ", b"the")])
    {'ß': b'\\xdf', 'Ġthe': b' the', 'the': b'the'}
    """
    spell = string_to_text if by_characters else bytes_spelled
    spelled = {text: token for text in texts if (token := spell(text))}
    wanted = frozenset(spelled.values())
    merged = wanted.intersection(chain.from_iterable(merges)) | wanted.intersection(map(b"".join, merges))

    def is_ordinary(text: str, token: bytes) -> bool:
        if len(text) == 1 if by_characters else len(token) == 1 and token[0] in BYTES_OF_TEXT:
            return True
        return token in merged or (ignore_merges and token != text.encode() and is_text(token))

    return {text: token for text, token in spelled.items() if is_ordinary(text, token)}


def left_out(data: TokenizerData) -> list[str]:
    """Return the texts of added tokens that cannot be in ``model.vocab``: if they were there, the model would also give
    their ids to other text.
    """
    texts = [*data.special_tokens, *data.added_tokens]
    ordinary = also_ordinary(texts, data.merges, ignore_merges=data.ignore_merges, by_characters=data.by_characters)
    return [text for text, token in ordinary.items() if token not in data.vocab]


def write(data: TokenizerData) -> dict[str, int]:
    """Return ``model.vocab``: spelling → id. Added tokens are included if possible, because loading renumbers added tokens
    that are left out.

    Raises:
        SGPEError: an added token is spelled like an ordinary token, and loading would change its id.
    """
    vocab, added = data.get_vocab(), data.added_ids
    outside = left_out(data)
    for text in outside:
        del vocab[text]
    ids: list[int] = []
    for text, id in sorted(added.items(), key=lambda item: item[1]):
        if outside and loaded_id(text, vocab, ids) != id:
            raise SGPEError(
                f"the added token {outside[0]!r} (id {added[outside[0]]}) has the same spelling in tokenizer.json as the "
                f"bytes {data.spelled_by(outside[0])!r}, which would get its id: choose another text for the added token"
            )
        ids.append(id)
    return vocab


def loaded_id(text: str, vocab: Mapping[str, int], added: Iterable[int]) -> int:
    """Return the id of an added token after loading: its id in ``model.vocab`` or, if it is not there, the next free id.

    Args:
        added: Ids of all earlier added tokens.
    """
    return vocab[text] if text in vocab else max([len(vocab), *(id + 1 for id in added)])
