"""``tokenizer.json`` and related files: the tokenizer format of Hugging Face libraries.

Two kinds of files are supported. The first is byte-level BPE. It is written only with `ByteLevel`, `BPE`, and the `Split`s
that find words, so that every runtime returns the same ids. The second is BPE in the style of SentencePiece
(`hf_sgpe.formats.sentencepiece_json`). A tokenizer that this package cannot reproduce exactly is refused, and the message
names the unsupported component. A file's settings for truncation and padding are ignored, because both are options of each
call.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.files.atomic import atomic_directory, check_directory, write_utf8
from hf_sgpe.files.json_files import optional_json, read_json
from hf_sgpe.files.unreadable import read_data, read_utf8
from hf_sgpe.formats import model_vocab, sentencepiece_json
from hf_sgpe.formats.pre_tokenizers import BYTE_LEVEL, after_split, pre_tokenizer_of, regexes_of, steps_of
from hf_sgpe.formats.tokenizer_classes import MODEL_FILE
from hf_sgpe.formats.tokenizer_config import AUTO_CLASS_FILE, CONFIG_FILE, config_files, for_every_loader, token_text
from hf_sgpe.splitting.normalization import NFC, NONE
from hf_sgpe.splitting.patterns import PATTERNS, SPLIT_PATTERNS
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.added_patterns import EXACTLY
from hf_sgpe.vocabulary.special_tokens import Template, bos_eos_template_of, roles_of
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

T = TypeVar("T")

TOKENIZER_FILE, CHAT_TEMPLATE_FILE, MORE_TEMPLATES = "tokenizer.json", "chat_template.jinja", "additional_chat_templates"

# Settings of a tokenizer_config.json that `TokenizerData` contains in another form, or that are about their own folder.
_TRANSLATED = (
    *("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "model_max_length", "chat_template"),
    *("sgpe", "tokenizer_class", "tokenizer_file", "special_tokens_map_file", "name_or_path"),
)

# ---------------------------------------------------------------- writing


def to_dict(tokenizer: TokenizerData) -> dict[str, Any]:
    """Return the content of a tokenizer's ``tokenizer.json``."""
    added = sorted(tokenizer.added_ids.items(), key=lambda item: item[1])
    if len({id for _, id in added}) < len(added):
        raise SGPEError("two added tokens have the same id, and a tokenizer.json can contain only one of them")
    post_processor = None
    if tokenizer.by_characters:
        around = sentencepiece_json.as_content(
            tokenizer.normalization,
            stripping=tokenizer.stripping,
            has_bytes=bool(tokenizer.byte_tokens),
            cuts_at_spaces=tokenizer.splitting.cuts_at_spaces,
        )
        sentencepiece_json.check_writable(around)
    else:
        post_processor = dict(BYTE_LEVEL)
        around = {
            "normalizer": {"type": "NFC"} if tokenizer.normalization == NFC else None,
            "pre_tokenizer": pre_tokenizer_of(tokenizer.splitting),
            "decoder": dict(BYTE_LEVEL),
        }
    if tokenizer.template:
        post_processor = tokenizer.template.as_post_processor(tokenizer.added_ids)
    unknown = tokenizer.unknown
    added_tokens = [
        {
            "id": id,
            "content": token,
            **tokenizer.matching.get(token, EXACTLY).flags(),
            "normalized": token in tokenizer.normalized_tokens,
            "special": token in tokenizer.special_tokens,
        }
        for token, id in added
    ]
    return model_vocab.content_of(
        added_tokens,
        around,
        post_processor,
        unk_token=unknown.token if unknown else None,
        fuse_unk=unknown.is_fused if unknown else tokenizer.by_characters,
        byte_fallback=bool(tokenizer.byte_tokens),
        ignore_merges=tokenizer.ignore_merges,
        vocab=model_vocab.vocab_of(tokenizer),
        merges=[list(map(tokenizer.spelling.string_of, pair)) for pair in tokenizer.merges],
    )


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content of a ``tokenizer.json``."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def config(tokenizer: TokenizerData) -> dict[str, Any]:
    """Return the content of a tokenizer's ``tokenizer_config.json``. An `SGPETokenizerFast` has the same settings."""
    return for_every_loader(_settings(tokenizer), tokenizer.chat_template)


