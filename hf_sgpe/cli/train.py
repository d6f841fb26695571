"""``train``: train a tokenizer on text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import PATTERN_HELP, RECIPES_HELP, WEIGHT, CorpusOptions, runs_in_option, script_option
from hf_sgpe.cli.model_options import read_chat_template
from hf_sgpe.cli.tokenizer_options import overwrite_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.extension.extension_config import cut_scripts
from hf_sgpe.learning.training_config import TrainingConfig
from hf_sgpe.splitting.scripts.script_registry import names_of
from hf_sgpe.splitting.splitting import RECIPES, Splitting
from hf_sgpe.terminal.options import SEVERAL, Given, option, option_list, options_of
from hf_sgpe.terminal.printing import report

if TYPE_CHECKING:
    from trainers import Balanced
    from trainers.training import Trained


@dataclass(frozen=True, kw_only=True)
class _TrainOptions:
    out: str = option("Folder to write the tokenizer to.", ..., "-o")
    overwrite: bool = overwrite_option()
    recipe: str = option(
        f"How text is cut into words. {RECIPES_HELP}; auto: portable if llama.cpp can produce the same ids, and if "
        "portable costs at most 0.5 % more tokens and 0.1 % more cut syllables; otherwise hybrid.",
        "auto",
        choices=("auto", *RECIPES),
        after="vocab_size",
    )
    script: list[str] = script_option(after="recipe")
    pattern: str | None = option(
        f"{PATTERN_HELP} (default: o200k; or, with --runs-in, the pattern of the runtimes that costs least).",
        after="script",
    )
    runs_in: list[str] = runs_in_option(after="pattern")
    counts: list[Path] = option_list(
        "File of word counts from hf-sgpe count. Training uses these counts in addition to any text (repeatable).",
        after="workers",
    )


@dataclass(frozen=True, kw_only=True)
class _BalanceOptions:
    balance: list[str] = option_list(
        "Held-out text of each language, ideally translations of the same text. Training chooses weights such that "
        "all languages need similar numbers of tokens. The option takes all names up to the next option.",
        metavar=SEVERAL,
    )
    balance_price: float | None = option(
        "Largest increase in the number of tokens that --balance may cause, as a share (default: 0.005, which is 0.5 %)."
    )
    balance_parity: float | None = option(
        "Instead of --balance-price: the largest allowed ratio between the token counts of two languages. Training "
        "reaches this ratio with as few tokens as possible."
    )
    balance_by: str | None = option(
        "How to balance languages: by the weights of the files (weights), or by choosing merges with Parity-aware "
        "BPE (merges) (default: weights)."
    )

    def check(self, dataset: list[str]) -> None:
        for name in ("price", "parity", "by"):
            if getattr(self, f"balance_{name}") is not None and not self.balance:
                raise SGPEError(f"--balance-{name} needs --balance with held-out text of each language")
        if self.balance and dataset:
            raise SGPEError(
                "--balance takes files of text or of counts, not a dataset: count the dataset with hf-sgpe count "
                "--dataset, and give the result with --counts"
            )


_TRAINING = options_of(
    TrainingConfig,
    "vocab_size min_frequency cut_cost letter_coverage syllable_coverage min_unit_frequency tie_break normalization "
    "special_tokens special_tokens_position chat_template bos_token eos_token pad_token add_bos_token add_eos_token "
    "model_max_length weights",
    vocab_size={"default": 32_000},
    special_tokens={
        "help": "Special token (repeatable; default: <|endoftext|>, or for sgpe [PAD], [UNK], [CLS], [SEP] and [MASK]).",
        "names": ("--special-token",),
        "type": list[str],
    },
    chat_template={
        "help": "Chat template to save: llama3, chatml, alpaca or a .jinja file. The special tokens of llama3, chatml or "
        "alpaca are added."
    },
    weights=WEIGHT,
)


@command(epilog="Example: hf-sgpe train corpora/si.txt.xz corpora/en.jsonl --out my-tokenizer --vocab-size 32000")
def train(
    given: _TrainOptions,
    settings: Annotated[Given, _TRAINING],
    balance: _BalanceOptions,
    text: CorpusOptions,
    as_json: Json = False,
) -> None:
    """Train a tokenizer on text and save it as a folder that plain AutoTokenizer loads."""
    from trainers.training import train as work

    if not text.corpus and not given.counts and not text.dataset:
        hint = "; --balance takes all names up to the next option, so name the text first" if balance.balance else ""
        raise SGPEError(f"nothing to train on: name files of text, or use --dataset or --counts{hint}")
    balance.check(text.dataset)
    if template := settings.get("chat_template"):
        settings["chat_template"] = read_chat_template(template)
    corpus = text.read(given.counts, settings.pop("weights", ()))
    choices = {name: getattr(given, name) for name in ("recipe", "script", "pattern", "runs_in", "overwrite")}
    result = work(corpus, given.out, **choices, **asdict(balance), workers=text.workers, **settings)
    report("\n".join(_lines(given.out, result)), _facts(given.out, result), as_json)


def _lines(out: str, result: Trained) -> Iterator[str]:
    config, words = result.config, result.words
    whole, scripts = "", config.unit_scripts
    if scripts:
        whole = f"; syllables of {names_of(scripts)} stay whole (recipe {config.recipe})"
    if config.recipe == "portable" and (cut := cut_scripts(Splitting("bpe", pattern=config.pattern), scripts)):
        whole += f" but where pattern {config.pattern} cuts words of {names_of(cut)}: hf-sgpe evaluate counts how often"
    learned = f"learned from {words.total():,.0f} words ({len(words):,} distinct)"
    yield f"{out}: {result.tokenizer.vocab_size:,} tokens, {learned}{whole}"
    if result.choice:
        yield str(result.choice)
    if result.balanced:
        yield from _balance_lines(result.balanced)


def _facts(out: str, result: Trained) -> dict[str, Any]:
    return {
        "out": out,
        "recipe": result.config.recipe,
        "pattern": result.config.pattern,
        "tokens": result.tokenizer.vocab_size,
        "words": result.words.total(),
        "distinct_words": len(result.words),
        "scripts": list(result.config.unit_scripts),
        "where_it_runs": str(result.choice) if result.choice else None,
        **(_balance_facts(result.balanced) if result.balanced else {}),
    }


def _balance_facts(balanced: Balanced) -> dict[str, Any]:
    before, after = balanced.trials[0], balanced.best
    texts = {
        text: {"corpora": corpora, "tokens_before": before.tokens[text], "tokens": after.tokens[text]}
        for text, corpora in balanced.languages.items()
    }
    return {"balance": balanced.tokenizer.metadata["balance"], "texts": texts, "weights": after.weights}


def _balance_lines(balanced: Balanced) -> Iterator[str]:
    before, after = balanced.trials[0], balanced.best
    yield (
        f"balanced: {after.total / before.total - 1:+.2%} tokens; Gini {before.gini:.4f} → {after.gini:.4f}; "
        f"the dearest text takes {before.parity:.2f} → {after.parity:.2f} times the cheapest"
    )
    for text, corpora in balanced.languages.items():
        yield f"  {text}: {before.tokens[text]:,} → {after.tokens[text]:,} tokens (for {', '.join(corpora)})"
    if after.weights != before.weights:
        yield "the same result without balancing: " + " ".join(
            f"--weight {quote(f'{name}={weight:g}')}" for name, weight in after.weights.items() if weight != 1
        )
