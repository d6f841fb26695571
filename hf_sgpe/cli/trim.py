"""``trim``: remove the tokens of scripts, or tokens that a corpus does not need, from an existing tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, overwrite_option, text_field_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import print_table, report
from hf_sgpe.terminal.progress import is_quiet
from hf_sgpe.vocabulary.trimming import COMPACT, IDS, KEEP, PARTS, Trimming, confined_to, scripts_except

if TYPE_CHECKING:
    from hf_sgpe.corpora.text_files import CorpusFile
    from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

_MAP = "ids.json"
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

    def check(self) -> None:
        if self.drop_script and self.keep_script:
            raise SGPEError(
                "give the scripts to drop with --drop-script, or the scripts to keep with --keep-script, not both"
            )
        if not (self.drop_script or self.keep_script or self.unused_in):
            raise SGPEError(
                "give the scripts to drop with --drop-script, the scripts to keep with --keep-script, or text with "
                "--unused-in"
            )


@command(epilog="Example: hf-sgpe trim google/gemma-3-270m --keep-script latin,devanagari --ids compact --out gemma-small")
def trim(given: _TrimOptions, as_json: Json = False) -> None:
    """Remove the tokens of scripts that a model does not need. Text in other scripts keeps its tokens. Text in the removed
    scripts can still be encoded, but with smaller tokens or bytes. With --unused-in, also remove the tokens that a corpus
    does not need.

    The result is a folder that AutoTokenizer loads without hf_sgpe. To remove the embedding rows of the dropped tokens from
    a model, see hf-sgpe transplant. To fill the free ids with tokens of another language, see hf-sgpe extend --reuse-ids.
    """
    from hf_sgpe.corpora.text_files import size_of
    from hf_sgpe.evaluation.runtimes import warn_of_class
    from hf_sgpe.evaluation.token_use import find_counted
    from hf_sgpe.evaluation.trimmed_text import check_corpus, compare_trimmed
    from hf_sgpe.files.atomic import atomic_directory
    from hf_sgpe.files.overwriting import check_new_folder
    from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
    from trainers import find_files, read_lines
    from trainers.counting.parallel_counting import reading_bar

    given.check()
    scripts = given.drop_script or (scripts_except(given.keep_script) if given.keep_script else ())
    files = find_files(given.evaluate) if given.evaluate else []
    corpus = find_counted(given.unused_in)
    folder = TokenizerFolder.read(given.base)
    out, base = Path(given.out), Path(given.base).resolve()
    if (out / "tokenizer.json").exists() and out.resolve() in (base, base.parent):
        raise SGPEError(f"--out {given.out} is the tokenizer to trim: name another folder")
    check_new_folder(out, overwrite=given.overwrite, names=[_MAP] if given.ids == COMPACT else [])
    folder.check_target(given.out)
    if given.ids == KEEP and (out / _MAP).exists():
        raise SGPEError(
            f"{out / _MAP}: this file has the ids of another tokenizer: remove this file, or choose another folder"
        )
    warn_of_class(given.base, folder.data)
    use = _use_of_tokens(folder.data, corpus, scripts, given) if corpus else None
    smaller, trimming = folder.trimmed(scripts, ids=given.ids, use=use)
    smaller.check_target(given.out)  # it may have no tokenizer.model
    with reading_bar(sum(map(size_of, corpus)), None) as bar:
        compared = check_corpus(trimming, corpus, text_field=given.text_field, lines=True, on_progress=bar.update)
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
        "unused": {"tokens": trimming.unused, "compared": compared} if corpus else None,
        "scripts": list(trimming.scripts),
        "ids": given.ids,
        "rows": {"before": old_rows, "after": rows},
        "parameters_saved": saved if folder.row_size else None,
        "eval": results,
    }
    if given.ids == KEEP:
        ids = f"All others keep their ids; {before - after:,} ids are free for hf-sgpe extend --reuse-ids"
    else:
        ids = f"The others have the ids 0 to {len(trimming.ids) - 1:,} in the old order; {_MAP} has the old and new ids"
        ids += f". The model loses {saved:,} parameters" if saved else ""
    report(
        f"{given.out}: {after:,} of the {before:,} tokens of {given.base}, without {_dropped(trimming)}. {ids}. "
        f"{_promise(trimming, given.unused_in, compared)}",
        facts,
        as_json,
    )
    if results and not as_json and not is_quiet():
        _print_results(results, by_use=bool(corpus))


def _use_of_tokens(data: TokenizerData, corpus: list[CorpusFile], scripts: Iterable[str], given: _TrimOptions) -> list[int]:
    """Return how often the text without the scripts uses each id."""
    from hf_sgpe.corpora.text_files import size_of
    from hf_sgpe.evaluation.token_use import holds_text, use_of_tokens
    from trainers.counting.parallel_counting import reading_bar

    without = confined_to(scripts, data.normalization).points
    with reading_bar(sum(map(size_of, corpus)), None) as bar:
        how: dict[str, Any] = {"text_field": given.text_field, "lines": True, "on_progress": bar.update}
        [counts] = use_of_tokens([data], corpus, without=without, **how)
    tokens = data.bytes_by_id()
    if not holds_text(tokens[id] for id in counts.nonzero()[0].tolist()):
        raise SGPEError(f"--unused-in {', '.join(given.unused_in)}: there is no text")
    used: list[int] = counts.tolist()
    return used


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
