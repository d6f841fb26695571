# /// script
# requires-python = ">=3.10"
# dependencies = ["hf-sgpe[train]", "trackio"]
#
# [tool.hf-jobs]
# flavor = "a10g-small"
# timeout = "12h"
# secrets = ["HF_TOKEN"]
# ///
"""Adapt a model to a language, as hf-sgpe adapt does, and push the result to the Hub. hf jobs runs this script on a rented GPU.

Example: hf jobs uv run -v hf://datasets/user/text:/text adapt_on_a_gpu.py HuggingFaceTB/SmolLM2-135M /text/si.txt
    --budget 10M --push user/name
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi

from hf_sgpe.cli import run_script
from hf_sgpe.files.hub import hub_errors
from hf_sgpe.learning.adaptation import Adaptation
from hf_sgpe.terminal.options import option
from hub_cards.cards.card_of_model import write_model_card
from hub_cards.publishing.uploading import push
from trainers.adapting import MODEL, REPORT, adapt


@dataclass(frozen=True, kw_only=True)
class Options(Adaptation):
    """The options of hf-sgpe adapt, and where the result is published."""

    out: str = option("Folder to write to.", "adapted", "-o")
    push: str = option("Repository on the Hub for the model, USER/NAME.", ...)
    private: bool = option("Make a new repository private.", False)


def adapt_and_push(given: Options) -> None:
    """Adapt the model, write its card, and push both."""
    with hub_errors(f"{given.push}:"):  # before hours of training, in case the token cannot write
        repository = HfApi().create_repo(given.push, private=given.private or None, exist_ok=True).repo_id
    adapt(given)
    print(Path(given.out, REPORT).read_text(encoding="utf-8"))
    folder = str(Path(given.out, MODEL))
    write_model_card(folder, name=repository, base_model=given.base)
    print(push(folder, repository).url)


if __name__ == "__main__":
    run_script(adapt_and_push, __doc__)
