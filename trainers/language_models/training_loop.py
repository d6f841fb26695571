"""The optimizer and the schedule of the learning rate for every training."""

from __future__ import annotations

from math import ceil, cos, pi
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# A usual value for small models: the share of steps in which the learning rate rises.
_WARM_UP = 0.05


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