def _settings(tokenizer: TokenizerData) -> dict[str, Any]:
    roles = tokenizer.roles
    extra = [token for token in tokenizer.special_tokens if token not in roles.values()]
    return {
        **tokenizer.settings,
        **roles,
        **({"extra_special_tokens": extra} if extra else {}),
        **({"model_max_length": tokenizer.model_max_length} if tokenizer.model_max_length is not None else {}),
        "sgpe": tokenizer.metadata,
    }


def check_folder(
    directory: str | os.PathLike[str], *, with_chat_template: bool = False, with_sentencepiece: bool = False
) -> None:
    """Check that a tokenizer can be written into a folder, and that no other file there changes how it is loaded. Existing
    files are only replaced if the tokenizer has such a file (``with_chat_template``, ``with_sentencepiece``).
    """
    if not os.fspath(directory):
        raise SGPEError("the name of the output folder is empty: give a folder")
    parts = {CHAT_TEMPLATE_FILE: with_chat_template, "tokenizer.model": with_sentencepiece}
    written = [name for name, is_written in parts.items() if is_written]
    check_directory(directory, (TOKENIZER_FILE, CONFIG_FILE, AUTO_CLASS_FILE.name, *written))
    for name in ("added_tokens.json", "special_tokens_map.json", *(name for name in parts if name not in written)):
        if (Path(directory) / name).exists():
            raise SGPEError(
                f"{Path(directory) / name}: this file of another tokenizer would be loaded with the new one: remove "
                "this file, or choose another folder"
            )


def write(tokenizer: TokenizerData, directory: Path, *, model_type: str | None = None, auto_class: bool = False) -> None:
    """Write all files of a tokenizer into an existing folder (see `hf_sgpe.formats.tokenizer_config.config_files`)."""
    settings, template = _settings(tokenizer), tokenizer.chat_template
    texts = {
        TOKENIZER_FILE: json.dumps(to_dict(tokenizer), ensure_ascii=False, indent=2) + "\n",
        **config_files(settings, template, model_type=model_type, auto_class=auto_class),
        **{f"{MORE_TEMPLATES}/{name}.jinja": text for name, text in tokenizer.more_templates.items()},
    }
    if template is not None:
        texts[CHAT_TEMPLATE_FILE] = template
    for name, text in texts.items():
        (directory / name).parent.mkdir(exist_ok=True)
        write_utf8(directory / name, text)


def save(tokenizer: TokenizerData, directory: str | os.PathLike[str], *, auto_class: bool = False) -> None:
    """Save a tokenizer as a folder that ``AutoTokenizer`` can load. If saving fails, nothing is written.

    Args:
        auto_class: Whether to write a Python file with which ``AutoTokenizer`` returns this package's class if
            ``trust_remote_code=True``.
    """
    check_folder(directory, with_chat_template=tokenizer.chat_template is not None)
    model_type = optional_json(Path(directory) / MODEL_FILE).get("model_type")
    with atomic_directory(directory) as temporary:
        write(tokenizer, temporary, model_type=model_type, auto_class=auto_class)


# ---------------------------------------------------------------- reading


def read_held(path: Path) -> TokenizerData | None:
    """Read a ``tokenizer.json`` and the other files in its folder, with a vocabulary that the native kernels hold. Return
    None if the kernels are not in use, or cannot read the file.
    """
    config = path.with_name(CONFIG_FILE)
    return _of_held(
        read_data(path), lambda content: from_contents(path, content, read_json(config) if config.exists() else None)
    )


def _of_held(data: bytes, make: Callable[[Mapping[str, Any]], T]) -> T | None:
    """Return what ``make`` makes of the content of a ``tokenizer.json`` that the native kernels read. Return None after an
    error, which the readable reader names.
    """
    content = model_vocab.read_held(data, sentencepiece_json.is_one)
    with suppress(SGPEError):
        return None if content is None else make(content)
    return None


