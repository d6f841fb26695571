"""SGPETokenizerFast: a trained tokenizer as transformers knows tokenizers.

The class must not define ``__init__``: transformers would then rebuild the backend from the vocabulary alone and drop the
pre-tokenizer, the decoder and the merges without a word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer
from transformers import BatchEncoding, PreTrainedTokenizerFast

from hf_sgpe import fast_lane
from hf_sgpe.atomic import atomic_directory
from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.formats import tokenizer_json

if TYPE_CHECKING:
    from hf_sgpe.model import BPETokenizer

# Keys that loading leaves in the init arguments and that would otherwise be saved with the tokenizer.
_LEAKED = ("is_local", "local_files_only", "backend", "added_tokens_decoder", "files_loaded")


class SGPETokenizerFast(PreTrainedTokenizerFast):
    """A byte-level BPE tokenizer for transformers whose backend is native, so that it saves, pickles and runs fast.

    What `save_pretrained` writes loads with the same ids through plain ``AutoTokenizer.from_pretrained``, without this
    package and without remote code. How the tokenizer was trained is kept in ``tokenizer_config.json`` under ``sgpe`` and
    lets `train_new_from_iterator` train another one like it.

    Raises:
        SGPEError: (`from_pretrained`) the folder holds no tokenizer, or a damaged one.

    Example, with a tokenizer that was trained before::

        tokenizer = SGPETokenizerFast.from_pretrained("out")
        tokenizer("ශ්‍රී ලංකාව", return_offsets_mapping=True)
    """

    vocab_files_names = {"tokenizer_file": tokenizer_json.TOKENIZER_FILE}
    model_input_names = ["input_ids", "attention_mask"]
    slow_tokenizer_class = None

    @classmethod
    def from_bpe(cls, tokenizer: BPETokenizer, **kwargs: Any) -> SGPETokenizerFast:
        """Wraps a `BPETokenizer`; ``kwargs`` go to transformers (``model_max_length``, ``padding_side``, …)."""
        backend = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(tokenizer), ensure_ascii=False))
        config = tokenizer_json.config(tokenizer)
        del config["tokenizer_class"]
        made = cls(tokenizer_object=backend, **{**config, **kwargs})
        fast_lane.open_for(made, tokenizer)
        return made

    def to_bpe(self) -> BPETokenizer:
        """The same tokenizer without transformers.

        Raises:
            SGPEError: tokens were added that a `BPETokenizer` cannot have.
        """
        tokenizer = tokenizer_json.from_dict(json.loads(self._tokenizer.to_str()))
        tokenizer.roles = dict(tokenizer_json.roles_in(self.special_tokens_map, tokenizer.special_tokens))
        tokenizer.metadata = tokenizer_json.checked_metadata(self.init_kwargs.get("sgpe", {}), str(self.name_or_path))
        return tokenizer

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
        """Loads a folder or a repository on the Hub; takes the arguments of transformers' method of this name."""
        path = Path(pretrained_model_name_or_path) / kwargs.get("subfolder", "")
        if path.is_dir():
            tokenizer_json.find(path)
        try:
            loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except (OSError, KeyboardInterrupt):
            raise
        except BaseException:
            # The backend says little of what is wrong, sometimes by a panic that is no Exception; our own reader says it.
            if path.is_dir():
                with suppress(NotByteLevelError):
                    tokenizer_json.load(path)
            raise
        vocab = loaded.get_vocab()
        ids = set(vocab.values())
        # What this package saves has no holes; some versions of the backend turn a repeated id into one.
        if len(ids) < len(vocab) or ("sgpe" in loaded.init_kwargs and len(ids) <= max(ids)):
            raise SGPEError(f"{pretrained_model_name_or_path}: damaged: the ids of its tokens repeat or have gaps")
        return loaded

    def _encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> BatchEncoding:
        # The one place that calls, encode, tokenize and chat templates go through.
        encoded = fast_lane.encode(self, text, options) if text_pair is None else None
        return super()._encode_plus(text, text_pair, **options) if encoded is None else encoded

    def tokenize(self, text: str, pair: str | None = None, add_special_tokens: bool = False, **kwargs: Any) -> list[str]:
        """The tokens of ``text`` as vocabulary strings; takes the arguments of transformers' method of this name."""
        tokens = None if pair is not None or kwargs else fast_lane.tokenize(self, text, add_special_tokens)
        return super().tokenize(text, pair, add_special_tokens, **kwargs) if tokens is None else tokens

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        fast_lane.close_for(self)
        return super()._add_tokens(new_tokens, special_tokens)

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], *args: Any, push_to_hub: bool = False, **kwargs: Any
    ) -> tuple[str, ...]:
        """Writes the tokenizer's files, all or none; takes the arguments of transformers' method of this name."""
        tokenizer_json.check_folder(save_directory)
        if push_to_hub:
            kwargs.setdefault("repo_id", Path(save_directory).name)
        with atomic_directory(save_directory) as temporary:
            written = super().save_pretrained(temporary, *args, push_to_hub=push_to_hub, **kwargs)
        return tuple(str(Path(save_directory) / Path(file).relative_to(temporary)) for file in written)

    def _save_pretrained(
        self, save_directory: str | os.PathLike[str], file_names: tuple[str, ...], *args: Any, **kwargs: Any
    ) -> tuple[str, ...]:
        # Here the configuration is written but not yet pushed.
        for name in file_names:
            if name.endswith(tokenizer_json.CONFIG_FILE):
                path = Path(name)
                config = json.loads(path.read_text(encoding="utf-8"))
                config = {key: value for key, value in config.items() if key not in _LEAKED}
                # Our own name would need our package; under this one every version of transformers finds a class.
                config["tokenizer_class"] = "PreTrainedTokenizerFast"
                config["model_input_names"] = list(self.model_input_names)
                config["clean_up_tokenization_spaces"] = False
                path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
        return super()._save_pretrained(save_directory, file_names, *args, **kwargs)

    def train_new_from_iterator(
        self,
        text_iterator: Iterable[str | list[str]],
        vocab_size: int,
        length: int | None = None,
        new_special_tokens: Iterable[Any] | None = None,
        special_tokens_map: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> SGPETokenizerFast:
        """Trains a tokenizer like this one (recipe, scripts, pattern, normalization, special tokens) on other text.

        Uses this package's trainer: the library's own knows no units and would undo them.

        Args:
            text_iterator: Texts, or batches of texts.
            vocab_size: Number of tokens, special tokens included.
            length: Not needed here; accepted because transformers' method has it.
            new_special_tokens: Special tokens to have besides the present ones.
            special_tokens_map: Present special token → its new text.
            kwargs: Other fields of `TrainingConfig`, such as ``min_frequency``.

        Raises:
            SGPEError: the vocabulary is too small, there is no text, or an argument is unknown.
        """
        from dataclasses import fields

        from hf_sgpe.training import TrainingConfig, train_from_counts
        from hf_sgpe.word_counts import WordCounts

        trained_with = self.to_bpe()
        values = dict(trained_with.metadata.get("training") or _config_of(trained_with))
        renamed = special_tokens_map or {}
        for name in renamed:
            if name not in trained_with.special_tokens:
                raise SGPEError(f"special_tokens_map renames {name!r}, which is not a special token of this tokenizer")
        specials = [renamed.get(token, token) for token in trained_with.special_tokens]
        specials += [str(token) for token in new_special_tokens or () if str(token) not in specials]
        unknown = set(kwargs) - {field.name for field in fields(TrainingConfig)}
        if unknown:
            raise SGPEError(f"train_new_from_iterator does not know {', '.join(sorted(unknown))}")
        if values.get("special_tokens_position") == "given":
            del values["special_tokens_position"]  # ids that were given for another size
        values.update(kwargs, vocab_size=vocab_size, special_tokens=specials)
        config = TrainingConfig.from_dict(values)
        tokenizer = train_from_counts(WordCounts.from_texts(_flatten(text_iterator), config), config)
        if trained_with.template:
            tokenizer.template = trained_with.template.renamed(renamed)
        roles = {
            name: renamed.get(str(token), str(token))
            for name, token in self.special_tokens_map.items()
            if isinstance(token, str)
        }
        return type(self).from_bpe(
            tokenizer,
            **roles,
            model_max_length=self.model_max_length,
            padding_side=self.padding_side,
            truncation_side=self.truncation_side,
            **({"chat_template": self.chat_template} if self.chat_template else {}),
        )


def _config_of(tokenizer: BPETokenizer) -> dict[str, Any]:
    """A configuration for a tokenizer that some other trainer made: its own split pattern, plain BPE."""
    if len(tokenizer.pre_tokenizer.patterns) > 1:
        raise SGPEError("this tokenizer was not trained by hf_sgpe and splits in several steps: train from a TrainingConfig")
    return {"recipe": "bpe", "pattern": tokenizer.get_pattern(), "normalization": tokenizer.normalization}


def _flatten(texts: Iterable[str | list[str]]) -> Iterator[str]:
    if isinstance(texts, str):
        raise SGPEError("expected an iterable of texts, not one text: put it in a list")
    for item in texts:
        if isinstance(item, str):
            yield item
        else:
            yield from item
