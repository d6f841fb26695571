"""Weights of corpus files. Weights are exact fractions, so the sum of weighted counts does not depend on the order of
addition.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import isfinite

from hf_sgpe.errors import SGPEError

_FINEST_WEIGHT = 10**6


def exact_weight(weight: float) -> Fraction:
    """Convert the decimal form of a weight to an exact fraction: 0.3 becomes 3/10."""
    if isinstance(weight, (int, float)) and not isinstance(weight, bool) and isfinite(weight):
        exact = Fraction(str(weight))
        if exact > 0 and exact.denominator <= _FINEST_WEIGHT:
            return exact
    raise SGPEError(f"a weight must be a number above 0 with no more than six decimals, not {weight!r}")


def checked_weights(weights: Mapping[str, float]) -> dict[str, float]:
    """Return a copy of a mapping from file names or globs to weights, after checking the weights."""
    if not isinstance(weights, Mapping):
        raise SGPEError(f"weights must be a mapping from file names to numbers, not {weights!r}")
    for name, weight in weights.items():
        try:
            exact_weight(weight)
        except SGPEError as error:
            raise SGPEError(f"weights[{name!r}]: {error}") from None
    return dict(weights)
