"""``trim``: remove the tokens of scripts, or tokens that a corpus does not need, from an existing tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, overwrite_option, text_field_option
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import print_table, report
from hf_sgpe.terminal.progress import is_quiet
from hf_sgpe.vocabulary.trimming import COMPACT, IDS, KEEP, PARTS, Trimming

if TYPE_CHECKING:
    from hf_sgpe.evaluation.trimmed_text import TrimmedText
    from trainers.tokenizer_trimming import Trimmed

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
    tokens: int | None = option(
        "Number of tokens to keep: those that the text of --for needs most. Special tokens, added tokens and bytes always "
        "stay. In Unigram and WordPiece, and in BPE without tokens for bytes, so do single characters."
    )
    needed_for: list[str] = option_list(
        "Text, or word counts of hf-sgpe count, for --tokens: files, folders or globs (repeatable or comma-separated).",
        "--for",
    )
    ids: str | None = option(
        f"{KEEP}: the remaining tokens keep their ids, and hf-sgpe extend --reuse-ids can use the ids of dropped "
        f"tokens (the default for BPE). {COMPACT}: "
        "the remaining tokens are numbered from 0 without gaps, so the model gets smaller. Unigram and WordPiece tokenizers "
        f"are always {COMPACT}.",
        choices=IDS,
    )
    evaluate: list[str] = option_list(
        "Held-out text to encode with both tokenizers: files, folders or globs (repeatable).", "--eval"
    )
    text_field: str = text_field_option()


@command(
    epilog="Examples: hf-sgpe trim google/gemma-3-270m --keep-script latin,devanagari --ids compact --out gemma-small, "
    "hf-sgpe trim FacebookAI/xlm-roberta-base --tokens 32768 --for si.txt,en.txt --out xlmr-small"
)
def trim(given: _TrimOptions, as_json: Json = False) -> None:
    """Remove the tokens of scripts that a model does not need. Text in other scripts keeps its tokens. Text in the removed
    scripts can still be encoded, but with smaller tokens or bytes. With --unused-in, also remove the tokens that a corpus
    does not need. With --tokens and --for, keep the number of tokens that a corpus needs most, and show how many tokens a
    word takes at several sizes. Unigram and WordPiece tokenizers can be trimmed by a corpus, but not by scripts.

    The result is a folder that AutoTokenizer loads without hf_sgpe. To remove the embedding rows of the dropped tokens from
    a model, see hf-sgpe transplant. To fill the free ids with tokens of another language, see hf-sgpe extend --reuse-ids.
    """
    from trainers.tokenizer_trimming import MAP_FILE, trim as work

    result = work(**vars(given))
    trimming, (rows_before, rows_after), saved = result.trimming, result.rows, result.parameters_saved
    before, after = trimming.base.vocab_size, trimming.tokenizer.vocab_size
    results = {name: compared.to_dict() for name, compared in result.results.items()}
    by_use = [*given.unused_in, *given.needed_for]
    facts: dict[str, Any] = {
        "out": given.out,
        "base": given.base,
        "tokens": {"before": before, "after": after},
        "dropped": dict(trimming.dropped),
        "unused": {"tokens": trimming.unused, "compared": result.compared} if by_use else None,
        "scripts": list(trimming.scripts),
        "ids": result.ids,
        "rows": {"before": rows_before, "after": rows_after},
        "parameters_saved": saved,
        "for": result.kept.to_dict() if result.kept else None,
        "eval": results,
        "sizes": [{"tokens": size, **compared.to_dict()} for size, compared in result.sizes.items()],
    }
    if result.ids == KEEP:
        ids = f"All others keep their ids; {before - after:,} ids are free for hf-sgpe extend --reuse-ids"
    else:
        ids = f"The others have the ids 0 to {len(trimming.ids) - 1:,} in the old order; {MAP_FILE} has the old and new ids"
        ids += f". The model loses {saved:,} parameters" if saved else ""
    report(
        f"{given.out}: {after:,} of the {before:,} tokens of {given.base}, without {_dropped(trimming, given.tokens)}. "
        f"{ids}. {_promise(result, by_use)}" + (f"\n{result.loaded}" if result.loaded else ""),
        facts,
        as_json,
    )
    if results and not as_json and not is_quiet():
        _print_results(results, by_use=bool(by_use))
    if result.sizes and not as_json and not is_quiet():
        _print_sizes(result.sizes, f"the first lines of the {'held-out text' if results else 'corpus'}")


def _print_sizes(sizes: Mapping[int, TrimmedText], text: str) -> None:
    [unit, *_] = next(iter(sizes.values())).cost
    rows = [[f"{size:,}", f"{one.cost[2]:.3f}", f"{one.changed:.1%}"] for size, one in sizes.items()]
    print_table(["tokens", f"tokens per {unit} of {text}", "lines that change"], rows, texts=0)


def _dropped(trimming: Trimming[Any], tokens: int | None) -> str:
    """Return a phrase that says how many tokens were dropped from which scripts."""
    largest = [f"{number:,} {name if name == PARTS else f'of {name}'}" for name, number in trimming.dropped.items()]
    more = [f"{len(largest) - _SHOWN} more scripts"] if len(largest) > _SHOWN else []
    how = "does not need" if tokens is None else "needs least"
    unused = [f"{trimming.unused:,} that the corpus {how}"] if trimming.unused else []
    *first, last = [*largest[:_SHOWN], *more, *unused]
    return f"{', '.join(first)} and {last}" if first and (more or unused) else ", ".join([*first, last])


def _promise(result: Trimmed, corpus: list[str]) -> str:
    if not corpus:
        return "Text without a character of these scripts keeps its tokens."
    without = " without a character of these scripts" if result.trimming.scripts else ""
    text = f"The text of {', '.join(corpus)}{without} keeps its tokens ({result.compared:,} compared). "
    kept = result.kept
    if kept is not None:
        unit, before, after = kept.cost
        text = f"{kept.same_lines:,} of {kept.kept_lines:,} compared lines{without} keep their tokens; "
        text += f"tokens per {unit} {before:.3f} → {after:.3f}. "
    return f"{text if kept or result.compared else ''}Other text may get smaller tokens" + (
        "." if result.results else ": --eval measures how often."
    )


def _print_results(results: Mapping[str, Mapping[str, Any]], *, by_use: bool) -> None:
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
        rows.append([name, *(f"{result[key]:,}" if key else f"{result['changed']:.2%}" for key in keys)])
    print_table(titles, rows, texts=1)
