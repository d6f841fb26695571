"""``model.vocab`` of ``tokenizer.json``: one map from spellings to ids, in which two kinds of tokens share a name space.

An ordinary token is bytes, spelled in GPT-2's alphabet. An added token is text, spelled as itself. So "ß" can be the added
token "ß" or the byte 0xDF. ``added_tokens`` lists the texts; which bytes the model can come to tells the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from hf_sgpe.errors import SGPEError
from hf_sgpe.vocabulary.byte_strings import BYTES_OF_TEXT, bytes_spelled
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData


def also_ordinary(
    texts: Iterable[str], merges: Sequence[tuple[bytes, bytes]], *, ignore_merges: bool = False
) -> dict[str, bytes]:
    """Return those of ``texts``, of added tokens, that the model takes for ordinary tokens if ``model.vocab`` holds them.

    These are single bytes, what merges take or make, and, with ``ignore_merges``, words of other text.

    >>> also_ordinary(["ß", "ø", "Fuß", "Ġthe", "the"], [(b" ", b"the")])
    {'ß': b'\\xdf', 'Ġthe': b' the', 'the': b'the'}
    """
    spelled = {text: token for text in texts if (token := bytes_spelled(text))}
    wanted = frozenset(spelled.values())
    merged = wanted.intersection(chain.from_iterable(merges)) | wanted.intersection(map(b"".join, merges))

    def is_ordinary(text: str, token: bytes) -> bool:
        if len(token) == 1 and token[0] in BYTES_OF_TEXT:
            return True
        return token in merged or (ignore_merges and token != text.encode() and _is_text(token))

    return {text: token for text, token in spelled.items() if is_ordinary(text, token)}


def left_out(data: TokenizerData) -> list[str]:
    """Return the texts of added tokens that ``model.vocab`` must not hold: the model would give their ids to other text."""
    texts = [*data.special_tokens, *data.added_tokens]
    ordinary = also_ordinary(texts, data.merges, ignore_merges=data.ignore_merges)
    return [text for text, token in ordinary.items() if token not in data.vocab]


def write(data: TokenizerData) -> dict[str, int]:
    """Return ``model.vocab``: spelling → id, added tokens included, as those that are not in it lose their ids.

    Raises:
        SGPEError: an added token is spelled like other text of the model, and has not the id that it gets outside.
    """
    vocab, added = data.get_vocab(), data.added_ids
    outside = left_out(data)
    for text in outside:
        del vocab[text]
    ids: list[int] = []
    for text, id in sorted(added.items(), key=lambda item: item[1]):
        if outside and loaded_id(text, vocab, ids) != id:
            raise SGPEError(
                f"the added token {outside[0]!r} (id {added[outside[0]]}) is written in tokenizer.json like the bytes "
                f"{bytes_spelled(outside[0])!r}, which would get its id: choose another text for it"
            )
        ids.append(id)
    return vocab


def loaded_id(text: str, vocab: Mapping[str, int], added: Iterable[int]) -> int:
    """Return the id that loading gives to an added token: that in ``model.vocab``, else the next free one.

    Args:
        added: Ids of the added tokens before it.
    """
    return vocab.get(text, max([len(vocab), *(id + 1 for id in added)]))


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
