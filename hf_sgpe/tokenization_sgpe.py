"""SGPETokenizerFast: the class that turns a trained tokenizer into a fast tokenizer for transformers.

The class must not define ``__init__``. Otherwise, transformers would rebuild the backend from the vocabulary alone, and
silently drop the pre-tokenizer, the decoder and the merges.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tokenizers import Tokenizer

from hf_sgpe.errors import SGPEError, not_installed

try:
    from transformers import AutoTokenizer, BatchEncoding, PreTrainedConfig, PreTrainedTokenizerFast
except ModuleNotFoundError:
    raise not_installed("SGPETokenizerFast needs transformers", "transformers", extra="transformers") from None

from hf_sgpe.chat.marked_text import Written
from hf_sgpe.chat.templates import SPECIAL_TOKENS, load_template, plain
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.fast_path import conversations, fast_calls
from hf_sgpe.files.atomic import atomic_directory
from hf_sgpe.files.json_files import optional_json
from hf_sgpe.formats import loading, tokenizer_json
from hf_sgpe.formats.damage import check_loaded, damage_of
from hf_sgpe.formats.tokenizer_classes import MODEL_FILE
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE, config_files
from hf_sgpe.kernels.tokenizers_library import is_panic
from hf_sgpe.learning.training_config import TRAINED_ROLES, TrainingConfig
from hf_sgpe.package import named_above
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.tokenizer import BPETokenizer, train_from_counts
from hf_sgpe.vocabulary.special_tokens import bos_eos_settings, roles_of_template

# Metadata of tokenizers that this package has changed, but not trained.
_CHANGED = {"extensions", "trimmed", "languages"}
# Arguments of `save_pretrained` for `push_to_hub`.
_OF_A_PUSH = {"repo_id", "commit_message", "commit_description", "private", "token", "revision", "create_pr", "tags"}


class SGPETokenizerFast(PreTrainedTokenizerFast):
    """A BPE tokenizer for transformers, with a fast (native) backend.

    `save_pretrained` writes a folder that plain ``AutoTokenizer.from_pretrained`` loads with the same ids, without this
    package and without remote code. The training settings are in ``tokenizer_config.json`` under ``sgpe``.
    `train_new_from_iterator` uses these settings to train a similar tokenizer.

    Several threads may encode with the same tokenizer. Calls that need the backend (for pairs, overflow, …) run one at a
    time, because truncation and padding are part of the backend's state. All other calls run in parallel.

    Raises:
        SGPEError: (`from_pretrained`) the folder contains no tokenizer, or a damaged tokenizer.

    Example with a trained tokenizer::

        tokenizer = SGPETokenizerFast.from_pretrained("out")
        tokenizer("ශ්‍රී ලංකාව", return_offsets_mapping=True)
    """

    vocab_files_names = {"tokenizer_file": tokenizer_json.TOKENIZER_FILE}
    model_input_names = ["input_ids", "attention_mask"]
    slow_tokenizer_class = None
    chat_template: str | dict[str, str] | None
    # Arguments of `save_pretrained` for `_save_pretrained`.
    _portable = True
    _model_type: str | None = None

    @classmethod
    def from_bpe(cls, tokenizer: BPETokenizer, **kwargs: Any) -> SGPETokenizerFast:
        """Convert a `BPETokenizer`. ``kwargs`` are arguments of transformers, such as ``padding_side``."""
        backend = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(tokenizer.data), ensure_ascii=False))
        config = tokenizer_json.config(tokenizer.data)
        del config["tokenizer_class"]
        wrapped = cls(tokenizer_object=backend, **{**config, **kwargs})
        fast_calls.open_for(wrapped, tokenizer)
        return wrapped

    def to_bpe(self) -> BPETokenizer:
        """Return the same tokenizer as a `BPETokenizer`, without transformers."""
        return BPETokenizer.of(tokenizer_json.from_transformers(self))

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
        """Load a tokenizer from a folder or a repository on the Hub, with the arguments of transformers."""
        path = Path(pretrained_model_name_or_path)
        where = {name: kwargs[name] for name in ("revision", "subfolder", "token") if kwargs.get(name)}
        if not (kwargs.get("cache_dir") or kwargs.get("local_files_only")):
            # One request to the Hub, before transformers sends several for a repository that does not exist.
            file = loading.find(pretrained_model_name_or_path, **where)
            if loading.is_translated(file):
                options = {name: value for name, value in kwargs.items() if name not in where}
                return cls.from_bpe(BPETokenizer.of(loading.read(file)), **options)
        is_ours = False
        try:
            loaded = super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
            metadata = loaded.init_kwargs.get("sgpe")
            # Tokenizers from other programs may have gaps in their ids, even after this package has saved or changed them.
            is_ours = isinstance(metadata, dict) and "training" in metadata and not _CHANGED & metadata.keys()
            check_loaded(loaded, gapless=is_ours)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the backend is not an Exception
            if isinstance(error, OSError) and error.filename:
                raise
            if not path.exists() and (kwargs.get("cache_dir") or kwargs.get("local_files_only")):
                reason = str(error).strip().splitlines()[0]
                raise SGPEError(f"{pretrained_model_name_or_path} cannot be loaded from the cache ({reason})") from error
            file = loading.find(pretrained_model_name_or_path, **where)
            if damage := damage_of(file, error, gapless=is_ours):
                raise damage from error
            raise  # wrong arguments, or a network error
        return loaded

    def _encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> BatchEncoding:
        # Every call, encode, tokenize and chat template goes through this method.
        if options.get("sanitize_control_tokens") and isinstance(text if isinstance(text, str) else text[0], Written):
            return conversations.encode_written(self, text, {**options, "text_pair": text_pair})
        encoded = fast_calls.batch_encoding(self, text, options) if text_pair is None else None
        if encoded is None:
            with fast_calls.backend_lock(self):
                try:
                    return super()._encode_plus(text, text_pair, **options)
                except BaseException as error:
                    if not is_panic(error) or not options.get("stride"):
                        raise
                    self.backend_tokenizer.no_truncation()
                    room = f"max_length={options.get('max_length')} without special tokens"
                    raise SGPEError(f"stride={options['stride']} must be smaller than {room}") from error
        return encoded

    def tokenize(self, text: str, pair: str | None = None, add_special_tokens: bool = False, **kwargs: Any) -> list[str]:
        """Return the tokens of ``text`` as vocabulary strings, with the arguments of transformers."""
        tokens = None if pair is not None or kwargs else fast_calls.tokens(self, text, add_special_tokens)
        return super().tokenize(text, pair, add_special_tokens, **kwargs) if tokens is None else tokens

    def apply_chat_template(
        self,
        conversation: Any,
        tools: list[Any] | None = None,
        documents: list[dict[str, str]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tokenize: bool = True,
        sanitize_control_tokens: bool = True,
        padding: Any = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: Any = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        tokenizer_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return a conversation as ids or, if ``tokenize`` is False, as text. The arguments are the same as in transformers.

        Unlike in transformers, only the template itself can write special tokens. If a content, role, tool, document or
        other variable contains the text of a special token, this text is encoded as ordinary text. This is also the case if
        the template joins such a text from several variables, or transforms variables and its own text together so that they
        cannot be separated. For all other conversations, the ids are the same as for the rendered text.

        Args:
            chat_template: Jinja source, or the name of a template: ``llama3``, ``chatml``, ``alpaca`` or one of the
                tokenizer's own templates.
            sanitize_control_tokens: If False, special tokens in variables count, as in transformers.

        >>> from hf_sgpe import BPETokenizer
        >>> specials = ["<|im_start|>", "<|im_end|>"]
        >>> tokenizer = SGPETokenizerFast.from_bpe(BPETokenizer.train_from_iterator(["a"], 258, special_tokens=specials))
        >>> chat = [{"role": "user", "content": "<|im_end|>"}]
        >>> tokenizer.apply_chat_template(chat, chat_template="chatml", return_dict=False).count(257)
        1
        """
        conversations.check_continued(continue_final_message)
        conversation = conversations.prepared(conversation)
        tools = tools and [tool if callable(tool) else plain(tool) for tool in tools]
        variables = {"documents": plain(documents), "add_generation_prompt": add_generation_prompt, **plain(kwargs)}
        written = {"tools": tools, "continue_final_message": continue_final_message, **variables}
        encoding = {
            "padding": padding,
            "truncation": truncation,
            "max_length": max_length,
            "return_tensors": return_tensors,
        }
        if not tokenize or not sanitize_control_tokens:
            return super().apply_chat_template(
                conversation,
                chat_template=chat_template,
                tokenize=tokenize,
                return_dict=return_dict,
                return_assistant_tokens_mask=return_assistant_tokens_mask,
                tokenizer_kwargs=tokenizer_kwargs,
                **written,
                **encoding,
            )
        if return_assistant_tokens_mask and (not return_dict or continue_final_message):
            raise ValueError("return_assistant_tokens_mask needs return_dict=True and continue_final_message=False")
        source = self.get_chat_template(chat_template, tools)
        if return_assistant_tokens_mask:
            conversations.warn_without_answers(source)
        # transformers renders the conversation to check the arguments. The text is the same, unless the template reads a
        # clock.
        rendered = super().apply_chat_template(conversation, chat_template=chat_template, tokenize=False, **written)
        is_batched = not isinstance(rendered, str)
        texts = [
            conversations.write_conversation(
                self,
                messages,
                source,
                tools=tools,
                continue_final_message=continue_final_message,
                variables=variables,
            )
            for messages in (conversation if is_batched else [conversation])
        ]
        # Plain strings are encoded faster.
        harmless = all(conversations.is_harmless(self, text) for text in texts)
        inputs = [str.__str__(text) for text in texts] if harmless else texts
        encoded = self(
            inputs if is_batched else inputs[0],
            add_special_tokens=False,
            sanitize_control_tokens=not harmless,
            **encoding,
            **(tokenizer_kwargs or {}),
        )
        if return_assistant_tokens_mask:
            rows = encoded.get("overflow_to_sample_mapping", range(len(texts)))
            pairs = zip(rows, encoded.encodings, strict=True)
            masks = [conversations.answer_mask(texts[row], row_encoding) for row, row_encoding in pairs]
            encoded["assistant_masks"] = masks if is_batched or return_tensors else masks[0]
            if return_tensors:
                encoded.convert_to_tensors(tensor_type=return_tensors)
        return encoded if return_dict else encoded["input_ids"]

    def get_chat_template(self, chat_template: str | None = None, tools: list[Any] | None = None) -> str:
        source = super().get_chat_template(chat_template, tools)
        return load_template(source) if source in SPECIAL_TOKENS else source

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        fast_calls.close_for(self)
        return super()._add_tokens(new_tokens, special_tokens)

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoTokenizer") -> None:
        """Do nothing: this class need not be copied into a folder, because AutoTokenizer finds it."""

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        *args: Any,
        push_to_hub: bool = False,
        portable: bool = True,
        **kwargs: Any,
    ) -> tuple[str, ...]:
        """Write the tokenizer's files, all or none, and return their paths. The arguments are the same as in transformers,
        except for ``portable``.

        Args:
            portable: If True, AutoTokenizer loads the folder as a class of transformers. This works with any version of
                transformers, with or without this package. If False, AutoTokenizer uses this class if it was imported
                before. But without this package, transformers 4 cannot load such a folder, and transformers 5 changes the
                ids if the folder contains a model of the Qwen family.
        """
        if isinstance(self.chat_template, str) and self.chat_template in SPECIAL_TOKENS:
            self.chat_template = load_template(self.chat_template)  # other programs do not know the name of this class
        tokenizer_json.check_folder(save_directory, with_chat_template=bool(self.chat_template))
        self._portable = portable
        self._model_type = optional_json(Path(save_directory) / MODEL_FILE).get("model_type")
        push_options = {name: kwargs.pop(name) for name in _OF_A_PUSH & kwargs.keys()} if push_to_hub else {}
        with atomic_directory(save_directory) as temporary:
            written = super().save_pretrained(temporary, *args, **kwargs)
        if push_to_hub:
            self.push_to_hub(**{"repo_id": Path(save_directory).name, **push_options}, portable=portable, **kwargs)
        return tuple(str(Path(save_directory) / Path(file).relative_to(temporary)) for file in written)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str | None = None,
        commit_description: str | None = None,
        private: bool | None = None,
        token: bool | str | None = None,
        revision: str | None = None,
        create_pr: bool = False,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Upload the tokenizer and a model card to the Hub in one commit. The arguments are the same as in transformers.

        If the repository does not exist, it is created. Unlike the method of transformers, this method does not replace a
        README.md that a person wrote. The card shows the settings of the tokenizer. For a card with measurements and
        pictures, save the tokenizer, and use ``hf-sgpe card`` and ``hf-sgpe push``.

        Args:
            tags: Additional tags for the card.
            kwargs: Arguments of `save_pretrained`.

        Returns:
            The commit as ``CommitInfo`` of huggingface_hub: a string (the URL) with attributes such as ``oid`` and
            ``pr_url``.

        Raises:
            SGPEError: the Hub rejected the upload, or the connection failed. The commit contains all files or does not
                exist.
        """
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder, **kwargs)
            return named_above("publish", "push_to_hub")(
                folder,
                repo_id,
                tags=tags or (),
                private=private,
                revision=revision,
                create_pr=create_pr,
                token=token,
                commit_message=commit_message,
                commit_description=commit_description,
            )

    def _save_pretrained(
        self, save_directory: str | os.PathLike[str], file_names: tuple[str, ...], *args: Any, **kwargs: Any
    ) -> tuple[str, ...]:
        # At this point the configuration is written but not yet pushed.
        template = self.chat_template if isinstance(self.chat_template, str) else None
        for path in [Path(name) for name in file_names if name.endswith(CONFIG_FILE)]:
            settings = json.loads(path.read_text(encoding="utf-8"))
            settings["model_input_names"] = list(self.model_input_names)
            settings["clean_up_tokenization_spaces"] = False
            own_class = None if self._portable else type(self).__name__
            files = config_files(settings, template, own_class=own_class, model_type=self._model_type)
            for name, text in files.items():
                path.with_name(name).write_text(text, encoding="utf-8", newline="\n")
            file_names += tuple(str(path.with_name(name)) for name in files if name != path.name)
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
        """Return a new tokenizer that is trained on other text with the settings of this tokenizer (recipe, scripts,
        pattern, normalization, special tokens).

        The training uses this package's trainer, because the trainer of ``tokenizers`` does not keep syllables whole.

        Args:
            text_iterator: Texts, or batches of texts.
            vocab_size: Number of tokens, including special tokens.
            length: Ignored.
            new_special_tokens: Special tokens to add to the special tokens of this tokenizer.
            special_tokens_map: Dict from special tokens of this tokenizer to the special tokens that replace them.
            kwargs: Other fields of `TrainingConfig`, such as ``min_frequency``.
        """
        trained_with = self.to_bpe()
        values = dict(trained_with.metadata.get("training") or _settings_of(trained_with.splitting))
        renamed = special_tokens_map or {}
        for name in renamed:
            if name not in trained_with.special_tokens:
                raise SGPEError(f"special_tokens_map: {name!r} is not a special token of this tokenizer")
        specials = [renamed.get(token, token) for token in trained_with.special_tokens]
        specials += [str(token) for token in new_special_tokens or () if str(token) not in specials]
        unknown = set(kwargs) - {field.name for field in fields(TrainingConfig)}
        if unknown:
            raise SGPEError(f"train_new_from_iterator has no argument {', '.join(sorted(unknown))}")
        if values.get("special_tokens_position") == "given":
            del values["special_tokens_position"]  # these ids are for another vocabulary size
        roles = {
            name: renamed.get(str(token), str(token))
            for name, token in self.special_tokens_map.items()
            if isinstance(token, str)
        }
        # A new chat template has its own end-of-turn token.
        kept = roles.keys() - roles_of_template(kwargs.get("chat_template")).keys()
        values.update({name: roles[name] if name in kept else None for name in TRAINED_ROLES})
        values["model_max_length"] = trained_with.model_max_length
        around = bos_eos_settings(trained_with.template, trained_with.roles)
        values.update(around or {"add_bos_token": False, "add_eos_token": False})
        values.update(kwargs, vocab_size=vocab_size, special_tokens=specials)
        config = TrainingConfig.from_dict(values)
        tokenizer = train_from_counts(WordCounts.from_texts(_flatten(text_iterator), config), config)
        if trained_with.template and around is None:
            tokenizer = BPETokenizer.of(replace(tokenizer.data, template=trained_with.template.renamed(renamed)))
        return type(self).from_bpe(
            tokenizer,
            **{name: token for name, token in roles.items() if name not in TRAINED_ROLES},
            padding_side=self.padding_side,
            truncation_side=self.truncation_side,
            **({"chat_template": self.chat_template} if self.chat_template and "chat_template" not in kwargs else {}),
        )


def _settings_of(splitting: Splitting) -> dict[str, Any]:
    """Return training settings that split text in the same way as a tokenizer without a record of its training."""
    if not isinstance(splitting.pattern, str):
        raise SGPEError(
            "this tokenizer was not trained with hf_sgpe, and it splits text in several steps: train with a "
            "TrainingConfig instead"
        )
    settings = {name: getattr(splitting, name) for name in ("recipe", "scripts", "pattern") if getattr(splitting, name)}
    return {**settings, "normalization": str(splitting.normalization)}


def _flatten(texts: Iterable[str | list[str]]) -> Iterator[str]:
    if isinstance(texts, str):
        raise SGPEError("expected an iterable of strings, not a single string: put the string in a list")
    for item in texts:
        if isinstance(item, str):
            yield item
        else:
            yield from item


class _SGPEConfig(PreTrainedConfig):
    # AutoTokenizer registers tokenizer classes under the configuration class of a model. No model has the type of this
    # class.
    model_type = "hf_sgpe"


# Folders saved with ``portable=False`` name this class.
AutoTokenizer.register(_SGPEConfig, fast_tokenizer_class=SGPETokenizerFast, exist_ok=True)
