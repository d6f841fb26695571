"""TokenizerFolder: all files of an existing tokenizer. They can be written again with an extended vocabulary.

`TokenizerData` contains only the data for encoding and decoding. An extended tokenizer must also keep the rest of the
folder: flags of added tokens, the post-processor, several chat templates, and the settings for the tokenizer class and for
text generation.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files.atomic import write_utf8
from hf_sgpe.files.folder_contents import tokenizer_format
from hf_sgpe.files.json_files import json_object, optional_json
from hf_sgpe.files.unreadable import read_data, read_utf8
from hf_sgpe.formats import (
    loading,
    model_vocab,
    renumbering,
    sentencepiece_extended,
    sentencepiece_json,
    sentencepiece_model,
    tokenizer_json,
)
from hf_sgpe.formats.gpt2_files import ROLES_FILE
from hf_sgpe.formats.pre_tokenizers import pre_tokenizer_of
from hf_sgpe.formats.tokenizer_classes import MODEL_FILE
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE, config_files, token_text
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, MORE_TEMPLATES, TOKENIZER_FILE
from hf_sgpe.terminal.progress import without_remarks
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.vocabulary.trimming import KEEP, Trimming, model_ids_in, rows_in, trimmed

logger = logging.getLogger(__name__)

# Files to copy unchanged. vocab.json, merges.txt and added_tokens.json describe the old vocabulary and are left out.
_GENERATION = "generation_config.json"
_KEPT = (CHAT_TEMPLATE_FILE, _GENERATION)
_WITHOUT_DEFAULTS = ("PreTrainedTokenizerFast", "TokenizersBackend")


@dataclass(frozen=True)
class TokenizerFolder:
    """The files of a tokenizer, and what they say about its model.

    Attributes:
        name: The path or the Hub repository, as the user wrote it.
        content: Content of ``tokenizer.json``, translated if the tokenizer is in another format.
        settings: Content of ``tokenizer_config.json``. Missing roles such as ``eos_token`` come from
            ``special_tokens_map.json`` or from the tokenizer's class in transformers.
        files: Texts of the tokenizer's other files, keyed by file name.
        sentencepiece: Content of SentencePiece's ``tokenizer.model``, if there is one.
        rows: Number of embedding rows of the model, from its ``config.json`` or the metadata of a trimmed tokenizer.
        model_ids: The token ids in the model's ``config.json``, such as ``image_token_id``. Some may have no token.
        row_size: Number of model parameters of one token: its row of the embedding and, if the tables are not tied, of the
            output table. None if there is no model, as for ``model_type``.
    """

    name: str
    content: Mapping[str, Any]
    settings: Mapping[str, Any]
    files: Mapping[str, str]
    data: TokenizerData
    sentencepiece: bytes | None = field(default=None, repr=False)
    rows: int | None = None
    model_ids: frozenset[int] = frozenset()
    row_size: int | None = None
    model_type: str | None = None

    @classmethod
    def read(cls, path_or_repo: str | os.PathLike[str], *, revision: str | None = None) -> TokenizerFolder:
        """Read a tokenizer from a folder, from the vocabulary file in a folder, or from a repository on the Hub."""
        also = (CONFIG_FILE, *_KEPT, ROLES_FILE, MODEL_FILE, sentencepiece_model.MODEL_FILE)
        path = loading.find(path_or_repo, revision=revision, also=also, also_in=MORE_TEMPLATES)
        if path.suffix != ".json" and not loading.is_translated(path):
            raise SGPEError(f"{path}: give the folder of a tokenizer, or its tokenizer.json")
        content, own_settings = loading.contents_of(path)
        with tokenizer_json.errors_name(path):
            sentencepiece_json.check_writable(content)
        data = tokenizer_json.from_contents(path, content, own_settings)
        folder = path.parent
        config = optional_json(folder / MODEL_FILE)
        model = folder / sentencepiece_model.MODEL_FILE
        kept = [folder / name for name in _KEPT] + sorted((folder / MORE_TEMPLATES).glob("*.jinja"))
        settings = {**optional_json(folder / ROLES_FILE), **(own_settings or {})}
        if not loading.is_translated(path):  # the settings of other formats already contain the settings of the class
            settings = {**_of_its_class(folder, settings, data), **settings}
        data = replace(data, roles={**dict(tokenizer_json.roles_in(settings, data.special_tokens)), **data.roles})
        return cls(
            os.fspath(path_or_repo),
            content,
            settings,
            {file.relative_to(folder).as_posix(): read_utf8(file) for file in kept if file.is_file()},
            data,
            sentencepiece=read_data(model) if model.is_file() and tokenizer_format(model) == "sentencepiece" else None,
            row_size=_row_size(config),
            model_type=config.get("model_type"),
            rows=model_rows(config) or rows_in(data.metadata),
            model_ids=frozenset(renumbering.ids_in(config)).union(model_ids_in(data.metadata)),
        )

    @classmethod
    def of(cls, data: TokenizerData) -> TokenizerFolder:
        """Return the files that saving ``data`` would write."""
        templates = {f"{MORE_TEMPLATES}/{name}.jinja": text for name, text in data.more_templates.items()}
        if data.chat_template is not None:
            templates[CHAT_TEMPLATE_FILE] = data.chat_template
        return cls(
            str(data.metadata.get("name", "")),
            tokenizer_json.to_dict(data),
            tokenizer_json.config(data),
            templates,
            data,
            rows=rows_in(data.metadata),
            model_ids=frozenset(model_ids_in(data.metadata)),
        )

    def with_vocabulary_of(self, data: TokenizerData) -> TokenizerFolder:
        """Return a copy with the vocabulary, merges and split pattern of an extended or trimmed tokenizer."""
        model = {
            **self.content["model"],
            "vocab": model_vocab.vocab_of(data),
            "merges": [[data.string_of(left), data.string_of(right)] for left, right in data.merges],
        }
        gone = self.data.added_ids.keys() - data.added_ids.keys()
        added = [token for token in self.content.get("added_tokens") or () if token["content"] not in gone]
        content = {**self.content, "model": model, "added_tokens": added}
        if data.splitting.regexes != self.data.splitting.regexes:
            content["pre_tokenizer"] = pre_tokenizer_of(data.splitting)
        settings = {**_without_tokens(self.settings, gone), "sgpe": data.metadata}
        sentencepiece = self._sentencepiece_by(sentencepiece_extended.extended, data)
        return replace(self, content=content, settings=settings, data=data, sentencepiece=sentencepiece)

    def trimmed(
        self, scripts: Iterable[str], *, ids: str = KEEP, use: Sequence[int] | None = None
    ) -> tuple[TokenizerFolder, Trimming]:
        """Return a copy of the trimmed tokenizer (see `hf_sgpe.vocabulary.trimming.trimmed`), and what was removed."""
        trimming = trimmed(self.data, scripts, ids=ids, rows=self.rows, model_ids=self.model_ids, use=use)
        if ids == KEEP:
            return replace(self.with_vocabulary_of(trimming.tokenizer), rows=rows_in(trimming.tokenizer.metadata)), trimming
        return self._with_ids(trimming.ids).with_vocabulary_of(trimming.tokenizer), trimming

    def _with_ids(self, ids: Mapping[int, int]) -> TokenizerFolder:
        """Return a copy with new ids, keyed by old ids in ``ids``, in all files, but with the old ``data``."""
        taken = self.data.ids
        for id in sorted(self.model_ids):
            if id >= 0 and id not in taken:
                raise SGPEError(f"{self.name}: config.json names the id {id}, but this id has no token: use --ids keep")
        files = dict(self.files)
        if _GENERATION in files:
            where = f"{self.name}: {_GENERATION}"
            config = json_object(files[_GENERATION], where)
            try:
                moved = renumbering.moved_config(config, ids)
            except (TypeError, ValueError):
                raise SGPEError(f"{where}: its lists of token ids are damaged") from None
            files[_GENERATION] = json.dumps(moved, ensure_ascii=False, indent=2) + "\n"
        return replace(
            self,
            content=renumbering.moved_content(self.content, ids),
            settings=renumbering.moved_settings(self.settings, ids),
            files=files,
            sentencepiece=self._sentencepiece_by(sentencepiece_extended.renumbered, ids),
            rows=None,
            model_ids=frozenset(),
        )

    def _sentencepiece_by(self, change: Callable[[bytes, Path, Any], bytes], new: Any) -> bytes | None:
        """Return ``tokenizer.model`` after a change of `hf_sgpe.formats.sentencepiece_extended`. Return None if there is no
        such file, or if SentencePiece could not return the same ids with the new one.
        """
        if self.sentencepiece is None:
            return None
        try:
            return change(self.sentencepiece, Path(sentencepiece_model.MODEL_FILE), new)
        except SGPEError as error:
            logger.warning("%s: tokenizer.model is left out (%s)", self.name, error)
            return None

    def check_target(self, directory: str | os.PathLike[str]) -> None:
        """Check that this tokenizer can be written into a folder (see `hf_sgpe.formats.tokenizer_json.check_folder`)."""
        has_template, has_model = self.data.chat_template is not None, self.sentencepiece is not None
        tokenizer_json.check_folder(directory, with_chat_template=has_template, with_sentencepiece=has_model)

    def write(self, directory: Path) -> None:
        """Write all files into an existing folder, with settings in the form that every loader reads."""
        files = {
            TOKENIZER_FILE: json.dumps(self.content, ensure_ascii=False, indent=2) + "\n",
            **config_files(self.settings, self.files.get(CHAT_TEMPLATE_FILE), model_type=self.model_type),
            **self.files,
        }
        for name, text in files.items():
            (directory / name).parent.mkdir(exist_ok=True)
            write_utf8(directory / name, text)
        if self.sentencepiece is not None:
            (directory / sentencepiece_model.MODEL_FILE).write_bytes(self.sentencepiece)


def _of_its_class(folder: Path, settings: Mapping[str, Any], data: TokenizerData) -> dict[str, Any]:
    """Return the settings of the tokenizer's class in transformers, such as GPT-2's end-of-text token, if it can load it.

    An extended tokenizer is not an instance of this class, so its files must contain these settings.
    """
    name = settings.get("tokenizer_class")
    if name in _WITHOUT_DEFAULTS:
        return {}
    need = f"{folder}: reading the default settings of {name or 'the tokenizer'} needs transformers"
    transformers = optional("transformers", need, extra="transformers")
    try:
        with without_remarks():
            loaded = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # transformers cannot load it (a panic is not an Exception): use the files alone
        return {}
    # A class may give a role to a token that is not special, such as Gemma's <mask>. If it became a special token, its
    # encoding would change.
    roles = dict(tokenizer_json.roles_in(loaded.special_tokens_map, data.special_tokens))
    return {**roles, "model_input_names": list(loaded.model_input_names)}


def _without_tokens(settings: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    if not gone:
        return dict(settings)
    kept = dict(settings)
    if isinstance(tokens := kept.get("added_tokens_decoder"), dict):
        kept["added_tokens_decoder"] = {id: token for id, token in tokens.items() if token.get("content") not in gone}
    for name in ("additional_special_tokens", "extra_special_tokens"):
        if isinstance(tokens := kept.get(name), list):
            kept[name] = [token for token in tokens if token_text(token) not in gone]
    return kept


def model_rows(config: Mapping[str, Any]) -> int | None:
    """Return the number of rows of a model's embedding in its ``config.json``, or None."""
    sizes = [part.get("vocab_size") for part in (config, config.get("text_config") or {}) if isinstance(part, Mapping)]
    return next((size for size in sizes if isinstance(size, int)), None)


def _row_size(config: Mapping[str, Any]) -> int | None:
    for part in (config.get("text_config") or {}, config):
        width = part.get("hidden_size", part.get("n_embd"))
        if isinstance(width, int):
            # Tied tables are the default, so a file may leave out this setting.
            tied = part.get("tie_word_embeddings", config.get("tie_word_embeddings", True))
            return width if tied else 2 * width
    return None
