"""``hf-sgpe evaluate --vocabulary``: report which tokens of a vocabulary a text uses, and which tokens no text can use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.printing import print_facts, print_json, print_table

if TYPE_CHECKING:
    from hf_sgpe.cli.evaluate_options import EvaluateOptions
    from hf_sgpe.evaluation.vocabulary_health import VocabularyHealth
    from hf_sgpe.vocabulary.tokenizer_data import TokenizerData
    from trainers.model_rows.untrained_rows import UntrainedRows

_EXAMPLES = 12
_SCRIPTS = 20
_INDICATORS = {
    "distance": "output row near the mean of unused rows",
    "norm": "input row no longer than unused rows",
}


def report_vocabulary(tokenizer: str, files: Iterable[str], given: EvaluateOptions, as_json: bool) -> None:
    """Measure how text uses the tokens of a vocabulary, and print the result as tables or as JSON."""
    from hf_sgpe.evaluation.token_use import find_counted, holds_text
    from hf_sgpe.evaluation.vocabulary_health import health_of, unreachable_ids
    from hf_sgpe.files.atomic import write_text
    from hf_sgpe.files.hub import public_name
    from hf_sgpe.files.overwriting import check_new_file
    from hf_sgpe.formats.loading import load
    from hf_sgpe.vocabulary.reserved_tokens import reserved_ids
    from trainers.counting.parallel_counting import reading_bar
    from trainers.language_models.training_runs import require_pytorch

    picture, model = given.picture, next(iter(given.model), None)
    if picture:
        if picture.suffix != ".svg":
            raise SGPEError(f"--picture {picture}: the picture is SVG: give a name that ends in .svg")
        check_new_file(picture, overwrite=given.overwrite)
    if model:
        require_pytorch(to_train=False)
    found = find_counted(files)
    data = load(tokenizer)
    with reading_bar(found) as bar:
        health = health_of(data, found, text_field=given.text_field, on_progress=bar.update)
    tokens = data.bytes_by_id()
    if not holds_text(tokens[id] for id in health.used):
        raise SGPEError(f"{', '.join(map(str, found))}: there is no text to measure")
    facts: dict[str, Any] = {"tokenizer": tokenizer, "files": list(map(str, found)), **health.to_dict()}
    rows = None
    if model:
        from trainers.model_rows.untrained_rows import untrained_rows

        unused = (unreachable_ids(data) - health.used).union(set(reserved_ids(data).values()))
        rows = untrained_rows(model, data.bytes_by_id().keys(), unused, health.used)
        facts["model"] = {"model": model, **rows.to_dict()}
    if picture:
        from hub_cards.pictures.vocabulary_picture import draw_vocabulary

        write_text(picture, draw_vocabulary(health, public_name(tokenizer)).svg())
        facts["picture"] = str(picture)
    if as_json:
        print_json(facts)
        return
    _print_health(data, health)
    if rows:
        _print_rows(data, rows)


def _print_health(data: TokenizerData, health: VocabularyHealth) -> None:
    def share(number: int) -> str:
        return f"{number:,} ({number / health.tokens:.1%})"

    unreachable = _shown(data, sorted(health.unreachable))
    print_facts(
        [
            ("tokens of the text", f"{health.tokens_in_text:,}"),
            ("tokens of the vocabulary", f"{health.tokens:,}, and {health.added:,} added and special tokens"),
            ("used by this text", share(len(health.used))),
            ("only steps of used tokens", share(len(health.only_steps))),
            ("never used by this text", share(len(health.never_used))),
            ("unreachable", share(len(health.unreachable)) + (f": {unreachable}" if unreachable else "")),
            ("parts of characters", share(health.parts_of_characters)),
            ("alike but for case", share(health.alike["case"])),
            ("alike but for a leading space", share(health.alike["space"])),
            ("alike but for either", share(health.alike["either"])),
        ]
    )
    print()
    titles = ["script", "tokens", "used", "share", "only steps", "never used", "unreachable"]
    scripts = health.by_script()
    cells = [
        [
            script,
            f"{counts['tokens']:,}",
            f"{counts['used']:,}",
            f"{counts['used'] / counts['tokens']:.1%}",
            *(f"{counts[kind]:,}" for kind in ("only_steps", "never_used", "unreachable")),
        ]
        for script, counts in scripts.items()
    ]
    print_table(titles, cells[:_SCRIPTS], texts=1)
    if len(cells) > _SCRIPTS:
        print(f"… and {len(cells) - _SCRIPTS} more scripts (--json has all)")
    if health.cutoffs:
        print()
        print_table(
            ["new tokens", "of them used", "tokens of the text", "share of the gain"],
            (
                [
                    f"{one.new_tokens:,}",
                    f"{one.used:,}",
                    f"{one.tokens_in_text:,}",
                    "–" if one.share_of_gain is None else f"{one.share_of_gain:.1%}",
                ]
                for one in health.cutoffs
            ),
            texts=0,
        )


def _print_rows(data: TokenizerData, rows: UntrainedRows) -> None:
    print(f"\n{rows.known:,} of the model's {rows.rows:,} rows are known to be unused. Of the rows of other tokens:")
    titles = ["looks untrained by", "rows", "share of used tokens", "the most untrained"]
    cells = [
        [_INDICATORS[name], f"{len(one.untrained):,}", f"{one.used:.1%}", _shown(data, list(one.untrained))]
        for name, one in rows.indicators.items()
    ]
    both = rows.in_all()
    print_table(titles, [*cells, ["both", f"{len(both):,}", "", _shown(data, both)]])


def _shown(data: TokenizerData, ids: list[int]) -> str:
    """Return the first `_EXAMPLES` of these tokens as quoted text."""
    bytes_of = data.bytes_by_id()
    texts = [_quoted(bytes_of[id]) for id in ids[:_EXAMPLES]]
    return " ".join([*texts, *(["…"] if len(ids) > _EXAMPLES else [])])


def _quoted(token: bytes) -> str:
    r"""Return the text of a token in quotes, with escapes for what cannot be printed.

    >>> print(_quoted(" ක".encode()), _quoted(b"\n"), _quoted(b"a\xc0"))
    ' ක' '\n' 'a\xc0'
    """
    try:
        return repr(token.decode())
    except UnicodeDecodeError:
        return repr(token)[1:]
