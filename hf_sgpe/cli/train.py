"""Training tokenizers: ``train`` and ``train-sgpe``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_sgpe.cli import shared_options
from hf_sgpe.cli.application import SEVERAL, Json, Quiet, command, read_chat_template, report
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.unit_choice import CUT_COST
from hf_sgpe.splitting.scripts.script_registry import names_of
from hf_sgpe.splitting.splitting import Splitting

if TYPE_CHECKING:
    from trainers import Balanced


@command(epilog="Example: hf-sgpe train corpora/si.txt.xz corpora/en.jsonl --out my-tokenizer --vocab-size 32000")
def train(
    corpus: shared_options.Corpus = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write the tokenizer to.", show_default=False)],
    overwrite: shared_options.Overwrite = False,
    vocab_size: Annotated[
        int, typer.Option(help="Number of tokens, special tokens included (of sgpe: the document's).")
    ] = 32_000,
    recipe: shared_options.RecipeOrAuto = "auto",
    script: shared_options.Script = None,
    pattern: shared_options.PatternOrAuto = None,
    runs_in: shared_options.RunsIn = None,
    min_frequency: Annotated[int, typer.Option(help="Never merge a pair that occurs less often.")] = 2,
    cut_cost: Annotated[
        float | None,
        typer.Option(
            help="How many tokens a cut letter or syllable counts as: more gives fewer cuts and longer text "
            f"(default: {CUT_COST:g}; extend has its own scale).",
            show_default=False,
        ),
    ] = None,
    letter_coverage: Annotated[
        float | None,
        typer.Option(
            help="Share of running letters that get a token, whatever it costs. Without --cut-cost it decides alone.",
            show_default=False,
        ),
    ] = None,
    syllable_coverage: Annotated[
        float | None,
        typer.Option(
            help="Share of running syllables that get a token, whatever it costs. Without --cut-cost it decides alone.",
            show_default=False,
        ),
    ] = None,
    min_unit_frequency: Annotated[
        int | None, typer.Option(help="In place of both: letters and syllables that occur this often.", show_default=False)
    ] = None,
    tie_break: Annotated[
        str, typer.Option(help="smallest-pair-id, greatest-pair-bytes or greatest-pair-id.")
    ] = "smallest-pair-id",
    normalization: shared_options.Normalization = None,
    special_token: shared_options.SpecialToken = None,
    special_tokens_position: Annotated[
        str | None, typer.Option(help="end, start or after-bytes (default: end, or start for sgpe).", show_default=False)
    ] = None,
    chat_template: shared_options.ChatTemplate = None,
    bos_token: Annotated[str | None, typer.Option(help="Special token that begins texts.", show_default=False)] = None,
    eos_token: Annotated[
        str | None,
        typer.Option(help="Special token that ends texts, or turns (default: the chat template's).", show_default=False),
    ] = None,
    pad_token: Annotated[
        str | None,
        typer.Option(help="Special token that fills rows up (default: the one that ends texts).", show_default=False),
    ] = None,
    add_bos_token: Annotated[
        bool,
        typer.Option(
            "--add-bos-token", help="Put the token that begins texts before each text, when special tokens are added."
        ),
    ] = False,
    add_eos_token: Annotated[
        bool,
        typer.Option(
            "--add-eos-token", help="Put the token that ends texts after each text, when special tokens are added."
        ),
    ] = False,
    model_max_length: Annotated[
        int | None, typer.Option(help="Tokens that a model takes (default: any number).", show_default=False)
    ] = None,
    weight: shared_options.Weight = None,
    balance: Annotated[
        list[str] | None,
        typer.Option(
            help="Held-out text of each language, best translations of each other: finds weights that are fair to all. "
            "Takes all names up to the next option.",
            metavar=SEVERAL,
            show_default=False,
        ),
    ] = None,
    balance_price: Annotated[
        float | None,
        typer.Option(help="Share of more tokens that fairness may cost (default: 0.005).", show_default=False),
    ] = None,
    balance_parity: Annotated[
        float | None,
        typer.Option(
            help="In place of a price: the fewest tokens with which no language costs more than so many times another.",
            show_default=False,
        ),
    ] = None,
    balance_by: Annotated[
        str | None, typer.Option(help="weights, or merges: Parity-aware BPE (default: weights).", show_default=False)
    ] = None,
    text_field: shared_options.TextField = "text",
    dataset: shared_options.Dataset = None,
    split: shared_options.Split = None,
    streaming: shared_options.Streaming = False,
    workers: shared_options.Workers = None,
    counts: Annotated[
        list[Path] | None,
        typer.Option(
            help="Train on words counted before by hf-sgpe count (repeatable; added up), besides any text.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a tokenizer on text and save it as a folder that plain AutoTokenizer loads."""
    from hf_sgpe.cli.corpus_arguments import corpus_of
    from hf_sgpe.corpora.zawgyi_files import warn_of_zawgyi
    from hf_sgpe.files.atomic import atomic_directory
    from hf_sgpe.files.overwriting import check_new_folder
    from hf_sgpe.formats.tokenizer_json import check_folder, write
    from hf_sgpe.learning.extension.extension_config import cut_scripts
    from trainers import Corpus, TokenizerTrainer, TrainingConfig
    from trainers.tokenizers.balancing import balance_corpus
    from trainers.tokenizers.recipes import find_recipe

    if not corpus and not counts and not dataset:
        hint = "; --balance takes all names up to the next option, so name the text first" if balance else ""
        raise SGPEError(f"nothing to train on: give text, a dataset, or words counted before by --counts{hint}")
    for option, value in {"price": balance_price, "parity": balance_parity, "by": balance_by}.items():
        if value is not None and not balance:
            raise SGPEError(f"--balance-{option} is for --balance: name held-out text of each language there")
    if balance and dataset:
        raise SGPEError("--balance is for files of text and of counts: count a dataset first, by hf-sgpe count --dataset")
    # A folder that cannot be written should be refused before an hour of training, not after.
    check_new_folder(out, overwrite=overwrite)
    check_folder(out, with_chat_template=chat_template is not None)
    text = corpus_of(corpus, dataset, split, streaming, text_field, counts=counts, weight=weight)
    held_out = Corpus.of(balance or (), text_field=text_field)
    warn_of_zawgyi(text, held_out)
    how, choice = find_recipe(
        text, recipe, script or (), pattern=pattern, normalization=normalization, runs_in=runs_in or ()
    )
    config = TrainingConfig(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        cut_cost=cut_cost,
        letter_coverage=letter_coverage,
        syllable_coverage=syllable_coverage,
        min_unit_frequency=min_unit_frequency,
        special_tokens=special_token,
        tie_break=tie_break,
        normalization=normalization,
        special_tokens_position=special_tokens_position,
        chat_template=chat_template and read_chat_template(chat_template),
        bos_token=bos_token,
        eos_token=eos_token,
        pad_token=pad_token,
        add_bos_token=add_bos_token,
        add_eos_token=add_eos_token,
        model_max_length=model_max_length,
        weights=text.weights,
        **how,
    )
    trainer = TokenizerTrainer(config, workers=workers)
    found = None
    with atomic_directory(out) as folder:
        if balance:
            found = balance_corpus(
                text, held_out, config, by=balance_by, price=balance_price, parity=balance_parity, workers=workers
            )
            words, tokenizer = found.words, found.tokenizer
        else:
            words = trainer.count(files=text)
            if not len(words):
                named = [*(corpus or ()), *map(str, counts or ()), *(dataset or ())]
                raise SGPEError(f"{', '.join(named)}: no words to learn from")
            tokenizer = trainer.learn(words)
        write(tokenizer.data, folder)
    scripts = list(config.unit_scripts)
    whole = f"; syllables of {names_of(scripts)} stay whole (recipe {config.recipe})" if scripts else ""
    if config.recipe == "portable" and (cut := cut_scripts(Splitting("bpe", pattern=config.pattern), scripts)):
        whole += f" but where pattern {config.pattern} cuts words of {names_of(cut)}: hf-sgpe evaluate counts how often"
    sentence = (
        f"{out}: {tokenizer.vocab_size:,} tokens, learned from {words.total():,.0f} words ({len(words):,} distinct){whole}"
    )
    report(
        "\n".join([sentence, *([str(choice)] if choice else []), *(_what_balance_did(found) if found else ())]),
        {
            "out": out,
            "recipe": config.recipe,
            "pattern": config.pattern,
            "tokens": tokenizer.vocab_size,
            "words": words.total(),
            "distinct_words": len(words),
            "scripts": scripts,
            "where_it_runs": str(choice) if choice else None,
            **(_facts_of_balance(found) if found else {}),
        },
        as_json,
    )


