"""``transplant``: fit the embedding rows of a model to a new tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.tokenizer_options import eval_minutes_option, overwrite_option, text_field_option
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import argument, option, option_list
from hf_sgpe.terminal.printing import print_table, report

if TYPE_CHECKING:
    from trainers.model_rows.transplanting import Transplant


@dataclass(frozen=True, kw_only=True)
class TransplantOptions:
    """Options of ``hf-sgpe transplant``."""

    model: str = argument("The model: a folder or a Hub repository.")
    tokenizer: str = option("The new tokenizer: a folder or a Hub repository.", ..., "-t")
    out: str = option("Folder to write the new model to.", ..., "-o")
    overwrite: bool = overwrite_option()
    init: str = option(
        "Initial embedding of a new token. Its pieces are the old tokens that spell the new token. mean: the mean of "
        "the pieces' embeddings; weighted: a mean with more weight on later pieces; omp: a combination of embeddings "
        "that is computed with a --donor model; distil: learned on --text, so that the hidden states after the new "
        "token match the hidden states after its pieces.",
        "mean",
        choices=("mean", "weighted", "omp", "distil"),
    )
    donor: str | None = option(
        "With --init omp: a model that knows the new language (a folder or a Hub repository that includes its tokenizer)."
    )
    text: list[str] = option_list("With --init distil: text in the new language (repeatable).")
    distil_snippets: int | None = option("With --init distil: number of snippets of text for each new token (default: 8).")
    distil_layer: int | None = option(
        "With --init distil: layer (counted from 1) whose hidden states are matched (default: after the final norm)."
    )
    pad_to_multiple: int = option(
        "Round the number of embedding rows up to a multiple of this number (at most 4096). GPUs are faster with 64.",
        1,
    )
    model_tokenizer: str | None = option("The model's own tokenizer (default: the tokenizer in the model's folder).")
    evaluate: list[str] = option_list(
        "Held-out text on which to measure both models: a file, folder or glob, or NAME=FILE (repeatable).", "--eval"
    )
    eval_minutes: float = eval_minutes_option()
    text_field: str = text_field_option()

    def check(self) -> None:
        for name, value, needed in (("--donor", self.donor, "omp"), ("--text", self.text, "distil")):
            if self.init == needed and not value:
                raise SGPEError(f"--init {self.init} needs {name}")
            if self.init != needed and value:
                raise SGPEError(f"--init {self.init} does not take {name}: leave out {name}, or use --init {needed}")
        for name, number in (("--distil-snippets", self.distil_snippets), ("--distil-layer", self.distil_layer)):
            if number is not None and self.init != "distil":
                raise SGPEError(f"{name} is for --init distil, not for --init {self.init}: leave out {name}")
            if number is not None and number < 1:
                raise SGPEError(f"{name} must be at least 1, not {number}")


@command(epilog="Example: hf-sgpe transplant Qwen/Qwen3-0.6B-Base --tokenizer qwen-si --out qwen-si-model")
def transplant(given: TransplantOptions, as_json: Json = False) -> None:
    """Fit the embedding rows of a model to another tokenizer, such as an extended tokenizer. All other weights stay the
    same, bit for bit.

    The result is a folder with the model, the tokenizer and the model card. transformers loads this folder like the original
    model. The new model works at once, but should be trained further on text in the new language. Before this training, a
    model with a few hundred new tokens can predict worse than the old model.
    """
    from trainers.language_models.training_runs import require_pytorch

    given.check()
    require_pytorch(to_train=False)
    from hf_sgpe.corpora.held_out import read_held_out
    from hf_sgpe.weights.model_loading import check_predicts, load_config, load_tokenizer
    from hub_cards.cards.transplant_card import measure, report_files, report_on
    from trainers.model_rows.token_tables import MOST_MULTIPLE
    from trainers.model_rows.transplanting import check_is_new, transplant as write

    # Check first, because measuring the models takes longest.
    check_is_new(given.out, given.model, given.tokenizer, overwrite=given.overwrite)
    if not 1 <= given.pad_to_multiple <= MOST_MULTIPLE:
        raise SGPEError(f"--pad-to-multiple must be from 1 to {MOST_MULTIPLE:,}, not {given.pad_to_multiple:,}")
    held_out = read_held_out(given.evaluate, text_field=given.text_field)
    if given.distil_layer:
        layers = load_config(given.model).get_text_config().num_hidden_layers
        if given.distil_layer > layers:
            raise SGPEError(
                f"--distil-layer must be at most {layers}, the number of layers in the model, not {given.distil_layer}"
            )
    if held_out:
        try:
            check_predicts(given.model)
        except SGPEError as error:
            raise SGPEError(f"{error}: leave out --eval") from None
    tokenizer = load_tokenizer(given.model_tokenizer or given.model) if held_out else None
    before = measure(given.model, tokenizer, held_out, minutes=given.eval_minutes) if tokenizer else {}
    described: dict[str, Any] = {}

    def describe(done: Transplant) -> dict[str, str]:
        after = measure(str(done.out), done.tokenizer, held_out, watched=done.row_map.new, like=before)
        described.update(report_on(given.model, given.tokenizer, given.init, done, before, after))
        return report_files(described, Path(given.out), done.auto_class, given.tokenizer)

    done = write(
        given.model,
        given.tokenizer,
        given.out,
        overwrite=given.overwrite,
        multiple=given.pad_to_multiple,
        model_tokenizer=given.model_tokenizer,
        describe=describe,
        **_new_row_options(given),
    )
    lora = f" With LoRA, train and save these rows with {done.lora}." if done.row_map.new else ""
    tables = " and ".join((*done.tables, *done.drafts))
    before_size, after_size = done.sizes
    size = ""
    if before_size != after_size:
        size = (
            f" The model has {after_size.parameters:,} parameters instead of {before_size.parameters:,}, and its weights "
            f"take {after_size.bytes / 1e6:,.1f} MB on disk instead of {before_size.bytes / 1e6:,.1f}."
        )
    report(
        f"{given.out}: {done.row_map}, {done.row_map.rows:,} rows in all, in {tables}.{size}{lora}",
        {"out": given.out, **described},
        as_json,
    )
    if held_out and not as_json:
        from hub_cards.cards.card_of_model import table_of

        heading, *rows = table_of(described["texts"])
        print_table(heading, rows, texts=1)


def _new_row_options(given: TransplantOptions) -> dict[str, Callable[..., Any]]:
    """Return the arguments of `trainers.model_rows.transplanting.transplant` about the initialization of rows."""
    from hf_sgpe.weights.model_loading import load_tokenizer
    from trainers import Corpus
    from trainers.model_rows.row_starts import by_position, by_pursuit

    if given.init == "weighted":
        return {"start": by_position}
    if given.init == "omp" and given.donor:
        from trainers.model_rows.transplanting import embedding_of

        tokenizers = {"tokenizer": load_tokenizer(given.tokenizer), "donor": load_tokenizer(given.donor)}
        return {"start": partial(by_pursuit, **tokenizers, donor_rows=embedding_of(given.donor))}
    if given.init == "distil":
        from trainers.model_rows.distillation import Distillation, distilled_rows

        numbers = {"per_token": given.distil_snippets, "layer": given.distil_layer}
        settings = Distillation(**{name: number for name, number in numbers.items() if number is not None})
        texts = Corpus.of(given.text, text_field=given.text_field).read_lines()
        tokenizers = {
            "tokenizer": load_tokenizer(given.tokenizer),
            "old": load_tokenizer(given.model_tokenizer or given.model),
        }
        learn = partial(distilled_rows, model=given.model, **tokenizers, texts=texts, settings=settings)
        return {"start": by_position, "learn": learn}
    return {}
