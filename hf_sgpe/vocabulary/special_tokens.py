"""Special tokens: their roles, the template that puts them around texts, and a pattern that finds them in text."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.vocabulary.byte_strings import bytes_spelled

_ROLES_BY_NAME = {
    "<|endoftext|>": ("bos_token", "eos_token"),
    "<|begin_of_text|>": ("bos_token",),
    "<|end_of_text|>": ("eos_token",),
    "<|bos|>": ("bos_token",),
    "<|eos|>": ("eos_token",),
    "<bos>": ("bos_token",),
    "<eos>": ("eos_token",),
    "<s>": ("bos_token",),
    "</s>": ("eos_token",),
    "<pad>": ("pad_token",),
    "<|pad|>": ("pad_token",),
    "<|finetune_right_pad_id|>": ("pad_token",),
    "<unk>": ("unk_token",),
    "<mask>": ("mask_token",),
    "[PAD]": ("pad_token",),
    "[UNK]": ("unk_token",),
    "[CLS]": ("cls_token",),
    "[SEP]": ("sep_token",),
    "[MASK]": ("mask_token",),
}

# With a chat template, a model must stop at the end of a turn, not only at the end of a text.
_ROLES_BY_TEMPLATE = {
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "chatml": {"eos_token": "<|im_end|>"},
}


def roles_of(special_tokens: Iterable[str]) -> dict[str, str]:
    """Return the roles that the spellings of special tokens suggest, with their tokens. Of several tokens, the first counts.

    >>> roles_of(["<s>", "[PAD]", "<|x|>"])
    {'bos_token': '<s>', 'pad_token': '[PAD]'}
    """
    roles: dict[str, str] = {}
    for token in special_tokens:
        for role in _ROLES_BY_NAME.get(token, ()):
            roles.setdefault(role, token)
    return roles


def roles_of_template(chat_template: str | None) -> dict[str, str]:
    """Return the special tokens of a named chat template such as ``chatml``, keyed by role; none for other strings."""
    return dict(_ROLES_BY_TEMPLATE.get(chat_template or "", {}))


def trained_roles(
    special_tokens: Iterable[str], chat_template: str | None = None, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the special tokens of a new tokenizer, keyed by role: those ``given``, then those of the chat template, then
    those that spellings suggest.

    If there is no padding token, the end-of-text token is also the padding token. It is preferred to the token that ends
    turns in a chat: many collators exclude the padding token from the loss, but a model must learn to end a turn.

    >>> trained_roles(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "chatml")
    {'bos_token': '<|endoftext|>', 'eos_token': '<|im_end|>', 'pad_token': '<|endoftext|>'}
    """
    spelled = roles_of(special_tokens)
    roles = {**spelled, **roles_of_template(chat_template), **(given or {})}
    end = spelled.get("eos_token") or roles.get("eos_token")
    return roles if "pad_token" in roles or end is None else {**roles, "pad_token": end}


