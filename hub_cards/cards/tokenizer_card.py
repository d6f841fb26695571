"""The card of a tokenizer, as README.md and as a page.

The card has a summary, code that loads the tokenizer, measurements and limits.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from hf_sgpe.errors import SGPEError
from hf_sgpe.evaluation.languages import language
from hf_sgpe.evaluation.results import MEASURES, Comparison
from hf_sgpe.files.atomic import atomic_directory, check_directory
from hf_sgpe.files.hub import check_name
from hf_sgpe.files.overwriting import check_new_file
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.tokenizer import BPETokenizer
from hub_cards.cards.facts import Facts
from hub_cards.cards.seal import (
    CARD_FILE,
    CARD_MARK,
    PAGE_FILE,
    PICTURES,
    is_generated,
    is_measured,
    is_of_another,
    seal,
)
from hub_cards.cards.tables import Tables
from hub_cards.markup import render, render_macro
from hub_cards.pictures.drawing import colour_of, mark
from hub_cards.pictures.plots import draw

logger = logging.getLogger(__name__)

_EXAMPLES = "code_examples.md.jinja"
# Heading, programming language, and macro of `_EXAMPLES`.
_LOADING = (
    ("In transformers", "python", "transformers"),
    ("In transformers.js", "js", "javascript"),
    ("In plain tokenizers", "python", "tokenizers"),
    ("With `hf_sgpe`, which returns the same ids many times faster", "python", "hf_sgpe"),
)


def write_card(
    folder: str | os.PathLike[str],
    tokenizer: BPETokenizer,
    *,
    name: str | None = None,
    evaluations: Comparison | None = None,
    license: str | None = None,
    languages: Sequence[str] = (),
    datasets: Sequence[str] = (),
    tags: Sequence[str] = (),
    replace: bool = False,
) -> list[str]:
    """Write README.md, index.html and the pictures of a tokenizer into its folder. If writing fails, no file is written.

    The page is self-contained. The same input produces the same bytes.

    Args:
        name: ``user/name`` that the code in the card loads; None for the name of the folder.
        evaluations: Measurements from `hub_cards.compare`. If None, the card has only facts about the tokenizer.
        license: Licence identifier of the Hub, such as ``apache-2.0``.
        languages: Codes of the languages for which the tokenizer is meant; by default, the measured languages in which few
            tokens are only a part of a character.
        datasets: Hub names of the training data, as ``name`` or ``name:configuration``.
        tags: Additional tags.
        replace: Whether to overwrite a README.md that a person wrote or changed, or a card with measurements if the new card
            has no measurements.

    Returns:
        The files written, as paths below ``folder``.

    Raises:
        SGPEError: a README.md in the folder would be lost (see ``replace``), the licence or a language is not valid, or the
            tokenizer's note about its training is damaged.
    """
    check_card(folder, tokenizer, measured=evaluations is not None, replace=replace)
    check_metadata(license, languages)
    datasets = [name.partition(":")[0] for name in datasets]  # the Hub's metadata has no place for configurations
    for dataset in datasets:
        check_name(dataset)
    name = name or Path(folder).resolve().name
    title, facts = name.rpartition("/")[2], Facts(tokenizer)
    tables = Tables(evaluations, tuple(languages)) if evaluations else None
    pictures = draw(evaluations) if evaluations else {}
    files = {f"pictures/{name}.svg": picture.svg() for name, picture in pictures.items()}
    try:
        metadata = _metadata(title, facts, tables, license, languages, datasets, tags)
        values = {"title": title, "pictures": pictures, "datasets": datasets, **_values(name, facts, tables)}
        card = render("model_card.md.jinja", **values, yaml=metadata, captions=PICTURES, mark=CARD_MARK)
        files[CARD_FILE] = seal(card, tokenizer)
        files[PAGE_FILE] = render("page.html.jinja", **values, license=license, mark=mark, colour_of=colour_of)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        if isinstance(error, SGPEError) or not tokenizer.metadata:
            raise
        raise SGPEError(f"the tokenizer's note about its training is damaged ({error}): remove the entry 'sgpe'") from error
    with atomic_directory(folder) as temporary:
        for path, text in files.items():
            (temporary / path).parent.mkdir(exist_ok=True)
            (temporary / path).write_text(text, encoding="utf-8", newline="\n")
    for picture in PICTURES:
        if picture not in pictures:  # files of an earlier card
            (Path(folder) / "pictures" / f"{picture}.svg").unlink(missing_ok=True)
    return sorted(files)


def check_card(
    folder: str | os.PathLike[str], tokenizer: BPETokenizer | PieceFolder, *, measured: bool, replace: bool = False
) -> None:
    """Check that a new card in ``folder`` would not overwrite a README.md that a person wrote or changed, or a card with
    measurements of the same tokenizer. A card that is ``measured`` may overwrite measurements.
    """
    others = (PAGE_FILE, *(f"pictures/{name}.svg" for name in PICTURES))
    check_directory(folder, (CARD_FILE, *others))
    path = Path(folder) / CARD_FILE
    if replace:
        return
    if not path.exists():
        for name in others:  # without README.md, these files are not from an earlier card
            check_new_file(Path(folder) / name)
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    if not is_generated(text):
        what = "changed" if CARD_MARK in text else "written"
        raise SGPEError(f"{path} was {what} by hand and would be lost: add --overwrite, or give another folder with --out")
    if is_measured(text) and not measured and not is_of_another(text, tokenizer):
        raise SGPEError(
            f"{path} has measurements that would be lost: add --eval FILE (for a model --results FILE), or --overwrite"
        )


def check_metadata(license: str | None, languages: Iterable[str]) -> None:
    if license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        raise SGPEError(f"{license!r} is not a licence identifier of the Hub: give one such as apache-2.0, mit or cc-by-4.0")
    for code in languages:
        language(code)


def language_fields(codes: Iterable[str]) -> dict[str, Any]:
    """Return the Hub's metadata about languages. The Hub has a separate field for codes with a script or a region.

    >>> language_fields(["si", "jv-Java"])
    {'language': ['si', 'jv'], 'language_bcp47': ['jv-Java']}
    """
    codes = list(codes)
    fields = {
        "language": list(dict.fromkeys(code.partition("-")[0] for code in codes)),
        "language_bcp47": [code for code in codes if "-" in code],
    }
    return {name: found for name, found in fields.items() if found}


def warn_of_metadata(license: str | None, languages: Iterable[str]) -> None:
    """Warn about a licence that is not in the list of SPDX, and about language codes that CLDR does not know.

    They are not refused, because these lists are incomplete: the Hub also has licences such as ``llama3.1``, and CLDR has no
    names for many small languages.
    """
    if license is not None:
        try:
            canonicalize_license_expression(license)
        except InvalidLicenseExpression:
            logger.warning(
                "the licence %s is not in the list of SPDX: check that the Hub knows it, at "
                "https://huggingface.co/docs/hub/repositories-licenses",
                license,
            )
    for code in languages:
        if not language(code).is_known:
            logger.warning("the language code %s is unknown to CLDR: check that it is the code of ISO 639", code)


def _values(name: str, facts: Facts, tables: Tables | None) -> dict[str, Any]:
    """Return values that both templates of a card need."""
    tokenizer, sample = facts.tokenizer, facts.sample
    ids = tokenizer.encode(sample, add_special_tokens=True)
    example: dict[str, Any] = {"name": name, "sample": sample, "ids": ids}
    example["tokens"] = "|".join(tokenizer.decode([id]) for id in ids)
    measured = tables.limits() if tables else ["It has not been measured on any text."]
    return {
        "facts": facts,
        "summary": facts.summary,
        "fact_table": facts.table(),
        "tables": tables,
        "tiles": [(f"{tokenizer.vocab_size:,}", "tokens in the vocabulary"), *(tables.tiles() if tables else ())],
        "loading": [(where, kind, render_macro(_EXAMPLES, macro, **example)) for where, kind, macro in _LOADING],
        "chatting": render_macro(_EXAMPLES, "chat", **example),
        "limits": [*measured, *facts.limits(name)],
    }


def _metadata(
    title: str,
    facts: Facts,
    tables: Tables | None,
    license: str | None,
    languages: Iterable[str],
    datasets: Iterable[str],
    tags: Iterable[str],
) -> str:
    """Return the Hub's metadata of a card as YAML."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type="tokenization",
            task_name="Tokenization",
            dataset_type="held-out-text",
            dataset_name=", ".join(tables.comparison.sources.get(known.code, [known.english])),
            dataset_config=known.code,
            metric_type=measure.key,
            metric_name=measure.title + (", share from 0 to 1" if measure.form == "%" else ""),
            metric_value=round(value, 6),
        )
        for known in (tables.measured if tables else ())
        for measure in MEASURES
        if tables and (value := tables.value(measure, known)) is not None
    ]
    all_tags = dict.fromkeys(["tokenizer", "bpe", "byte-level-bpe", "sgpe", "hf_sgpe", "syllable", *facts.scripts, *tags])
    if facts.tokenizer.by_characters:
        del all_tags["byte-level-bpe"]
    data = ModelCardData(
        **language_fields(known.code for known in (tables.languages if tables else map(language, languages))),
        license=license,
        library_name="transformers",
        tags=list(all_tags),
        datasets=list(datasets) or None,
        # The Hub requires a name with results, and results with a name.
        model_name=title if results else None,
        eval_results=results or None,
    )
    return data.to_yaml().strip()
