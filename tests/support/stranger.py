"""A program that uses a saved tokenizer without this package.

It needs only transformers, 4.57 or 5. Each line of its input is a list of questions, and each line of its output
``{"answers": […]}`` or ``{"error": …}``. A question is ``{"ask": NAME, …}``: the name of one of `QUESTIONS`, and the
arguments of that function.
"""

import hashlib
import json
import os
import pickle
import shutil
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

BATCH = 1000
"""Number of texts to encode at a time; the offsets of all lines would not fit in memory."""


def digest(row: Any) -> str:
    """Return a short digest of the result for a text, enough to compare millions of ids.

    >>> digest([[1, 2], "a"])
    'f939fa5d6a263f2a'
    """
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(folder: str, texts: list[str], *, short: bool = False, **options: Any) -> list[Any]:
    """Return the ids, offsets and decoded text of each text, or their digests if ``short``."""
    tokenizer = _load(folder, **options)
    rows: list[Any] = []
    for start in range(0, len(texts), BATCH):
        encoded = tokenizer(texts[start : start + BATCH], return_offsets_mapping=True)
        for ids, offsets in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            row = (ids, offsets, tokenizer.decode(ids))
            rows.append(digest(row) if short else row)
    return rows


def encode_by_tokenizers(folder: str, texts: list[str]) -> list[Any]:
    """Return the same as `encode`, by tokenizers without transformers."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(f"{folder}/tokenizer.json")
    encodings = backend.encode_batch(texts)
    return [(one.ids, one.offsets, backend.decode(one.ids, skip_special_tokens=False)) for one in encodings]


def use(folder: str, texts: list[str], **options: Any) -> dict[str, Any]:
    """Return the results of other uses of a tokenizer, by name."""
    return uses(_load(folder, **options), texts)


def uses(tokenizer: Any, texts: list[str]) -> dict[str, Any]:
    copy = pickle.loads(pickle.dumps(tokenizer))
    ids = tokenizer(texts)["input_ids"]
    answers = {
        "keys": sorted(tokenizer(texts[0])),
        "one by one": [tokenizer.encode(text) for text in texts],
        "in a batch": ids,
        "pickled": [copy.encode(text) for text in texts],
        "tokens": [tokenizer.tokenize(text) for text in texts],
        "without special tokens": tokenizer.batch_decode(ids, skip_special_tokens=True),
        "pair": dict(tokenizer(texts[0], texts[1], return_token_type_ids=True)),
        "truncated": tokenizer(texts, truncation=True, max_length=5)["input_ids"],
        "special tokens": tokenizer.all_special_tokens,
        "roles": {role: str(token) for role, token in tokenizer.special_tokens_map.items() if role.endswith("_token")},
    }
    if tokenizer.pad_token is not None:
        for side in ("left", "right"):
            answers[f"padded on the {side}"] = dict(tokenizer(texts, padding=True, padding_side=side))
    if tokenizer.chat_template is not None:
        chat = [{"role": "user", "content": text} for text in texts if text.strip()]
        answers["chat"] = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return answers


def save(folder: str, to: str, **options: Any) -> list[str]:
    """Load a tokenizer and save it again, as a Trainer does with every checkpoint.

    Returns:
        The names of its class and of the files.
    """
    tokenizer = _load(folder, **options)
    tokenizer.save_pretrained(to)
    return [type(tokenizer).__name__, *sorted(file.name for file in Path(to).iterdir())]


def encode_beside_models(
    folder: str, texts: list[str], *, model_types: list[str] | None = None, **options: Any
) -> dict[str, dict[str, str]]:
    """Encode with a tokenizer next to the ``config.json`` of each model type, by default of all model types.

    Returns:
        model_type → the ``digest``, the ``error``, or under ``no_model`` the reason why transformers has no default model.
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    answers: dict[str, dict[str, str]] = {}
    with TemporaryDirectory() as both, TemporaryDirectory() as alone:
        shutil.copytree(folder, both, dirs_exist_ok=True)
        for model_type in model_types or CONFIG_MAPPING_NAMES:
            for place in (both, alone):
                (Path(place) / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
            try:
                answers[model_type] = {"digest": digest(encode(both, texts, **options))}
            except Exception as error:
                answers[model_type] = {"error": f"{type(error).__name__}: {error}"}
                try:
                    AutoConfig.from_pretrained(alone)
                except Exception as reason:
                    answers[model_type] = {"no_model": str(reason)}
    return answers


def _load(folder: str, **options: Any) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, **options)


QUESTIONS = {function.__name__: function for function in (encode, encode_by_tokenizers, use, save, encode_beside_models)}


def serve() -> None:
    """Answer each line of stdin in a forked process, which has transformers imported and does not affect later answers."""
    sys.path.remove(str(Path(__file__).parent))  # where transformers would find a module of another package's name
    lines, answers = sys.stdin, sys.stdout
    sys.stdout = sys.stderr  # whatever else is printed is no answer
    # Transformers 4 asks whether code is trusted, and gets no answer.
    with TemporaryDirectory() as modules, Path(os.devnull).open(encoding="utf-8") as sys.stdin:
        os.environ["HF_MODULES_CACHE"] = modules  # where transformers puts remote code
        from transformers import AutoTokenizer, PreTrainedTokenizerFast  # noqa: F401 - imported once for all

        for line in lines:
            child = os.fork()
            if not child:
                try:
                    print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)
                    os._exit(0)
                finally:
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            if status:
                print(json.dumps({"error": f"the child has ended with status {status}"}), file=answers, flush=True)
            for code in Path(modules).iterdir():
                shutil.rmtree(code) if code.is_dir() else code.unlink()


def _answer(questions: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"answers": [QUESTIONS[question.pop("ask")](**question) for question in questions]}
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    sys.modules.update(dict.fromkeys(("hf_sgpe", "trainers", "hub_cards")))  # even where it is installed
    serve()