@dataclass(frozen=True)
class Template:
    """The special tokens that ``add_special_tokens=True`` puts around a single text and around a pair of texts.

    Args:
        single: For a single text: pairs (name, token type id), in order. A name is a special token, or ``$A`` for the text.
        pair: For a pair of texts: the same, with ``$A`` for the first text and ``$B`` for the second.

    >>> Template.around(["[CLS]"], ["[SEP]"]).pair
    (('[CLS]', 0), ('$A', 0), ('[SEP]', 0), ('$B', 1), ('[SEP]', 1))
    """

    single: tuple[tuple[str, int], ...]
    pair: tuple[tuple[str, int], ...]

    @classmethod
    def around(cls, prefix: Sequence[str], suffix: Sequence[str]) -> Template:
        """Return a template like BERT's: ``prefix`` once at the start, ``suffix`` after each text."""
        first = tuple((name, 0) for name in (*prefix, "$A", *suffix))
        return cls(first, first + tuple((name, 1) for name in ("$B", *suffix)))

    @classmethod
    def _as_roberta(cls, first: str, last: str) -> Template:
        """Return a template with two special tokens between the texts of a pair, and a single token type id.

        >>> Template._as_roberta("<s>", "</s>").pair
        (('<s>', 0), ('$A', 0), ('</s>', 0), ('</s>', 0), ('$B', 0), ('</s>', 0))
        """
        single = ((first, 0), ("$A", 0), (last, 0))
        return cls(single, (*single, (last, 0), ("$B", 0), (last, 0)))

    @classmethod
    def around_each(cls, prefix: Sequence[str], suffix: Sequence[str]) -> Template:
        """Return a template like Llama 3's: ``prefix`` before each text, ``suffix`` after each text.

        >>> Template.around_each(["<s>"], []).pair
        (('<s>', 0), ('$A', 0), ('<s>', 1), ('$B', 1))
        """
        first = tuple((name, 0) for name in (*prefix, "$A", *suffix))
        return cls(first, first + tuple((name, 1) for name in (*prefix, "$B", *suffix)))

    def begins_with(self, token: str | None) -> bool:
        """Return whether ``token`` is at the start of a single text."""
        return self.single[0][0] == token

    def as_post_processor(self, ids: Mapping[str, int]) -> dict[str, Any]:
        """Return a post-processor for ``tokenizer.json``, with the ids of the special tokens in ``ids``."""

        def piece(name: str, type_id: int) -> dict[str, Any]:
            if name in ("$A", "$B"):
                return {"Sequence": {"id": name[1], "type_id": type_id}}
            return {"SpecialToken": {"id": name, "type_id": type_id}}

        return {
            "type": "TemplateProcessing",
            "single": [piece(*part) for part in self.single],
            "pair": [piece(*part) for part in self.pair],
            "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in self.special_tokens()},
        }

    @classmethod
    def of_post_processor(cls, content: Mapping[str, Any] | None, ids: Mapping[str, int]) -> Template | None:
        """Read the post-processor of a ``tokenizer.json``. If it puts nothing around a text, return None.

        Raises:
            NotByteLevelError: the post-processor is not a single template, or the template does not contain each text once,
                in order.
        """
        if content is None:
            return None
        parts = content["processors"] if content["type"] == "Sequence" else [content]
        templates = [part for part in parts if part["type"] != "ByteLevel"]
        if not templates:
            return None
        if len(templates) > 1:
            types = ", ".join(part["type"] for part in templates)
            raise NotByteLevelError(f"it has several post-processors ({types}), and only a single template can be read")
        part = templates[0]
        if part["type"] not in ("TemplateProcessing", "RobertaProcessing", "BertProcessing"):
            raise NotByteLevelError(f"its post-processor {part['type']} is not a template")
        if part["type"] != "TemplateProcessing":
            first, last = part["cls"], part["sep"]
            for name, id in (first, last):
                if ids.get(name) != id:
                    raise SGPEError(f"{name!r} has another id in its template than in its vocabulary")
            is_roberta = part["type"] == "RobertaProcessing"
            return cls._as_roberta(first[0], last[0]) if is_roberta else cls.around([first[0]], [last[0]])

        def named(item: Mapping[str, Any]) -> tuple[str, int]:
            ((kind, piece),) = item.items()
            return f"${piece['id']}" if kind == "Sequence" else piece["id"], piece["type_id"]

        template = cls(tuple(map(named, part["single"])), tuple(map(named, part["pair"])))
        for pieces, texts in ((template.single, ["$A"]), (template.pair, ["$A", "$B"])):
            if [name for name, _ in pieces if name in ("$A", "$B")] != texts:
                raise NotByteLevelError(
                    "its post-processor template does not contain each input text ($A; $A and $B for pairs) exactly once, "
                    "in order"
                )
        for name in template.special_tokens():
            if part["special_tokens"][name]["ids"] != [ids.get(name)]:
                raise SGPEError(f"{name!r} has other ids in its template than in its vocabulary")
        return None if template == cls.around([], []) else template

    def special_tokens(self) -> list[str]:
        """Return the special tokens in order, without duplicates."""
        return list(dict.fromkeys(name for name, _ in self.single + self.pair if name not in ("$A", "$B")))

    def renamed(self, names: Mapping[str, str]) -> Template:
        """Return a copy with other special tokens. ``names`` maps old tokens to new tokens."""
        single = tuple((names.get(name, name), type_id) for name, type_id in self.single)
        return Template(single, tuple((names.get(name, name), type_id) for name, type_id in self.pair))


def bos_eos_template(roles: Mapping[str, str], *, add_bos_token: bool, add_eos_token: bool) -> Template | None:
    """Return a template that puts BOS before each text, EOS after each text, or both; None if neither is set."""
    prefix = [roles["bos_token"]] if add_bos_token else []
    suffix = [roles["eos_token"]] if add_eos_token else []
    return Template.around_each(prefix, suffix) if prefix or suffix else None


