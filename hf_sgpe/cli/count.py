"""``count``: count words for training."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import PATTERN_HELP, RECIPES_HELP, CorpusOptions, script_option
from hf_sgpe.cli.model_options import read_chat_template
from hf_sgpe.cli.tokenizer_options import overwrite_option
from hf_sgpe.counts.task_plan import TaskPlan
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.scripts.script_registry import names_of
from hf_sgpe.splitting.splitting import RECIPES, Splitting
from hf_sgpe.terminal.options import option, option_list
from hf_sgpe.terminal.printing import report

if TYPE_CHECKING:
    from trainers import Corpus


@dataclass(frozen=True, kw_only=True)
class _CountOptions:
    out: Path = option("Parquet file to write the counts to.", ..., "-o")
    overwrite: bool = overwrite_option()
    recipe: str = option(
        f"How text is cut into words. {RECIPES_HELP}. The value auto is not available here, because train "
        "--counts uses the "
        "recipe of the counts.",
        "hybrid",
        choices=RECIPES,
    )
    script: list[str] = script_option()
    pattern: str = option(f"{PATTERN_HELP}.", "o200k")
    normalization: str | None = option("Unicode normalization: nfc or none (default: nfc for hybrid, else none).")
    special_token: list[str] = option_list(
        "Special token (repeatable; default: <|endoftext|>, or for sgpe [PAD], [UNK], [CLS], [SEP] and [MASK])."
    )
    chat_template: str | None = option(
        "Chat template that the trained tokenizer will have: llama3, chatml, alpaca or a .jinja file. The special "
        "tokens of llama3, chatml or alpaca are added."
    )
    memory_limit: str | None = option(
        "Maximum memory, such as 500MB or 8GB (default: half of the free memory). Counts that do not fit are written "
        "to disk, in the folder of --out.",
        after="streaming",
    )
    min_count: int = option(
        "Leave out words that occur less often than this in the whole corpus, and print how merges can change as a result.",
        1,
    )
    source_format: str = option("With --on spark: the format of the text, as Spark names it.", "parquet")


@command(epilog="Example: hf-sgpe count corpora/si.txt.xz --out si.parquet --script all --memory-limit 8GB")
def count(given: _CountOptions, text: CorpusOptions, plan: TaskPlan, as_json: Json = False) -> None:
    """Count the words of a corpus in bounded memory, and write the counts to a file for train --counts.

    Choose the recipe, scripts, pattern, normalization and special tokens that the trained tokenizer will have. Count each
    language into a separate file, so that training can weight the languages. With --tasks or --on, datasets are streamed,
    --workers is the number of tasks that run at the same time, and --memory-limit applies to each task (default: 2GB).
    """
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.files.atomic import check_file
    from hf_sgpe.files.overwriting import check_new_file
    from trainers import Corpus, count_to_file

    if not text.corpus and not text.dataset:
        raise SGPEError("nothing to count: name files of text, or use --dataset")
    memory_limit = None if given.memory_limit is None else _bytes(given.memory_limit)
    script = given.script
    if plan.on == "spark":
        plan.check_alone(dataset=text.dataset, workers=text.workers, memory_limit=given.memory_limit)
        corpus, script = Corpus(), script or ["all"]  # Spark reads the text later
    elif plan != TaskPlan():
        from trainers.counting_in_tasks import corpus_apart_from_work, count_in_tasks

        plan.check()
        corpus = corpus_apart_from_work(replace(text, streaming=bool(text.dataset)).read(), given.out, plan)
        # Do not read datasets here: the tasks are forked from this process and read them.
        warn_of_zawgyi(replace(corpus, streams=()))
    else:
        corpus = text.read()
        warn_of_zawgyi(corpus)
    splitting = _splitting(given, corpus, script)
    check_file(given.out)
    corpus.check_apart_from(given.out)
    check_new_file(given.out, overwrite=given.overwrite)
    limits: dict[str, Any] = {"workers": text.workers, "memory_limit": memory_limit, "min_count": given.min_count}
    if plan.on == "spark":
        from trainers.counting.counting_on_spark import count_on_spark

        columns = {"source_format": given.source_format, "text_field": text.text_field}
        info = count_on_spark(text.corpus, given.out, splitting, min_count=given.min_count, **columns)
    elif plan != TaskPlan():
        counted = count_in_tasks(corpus, given.out, splitting, plan, **limits)
        if counted is None:
            work = plan.work_for(given.out)
            done = f"submitted: after the last job, {given.out} is complete and {work} can be removed"
            report(done, {"out": str(given.out), "work": str(work)}, as_json)
            return
        info = counted
    else:
        info = count_to_file(corpus, given.out, splitting, needs_words=True, **limits)
    whole = "" if not splitting.scripts else f"\nsyllables of {names_of(splitting.scripts)} stay whole"
    report(f"{given.out}: {info.summary()}{whole}", {"out": str(given.out), **info.to_dict()}, as_json)


def _splitting(given: _CountOptions, corpus: Corpus, script: list[str]) -> Splitting:
    from hf_sgpe.chat.templates import SPECIAL_TOKENS
    from hf_sgpe.vocabulary.special_tokens import check_special_tokens
    from trainers.tokenizers.recipes import find_scripts

    settings = find_scripts(corpus, script, given.recipe)
    if given.special_token:
        settings["special_tokens"] = given.special_token
    splitting = Splitting(recipe=given.recipe, pattern=given.pattern, normalization=given.normalization, **settings)
    if given.chat_template:
        extra = SPECIAL_TOKENS.get(read_chat_template(given.chat_template), ())
        splitting = replace(splitting, special_tokens=tuple({*(splitting.special_tokens or ()), *extra}))
    check_special_tokens(splitting.special_tokens or (), splitting.normalization.scheme)
    return splitting


def _bytes(text: str) -> int:
    """Convert a size to a number of bytes.

    >>> _bytes("500MB"), _bytes("1.5 GiB")
    (500000000, 1610612736)
    """
    size = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGT])(i?)B?", text.strip())
    if size is None:
        raise SGPEError(f"--memory-limit {text!r}: expected a number and a unit, such as 500MB or 8GB")
    number, unit, is_binary = size.groups()
    return int(float(number) * (1024 if is_binary else 1000) ** " kMGT".index(unit.replace("K", "k")))
