"""A measure of how unequal the costs of several languages are."""

from __future__ import annotations

from collections.abc import Iterable


def gini(costs: Iterable[float]) -> float | None:
    """Return the Gini coefficient of costs, or None if the costs add up to 0.

    It is the mean difference between two costs, divided by twice the mean cost: ``Σᵢ Σⱼ |xᵢ − xⱼ| / (2 n² x̄)``. The cost of
    a language is the number of tokens per line of line-aligned text.

    >>> gini([1, 1, 1]), gini([0, 0, 3])
    (0.0, 0.6666666666666666)
    """
    ascending = sorted(costs)
    total = sum(ascending)
    if not total:
        return None
    n = len(ascending)
    # The same sum without a double loop. The k-th smallest cost is the greater cost in k - 1 pairs and the lesser in n - k.
    return sum((2 * place - n - 1) * cost for place, cost in enumerate(ascending, 1)) / (n * total)
