"""Small tokenizers in SentencePiece's manner: as ``tokenizers`` reads them, with all pairs that make a token."""

from hf_sgpe.vocabulary.byte_strings import SPACE_MARK, byte_token

REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
PREPEND = {"type": "Prepend", "prepend": SPACE_MARK}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
DECODERS = [
    {"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]


def metaspace(scheme, split=False):
    return {"type": "Metaspace", "replacement": SPACE_MARK, "prepend_scheme": scheme, "split": split}


def unknown(token, *, fused=False):
    """Return the options of a model without tokens for bytes."""
    return {"byte_fallback": False, "unk_token": token, "fuse_unk": fused}


KINDS = {
    "metaspace": {"normalizer": REPLACE, "decoder": {"type": "Sequence", "decoders": DECODERS}},
    "metaspace-prefix": {"normalizer": {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}},
    "metaspace-always": {"pre_tokenizer": metaspace("always")},
    "metaspace-first": {"pre_tokenizer": metaspace("first")},
}
"""Normalization → the parts of a tokenizer.json that have it. All but the first one take the space away again."""

WITHOUT_BYTES = {"type": "Sequence", "decoders": [decoder for decoder in DECODERS if decoder["type"] != "ByteFallback"]}
NFKC, LOWERCASE = {"type": "NFKC"}, {"type": "Lowercase"}
SINGLE_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


def steps(*normalizers):
    return {"type": "Sequence", "normalizers": list(normalizers)}


RARER_KINDS = {
    "cut at spaces": {"pre_tokenizer": metaspace("always", split=True)},
    "cut at spaces, first": {
        "pre_tokenizer": metaspace("first", split=True),
        "decoder": metaspace("first", split=True),
        "model": unknown("<unk>"),
    },
    "cut at spaces, never": {
        "pre_tokenizer": metaspace("never", split=True),
        "decoder": metaspace("never", split=True),
        "model": unknown("<unk>", fused=True),
    },
    "unknown": {"normalizer": REPLACE, "decoder": WITHOUT_BYTES, "model": unknown("<unk>")},
    "unknown, fused": {"normalizer": REPLACE, "decoder": WITHOUT_BYTES, "model": unknown("<unk>", fused=True)},
    "unknown left out": {"normalizer": REPLACE, "decoder": WITHOUT_BYTES, "model": unknown(None)},
    "NFKC": {"normalizer": steps(NFKC, SINGLE_SPACES, PREPEND, REPLACE)},
    "NFKC, cut": {
        "normalizer": NFKC,
        "pre_tokenizer": metaspace("always", split=True),
        "decoder": metaspace("always"),
        "model": unknown("<unk>", fused=True),
    },
    "lower case": {"normalizer": LOWERCASE, "pre_tokenizer": metaspace("first")},
}
"""Name → the parts of a tokenizer.json that cuts text at spaces, has no tokens for bytes, or has further normalizers."""


def pieces_of(texts, number):
    """Return the characters of some texts, and the most frequent strings of two to six characters in their words."""
    words = [SPACE_MARK + word for text in texts for word in text.split(" ") if word]
    counts = {}
    for word in words:
        for start in range(len(word)):
            for end in range(start + 2, min(start + 6, len(word)) + 1):
                counts[word[start:end]] = counts.get(word[start:end], 0) + 1
    strings = sorted(counts, key=lambda piece: (-counts[piece], len(piece), piece))
    return sorted({character for word in words for character in word}), strings[:number]


def content(texts, number=200, normalization="metaspace", added=(), normalized=()):
    """Return the content of a tokenizer.json.

    Args:
        number: Number of tokens of two characters or more.
        normalization: One of `KINDS` or `RARER_KINDS`.
        added: Further added tokens, text → whether it is special; ``<unk>``, ``<s>`` and ``</s>`` are always there.
        normalized: The added tokens that are matched in normalized text.
    """
    characters, strings = pieces_of(texts, number)
    added = {"<unk>": True, "<s>": True, "</s>": True, **dict(added)}
    parts = KINDS.get(normalization) or RARER_KINDS[normalization]
    of_bytes = map(byte_token, range(256)) if parts.get("model", {}).get("byte_fallback", True) else ()
    names = dict.fromkeys([*added, *of_bytes, *characters, *strings])
    vocab = {name: id for id, name in enumerate(names)}
    pairs = [
        [string[:end], string[end:]]
        for string in strings
        for end in range(1, len(string))
        if string[:end] in vocab and string[end:] in vocab
    ]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": vocab[text], "content": text, **flags, "normalized": text in normalized, "special": is_special}
            for text, is_special in added.items()
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [*DECODERS, STRIP]},
        **parts,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": vocab,
            "merges": pairs,
            **parts.get("model", {}),
        },
    }
