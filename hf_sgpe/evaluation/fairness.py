"""How unequal it is what languages pay: needed where tokenizers are balanced, and where they are measured."""

from __future__ import annotations

from collections.abc import Iterable


def gini(costs: Iterable[float]) -> float | None:
    """Return how unequal costs are: 0 if all are the same, towards 1 if one of them is all there is; None without costs.

    The mean difference of two costs divided by twice the mean cost: ``Σᵢ Σⱼ |xᵢ − xⱼ| / (2 n² x̄)``. Here a cost is what a
    language pays for the same text: tokens per line of line-aligned text.

    >>> gini([1, 1, 1]), gini([0, 0, 3])
    (0.0, 0.6666666666666666)
    """
    ascending = sorted(costs)
    total = sum(ascending)
    if not total:
        return None
    n = len(ascending)
    # The same sum without a double loop: the k-th smallest is the greater of two k - 1 times, and the lesser n - k times.
    return sum((2 * place - n - 1) * cost for place, cost in enumerate(ascending, 1)) / (n * total)
