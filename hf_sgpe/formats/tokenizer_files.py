"""TokenizerFiles: the files of an existing tokenizer of any kind, and what they say about its model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError, optional
from hf_sgpe.files.atomic import write_utf8
from hf_sgpe.files.json_files import json_object, optional_json
from hf_sgpe.files.unreadable import read_utf8
from hf_sgpe.formats import loading, renumbering, sentencepiece_model, tokenizer_json
from hf_sgpe.formats.gpt2_files import ROLES_FILE
from hf_sgpe.formats.tokenizer_classes import MODEL_FILE
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE, config_files
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, MORE_TEMPLATES, TOKENIZER_FILE
from hf_sgpe.terminal.progress import without_remarks

if TYPE_CHECKING:
    from typing_extensions import Self

GENERATION_FILE = "generation_config.json"
# Files to copy unchanged. vocab.json, merges.txt and added_tokens.json describe the old vocabulary and are left out.
_KEPT = (CHAT_TEMPLATE_FILE, GENERATION_FILE)
_WITHOUT_DEFAULTS = ("PreTrainedTokenizerFast", "TokenizersBackend")


@dataclass(frozen=True)
class TokenizerFiles:
    """The files of a tokenizer, and what they say about its model.

    Attributes:
        name: The path or the Hub repository, as the user wrote it.
        content: Content of ``tokenizer.json``, translated if the tokenizer is in another format.
        settings: Content of ``tokenizer_config.json``. Missing roles such as ``eos_token`` come from
            ``special_tokens_map.json`` or from the tokenizer's class in transformers.
        files: Texts of the tokenizer's other files, keyed by file name.
        rows: Number of embedding rows of the model, from its ``config.json`` or the metadata of a trimmed tokenizer.
        model_ids: The token ids in the model's ``config.json``, such as ``image_token_id``. Some may have no token.
        row_size: Number of model parameters of one token: its row of the embedding and, if the tables are not tied, of the
            output table. None if there is no model, as for ``model_type``.
    """

    name: str
    content: Mapping[str, Any]
    settings: Mapping[str, Any]
    files: Mapping[str, str]
    rows: int | None
    model_ids: frozenset[int]
    row_size: int | None
    model_type: str | None

    @property
    def keeps_class(self) -> bool:
        """Return whether `write` keeps the tokenizer class. NLLB needs its class, which adds language codes to a text."""
        return "src_lang" in self.settings or self.is_of_whisper

    @property
    def is_of_whisper(self) -> bool:
        """Return whether the class is Whisper's. It adds times and languages, and always splits text as GPT-2 does."""
        return str(self.settings.get("tokenizer_class")).startswith("WhisperTokenizer")

    def check_target(self, directory: str | os.PathLike[str]) -> None:
        """Check that this tokenizer can be written into a folder (see `hf_sgpe.formats.tokenizer_json.check_folder`)."""
        has_template = CHAT_TEMPLATE_FILE in self.files or self.settings.get("chat_template") is not None
        tokenizer_json.check_folder(directory, with_chat_template=has_template)

    def with_ids(self, ids: Mapping[int, int]) -> Self:
        """Return a copy with new ids, keyed by old ids in ``ids``, in all files, but with the old vocabulary."""
        files = dict(self.files)
        if GENERATION_FILE in files:
            where = f"{self.name}: {GENERATION_FILE}"
            config = json_object(files[GENERATION_FILE], where)
            try:
                moved = renumbering.moved_config(config, ids)
            except (TypeError, ValueError):
                raise SGPEError(f"{where}: its lists of token ids are damaged") from None
            files[GENERATION_FILE] = json.dumps(moved, ensure_ascii=False, indent=2) + "\n"
        try:
            content = renumbering.moved_content(self.content, ids)
        except KeyError as error:
            raise SGPEError(f"{self.name}: its post-processor has the id {error}, which no special token has") from None
        settings = renumbering.moved_settings(self.settings, ids)
        return replace(self, content=content, settings=settings, files=files, rows=None, model_ids=frozenset())

    def write(self, directory: Path, *, tokenizer_class: str | None = None) -> None:
        """Write all files into an existing folder, with settings in the form that every loader reads.

        Args:
            tokenizer_class: Name of the class in transformers. None for the class in the settings if `keeps_class`, and
                otherwise for the class that takes everything from ``tokenizer.json``.
        """
        if tokenizer_class is None and self.keeps_class:
            tokenizer_class = self.settings.get("tokenizer_class")
        files = {
            TOKENIZER_FILE: json.dumps(self.content, ensure_ascii=False, indent=2) + "\n",
            **config_files(
                self.settings, self.files.get(CHAT_TEMPLATE_FILE), own_class=tokenizer_class, model_type=self.model_type
            ),
            **self.files,
        }
        for name, text in files.items():
            (directory / name).parent.mkdir(exist_ok=True)
            write_utf8(directory / name, text)


def read_files(
    path_or_repo: str | os.PathLike[str], *, revision: str | None = None
) -> tuple[TokenizerFiles, Path, dict[str, Any] | None]:
    """Read the files of a tokenizer from a folder, from the vocabulary file in a folder, or from a repository on the Hub.
    Also return the path of the file that contains the vocabulary, and the content of ``tokenizer_config.json``, if any.
    """
    also = (CONFIG_FILE, *_KEPT, ROLES_FILE, MODEL_FILE, sentencepiece_model.MODEL_FILE)
    path = loading.find(path_or_repo, revision=revision, also=also, also_in=MORE_TEMPLATES)
    if path.suffix != ".json" and not loading.is_translated(path):
        raise SGPEError(f"{path}: give the folder of a tokenizer, or its tokenizer.json")
    content, own_settings = loading.contents_of(path)
    folder = path.parent
    config = optional_json(folder / MODEL_FILE)
    kept = [folder / name for name in _KEPT] + sorted((folder / MORE_TEMPLATES).glob("*.jinja"))
    files = TokenizerFiles(
        os.fspath(path_or_repo),
        content,
        {**optional_json(folder / ROLES_FILE), **(own_settings or {})},
        {file.relative_to(folder).as_posix(): read_utf8(file) for file in kept if file.is_file()},
        rows=model_rows(config),
        model_ids=frozenset(renumbering.ids_in(config)),
        row_size=_row_size(config),
        model_type=config.get("model_type"),
    )
    return files, path, own_settings


def settings_of_class(folder: Path, settings: Mapping[str, Any], special_tokens: Mapping[str, int]) -> dict[str, Any]:
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
    roles = dict(tokenizer_json.roles_in(loaded.special_tokens_map, special_tokens))
    return {**roles, "model_input_names": list(loaded.model_input_names)}


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
