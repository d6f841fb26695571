"""``trim``: remove the tokens of scripts from an existing tokenizer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, overwrite_option, text_field_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import print_table, report
from hf_sgpe.terminal.progress import is_quiet
from hf_sgpe.vocabulary.trimming import COMPACT, IDS, KEEP, scripts_except

_MAP = "ids.json"
_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class TrimOptions:
    """The tokenizer, the scripts to drop or to keep, and the output folder."""

    base: str = argument(TOKENIZER_HELP)
    out: str = option("Folder to write the trimmed tokenizer to.", ..., "-o")
    overwrite: bool = overwrite_option()
    drop_script: list[str] = option_list(
        "Scripts or languages to drop, such as han,hangul,cyrillic (repeatable or comma-separated)."
    )
    keep_script: list[str] = option_list(
        "Scripts or languages to keep, such as latin,sinhala: all others are dropped. Digits, punctuation, emoji and other "
        "characters of no script stay in any case (repeatable or comma-separated)."
    )
    ids: str = option(
        f"{KEEP}: tokens keep their ids, and the ids of dropped tokens are free for hf-sgpe extend --reuse-ids. {COMPACT}: "
        "the ids that are left are numbered from 0 without gaps, so the model gets smaller.",
        KEEP,
        choices=IDS,
    )
    evaluate: list[str] = option_list(
        "Held-out text to encode with both tokenizers: files, folders or globs (repeatable).", "--eval"
    )
    text_field: str = text_field_option()


@command(epilog="Example: hf-sgpe trim google/gemma-3-270m --keep-script latin,devanagari --ids compact --out gemma-small")
def trim(given: TrimOptions, as_json: Json = False) -> None:
    """Remove the tokens of scripts that a model does not need. Text without these scripts keeps its tokens, and text in them
    is still encoded, by smaller tokens or bytes.

    The result is a folder that plain AutoTokenizer loads. A model then needs the rows of the tokens that are left: see
    hf-sgpe transplant. To fill the free ids with tokens of another language, see hf-sgpe extend --reuse-ids.
    """
    from hf_sgpe.evaluation.trimmed_text import compare_trimmed
    from hf_sgpe.files.atomic import atomic_directory
    from hf_sgpe.files.overwriting import check_new_folder
    from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
    from hf_sgpe.formats.tokenizer_json import check_folder
    from trainers import find_files, read_lines

    if bool(given.drop_script) == bool(given.keep_script):
        raise SGPEError("name the scripts to drop by --drop-script, or the scripts to keep by --keep-script")
    scripts = given.drop_script or scripts_except(given.keep_script)
    files = find_files(given.evaluate) if given.evaluate else []
    folder = TokenizerFolder.read(given.base)
    out, base = Path(given.out), Path(given.base).resolve()
    if (out / "tokenizer.json").exists() and out.resolve() in (base, base.parent):
        raise SGPEError(f"--out {given.out} is the tokenizer to trim: name another folder")
    check_new_folder(out, overwrite=given.overwrite, names=[_MAP] if given.ids == COMPACT else [])
    check_folder(given.out, with_chat_template=folder.data.chat_template is not None)
    smaller, trimming = folder.trimmed(scripts, ids=given.ids)
    before, after = folder.data.vocab_size, smaller.data.vocab_size
    results = {
        str(path): compare_trimmed(trimming, read_lines(path, text_field=given.text_field)).to_dict() for path in files
    }
    with atomic_directory(given.out) as temporary:
        smaller.write(temporary)
        if given.ids == COMPACT:
            moved = {"runs": trimming.runs_of_ids()}
            (temporary / _MAP).write_text(json.dumps(moved) + "\n", encoding="utf-8", newline="\n")
    old_rows = folder.rows or 1 + max(folder.data.bytes_by_id())
    rows = len(trimming.ids) if given.ids == COMPACT else old_rows
    saved = (old_rows - rows) * (folder.row_size or 0)
    facts: dict[str, Any] = {
        "out": given.out,
        "base": given.base,
        "tokens": {"before": before, "after": after},
        "dropped": dict(trimming.dropped),
        "scripts": list(trimming.scripts),
        "ids": given.ids,
        "rows": {"before": old_rows, "after": rows},
        "parameters_saved": saved if folder.row_size else None,
        "eval": results,
    }
    largest = [f"{number:,} of {name}" for name, number in trimming.dropped.items()]
    more = f" and {len(largest) - _SHOWN} more scripts" if len(largest) > _SHOWN else ""
    if given.ids == KEEP:
        ids = f"All others keep their ids; {before - after:,} ids are free for hf-sgpe extend --reuse-ids"
    else:
        ids = f"The others have the ids 0 to {len(trimming.ids) - 1:,} in the old order; {_MAP} has the old and new ids"
        ids += f". The model loses {saved:,} parameters" if saved else ""
    report(
        f"{given.out}: {after:,} of the {before:,} tokens of {given.base}, without {', '.join(largest[:_SHOWN])}{more}. "
        f"{ids}. Text without a character of these scripts keeps its tokens.",
        facts,
        as_json,
    )
    if results and not as_json and not is_quiet():
        titles = ["", "lines without these scripts", "same tokens", "other lines", "their tokens before", "after"]
        keys = ("kept_lines", "same_lines", "other_lines", "other_tokens_before", "other_tokens_after")
        cells = ((name, *(f"{result[key]:,}" for key in keys)) for name, result in results.items())
        print_table(titles, cells, texts=1)
