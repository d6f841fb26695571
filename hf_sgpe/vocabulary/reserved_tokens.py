"""Reserved tokens: placeholder names, such as Gemma's ``<unused12>``, that vocabularies reserve for later use.

The embedding rows of reserved tokens are untrained, so new tokens may take their ids. Afterwards, the name of a replaced
token is encoded as ordinary text. The ids of all other text stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping
from dataclasses import replace

from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

# Gemma, BERT, Llama 3, o200k_harmony, Kimi, Phi-3, Phi-4, Mistral.
_WORDS = r"(?:unused|reserved|reserved_special_token|reserved_token|placeholder|dummy|control|special)[ _-]?\d+"
_FORM = re.compile(rf"<{_WORDS}>|<\|{_WORDS}\|>|\[{_WORDS}\]", re.IGNORECASE)


def is_reserved(text: str) -> bool:
    """Return whether a name is that of a reserved token.

    >>> [is_reserved(text) for text in ("<unused12>", "<|reserved_special_token_5|>", "[unused1]", "<unk>", "<extra_id_0>")]
    [True, True, True, False, False]
    """
    return _FORM.fullmatch(text) is not None


def reserved_ids(tokenizer: TokenizerData, *, used: Container[int] = ()) -> dict[str, int]:
    """Return the ids of the unused reserved tokens, keyed by name, in the order of the ids.

    A reserved token counts as used if its id is in ``used``, if it has a role, if the template or the chat template contains
    it, or if another token has the same id. Fine-tuned models often use a few reserved tokens.
    """
    added = tokenizer.added_ids
    named = {*tokenizer.roles.values(), *(tokenizer.template.special_tokens() if tokenizer.template else ())}
    found = {
        text: id
        for text, id in added.items()
        if is_reserved(text) and text not in named and id not in used and text not in (tokenizer.chat_template or "")
    }
    shared = {id for text, id in added.items() if text not in found}
    return {text: id for text, id in sorted(found.items(), key=lambda item: item[1]) if id not in shared}


def with_reserved(tokenizer: TokenizerData, before: TokenizerData, names: Collection[str]) -> TokenizerData:
    """Return ``tokenizer`` with the reserved tokens as they were in ``before``, the inverse of `without_reserved`."""

    kept_names = frozenset(names)  # Gemma has six thousand

    def as_before(tokens: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
        return {name: id for name, id in tokens.items() if name in now or name in kept_names}

    kept = {token: before.vocab[token] for token in map(before.spelling.decoded, names) if token in before.vocab}
    return replace(
        tokenizer,
        vocab={**tokenizer.vocab, **kept},
        special_tokens=as_before(before.special_tokens, tokenizer.special_tokens),
        added_tokens=as_before(before.added_tokens, tokenizer.added_tokens),
        normalized_tokens=tokenizer.normalized_tokens | (before.normalized_tokens & kept_names),
    )


def without_reserved(tokenizer: TokenizerData, names: Collection[str]) -> TokenizerData:
    """Return a tokenizer without some reserved tokens. Their ids become free, and all other tokens keep their ids."""
    if not names:
        return tokenizer
    ids = {name: tokenizer.added_ids[name] for name in names}
    return replace(
        tokenizer,
        vocab={token: id for token, id in tokenizer.vocab.items() if ids.get(token.decode(errors="replace")) != id},
        special_tokens={name: id for name, id in tokenizer.special_tokens.items() if name not in ids},
        added_tokens={name: id for name, id in tokenizer.added_tokens.items() if name not in ids},
        normalized_tokens=frozenset(tokenizer.normalized_tokens) - ids.keys(),
    )
