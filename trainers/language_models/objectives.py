"""The objectives with which models of each kind are trained and measured on text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hf_sgpe.corpora.text_files import Text
from hf_sgpe.weights.model_loading import MASKED
from trainers.language_models.causal_objective import CausalObjective
from trainers.language_models.encoded_texts import EncodedTexts
from trainers.language_models.masked_objective import MaskedObjective
from trainers.language_models.pair_objective import PairObjective

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


class Objective(Protocol):
    """The training and the measurement of one kind of model on text.

    Attributes:
        options: Further arguments of the model in a forward pass.
    """

    options: Mapping[str, Any]

    def examples(self, texts: Iterable[Text], tokenizer: PreTrainedTokenizerBase, length: int) -> Iterator[Any]:
        """Yield training examples of at most ``length`` tokens, in a form that ``collator`` reads."""

    def collator(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Callable[[Any], dict[str, Any]]:
        """Return the function that makes a training batch of examples."""

    def encode(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], length: int | None
    ) -> EncodedTexts:
        """Encode held-out texts for measurements. ``length`` is the number of tokens that the model reads at a time."""


def objective_of(config: PretrainedConfig, class_name: str) -> Objective:
    """Return the objective of a model of a class, such as ``BertForMaskedLM`` or ``AutoModelForMaskedLM``."""
    if config.is_encoder_decoder:
        return PairObjective()
    return MaskedObjective() if class_name.endswith(MASKED) else CausalObjective()
