"""A readable twin of the choice of the next token, as `GenerationOptions` describes it."""

import numpy as np
from numpy.typing import NDArray

from hf_sgpe.generation import GenerationOptions


def distribution(logits: NDArray[np.float64], seen: set[int], options: GenerationOptions) -> NDArray[np.float64]:
    """Return the probability of each next token, after the tokens in ``seen``."""
    logits = logits.astype(np.float64).copy()
    for id in seen:
        logits[id] *= options.repetition_penalty if logits[id] < 0 else 1 / options.repetition_penalty
    if options.temperature < 1e-6:
        return np.eye(len(logits))[logits.argmax()]
    logits /= options.temperature
    powers = np.exp(logits - logits.max())
    left = powers / powers.sum()
    if options.top_k:
        left = _kept(left, left >= np.sort(left)[-min(options.top_k, len(left))])
    if options.top_p < 1:
        order = np.argsort(-left)
        before = np.cumsum(left[order]) - left[order]  # what those greater have together
        fewest = np.zeros(len(left), bool)
        fewest[order[before < options.top_p]] = True
        left = _kept(left, fewest)
    return _kept(left, left >= options.min_p * left.max())


def _kept(probabilities: NDArray[np.float64], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    kept = np.where(mask, probabilities, 0)
    return kept / kept.sum()
