"""``trim``: remove the tokens of scripts, or tokens that a corpus does not need, from an existing tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, overwrite_option, text_field_option
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import print_table, report
from hf_sgpe.terminal.progress import is_quiet
from hf_sgpe.vocabulary.trimming import COMPACT, IDS, KEEP, PARTS, Trimming

_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class _TrimOptions:
    base: str = argument(TOKENIZER_HELP)
    out: str = option("Folder to write the trimmed tokenizer to.", ..., "-o")
    overwrite: bool = overwrite_option()
    drop_script: list[str] = option_list(
        "Scripts or languages to drop, such as han,hangul,cyrillic (repeatable or comma-separated)."
    )
    keep_script: list[str] = option_list(
        "Scripts or languages to keep, such as latin,sinhala (repeatable or comma-separated). All other scripts are "
        "dropped. Digits, punctuation, emoji and other characters without a script always stay."
    )
    unused_in: list[str] = option_list(
        "Text, or word counts of hf-sgpe count: remove the tokens that this text does not need (repeatable). This "
        "text keeps its tokens. Other text may get smaller tokens, even if its scripts are kept."
    )
    ids: str = option(
        f"{KEEP}: the remaining tokens keep their ids, and hf-sgpe extend --reuse-ids can use the ids of dropped "
        f"tokens. {COMPACT}: "
        "the remaining tokens are numbered from 0 without gaps, so the model gets smaller.",
        KEEP,
        choices=IDS,
    )
    evaluate: list[str] = option_list(
        "Held-out text to encode with both tokenizers: files, folders or globs (repeatable).", "--eval"
    )
    text_field: str = text_field_option()


@command(epilog="Example: hf-sgpe trim google/gemma-3-270m --keep-script latin,devanagari --ids compact --out gemma-small")
def trim(given: _TrimOptions, as_json: Json = False) -> None:
    """Remove the tokens of scripts that a model does not need. Text in other scripts keeps its tokens. Text in the removed
    scripts can still be encoded, but with smaller tokens or bytes. With --unused-in, also remove the tokens that a corpus
    does not need.

    The result is a folder that AutoTokenizer loads without hf_sgpe. To remove the embedding rows of the dropped tokens from
    a model, see hf-sgpe transplant. To fill the free ids with tokens of another language, see hf-sgpe extend --reuse-ids.
    """
    from trainers.tokenizer_trimming import MAP_FILE, trim as work

    result = work(**vars(given))
    trimming, (rows_before, rows_after), saved = result.trimming, result.rows, result.parameters_saved
    before, after = result.base.data.vocab_size, result.folder.data.vocab_size
    results = {name: compared.to_dict() for name, compared in result.results.items()}
    facts: dict[str, Any] = {
        "out": given.out,
        "base": given.base,
        "tokens": {"before": before, "after": after},
        "dropped": dict(trimming.dropped),
        "unused": {"tokens": trimming.unused, "compared": result.compared} if given.unused_in else None,
        "scripts": list(trimming.scripts),
        "ids": given.ids,
        "rows": {"before": rows_before, "after": rows_after},
        "parameters_saved": saved,
        "eval": results,
    }
    if given.ids == KEEP:
        ids = f"All others keep their ids; {before - after:,} ids are free for hf-sgpe extend --reuse-ids"
    else:
        ids = f"The others have the ids 0 to {len(trimming.ids) - 1:,} in the old order; {MAP_FILE} has the old and new ids"
        ids += f". The model loses {saved:,} parameters" if saved else ""
    report(
        f"{given.out}: {after:,} of the {before:,} tokens of {given.base}, without {_dropped(trimming)}. {ids}. "
        f"{_promise(trimming, given.unused_in, result.compared)}",
        facts,
        as_json,
    )
    if results and not as_json and not is_quiet():
        _print_results(results, by_use=bool(given.unused_in))


def _dropped(trimming: Trimming) -> str:
    """Return a phrase that says how many tokens were dropped from which scripts."""
    largest = [f"{number:,} {name if name == PARTS else f'of {name}'}" for name, number in trimming.dropped.items()]
    more = [f"{len(largest) - _SHOWN} more scripts"] if len(largest) > _SHOWN else []
    unused = [f"{trimming.unused:,} that the corpus does not need"] if trimming.unused else []
    *first, last = [*largest[:_SHOWN], *more, *unused]
    return f"{', '.join(first)} and {last}" if first and (more or unused) else ", ".join([*first, last])


def _promise(trimming: Trimming, corpus: list[str], compared: int) -> str:
    if not corpus:
        return "Text without a character of these scripts keeps its tokens."
    text = f"The text of {', '.join(corpus)}" + (" without a character of these scripts" if trimming.scripts else "")
    return f"{text} keeps its tokens ({compared:,} compared). Other text may get smaller tokens: --eval measures how often."


def _print_results(results: Mapping[str, Mapping[str, int]], *, by_use: bool) -> None:
    titles = ["", "lines without these scripts", "same tokens", "other lines", "their tokens before", "after"]
    keys = ["kept_lines", "same_lines", "other_lines", "other_tokens_before", "other_tokens_after"]
    if by_use:
        titles = ["", "lines", "same tokens", "changed", "tokens before", "after"]
        keys = ["kept_lines", "same_lines", "", "tokens_before", "tokens_after"]
        if any(result["other_lines"] for result in results.values()):
            titles[1] += " without these scripts"
            titles[4:] = ["tokens of all lines before", "after"]
    rows = []
    for name, result in results.items():
        changed = 1 - result["same_lines"] / max(result["kept_lines"], 1)
        rows.append([name, *(f"{result[key]:,}" if key else f"{changed:.2%}" for key in keys)])
    print_table(titles, rows, texts=1)
