"""``extend``: add tokens for a script to an existing tokenizer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import CorpusOptions, runs_in_option, script_option
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP, overwrite_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.extension.extension_config import ExtensionConfig, cut_scripts, parse_new_tokens
from hf_sgpe.splitting.scripts.script_registry import names_of
from hf_sgpe.terminal.options import Given, argument, option, option_list
from hf_sgpe.terminal.printing import print_table, report
from hf_sgpe.terminal.progress import is_quiet

_CURVE = "extension"
_UNITS = {
    "word": "Words of {} in this text",
    "character": "Characters of {} in this text",
    "piece": "Pieces into which the split cuts words of {}",
}


@dataclass(frozen=True, kw_only=True)
class ExtendOptions:
    """The tokenizer, the scripts to add, and the output folder."""

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
    evaluate: list[str] = option_list(
        "Held-out text for a plot of tokens per word by the number of new tokens: FILE with the language in its "
        "name, such as ntrex_si.txt, or NAME=FILE with a language code as NAME, such as si (repeatable).",
        "--eval",
        after="replace_script",
    )
    counts: list[Path] = option_list(
        "File of word counts from hf-sgpe count. Tokens are learned from these counts instead of text (repeatable).",
        after="workers",
    )


@command(epilog="Example: hf-sgpe extend Qwen/Qwen3-0.6B-Base si.txt.xz --script si --new-tokens 16000 --out qwen-si")
def extend(given: ExtendOptions, settings: Given[ExtensionConfig], text: CorpusOptions, as_json: Json = False) -> None:
    """Add tokens for a language to the tokenizer of an existing model. Old tokens keep their ids, and text in other scripts
    is still encoded to the same ids.

    The result is a folder that plain AutoTokenizer loads. Before the model can use the new tokens, it needs embedding rows
    for them: see hf-sgpe transplant.
    """
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.evaluation.runtimes import warn_of_class
    from hf_sgpe.files.atomic import atomic_directory
    from hf_sgpe.files.overwriting import check_new_folder
    from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
    from trainers import TokenizerExtender
    from trainers.tokenizers.recipes import choose_split, find_scripts, where_it_runs
    from trainers.tokenizers.tokenizer_extender import cost_of, extended_folder

    if not text.corpus and not given.counts and not text.dataset:
        raise SGPEError("nothing to learn from: name files of text, or use --dataset or --counts")
    settings["new_tokens"] = parse_new_tokens(settings["new_tokens"])
    if text.corpus and given.counts:
        raise SGPEError(
            "text and --counts cannot be combined: count the text with hf-sgpe count, and add its counts with --counts"
        )
    texts = {}
    if given.evaluate:
        from hf_sgpe.evaluation.comparison import texts_of

        texts = texts_of(given.evaluate, text_field=text.text_field)
    folder = TokenizerFolder.read(given.base)
    out, base = Path(given.out), Path(given.base).resolve()
    if (out / "tokenizer.json").exists() and out.resolve() in (base, base.parent):
        raise SGPEError(f"--out {given.out} is the tokenizer to extend: name another folder")
    check_new_folder(out, overwrite=given.overwrite, names=[f"{_CURVE}.json", f"{_CURVE}.svg"] if texts else [])
    folder.check_target(given.out)
    warn_of_class(given.base, folder.data)
    corpus = text.read(given.counts, settings.pop("weights", ()))
    warn_of_zawgyi(corpus, *texts.values())
    script_settings = find_scripts(corpus, given.script, "hybrid", for_extension=True)
    removed, instead = 0, ""
    replaced: list[str] = []
    if given.replace_script:
        before = folder.data.vocab_size
        folder, trimming = folder.trimmed(given.replace_script)
        if both := set(trimming.scripts).intersection(script_settings["scripts"]):
            raise SGPEError(f"--replace-script and --script both name {min(both)}: name this script in only one of them")
        removed, settings["reuse_ids"] = before - folder.data.vocab_size, True
        replaced = list(trimming.scripts)
        instead = f" without {removed:,} tokens of {names_of(replaced)}"
    config = choose_split(folder.data, ExtensionConfig(**settings, **script_settings, weights=corpus.weights), given.runs_in)
    extender = TokenizerExtender(config, workers=text.workers)
    with atomic_directory(given.out) as temporary:
        extension = extender.learn(folder, extender.count(folder, files=corpus))
        runs = where_it_runs(extension, config, given.runs_in, corpus.beginning())
        extended = extended_folder(folder, extension)
        extended.check_target(given.out)  # it may have no tokenizer.model
        extended.write(temporary)
        cost = cost_of(extension, config.scripts, corpus.beginning())
        if texts:
            from hub_cards.pictures.extension_curve import extension_curve

            curve = extension_curve(extension, texts)
            (temporary / f"{_CURVE}.json").write_text(json.dumps(curve.to_dict(), indent=1) + "\n", newline="\n")
            (temporary / f"{_CURVE}.svg").write_text(curve.draw(), encoding="utf-8", newline="\n")
    data, scripts = extension.tokenizer, names_of(config.scripts)
    is_own = data.splitting.regexes != folder.data.splitting.regexes
    facts: dict[str, Any] = {
        "out": given.out,
        "base": given.base,
        "tokens": data.vocab_size,
        "new_tokens": extension.new_tokens,
        "removed_tokens": removed,
        "unit_tokens": extension.unit_tokens,
        "highest_id": max(*data.vocab.values(), *data.byte_tokens),
        "scripts": list(config.scripts),
        "own_split": is_own,
        "where_it_runs": runs,
        f"tokens_per_{cost.unit}": {"before": cost.before, "after": cost.after},
    }
    if is_own:
        split = "A new split, put before the old one, keeps these words whole"
    elif cut := cut_scripts(data.splitting, config.scripts):
        split = f"The split is unchanged and cuts words of {names_of(cut)}"
        split += "" if given.runs_in else ": --own-split keeps them whole"
    else:
        split = "The split is unchanged and keeps these words whole"
    reserved = len(folder.data.added_ids) - len(data.added_ids)
    names = f", except the names of {reserved:,} reserved tokens" if reserved else ""
    report(
        f"{given.out}: {extension.new_tokens:,} tokens more than {given.base}{instead}, {extension.unit_tokens:,} of them "
        f"for letters and syllables of {scripts}. {_UNITS[cost.unit].format(scripts)} take {cost.after:.2f} tokens on "
        f"average instead of {cost.before:.2f}. {split}. Text without a character of "
        f"{names_of([*config.scripts, *replaced])} keeps its ids{names}.\n"
        f"{runs}",
        facts | ({"curve": curve.to_dict()} if texts else {}),
        as_json,
    )
    if texts and not as_json and not is_quiet():
        _print_curve(curve)


def _print_curve(curve: Any) -> None:
    words, characters = curve.tokens_per_word, curve.tokens_per_character
    titles = [*(f"{code} tokens/word" for code in words), *(f"{code} tokens/character" for code in characters)]
    columns = [*words.values(), *characters.values()]
    rows = ((f"{size:,}", *(f"{column[place]:.3f}" for column in columns)) for place, size in enumerate(curve.sizes))
    print_table(["new tokens", *titles], rows, texts=0)
