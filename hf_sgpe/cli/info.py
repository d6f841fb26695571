"""``info``: describe a tokenizer."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from hf_sgpe import kernels
from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.input_lines import well_formed
from hf_sgpe.cli.tokenizer_options import TokenizerFirst
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hf_sgpe.terminal.options import option
from hf_sgpe.terminal.printing import print_facts, print_json

if TYPE_CHECKING:
    from hf_sgpe.formats.piece_folder import PieceFolder

# Up to `_MOST_SHOWN` tokens are all shown. If there are more, only the first `_SHOWN` are shown.
_MOST_SHOWN, _SHOWN = 12, 6


@dataclass(frozen=True, kw_only=True)
class _InfoOptions(TokenizerFirst):
    sample_text: str | None = option("Also show the tokens of this text, and whether decoding the tokens restores the text.")


@command(epilog="Example: hf-sgpe info my-tokenizer")
def info(given: _InfoOptions, as_json: Json = False) -> None:
    """Describe a tokenizer: vocabulary, splitting and training. Without a tokenizer, show versions and scripts."""
    names = [*([] if given.tokenizer is None else [given.tokenizer]), *given.tokenizers]
    if len(names) > 1:
        raise SGPEError("more than one tokenizer is given: name one")
    if given.sample_text is not None and not names:
        raise SGPEError("--sample-text needs a tokenizer: name a folder, a tokenizer.json or a Hub repository first")
    facts = _facts(names[0], given.sample_text) if names else _versions()
    if as_json:
        print_json(facts)
    else:
        print_facts([(name, _few(value)) for name, value in facts.items()])


def _few(value: Any) -> Any:
    """Shorten a long dict of tokens to their number and the first few of them, for display. Return any other value
    unchanged.

    >>> _few({"<s>": 0}), _few({f"<{id}>": id for id in range(6000)})
    ({'<s>': 0}, '6,000, from {"<0>": 0, "<1>": 1, "<2>": 2, "<3>": 3, "<4>": 4, "<5>": 5, … (--json has all)')
    """
    if not isinstance(value, dict) or len(value) <= _MOST_SHOWN:
        return value
    first = json.dumps(dict(islice(value.items(), _SHOWN)), ensure_ascii=False)
    return f"{len(value):,}, from {first[:-1]}, … (--json has all)"


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    from hf_sgpe.package import __version__

    facts = {"hf-sgpe": __version__, "kernel": kernels.describe(), "python": sys.version.split()[0]}
    facts["system"] = platform.platform()
    for package in ("tokenizers", "transformers", "huggingface_hub", "regex", "numpy"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = f"not installed: pip install {package}"
    return facts | {"scripts": list(SCRIPTS)}


def _facts(tokenizer: str, sample_text: str | None) -> dict[str, Any]:
    from hf_sgpe.evaluation.measurable import tokenizer_in
    from hf_sgpe.evaluation.runtimes import warn_of_class
    from hf_sgpe.tokenizer import BPETokenizer

    loaded = tokenizer_in(tokenizer)
    if not isinstance(loaded, BPETokenizer):
        warn_of_class(tokenizer, loaded)
        return _facts_of_pieces(loaded, sample_text)
    warn_of_class(tokenizer, loaded.data)
    facts: dict[str, Any] = {
        "tokenizer": tokenizer,
        "tokens": loaded.vocab_size,
        "merges": len(loaded.merges),
        **({"merges join": "characters, in SentencePiece's manner"} if loaded.by_characters else {}),
        "special tokens": loaded.special_tokens,
        **({"added tokens": loaded.added_tokens} if loaded.added_tokens else {}),
        "roles": loaded.roles,
        "model max length": loaded.model_max_length or "any",
        "normalization": str(loaded.normalization),
    }
    splitting, training = loaded.splitting, loaded.metadata.get("training", {})
    # The recipe portable splits text as bpe does.
    recipe = "portable" if training.get("recipe") == "portable" and splitting.recipe == "bpe" else splitting.recipe
    scripts = list(training.get("scripts", ())) if recipe == "portable" else list(splitting.scripts)
    facts |= {"recipe": recipe, "scripts": scripts}
    facts |= {"pattern": splitting.pattern} if splitting.pattern else {}
    coverages = ("min_unit_frequency",) if training.get("min_unit_frequency") else ("letter_coverage", "syllable_coverage")
    # The rest of the configuration repeats the facts above.
    listed = ("min_frequency", *(("cut_cost", *coverages) if scripts else ()), "tie_break", "weights")
    facts |= {name.replace("_", " "): training[name] for name in listed if training.get(name) not in (None, {})}
    if "balance" in loaded.metadata:
        facts["balance"] = loaded.metadata["balance"]
    if training:
        facts["word counts"] = loaded.metadata.get("word_counts", "unknown")
    facts |= _changes_in(loaded.metadata)
    if sample_text is not None:
        ids = loaded.encode(*well_formed([sample_text]))
        facts |= {"sample text": sample_text, "sample ids": ids, "sample tokens": loaded.convert_ids_to_tokens(ids)}
        facts["sample comes back"] = loaded.decode(ids) == sample_text
    return facts


def _facts_of_pieces(pieces: PieceFolder, sample_text: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "tokenizer": pieces.name,
        "tokens": pieces.vocab_size,
        "kind": f"{pieces.kind}: looks up pieces, and does not merge",
        "special tokens": pieces.added,
        "unknown token": None if pieces.unknown is None else pieces.text_of(pieces.unknown),
        "model max length": pieces.settings.get("model_max_length") or "any",
        **_changes_in(pieces.settings.get("sgpe") or {}),
    }
    if sample_text is not None:
        ids = pieces.encode(*well_formed([sample_text]))
        facts |= {"sample text": sample_text, "sample ids": ids, "sample tokens": list(map(pieces.text_of, ids))}
        facts["sample has unknown text"] = pieces.unknown in ids
    return facts


def _changes_in(metadata: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for number, note in enumerate(metadata.get("extensions", ()), 1):
        facts["extended from" if number == 1 else f"extended again ({number})"] = {
            name: note[name] for name in ("base", "scripts", "new_tokens", "word_counts") if name in note
        }
    if dropped := [name for note in metadata.get("trimmed", ()) for name in note["scripts"]]:
        facts["without the scripts"] = dropped
    if unused := sum(note.get("unused", 0) for note in metadata.get("trimmed", ())):
        facts["unused tokens removed"] = unused
    notes = [metadata, *metadata.get("extensions", ()), *metadata.get("trimmed", ())]
    if versions := dict.fromkeys(str(note["version"]) for note in notes if "version" in note):
        facts["made with hf-sgpe"] = list(versions)
    return facts
