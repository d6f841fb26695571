"""TokenizerFolder: all files of an existing tokenizer. They can be written again with an extended vocabulary.

`TokenizerData` contains only the data for encoding and decoding. An extended tokenizer must also keep the rest of the
folder: flags of added tokens, the post-processor, several chat templates, and the settings for the tokenizer class and for
text generation.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.folder_contents import tokenizer_format
from hf_sgpe.files.unreadable import read_data
from hf_sgpe.formats import (
    loading,
    model_vocab,
    sentencepiece_extended,
    sentencepiece_json,
    sentencepiece_model,
    tokenizer_json,
)
from hf_sgpe.formats.pre_tokenizers import pre_tokenizer_of
from hf_sgpe.formats.tokenizer_config import token_text
from hf_sgpe.formats.tokenizer_files import TokenizerFiles, read_files, settings_of_class
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, MORE_TEMPLATES
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
from hf_sgpe.vocabulary.trimming import KEEP, Trimming, model_ids_in, rows_in, trimmed, with_ids

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenizerFolder(TokenizerFiles):
    """The files of a BPE tokenizer, and what they say about its model.

    Attributes:
        data: The tokenizer itself.
        sentencepiece: Content of SentencePiece's ``tokenizer.model``, if there is one.
    """

    data: TokenizerData
    sentencepiece: bytes | None = field(default=None, repr=False)

    @classmethod
    def read(cls, path_or_repo: str | os.PathLike[str], *, revision: str | None = None) -> TokenizerFolder:
        """Read a BPE tokenizer from a folder, from the vocabulary file in a folder, or from a repository on the Hub."""
        return cls.of_files(*read_files(path_or_repo, revision=revision))

    @classmethod
    def of_files(cls, files: TokenizerFiles, path: Path, own_settings: Mapping[str, Any] | None) -> TokenizerFolder:
        """Return the BPE tokenizer in files. The arguments are the results of `read_files`."""
        with tokenizer_json.errors_name(path):
            sentencepiece_json.check_writable(files.content)
        data = tokenizer_json.from_contents(path, files.content, own_settings)
        settings = files.settings
        if not loading.is_translated(path):  # the settings of other formats already contain the settings of the class
            settings = {**settings_of_class(path.parent, settings, data.special_tokens), **settings}
        model = path.with_name(sentencepiece_model.MODEL_FILE)
        kept = {
            **vars(files),
            "settings": settings,
            "rows": files.rows or rows_in(data.metadata),
            "model_ids": files.model_ids.union(model_ids_in(data.metadata)),
        }
        return cls(
            **kept,
            data=replace(data, roles={**dict(tokenizer_json.roles_in(settings, data.special_tokens)), **data.roles}),
            sentencepiece=read_data(model) if model.is_file() and tokenizer_format(model) == "sentencepiece" else None,
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
            rows=rows_in(data.metadata),
            model_ids=frozenset(model_ids_in(data.metadata)),
            row_size=None,
            model_type=None,
            data=data,
        )

    def with_vocabulary_of(self, data: TokenizerData) -> TokenizerFolder:
        """Return a copy with the vocabulary, merges and split pattern of an extended or trimmed tokenizer."""
        model = {
            **self.content["model"],
            "vocab": model_vocab.vocab_of(data),
            "merges": [list(map(data.spelling.string_of, pair)) for pair in data.merges],
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
        self, scripts: Iterable[str], *, ids: str = KEEP, use: Sequence[int] | None = None, tokens: int | None = None
    ) -> tuple[TokenizerFolder, Trimming[TokenizerData]]:
        """Return a copy of the trimmed tokenizer (see `hf_sgpe.vocabulary.trimming.trimmed`), and what was removed."""
        rows, model_ids = self.rows, self.model_ids
        trimming = trimmed(self.data, scripts, ids=ids, rows=rows, model_ids=model_ids, use=use, tokens=tokens)
        if ids == KEEP:
            return replace(self.with_vocabulary_of(trimming.tokenizer), rows=rows_in(trimming.tokenizer.metadata)), trimming
        return self.with_ids(trimming.ids).with_vocabulary_of(trimming.tokenizer), trimming

    def with_new_ids(self, ids: Mapping[int, int]) -> TokenizerFolder:
        """Return a copy in which every token has a new id, keyed by old id in ``ids``."""
        return self.with_ids(ids).with_vocabulary_of(with_ids(self.data, ids))

    def with_ids(self, ids: Mapping[int, int]) -> TokenizerFolder:
        taken = self.data.ids
        for id in sorted(self.model_ids):
            if id >= 0 and id not in taken:
                raise SGPEError(
                    f"{self.name}: config.json names the id {id}, but this id has no token: use --ids keep (trim), or free "
                    "ids with --replace-script (extend)"
                )
        return replace(super().with_ids(ids), sentencepiece=self._sentencepiece_by(sentencepiece_extended.renumbered, ids))

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

    def write(self, directory: Path, *, tokenizer_class: str | None = None) -> None:
        super().write(directory, tokenizer_class=tokenizer_class)
        if self.sentencepiece is not None:
            (directory / sentencepiece_model.MODEL_FILE).write_bytes(self.sentencepiece)


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
