"""``extend``: add tokens for a script to an existing tokenizer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import WEIGHT, CorpusOptions, runs_in_option, script_option
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, overwrite_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.extension.extension_config import ExtensionConfig, parse_new_tokens
from hf_sgpe.splitting.scripts.script_registry import names_of
from hf_sgpe.terminal.options import Given, argument, option, option_list, options_of
from hf_sgpe.terminal.printing import print_table, report
from hf_sgpe.terminal.progress import is_quiet

if TYPE_CHECKING:
    from trainers.tokenizer_extension import Extended

_UNITS = {
    "word": "Words of {} in this text",
    "character": "Characters of {} in this text",
    "piece": "Pieces into which the split cuts words of {}",
}


@dataclass(frozen=True, kw_only=True)
class _ExtendOptions:
    base: str = argument(TOKENIZER_HELP)
    out: str = option("Folder to write the extended tokenizer to.", ..., "-o")
    overwrite: bool = overwrite_option()
    script: list[str] = script_option()
    runs_in: list[str] = runs_in_option(after="own_split")
    replace_script: list[str] = option_list(
        "Scripts or languages, such as han,cyrillic, whose tokens are first removed, as by hf-sgpe trim (repeatable "
        "or comma-separated). New tokens get the ids of the removed tokens, so the model does not grow.",
        after="reuse_reserved",
    )
    add_language_code: list[str] = option_list(
        "Language code to add to a translation model such as NLLB: a special token, such as tyv_Cyrl (repeatable). "
        "Without text, nothing else is added.",
        after="replace_script",
    )
    like: list[str] = option_list(
        "For each --add-language-code, the code of a similar language, such as rus_Cyrl. hf-sgpe transplant copies the "
        "embedding row of this code (repeatable).",
        after="add_language_code",
    )
    evaluate: list[str] = option_list(
        "Held-out text for a plot of tokens per word by the number of new tokens: FILE with the language in its "
        "name, such as ntrex_si.txt, or NAME=FILE with a language code as NAME, such as si (repeatable).",
        "--eval",
        after="like",
    )
    counts: list[Path] = option_list(
        "File of word counts from hf-sgpe count. Tokens are learned from these counts instead of text (repeatable).",
        after="workers",
    )


_EXTENSION = options_of(
    ExtensionConfig,
    "new_tokens own_split letter_coverage syllable_coverage cut_cost least_saving balance min_frequency weights reuse_ids "
    "reuse_reserved",
    new_tokens={"type": str, "default": "16000"},
    own_split={"names": ("--own-split/--base-split",)},
    weights=WEIGHT,
)


@command(epilog="Example: hf-sgpe extend Qwen/Qwen3-0.6B-Base si.txt.xz --script si --new-tokens 16000 --out qwen-si")
def extend(
    given: _ExtendOptions, settings: Annotated[Given, _EXTENSION], text: CorpusOptions, as_json: Json = False
) -> None:
    """Add tokens for a language to the tokenizer of an existing model. Old tokens keep their ids, and text in other scripts
    is still encoded to the same ids.

    The result is a folder that plain AutoTokenizer loads. Before the model can use the new tokens, it needs embedding rows
    for them: see hf-sgpe transplant.
    """
    from trainers.tokenizer_extension import add_languages, extend as work

    languages = _languages(given)
    if languages and not (text.corpus or given.counts or text.dataset):
        done = add_languages(given.base, languages, given.out, overwrite=given.overwrite)
        facts = {"out": given.out, "base": given.base, "languages": languages}
        report(f"{given.out}:{_codes_sentence(languages)}{done}", facts, as_json)
        return
    if not text.corpus and not given.counts and not text.dataset:
        raise SGPEError("nothing to learn from: name files of text, or use --dataset or --counts")
    settings["new_tokens"] = parse_new_tokens(settings["new_tokens"])
    if text.corpus and given.counts:
        raise SGPEError(
            "text and --counts cannot be combined: count the text with hf-sgpe count, and add its counts with --counts"
        )
    texts = {}
    if given.evaluate:
        from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
        from hf_sgpe.evaluation.comparison import texts_of
        from hf_sgpe.files.overwriting import check_new_folder

        texts = texts_of(given.evaluate, text_field=text.text_field)
        warn_of_zawgyi(*texts.values())
        check_new_folder(given.out, overwrite=given.overwrite, names=[file.name for file in _curve_files(given.out)])
    result = work(
        given.base,
        text.read(given.counts, settings.pop("weights", ())),
        given.out,
        script=given.script,
        replace_script=given.replace_script,
        runs_in=given.runs_in,
        languages=languages,
        overwrite=given.overwrite,
        workers=text.workers,
        **settings,
    )
    facts = _facts(given, result) | ({"languages": languages} if languages else {})
    summary = _summary(given, result, _codes_sentence(languages))
    if not texts:
        report(summary, facts, as_json)
        return
    from hf_sgpe.files.atomic import write_text
    from hub_cards.pictures.extension_curve import extension_curve

    curve = extension_curve(result.extension, texts)
    data, picture = _curve_files(given.out)
    write_text(data, json.dumps(curve.to_dict(), indent=1) + "\n")
    write_text(picture, curve.draw())
    report(summary, facts | {"curve": curve.to_dict()}, as_json)
    if not as_json and not is_quiet():
        _print_curve(curve)


def _languages(given: _ExtendOptions) -> dict[str, str]:
    codes, like = _between_commas(given.add_language_code), _between_commas(given.like)
    if len(codes) != len(like) or len(set(codes)) < len(codes):
        what = f"--add-language-code ({', '.join(codes) or 'none'}) and --like ({', '.join(like) or 'none'})"
        raise SGPEError(f"{what}: give one --like for each new code, and each new code once")
    return dict(zip(codes, like, strict=True))


def _between_commas(values: list[str]) -> list[str]:
    return [part for value in values for part in value.split(",")]


def _codes_sentence(languages: dict[str, str]) -> str:
    codes = ", ".join(f"{code} (like {like})" for code, like in languages.items())
    return f" New language codes: {codes}." if codes else ""


def _curve_files(out: str) -> tuple[Path, Path]:
    return Path(out) / "extension.json", Path(out) / "extension.svg"


def _facts(given: _ExtendOptions, result: Extended) -> dict[str, Any]:
    cost = result.cost
    return {
        "out": given.out,
        "base": given.base,
        "tokens": result.extension.tokenizer.vocab_size,
        "new_tokens": result.extension.new_tokens,
        "removed_tokens": result.removed_tokens,
        "unit_tokens": result.extension.unit_tokens,
        "highest_id": result.extension.highest_id,
        **({"moved_by": result.moved_by} if result.moved_by else {}),
        "scripts": list(result.config.scripts),
        "own_split": result.own_split,
        "where_it_runs": result.runs,
        f"tokens_per_{cost.unit}": {"before": cost.before, "after": cost.after},
        **({"words_with_unknown_text": dict(zip(("before", "after"), cost.unknown, strict=True))} if cost.unknown else {}),
    }


def _summary(given: _ExtendOptions, result: Extended, codes: str) -> str:
    extension, cost = result.extension, result.cost
    scripts = names_of(result.config.scripts)
    instead = ""
    if result.removed_scripts:
        instead = f" without {result.removed_tokens:,} tokens of {names_of(result.removed_scripts)}"
    split = f"{result.split}. " if result.split else ""
    names = f", except the names of {result.freed_names:,} reserved tokens" if result.freed_names else ""
    unknown = ""
    if cost.unknown:
        unknown = f" {cost.unknown[0]:.1%} of these words contained unknown text; now {cost.unknown[1]:.1%} do."
    moved = ""
    if result.moved_by:
        moved = (
            f" The ids of the special tokens are {result.moved_by:,} higher, because Whisper reads the ids after them as "
            "times. So the tokenizer fits only a model from hf-sgpe transplant, not one that is only resized."
        )
    return (
        f"{given.out}: {extension.new_tokens:,} tokens more than {given.base}{instead}, {extension.unit_tokens:,} of them "
        f"for letters and syllables of {scripts}. {_UNITS[cost.unit].format(scripts)} take {cost.after:.2f} tokens on "
        f"average instead of {cost.before:.2f}.{unknown} {split}Text without a character of "
        f"{names_of([*result.config.scripts, *result.removed_scripts])} keeps its ids{names}.{moved}{codes}\n"
        f"{result.runs}"
    )


def _print_curve(curve: Any) -> None:
    words, characters = curve.tokens_per_word, curve.tokens_per_character
    titles = [*(f"{code} tokens/word" for code in words), *(f"{code} tokens/character" for code in characters)]
    columns = [*words.values(), *characters.values()]
    rows = ((f"{size:,}", *(f"{column[place]:.3f}" for column in columns)) for place, size in enumerate(curve.sizes))
    print_table(["new tokens", *titles], rows, texts=0)
