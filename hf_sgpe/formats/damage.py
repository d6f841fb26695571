"""A search for the damaged file of a tokenizer that transformers cannot load. The result is a one-line error that names the
file.

If a file is damaged, transformers and its backend raise a KeyError, a bare Exception or a panic, which do not name the file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import Encoding
from transformers import PreTrainedTokenizerFast

from hf_sgpe.errors import NotByteLevelError, SGPEError
from hf_sgpe.files.json_files import read_json
from hf_sgpe.files.unreadable import read_utf8
from hf_sgpe.formats.tokenizer_config import CONFIG_FILE
from hf_sgpe.formats.tokenizer_json import CHAT_TEMPLATE_FILE, MORE_TEMPLATES, TOKENIZER_FILE, checked_length, from_content

# Other files that transformers reads with a tokenizer.json.
_BESIDE = (
    *(CONFIG_FILE, "special_tokens_map.json", "added_tokens.json", CHAT_TEMPLATE_FILE, "config.json"),
    f"{MORE_TEMPLATES}/*.jinja",
)


def check_loaded(tokenizer: PreTrainedTokenizerFast, *, gapless: bool) -> None:
    """Check the ids, the maximum length, the names of the inputs and the template of a loaded tokenizer. The backend can
    raise any error.

    Args:
        gapless: Whether to refuse ids with gaps. The ids in files of this package have no gaps, but some versions of the
            backend turn a repeated id into a gap.
    """
    checked_length(tokenizer.model_max_length)
    if not isinstance(names := tokenizer.model_input_names, (list, tuple)):
        raise SGPEError(f"its model_input_names must be a list, not {names!r}")
    vocab = tokenizer.get_vocab()
    ids = set(vocab.values())
    if len(ids) < len(vocab) or (gapless and len(ids) <= max(ids)):
        raise SGPEError("the ids of its tokens repeat or have gaps")
    if template := tokenizer.backend_tokenizer.post_processor:
        template.process(Encoding())
        template.process(Encoding(), Encoding())


def damage_of(tokenizer_file: Path, error: BaseException, *, gapless: bool = False) -> SGPEError | None:
    """Return an error that names the damaged file of a folder that transformers cannot load, or None if it loads.

    The file is found by trial: first with the ``tokenizer.json`` alone, then with one other file at a time.

    Args:
        error: The error that transformers raised, for the message if no single file is damaged.
    """
    folder = tokenizer_file.parent
    also: list[Path] = []
    for name in _BESIDE:
        also += filter(Path.is_file, sorted(folder.glob(name)))
    for file in (tokenizer_file, *also):
        # If two tokens have the same id, the backend keeps one of them at random, so loading may succeed.
        reason = _repeated_ids(file) or _failure(tokenizer_file, {file} - {tokenizer_file}, gapless)
        if reason is None:
            continue
        try:
            content = read_utf8(file) if file.suffix == ".jinja" else read_json(file)
            if file == tokenizer_file and isinstance(content, dict):
                from_content(content, file)
        except NotByteLevelError:
            pass
        except SGPEError as ours:
            return ours
        return _damaged(file, reason)
    return _damaged(folder, error) if _failure(tokenizer_file, also, gapless) else None


def _repeated_ids(file: Path) -> BaseException | None:
    try:
        vocab = read_json(file)["model"]["vocab"]
        is_damaged = isinstance(vocab, dict) and len(set(vocab.values())) < len(vocab)
    except (SGPEError, KeyError, TypeError):  # damaged in another way, or another file
        return None
    return SGPEError("the ids of its tokens repeat") if is_damaged else None


def _failure(tokenizer_file: Path, also: Iterable[Path], gapless: bool) -> BaseException | None:
    """Return the error that transformers raises for a folder with only these files, or None."""
    with TemporaryDirectory() as temporary:
        shutil.copyfile(tokenizer_file, Path(temporary) / TOKENIZER_FILE)
        for file in also:
            copy = Path(temporary) / file.relative_to(tokenizer_file.parent)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)
        try:
            check_loaded(PreTrainedTokenizerFast.from_pretrained(temporary), gapless=gapless)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the backend is not an Exception
            return error
    return None


def _damaged(path: Path, reason: BaseException) -> SGPEError:
    kind = "" if isinstance(reason, SGPEError) else f"{type(reason).__name__}: "
    return SGPEError(f"{path}: damaged ({' '.join(f'{kind}{reason}'.split())})")