def json_contents(path: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the content of a ``tokenizer.json`` and of the ``tokenizer_config.json`` in its folder, or None without one."""
    content, config = read_json(path), path.with_name(CONFIG_FILE)
    if content.get("type") == "BPE" and "model" in content and "pre_tokenizer" not in content:
        content = _of_tutorial(content, path)
    return content, read_json(config) if config.exists() else None


def _of_tutorial(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a valid ``tokenizer.json`` for the file that ``save()`` of the tutorial *Tokenizers for large language models*
    writes, with the same ids as the tutorial's ``encode``.

    The tutorial describes the file as compatible with Hugging Face. But no library loads it, because it has neither a
    pre-tokenizer nor a decoder.
    """
    special = {token["id"]: token["content"] for token in content.get("added_tokens") or ()}
    template = bos_eos_template_of(roles_of(special.values()))  # its encode(text, add_special_tokens=True)
    for name, id in content["model"]["vocab"].items():
        if id in special and special[id] != name:
            raise SGPEError(
                f"{path}: the special token {special[id]!r} has the same id {id} as the token {name!r}, so text with "
                f"{name!r} cannot be decoded: train the tokenizer again with higher ids for its special tokens"
            )
    pattern = content.get("split_pattern", SPLIT_PATTERNS["cl100k-any-space"])
    return {
        "version": "1.0",
        "added_tokens": content.get("added_tokens") or [],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": after_split(pattern, BYTE_LEVEL),
        "post_processor": template.as_post_processor({name: id for id, name in special.items()}) if template else BYTE_LEVEL,
        "decoder": BYTE_LEVEL,
        "model": content["model"],
    }


def from_contents(path: Path, content: Mapping[str, Any], settings: Mapping[str, Any] | None) -> TokenizerData:
    """Return the tokenizer at ``path``, given the result of `json_contents`. Chat templates in its folder are read, too."""
    template = path.with_name(CHAT_TEMPLATE_FILE)
    parts: dict[str, Any] = {"chat_template": read_utf8(template)} if template.exists() else {}
    if more := {file.stem: read_utf8(file) for file in sorted(path.with_name(MORE_TEMPLATES).glob("*.jinja"))}:
        parts["more_templates"] = more
    return from_content(content, path, settings, path.with_name(CONFIG_FILE), **parts)


def from_content(
    content: Mapping[str, Any],
    path: Path,
    settings: Mapping[str, Any] | None = None,
    settings_path: Path | None = None,
    **parts: Any,
) -> TokenizerData:
    """Return the tokenizer of a ``tokenizer.json`` and of a ``tokenizer_config.json``. The paths are for error messages, and
    ``parts`` are arguments of `TokenizerData` that replace those from the files.
    """
    if "merges" in content and "model" not in content:
        raise SGPEError(f"{path} is an SGPE vocabulary: convert it first with hf-sgpe export")
    with errors_name(path):
        read = _parts_of(content)
    if settings is not None:
        read |= _parts_of_settings(settings, read["special_tokens"], read["splitting"], settings_path or path)
    with errors_name(path):
        return TokenizerData(**{**read, **parts})


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Turn errors about a file's content into an `SGPEError` whose message begins with ``path``."""
    try:
        yield
    except SGPEError as error:
        raise type(error)(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise SGPEError(f"{path}: damaged or not a tokenizer.json ({type(error).__name__}: {error})") from None


def _parts_of_settings(
    settings: Mapping[str, Any], special_tokens: Mapping[str, int], splitting: Splitting, path: Path
) -> dict[str, Any]:
    """Return the arguments for `TokenizerData` that a ``tokenizer_config.json`` contains."""
    metadata = _checked_metadata(settings.get("sgpe", {}), str(path))
    # Several names can mean the same pattern. Keep the name that was used in training.
    name = metadata.get("training", {}).get("pattern")
    if isinstance(name, str) and name in PATTERNS:
        named = replace(splitting, pattern=name)
        splitting = named if named.regexes == splitting.regexes else splitting
    try:
        length = checked_length(settings.get("model_max_length"))
    except SGPEError as error:
        raise SGPEError(f"{path}: {error}") from None
    chat_template, more_templates = _chat_templates(settings.get("chat_template"))
    return {
        "metadata": metadata,
        "splitting": splitting,
        "roles": dict(roles_in(settings, special_tokens)),
        "model_max_length": length,
        "chat_template": chat_template,
        "more_templates": more_templates,
        "settings": {
            name: value
            for name, value in settings.items()
            if name not in _TRANSLATED and (not name.endswith("_token") or _is_switch(name, value))
        },
    }


def _is_switch(name: str, value: Any) -> bool:
    """Return whether a setting such as ``add_bos_token``, whose name ends as that of a role, is on or off."""
    return name.startswith("add_") and isinstance(value, bool)


def roles_in(settings: Mapping[str, Any], special_tokens: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the role and the text of each special token in settings, where it is a string or an object."""
    for role, token in settings.items():
        text = token_text(token)
        is_role = role.endswith("_token") and not role.startswith("add_")
        if is_role and text is not None and text in special_tokens:
            yield role, text


def _chat_templates(templates: Any) -> tuple[str | None, dict[str, str]]:
    """Return the default chat template of a setting ``chat_template``, and its other chat templates, keyed by name.

    The setting is the default template, a dict from names to templates or, in older files, a list of objects with a name and
    a template.
    """
    if isinstance(templates, str):
        return templates, {}
    if isinstance(templates, list):
        templates = {one.get("name"): one.get("template") for one in templates if isinstance(one, dict)}
    named = templates.items() if isinstance(templates, dict) else ()
    texts = {name: text for name, text in named if isinstance(name, str) and isinstance(text, str)}
    return texts.pop("default", None), texts


def checked_length(length: Any) -> int | None:
    """Return the maximum number of ids that a model accepts, or None for no limit, which transformers writes as 10 ** 30."""
    if length is None or (isinstance(length, (int, float)) and length > 10**20):
        return None
    if type(length) is not int or length < 0:
        raise SGPEError(f"its model_max_length must be a number of tokens, not {length!r}")
    return length


def _checked_metadata(metadata: Any, where: str) -> dict[str, Any]:
    if not isinstance(metadata, dict) or not isinstance(metadata.get("training", {}), dict):
        raise SGPEError(f"{where}: the entry 'sgpe' is damaged: remove it, or train again")
    return metadata


def from_transformers(tokenizer: PreTrainedTokenizerFast) -> TokenizerData:
    """Convert a transformers tokenizer in its current state, with its special token roles and chat template.

    Raises:
        NotByteLevelError: the tokenizer cannot be read exactly.
    """
    data = tokenizer.backend_tokenizer.to_str().encode()
    parts = _of_held(data, _parts_of) or _parts_of(json.loads(data))
    return TokenizerData(
        **parts,
        roles=dict(roles_in(tokenizer.special_tokens_map, parts["special_tokens"])),
        metadata=_checked_metadata(tokenizer.init_kwargs.get("sgpe", {}), str(tokenizer.name_or_path)),
        chat_template=_chat_templates(tokenizer.chat_template)[0],
        model_max_length=checked_length(tokenizer.model_max_length),
    )


def from_dict(content: Mapping[str, Any]) -> TokenizerData:
    """Return the tokenizer that the content of a ``tokenizer.json`` describes.

    Raises:
        NotByteLevelError: the tokenizer has a part that `TokenizerData` cannot reproduce exactly.
    """
    return TokenizerData(**_parts_of(content))


def _parts_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for `TokenizerData` that a ``tokenizer.json`` contains. For errors, see `from_dict`."""
    model = content["model"]
    if model.get("type", "BPE") != "BPE" or "merges" not in model:
        works = (
            ": it works only with info, encode, compare-ids, extend, trim, transplant, adapt, push, evaluate "
            "(without --vocabulary) and card (of a model)"
        )
        known = works if model.get("type") in ("Unigram", "WordPiece") else ""
        raise NotByteLevelError(f"its model is {model.get('type')}, not BPE{known}")
    if not isinstance(model.get("ignore_merges", False), bool):
        raise SGPEError("its ignore_merges must be true or false")
    for option in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        if model.get(option):
            raise NotByteLevelError(f"its model uses {option}, but hf_sgpe does not support {option}")
    read = sentencepiece_json.read if sentencepiece_json.is_one(content) else _read_byte_level
    parts = read(content)
    added = {**parts["special_tokens"], **parts["added_tokens"]}
    return {**parts, "template": Template.of_post_processor(content.get("post_processor"), added)}


def _read_byte_level(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `sentencepiece_json.read` returns, for a tokenizer whose merges join bytes."""
    if (content.get("decoder") or {}).get("type") != "ByteLevel":
        raise NotByteLevelError("its decoder is not ByteLevel, and its model has no byte tokens (byte_fallback)")
    kinds = {part["type"] for part in steps_of(content.get("normalizer"), "normalizers")}
    if kinds - {"NFC"}:
        raise NotByteLevelError(f"its normalizer {', '.join(sorted(kinds))} is not NFC, the only supported normalizer")
    normalization = NFC if kinds else NONE
    parts = model_vocab.parts_of(content, normalization)
    regexes = regexes_of(content["pre_tokenizer"], parts["merges"])
    return {
        **parts,
        "splitting": Splitting.from_regexes(regexes, normalization, parts["special_tokens"]),
    }
