"""``adapt``: adapt a model to a language in one command."""

from __future__ import annotations

from pathlib import Path

from hf_sgpe.cli.application import Json, command
from hf_sgpe.learning.adaptation import Adaptation
from hf_sgpe.terminal.printing import print_table, report, steps_shown
from hf_sgpe.terminal.progress import is_quiet


@command(epilog="Example: hf-sgpe adapt smollm2 si.txt.xz --script si --keep en.txt.xz --budget 10M --out smollm2-si")
def adapt(given: Adaptation, as_json: Json = False) -> None:
    """Adapt a model to a language: extend its tokenizer, add rows for the new tokens, train the model, and write a report.

    Before training, the command prints the number of tokens, and the memory and time that training needs, measured on the
    first rows. To continue an interrupted run, add --resume. At the end, --out contains the folders tokenizer (the extended
    tokenizer), start (the model before training) and model (the trained model), a picture and report.md. Each step can also
    be run separately: hf-sgpe extend, hf-sgpe transplant and hf-sgpe finetune.
    """
    from hub_cards.cards.card_of_model import write_model_card
    from hub_cards.cards.seal import CARD_FILE
    from trainers.adapting import MODEL, adapt as work, conclusions

    with steps_shown(as_json) as show:
        result = work(given, show=show)
    if not Path(given.out, MODEL, CARD_FILE).exists():
        write_model_card(str(Path(given.out, MODEL)), base_model=given.base)
    report(f"{given.out}: the adapted model is in {MODEL}", {"out": given.out, "bits_per_byte": result}, as_json)
    if not as_json:
        rows = ((name, *(f"{value:.4f}" for value in values.values())) for name, values in result.items())
        print_table(["bits per byte", "before", "started", "trained"], rows, texts=1)
    if not as_json and not is_quiet():
        print("", *conclusions(result), sep="\n")
