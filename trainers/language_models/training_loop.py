"""The schedule of the learning rate for every training, and a plain training loop for comparisons, which writes no files.
`trainers.language_models.training_runs` saves a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, cos, pi
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

# Usual values for small models: the share of steps in which the learning rate rises, and the last learning rate relative to
# the peak.
_WARM_UP = 0.05
_LEAST_RATE = 0.1


def train_on(
    model: PreTrainedModel,
    batches: Iterable[torch.Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    steps: int,
    after_step: Callable[[int], None],
    mixed: bool | None = None,
) -> None:
    """Train a model for one step on each batch of ids (rows × tokens). The learning rate falls to a tenth of its peak.

    Args:
        steps: Number of steps for which the learning rates are planned.
        after_step: Function that is called after each step with the number of the step, counted from 1.
        mixed: Whether to use mixed precision with bfloat16. None uses it if the model is on a CUDA GPU that supports it.
    """
    import torch

    schedule = warm_up_and_cosine(optimizer, steps, least=_LEAST_RATE)
    if mixed is None:
        mixed = model.device.type == "cuda" and torch.cuda.is_bf16_supported()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.train()
    for step, batch in enumerate(batches, 1):
        ids = batch.to(model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=mixed):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        model.zero_grad()
        after_step(step)


def warm_up_and_cosine(
    optimizer: torch.optim.Optimizer, steps: int, *, least: float = 0.0
) -> torch.optim.lr_scheduler.LambdaLR:
    """Return a schedule of learning rates. They rise during the first 5 % of the steps, and then fall along a cosine. The
    first step already changes the model.

    Args:
        least: The learning rate after the last step, as a share of the peak.
    """
    import torch

    warm_up = max(ceil(_WARM_UP * steps), 1)

    def rate(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        return least + (1 - least) * (1 + cos(pi * (step - warm_up) / max(steps - warm_up, 1))) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def adamw(groups: Any, *, learning_rate: float) -> torch.optim.AdamW:
    """Return an AdamW optimizer with settings that are usual for language models."""
    import torch

    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
