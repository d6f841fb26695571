"""Loading of models and tokenizers by name, with one-line errors, and encoding of texts for models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.files.folder_contents import SPEECH, no_model, vocabulary_file, why_no_model, why_no_tokenizer
from hf_sgpe.files.hub import NoSuchFileError, download, names_in, split_name
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE
from hf_sgpe.splitting.normalization import well_formed
from hf_sgpe.terminal.progress import bars_on_terminals_only

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

GENERATES = ("ForCausalLM", "LMHeadModel", "WithLMHead", "ForConditionalGeneration", "MTModel")
"""The endings of the names of classes that generate text."""
MASKED = ("ForMaskedLM", "ForPreTraining")
"""The endings of the names of classes that predict masked tokens."""
_TOKENIZER_FILES = ("tokenizer*", "*vocab*", "*.model", "*.tiktoken", "*tekken*.json")


def auto_class(config: Any) -> str:
    """Return the name of the transformers class that loads a model: an Auto class if the model generates text, and otherwise
    the model's own class.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

    name: str = next(iter(getattr(config, "architectures", None) or ()), "")
    if name.startswith("Whisper"):
        return SPEECH
    if config.is_encoder_decoder and name.endswith(GENERATES):
        return "AutoModelForSeq2SeqLM"
    return "AutoModelForCausalLM" if config.model_type in CAUSAL and (not name or name.endswith(GENERATES)) else name


def load_model(kind: Any, path_or_repo: str) -> PreTrainedModel:
    """Load a model in 32 bits with a class of transformers, such as ``AutoModelForCausalLM``."""
    import torch

    with _loading(path_or_repo):
        return kind.from_pretrained(path_or_repo, dtype=torch.float32, trust_remote_code=False)


def load_config(path_or_repo: str) -> PretrainedConfig:
    """Load the configuration of a model from a folder or the Hub."""
    from transformers import AutoConfig

    with _loading(path_or_repo):
        config: PretrainedConfig = AutoConfig.from_pretrained(path_or_repo, trust_remote_code=False)
        auto_class(config)  # fails here if "architectures" does not contain names
    return config


def check_predicts(path_or_repo: str) -> PretrainedConfig:
    """Check that a model predicts text: a causal model, a masked model, or an encoder–decoder model that reads text. Return
    its configuration.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES as PAIRS

    config = load_config(path_or_repo)
    name = auto_class(config)
    reads_text = config.model_type in PAIRS if config.is_encoder_decoder else name.endswith((*GENERATES, *MASKED))
    if not reads_text:
        own = next(iter(config.architectures or ()), "none")
        raise SGPEError(
            f"{path_or_repo}: only models that read and predict text can be trained or measured, but this model is of class "
            f"{own}: use hf-sgpe extend and hf-sgpe transplant"
        )
    return config


def check_causal(path_or_repo: str) -> None:
    """Check that a model is a causal language model."""
    config = load_config(path_or_repo)
    name = auto_class(config)
    if config.is_encoder_decoder or not name.endswith(GENERATES):
        reason = "this model has an encoder" if config.is_encoder_decoder else f"this model is of class {name or 'none'}"
        raise SGPEError(f"{path_or_repo}: only causal language models can predict the next token, but {reason}")


def load_predicting_model(path_or_repo: str, *, dtype: Any = None) -> PreTrainedModel:
    """Load a model that predicts text (see `check_predicts` and `load_whole_model`)."""
    check_predicts(path_or_repo)
    return load_whole_model(path_or_repo, dtype=dtype)


def load_whole_model(path_or_repo: str, *, dtype: Any = None) -> PreTrainedModel:
    """Load a model of any class. All weights must be in the files, because transformers would give random values to missing
    weights. Only a pooler may be missing, which nothing here uses.
    """
    import torch
    import transformers

    name = auto_class(load_config(path_or_repo)) or "AutoModel"
    with _loading(path_or_repo):
        model, loading_info = getattr(transformers, name).from_pretrained(
            path_or_repo, dtype=dtype or torch.float32, output_loading_info=True, trust_remote_code=False
        )
    if missing := sorted(name for name in loading_info["missing_keys"] if "pooler." not in name):
        raise SGPEError(f"{path_or_repo}: the weights {missing[0]} are missing")
    whole: PreTrainedModel = model
    return whole


@contextmanager
def _loading(path_or_repo: str) -> Iterator[None]:
    if not path_or_repo:
        raise SGPEError("the name of the model is empty: give a folder, or a repository on the Hub")
    if not Path(path_or_repo).exists():
        download(path_or_repo, "config.json")  # a missing file fails at once here; transformers retries for minutes
    try:
        with bars_on_terminals_only():
            yield
    except Exception as error:  # transformers raises many types of errors for a damaged file
        if not isinstance(error, SGPEError):
            path = Path(path_or_repo)
            check_no_pointer(path)
            if why_no_model(path) or (path.is_dir() and not (path / "config.json").exists()):
                raise no_model(path_or_repo) from None
        raise SGPEError(f"{path_or_repo}: cannot load a model from this place ({_first_line(error)})") from None


def load_translating_tokenizer(path_or_repo: str, source_language: str, target_language: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer whose class puts language codes, such as NLLB's ``sin_Sinh``, before sources and targets."""
    import transformers
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    with _loading(path_or_repo):
        # AutoTokenizer of transformers 5.5 ignores the class in the folder of a model.
        name = get_tokenizer_config(path_or_repo).get("tokenizer_class") or "AutoTokenizer"
        kind = getattr(transformers, name, transformers.AutoTokenizer)
        tokenizer: PreTrainedTokenizerBase = kind.from_pretrained(
            path_or_repo, src_lang=source_language, tgt_lang=target_language, trust_remote_code=False
        )
    if getattr(tokenizer, "src_lang", None) is None:
        name = type(tokenizer).__name__
        raise SGPEError(f"{path_or_repo}: a {name} has no language codes: leave out --source-language and --target-language")
    for code in (source_language, target_language):
        if code not in tokenizer.get_vocab():
            raise SGPEError(f"{path_or_repo}: the tokenizer has no language code {code}: hf-sgpe info lists the codes")
    return tokenizer


