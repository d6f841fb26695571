"""Choice of a split with which other programs return the same ids as this package. A split cuts text into the words inside
which merges apply. The other programs, such as llama.cpp, are called runtimes. For a new tokenizer, the module chooses a
recipe and a split pattern; for an extended tokenizer, it chooses only whether there is a new split.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hf_sgpe.corpora.corpus import Corpus
from hf_sgpe.counts.count_files import read_info
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError, no_words
from hf_sgpe.evaluation.runtimes import LLAMA_CPP, RUNTIMES, find_runtimes, inexact, portable_patterns
from hf_sgpe.learning.extension.extending import Extension
from hf_sgpe.learning.extension.extension_config import ExtensionConfig, keeps_words
from hf_sgpe.learning.portable_cost import SplitCost, cost_of_one_split, more_tokens
from hf_sgpe.splitting.normalization import NFC
from hf_sgpe.splitting.patterns import resolve_pattern
from hf_sgpe.splitting.scripts.script import Script
from hf_sgpe.splitting.scripts.script_registry import names_of, resolve_script, resolve_scripts, scripts_in
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.terminal.progress import somebody_watches
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

PATTERN = "o200k"
"""The default split pattern of a new tokenizer."""

_FEW_PIECES = 1.005


@dataclass(frozen=True)
class RecipeChoice:
    """A recipe with its split pattern, and the reason for the choice.

    Attributes:
        recipe: ``portable`` or ``hybrid``.
        pattern: Name of the split pattern, or a regular expression.
        runtimes: The named runtimes, or llama.cpp if no runtimes are named.
        is_exact: Whether all ``runtimes`` return the same ids as this package.
        nfc_only: Whether ``is_exact`` is true only for text in NFC, because the tokenizer normalizes to NFC and the runtimes
            do not.
        portable: The pattern with which the recipe ``portable`` costs least, and the estimated cost in comparison with
            ``hybrid``. None if the cost was not estimated.
        instead: If ``is_exact`` is false, advice on how to get an exact tokenizer.
    """

    recipe: str
    pattern: str
    runtimes: tuple[str, ...]
    is_exact: bool
    portable: tuple[str, SplitCost] | None = None
    instead: str = ""
    nfc_only: bool = False

    def __str__(self) -> str:
        names = ", ".join(self.runtimes)
        recipe = _recipe(self.recipe, self.pattern)
        if self.is_exact:
            price = f"; compared with recipe hybrid an estimated {self.portable[1]}" if self.portable else ""
            form = ", for text in NFC only" if self.nfc_only else ""
            return f"{recipe}: the same ids in {names}{form}{price}"
        recipe = f"{recipe}: {names} itself does not produce the same ids, so use hf-sgpe serve"
        if self.portable is None:
            return f"{recipe}, or {self.instead}"
        pattern, cost = self.portable
        return f"{recipe}; --runs-in {names} selects recipe portable with pattern {pattern}, with an estimated {cost}"


def choose_recipe(
    texts: Iterable[str],
    scripts: Iterable[str],
    *,
    pattern: str | None = None,
    normalization: str | None = None,
    runs_in: Iterable[str] = (),
) -> RecipeChoice:
    """Choose a recipe and a split pattern for a sample of text. If runtimes are named, all of them return the same ids as
    this package, even if texts then need many more tokens.

    Without named runtimes, the pattern is `PATTERN` or the given pattern. The recipe is ``portable`` if llama.cpp then
    returns the same ids and the cost on ``texts`` is small (`SplitCost.is_small`); otherwise, it is ``hybrid``. Other
    patterns that keep the scripts' words whole, such as BLOOM's, do not cut numbers, quotes and brackets in the usual way.
    They are chosen only for a named runtime.

    Args:
        texts: A sample of the text, such as `Corpus.beginning`.
        scripts: The scripts whose syllables stay whole.
        pattern: The only pattern to try. None tries `PATTERN` and, for a named runtime, all patterns that it knows.
        normalization: None for the recipe's default. With ``nfc``, runtimes have to return the same ids only for text in
            NFC.

    >>> choice = choose_recipe(["ශ්‍රී ලංකාව"], ["sinhala"], runs_in=["llama.cpp"])
    >>> choice.recipe, choice.pattern
    ('portable', 'bloom')
    """
    asked = find_runtimes(runs_in)
    runtimes = asked or (LLAMA_CPP,)
    scripts, first = resolve_scripts(scripts), pattern or PATTERN
    tables = list(map(resolve_script, scripts))

    def is_exact(recipe: str, pattern: str) -> bool:
        return not inexact(Splitting(recipe, scripts, pattern, normalization), runtimes, nfc=normalization == "nfc")

    by_regex: dict[str, str] = {}
    for name in [first] if pattern else [first, *portable_patterns(runtimes)]:
        by_regex.setdefault(resolve_pattern(name), name)
    patterns = [name for name in by_regex.values() if is_exact("portable", name)]
    has_words = any(script.own_words for script in tables)  # otherwise, hybrid would split text as portable does

    def portable(pattern: str, cost: tuple[str, SplitCost] | None = None) -> RecipeChoice:
        nfc_only = bool(inexact(Splitting("portable", scripts, pattern, normalization), runtimes))
        return RecipeChoice("portable", pattern, runtimes, is_exact=True, portable=cost, nfc_only=nfc_only)

    if not has_words and patterns:
        return portable(patterns[0])
    is_hybrid_exact = has_words and is_exact("hybrid", first)
    if asked and not patterns and not is_hybrid_exact:
        raise _contradiction(f"pattern {first}", runtimes)
    if not patterns or is_hybrid_exact:
        recipe = "hybrid" if has_words else "portable"
        return RecipeChoice(recipe, first, runtimes, is_exact=is_hybrid_exact, instead="leave --pattern out")

    if not asked:
        patterns = [name for name in patterns if name == first or _keeps_all(name, tables)]
    costs = _costs_of(patterns, first, list(texts), scripts, normalization)
    best = min(costs, key=lambda name: costs[name].size)
    if asked or (first in costs and costs[first].is_small):
        return portable(best, (best, costs[best]))
    return RecipeChoice("hybrid", first, runtimes, is_exact=False, portable=(best, costs[best]))


def _costs_of(
    patterns: Iterable[str], first: str, texts: list[str], scripts: tuple[str, ...], normalization: str | None
) -> dict[str, SplitCost]:
    """Return the costs of patterns in comparison with ``hybrid`` and the pattern ``first``. If the cost of ``first`` is
    small, the patterns after it are left out.
    """
    hybrid = Splitting("hybrid", scripts, first, normalization)
    counts = WordCounts.from_texts(texts, replace(hybrid, normalization=normalization or "none"))
    costs: dict[str, SplitCost] = {}
    for name in patterns:
        costs[name] = cost_of_one_split(counts, name)
        if costs[name].is_small and name == first:
            break
        if costs[name].is_small:
            costs[name] = costs[name]._replace(tokens=more_tokens(texts, name, hybrid))
    return costs


def _check_recipe(
    splitting: Splitting, recipe: str, runs_in: Iterable[str], *, nfc: bool = False, counted: str = ""
) -> RecipeChoice:
    """Check that the named runtimes return the same ids for a recipe as this package, and return it as a `RecipeChoice`.

    Args:
        nfc: Whether the ids have to be the same only for text in NFC.
        counted: The file of word counts that prescribes the recipe, for the error message.
    """
    runtimes = find_runtimes(runs_in)
    if inexact(splitting, runtimes, nfc=nfc):
        what = _recipe(recipe, splitting.pattern)
        if counted:
            raise _contradiction(f"{counted}: its {what}", runtimes, "count the words again with")
        raise _contradiction(what, runtimes)
    nfc_only = bool(inexact(splitting, runtimes))
    return RecipeChoice(recipe, str(splitting.pattern), runtimes, is_exact=True, nfc_only=nfc_only)


def _recipe(name: str, pattern: str | tuple[str, ...]) -> str:
    return f"recipe {name} with pattern {pattern}" if pattern else f"recipe {name}"


def _contradiction(what: str, runtimes: Iterable[str], do: str = "leave --recipe and --pattern out, or give") -> SGPEError:
    return SGPEError(
        f"{what} gives other ids in {', '.join(runtimes)} than in this package: {do} --recipe "
        f"portable with --pattern one of {', '.join(portable_patterns(runtimes))}"
    )


# ---------------------------------------------------------------- corpora


def find_recipe(
    corpus: Corpus,
    recipe: str,
    scripts: Iterable[str],
    *,
    pattern: str | None = None,
    normalization: str | None = None,
    runs_in: Sequence[str] = (),
) -> tuple[dict[str, Any], RecipeChoice | None]:
    """Return the recipe, the split pattern and the scripts for a corpus as arguments for a configuration, with what was
    chosen in place of ``auto``. Also return the choice, if a recipe had to be chosen or checked.
    """
    choice: RecipeChoice | None = None
    first, counted = pattern or PATTERN, next(iter(corpus.counts), None)
    if recipe == "auto" and counted:
        recipe = read_info(counted).splitting.recipe
        if recipe == "bpe":
            raise SGPEError(
                f"{counted}: these words can be used with two recipes: choose one with --recipe portable or --recipe bpe"
            )
        if recipe == "hybrid":
            do = "count the words with --recipe portable"
            choice = RecipeChoice(recipe, first, (LLAMA_CPP,), is_exact=False, instead=do)
    found = find_scripts(corpus, scripts, "hybrid" if recipe == "auto" else recipe)
    if recipe == "auto" and found:
        sample = corpus.beginning()
        choice = choose_recipe(sample, found["scripts"], pattern=pattern, normalization=normalization, runs_in=runs_in)
        recipe, first = choice.recipe, choice.pattern
    elif recipe == "auto":
        recipe = "hybrid"  # the trainer reports that there is no text
    elif runs_in:
        splitting = Splitting(recipe, pattern=first, normalization=normalization, **found)
        choice = _check_recipe(splitting, recipe, runs_in, nfc=normalization == "nfc", counted=str(counted or ""))
    return {"recipe": recipe, "pattern": first, **found}, choice


def find_scripts(
    corpus: Corpus, scripts: Iterable[str] | str, recipe: str, *, for_extension: bool = False
) -> dict[str, Any]:
    """Return the scripts of a corpus as arguments for a configuration: a dict with the key ``scripts``. If the recipe needs
    no scripts (``bpe``) or there is no text, the dict is empty; for an extension, this is an error.

    If ``scripts`` is empty or contains ``auto``, scripts are taken from the first file of word counts, or found at the
    beginning of the corpus. An item can also be several names separated by commas.
    """
    scripts = (scripts,) if isinstance(scripts, str) else scripts
    given = [name for text in scripts for name in text.split(",")]
    named = [name for name in given if name.strip().casefold() != "auto"]
    if recipe == "bpe" and named:
        raise SGPEError("with recipe bpe, no syllables stay whole: leave --script out, or choose another recipe")
    if recipe == "bpe":
        return {}
    if given and named == given:
        return {"scripts": named}
    resolve_scripts(named)  # checked before the corpus is read
    if corpus.counts and recipe != "portable":
        # Counts without scripts have another recipe; the code that reads the counts reports this.
        counted = read_info(corpus.counts[0]).splitting.scripts
        if for_extension and not counted:
            raise SGPEError(f"{corpus.counts[0]}: the words were counted without scripts: name the scripts with --script")
        return {"scripts": (*counted, *named)} if counted else {}

    def beginning() -> Iterable[str]:
        if corpus.counts:
            return (word.decode() for word in WordCounts.load(corpus.counts[0]).words())
        return corpus.beginning()

    source = [*corpus.files, *corpus.counts, "the dataset" if corpus.streams else "the corpus"][0]
    shares = scripts_in(beginning())
    if not shares:
        if not any(map(str.strip, beginning())):
            if for_extension:
                raise no_words("learn from", str(source))
            return {}  # the trainer reports that there is no text
        seen = ", ".join(scripts_in(beginning(), any_script=True))
        remedy = "if the corpus has other scripts, name them with --script, or give --recipe bpe"
        if for_extension:
            remedy = f"name the script to add, such as --script {seen.partition(',')[0] or 'sinhala'}"
        raise SGPEError(
            f"{source} begins with text in {seen or 'no script'}, which has no syllables or marked letters that could be "
            f"kept whole: {remedy}"
        )
    if somebody_watches():
        written = ", ".join(f"{name} ({share:.0%} of the letters)" for name, share in shares.items())
        print(f"The text is written in {written}. To choose other scripts, use --script.", file=sys.stderr)
    return {"scripts": (*shares, *named)}


# ---------------------------------------------------------------- extensions


def choose_split(base: TokenizerData, config: ExtensionConfig, runs_in: Iterable[str]) -> ExtensionConfig:
    """Return a configuration with which the named runtimes return the same ids for an extended tokenizer as this package:
    without a new split before the tokenizer's own, if a runtime does not support this.

    If the tokenizer normalizes to NFC, the ids have to be the same only for text in NFC.
    """
    runtimes, nfc = find_runtimes(runs_in), base.normalization == NFC
    splitting = config.splitting_for(base)
    if splitting != base.splitting and not inexact(splitting, runtimes, nfc=nfc):
        return config
    if unfit := inexact(base, runtimes, nfc=nfc):
        raise SGPEError(
            f"the tokenizer gives other ids in {', '.join(unfit)} than in this package: {_instead(config, unfit)}"
        )
    if splitting != base.splitting and config.own_split:
        raise SGPEError(
            f"a tokenizer with a new split before its own gives other ids in {', '.join(runtimes)} than in this package: "
            "leave --own-split out"
        )
    return replace(config, own_split=False) if splitting != base.splitting else config


def where_it_runs(extension: Extension, config: ExtensionConfig, runs_in: Iterable[str], texts: Iterable[str]) -> str:
    """Return sentences that say whether the named runtimes, or llama.cpp, return the same ids for an extended tokenizer as
    this package, and what this costs or how it can be achieved. ``texts`` are read only if there can be a cost.
    """
    asked = find_runtimes(runs_in)
    runtimes, base, data = asked or (LLAMA_CPP,), extension.base, extension.tokenizer
    nfc, names = base.normalization == NFC, ", ".join(runtimes)
    is_old_split = data.splitting == base.splitting

    def cost() -> str:
        if base.by_characters:  # no split cuts its words
            return ""
        pieces = _pieces_per_word(texts, base, config.scripts)
        if pieces is None or pieces < _FEW_PIECES:
            return ""
        return (
            f", which cuts a word of {names_of(config.scripts)} into {pieces:.2f} pieces on average, each at least one "
            "token; with a new split before the old one, a word can be one token"
        )

    if not (unfit := inexact(data, runtimes, nfc=nfc)):
        form = " on text in NFC" if inexact(data, runtimes) else ""
        price = f" The price is the old split{text}." if asked and is_old_split and (text := cost()) else ""
        return f"The extended tokenizer has the same ids in {names}{form}.{price}"
    if asked:
        names = ", ".join(unfit)
        raise SGPEError(f"the extended tokenizer gives other ids in {names} than in this package: {_instead(config, unfit)}")
    others = [runtime.name for runtime in RUNTIMES if runtime.name not in runtimes]
    lost = sorted(set(inexact(data, others, nfc=nfc)).difference(inexact(base, others, nfc=nfc)))
    more = f" In {', '.join(lost)}, the base has the same ids, but the extended tokenizer does not." if lost else ""
    if not is_old_split and not inexact(base, runtimes, nfc=nfc):
        remedy = f"Use hf-sgpe serve, which sends ids to the model, or extend with --runs-in {names}"
        return f"{names} itself does not produce the same ids. {remedy}. That option keeps the old split{cost()}.{more}"
    return f"{names} itself does not produce the same ids: {_instead(config, unfit)}.{more}"


def _instead(config: ExtensionConfig, runtimes: Iterable[str]) -> str:
    """Return advice on what to do instead if runtimes do not return the same ids for an extended tokenizer."""
    patterns = [name for name in portable_patterns(runtimes) if _keeps_all(name, map(resolve_script, config.scripts))]
    other = f", or extend a tokenizer with the split of {' or '.join(patterns)}" if patterns else ""
    return f"use hf-sgpe serve, which sends ids to the model{other}"


def _keeps_all(pattern: str, scripts: Iterable[Script]) -> bool:
    return all(keeps_words(Splitting("bpe", pattern=pattern), script) for script in scripts)


def _pieces_per_word(texts: Iterable[str], base: TokenizerData, scripts: Iterable[str]) -> float | None:
    """Return the average number of pieces into which a split cuts a word of the scripts, or None without words."""
    splitting = Splitting("hybrid", tuple(scripts), base.splitting.pattern, base.normalization)
    counts = WordCounts.from_texts(texts, splitting)
    return cost_of_one_split(counts).pieces if len(counts) else None