def _facts_of_balance(found: Balanced) -> dict[str, Any]:
    before, after = found.trials[0], found.best
    texts = {
        text: {"corpora": corpora, "tokens_before": before.tokens[text], "tokens": after.tokens[text]}
        for text, corpora in found.languages.items()
    }
    return {"balance": found.tokenizer.metadata["balance"], "texts": texts, "weights": after.weights}


def _what_balance_did(found: Balanced) -> Iterator[str]:
    before, after = found.trials[0], found.best
    yield (
        f"balanced: {after.total / before.total - 1:+.2%} tokens; Gini {before.gini:.4f} → {after.gini:.4f}; "
        f"the dearest text takes {before.parity:.2f} → {after.parity:.2f} times the cheapest"
    )
    for text, corpora in found.languages.items():
        yield f"  {text}: {before.tokens[text]:,} → {after.tokens[text]:,} tokens (for {', '.join(corpora)})"
    if after.weights != before.weights:
        yield "the same without balancing: " + " ".join(
            f"--weight {quote(f'{name}={weight:g}')}" for name, weight in after.weights.items() if weight != 1
        )


@command(
    "train-sgpe",
    epilog="Example: hf-sgpe train-sgpe corpus.jsonl --out sgpe --vocab-size 32000 --prune-freq 20",
)
def train_sgpe(
    corpus: Annotated[list[str], typer.Argument(help="As for train; the document's are .jsonl.", show_default=False)],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write to.", show_default=False)],
    overwrite: shared_options.Overwrite = False,
    vocab_size: Annotated[int, typer.Option(help="Number of tokens to aim for, special tokens included.")] = 100_000,
    prune_freq: Annotated[int, typer.Option(help="Syllables that occur less often become [UNK].")] = 100,
    min_freq: Annotated[int, typer.Option(help="Never merge a pair that occurs less often.")] = 2,
    checkpoint_every: Annotated[int, typer.Option(help="Merges between checkpoints.")] = 20_000,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in --out, if there is one.")
    ] = False,
    script: Annotated[
        list[str] | None,
        typer.Option(help="As for train (default: sinhala, the document's).", show_default=False),
    ] = None,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    workers: Annotated[int | None, typer.Option(help="As for train.", show_default=False)] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log the first ten merges and every thousandth.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train as the SGPE document does: vocab.json, checkpoints, and a lossless tokenizer.json of the same tokens."""
    from hf_sgpe.files.overwriting import check_new_folder
    from trainers import SGPETrainer
    from trainers.tokenizers.sgpe_trainer import checkpoints

    if verbose:
        logging.getLogger("trainers").setLevel(logging.INFO)
    if not checkpoints(Path(out)):  # the trainer resumes from those, or refuses to begin another run beside them
        check_new_folder(out, overwrite=overwrite)
    trainer = SGPETrainer(
        vocab_size=vocab_size,
        prune_freq=prune_freq,
        min_freq=min_freq,
        checkpoint_every=checkpoint_every,
        scripts=tuple(script or ("sinhala",)),
        workers=workers,
    )
    vocabulary = trainer.train(corpus, out, text_field=text_field, resume=resume)
    tokens, merges = len(vocabulary.vocab), len(vocabulary.merges)
    lossless = vocabulary.to_data().vocab_size
    report(
        f"{out}: {tokens:,} tokens, {merges:,} merges\n"
        f"tokenizer.json has {lossless - tokens:,} more, to spell what vocab.json cannot",
        {"out": out, "tokens": tokens, "merges": merges, "tokens_in_tokenizer_json": lossless},
        as_json,
    )