def bos_eos_template_of(roles: Mapping[str, str]) -> Template | None:
    """Return the template that puts BOS and EOS around each text, without those that ``roles`` lacks; None without both.

    >>> bos_eos_template_of({"bos_token": "<s>", "pad_token": "<pad>"}).single
    (('<s>', 0), ('$A', 0))
    """
    return bos_eos_template(roles, add_bos_token="bos_token" in roles, add_eos_token="eos_token" in roles)


def bos_eos_settings(template: Template | None, roles: Mapping[str, str]) -> dict[str, bool] | None:
    """Return the settings for which `bos_eos_template` returns ``template``, or None, as for a template with ``[CLS]``.

    >>> bos_eos_settings(Template.around_each(["<s>"], []), {"bos_token": "<s>"})
    {'add_bos_token': True, 'add_eos_token': False}
    """
    for bos, eos in product((False, True), repeat=2):
        if (bos and "bos_token" not in roles) or (eos and "eos_token" not in roles):
            continue
        if bos_eos_template(roles, add_bos_token=bos, add_eos_token=eos) == template:
            return {"add_bos_token": bos, "add_eos_token": eos}
    return None


def cls_sep_template(special_tokens: Collection[str]) -> Template | None:
    """Return the template of section 5 of the SGPE document, or None without ``[CLS]`` or ``[SEP]``."""
    return Template.around(["[CLS]"], ["[SEP]"]) if {"[CLS]", "[SEP]"} <= set(special_tokens) else None


def check_special_tokens(tokens: Iterable[object], normalization: str) -> None:
    """Check that the special tokens of a new tokenizer can be distinguished from its ordinary tokens."""
    for token in check_special_texts(tokens):
        if (ordinary := _ordinary_token(token)) is not None:
            raise SGPEError(
                f"special token {token!r} is written in tokenizer.json like the ordinary token {ordinary!r}, "
                "so a reader cannot distinguish them: use another text"
            )
        if normalization == "nfc" and unicodedata.normalize("NFD", token) != token:
            # Special tokens are found before the text is normalized, so other text could become a special token afterwards.
            raise SGPEError(f"special token {token!r} has a character that NFC composes: use another text")


def check_special_texts(tokens: Iterable[object]) -> list[str]:
    """Check that special tokens are distinct strings with text and without lone surrogates, and return them as a list."""
    texts: list[str] = []
    for token in tokens:
        if not isinstance(token, str):
            raise SGPEError(f"special tokens must be strings, not {token!r}")
        if not token:
            raise SGPEError("a special token cannot be empty: give it a text")
        if any(0xD800 <= ord(character) < 0xE000 for character in token):
            raise SGPEError(f"special token {token!r} has a lone surrogate, which is not valid text: use another text")
        if token in texts:
            raise SGPEError(f"special token {token!r} occurs twice: give it once")
        texts.append(token)
    return texts


def _ordinary_token(special: str) -> bytes | None:
    """Return the single byte, or the token that training may learn, that ``tokenizer.json`` spells like a special token."""
    spelled = bytes_spelled(special)
    if spelled is None or len(spelled) == 1:
        return spelled
    try:
        return None if spelled.decode() == special else spelled  # training never learns from a special token's own text
    except UnicodeDecodeError:
        return None


@functools.lru_cache(256)
def any_of(names: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern that finds the leftmost of the names in a text, and the longest of several at the same position."""
    if not names:
        return re.compile("(?!)")  # never matches
    return re.compile(_longest_first(sorted(names)))


def _longest_first(names: Sequence[str]) -> str:
    """Return a regex that matches any of the sorted ``names``, and prefers the longest. The regex has one branch for each
    first character, so it is fast even for the 6,400 added tokens of Gemma.
    """
    branches = []
    for _, group in itertools.groupby(names, key=lambda name: name[:1]):
        same = list(group)
        # The names are sorted, so the first name and the last name differ most.
        alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(same[0], same[-1], strict=False))
        begin = "".join(character for character, _ in alike)
        rest = [name[len(begin) :] for name in same]
        optional = "?" if not rest[0] else ""
        later = rest[1:] if optional else rest
        branches.append(re.escape(begin) + (f"(?:{_longest_first(later)}){optional}" if later else ""))
    return "|".join(branches)
