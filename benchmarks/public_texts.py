"""Download the text that the benchmarks need from public data sets on the Hub.

The script writes the first megabytes of a data set for each language to OUT/corpora/si.txt.xz and so on, and the held-out
lines of NTREX-128 to OUT/eval/ntrex_si.txt and so on. The options --corpora and --held-out of other benchmarks expect such
folders. Next to the texts, sources.json has the data set, configuration, split, commit, size and SHA-256 of each text. The
records of benchmarks repeat these entries. Files that are already there are kept.

The corpora behind the tables of the documentation cannot be published, so figures on this text differ from the tables.

Example: python benchmarks/public_texts.py texts --languages si en --megabytes 60
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from harness import SOURCES, beginning, command
from tqdm import tqdm

from hf_sgpe import SGPEError
from hf_sgpe.corpora.hub_datasets import commit_of, read_dataset
from hf_sgpe.files.atomic import atomic_file, write_text
from hf_sgpe.terminal.progress import somebody_watches

HELD_OUT_LINES = 1000


@dataclass(frozen=True)
class _Source:
    """A text in a data set on the Hub.

    Attributes:
        configuration: Name of the configuration, or an empty string if the data set has only one.
        revision: The commit. None takes the latest one, which sources.json then names.
    """

    dataset: str
    configuration: str
    split: str
    column: str
    revision: str | None


_FINEWEB2 = _Source("HuggingFaceFW/fineweb-2", "", "train", "text", "af9c13333eb981300149d5ca60a8e9d659b276b9")
_NTREX = _Source("mteb/NTREX", "", "test", "", None)
_CONFIGURATIONS = {
    "si": "sin_Sinh",
    "hi": "hin_Deva",
    "mr": "mar_Deva",
    "ne": "npi_Deva",
    "bn": "ben_Beng",
    "pa": "pan_Guru",
    "gu": "guj_Gujr",
    "or": "ory_Orya",
    "ta": "tam_Taml",
    "te": "tel_Telu",
    "kn": "kan_Knda",
    "ml": "mal_Mlym",
    "th": "tha_Thai",
    "lo": "lao_Laoo",
    "km": "khm_Khmr",
    "my": "mya_Mymr",
    "bo": "bod_Tibt",
    "ar": "arb_Arab",
    "he": "heb_Hebr",
    "hy": "hye_Armn",
    "ka": "kat_Geor",
    "ru": "rus_Cyrl",
    "ko": "kor_Hang",
    "ja": "jpn_Jpan",
    "zh": "cmn_Hani",
    "de": "deu_Latn",
    "fr": "fra_Latn",
}
CORPORA = {code: replace(_FINEWEB2, configuration=name) for code, name in _CONFIGURATIONS.items()} | {
    "en": _Source("HuggingFaceFW/fineweb-edu", "sample-10BT", "train", "text", "87f09149ef4734204d70ed1d046ddc9ca3f2b8f9"),
    "code": _Source("codeparrot/codeparrot-clean-valid", "", "train", "content", "4db92d2ec0c1b4c41eeb439cfae16854511d9dcd"),
}
"""Training text, keyed by language code."""
_NTREX_NAMES = _CONFIGURATIONS | {"en": "eng_Latn", "ne": "nep_Deva", "zh": "zho_Hans", "ur": "urd_Arab", "dz": "dzo_Tibt"}
HELD_OUT = {code: replace(_NTREX, column=name) for code, name in _NTREX_NAMES.items() if code != "or"}
"""Held-out text, keyed by language code. The lines of all languages are translations of one another."""


def _run(args: argparse.Namespace) -> None:
    for code in args.languages:
        if code in CORPORA:
            path = args.out / "corpora" / ("code.jsonl.xz" if code == "code" else f"{code}.txt.xz")
            _fetch(CORPORA[code], path, {"megabytes": args.megabytes})
        if code in HELD_OUT:
            _fetch(HELD_OUT[code], args.out / "eval" / f"ntrex_{code}.txt", {"lines": HELD_OUT_LINES})


def _fetch(source: _Source, path: Path, size: dict[str, Any]) -> None:
    """Download a text and write its entry in sources.json, unless the same text is already there.

    Args:
        path: The file to write. In a JSON Lines file, texts stay whole; in a text file, their lines are written, without
            blank ones.
        size: ``{"megabytes": …}`` or ``{"lines": …}``: how much of the data set to take, from its beginning.
    """
    wanted = {name: value for name, value in (asdict(source) | size).items() if value is not None}
    sources = path.with_name(SOURCES)
    entries: dict[str, Any] = json.loads(sources.read_text(encoding="utf-8")) if sources.exists() else {}
    if path.exists():
        if not wanted.items() <= entries.get(path.name, {}).items():
            raise SGPEError(f"{path} was not downloaded with these settings: remove this file, or choose a different OUT")
        print(f"{path}: already there")
        return
    source = replace(source, revision=source.revision or commit_of(source.dataset))
    name = f"{source.dataset}:{source.configuration}" if source.configuration else source.dataset
    texts = read_dataset(name, split=source.split, text_column=source.column, streaming=True, revision=source.revision)
    digest, written = hashlib.sha256(), 0
    if ".jsonl" in path.name:
        rows = (json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    else:
        rows = (line for text in texts for line in text.splitlines() if line.strip())
    total = int(size["megabytes"] * 1e6) if "megabytes" in size else None
    bar = tqdm(total=total, desc=path.name, unit="B", unit_scale=True, disable=not somebody_watches())
    opened = lzma.open if path.suffix == ".xz" else open
    with bar, atomic_file(path) as temporary, opened(temporary, "wb") as file:
        for row in islice(beginning(rows, size.get("megabytes")), size.get("lines")):
            data = f"{row}\n".encode()
            digest.update(data)
            written += len(data)
            file.write(data)
            bar.update(len(data))
    entries[path.name] = asdict(source) | size | {"bytes": written, "sha256": digest.hexdigest()}
    write_text(sources, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    print(f"{path}: {written / 1e6:.1f} MB, {source.dataset} at {source.revision}")


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("out", type=Path, help="folder for the texts")
        option(
            "--languages",
            nargs="+",
            choices=sorted({*CORPORA, *HELD_OUT}),
            default=sorted({*CORPORA, *HELD_OUT}),
            metavar="CODE",
            help="language codes, and code for program text (default: all)",
        )
        option("--megabytes", default=12.0, help="megabytes of each training text")