def load_tokenizer(path_or_repo: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer for transformers: an `SGPETokenizerFast` if this package can read the format, and otherwise what
    ``AutoTokenizer`` returns.

    Args:
        path_or_repo: Folder, ``tokenizer.json``, or ``user/name`` or ``user/name@revision`` on the Hub.
    """
    from transformers import AutoTokenizer

    from hf_sgpe import BPETokenizer, SGPETokenizerFast

    path = Path(path_or_repo)
    repo, revision = (path_or_repo, None) if path.exists() else split_name(path_or_repo)
    if not path.exists():
        try:
            download(repo, CONFIG_FILE, revision=revision)
        except NoSuchFileError as error:
            names = names_in(repo, revision=revision)
            if vocabulary_file(names) in (None, tokenizer_json.TOKENIZER_FILE):
                raise SGPEError(f"{error}{why_no_tokenizer(names, path_or_repo)}") from None
    names = [file.name for file in path.iterdir()] if path.is_dir() else []
    reason = "" if tokenizer_json.TOKENIZER_FILE in names else why_no_tokenizer(names, path_or_repo)
    try:
        if path.is_file():
            return SGPETokenizerFast.from_bpe(BPETokenizer.from_pretrained(path))
        if path.is_dir() and tokenizer_json.TOKENIZER_FILE not in names:
            # If a model has no tokenizer, transformers creates an empty tokenizer of the model's type.
            if not any(any(path.glob(pattern)) for pattern in _TOKENIZER_FILES):
                raise SGPEError(f"{path_or_repo}: the folder holds no tokenizer{reason}")
            try:
                return SGPETokenizerFast.from_pretrained(path_or_repo)
            except SGPEError as error:
                unreadable = error
            try:
                return AutoTokenizer.from_pretrained(path_or_repo, trust_remote_code=False)
            except Exception:  # for a damaged file, transformers raises any error, without the name of the file
                if vocabulary_file(names) is None:
                    raise
                raise unreadable from None
        return SGPETokenizerFast.from_pretrained(repo, **({"revision": revision} if revision else {}))
    except NotByteLevelError as error:
        raise SGPEError(f"{error}: give the folder of the file, so that transformers can load it") from None
    except (OSError, ValueError) as error:
        if isinstance(error, SGPEError):
            raise
        check_no_pointer(path)
        if reason:
            raise SGPEError(f"{path_or_repo}: the folder holds no {tokenizer_json.TOKENIZER_FILE}{reason}") from None
        raise SGPEError(f"{path_or_repo}: cannot load a tokenizer from it ({_first_line(error)})") from None


def encode_texts(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Return the ids of each text, without the special tokens that the tokenizer's template adds."""
    if not texts:
        return []
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    rows: list[list[int]] = tokenizer(list(map(well_formed, texts)), **options)["input_ids"]
    return rows


def ids_around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer of an encoder puts before and after a text, such as those of [CLS] and [SEP]."""
    ids: list[int] = tokenizer("", return_attention_mask=False)["input_ids"]
    return ids[:1], ids[1:]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(map(str.strip, lines[: 2 if lines[0].endswith(":") else 1]))
