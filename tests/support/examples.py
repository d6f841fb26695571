"""The number of examples of a property test: 25 by default, 60 with ``--hypothesis-profile ci``, 5,000 with ``nightly``."""

from collections.abc import Callable
from typing import Any

from hypothesis import settings

# The same examples each time, but for the long search: a change is not blamed for a fault that was there before.
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=5000, deadline=None)


def few_examples(test: Callable[..., Any]) -> Callable[..., Any]:
    """Run a tenth of the profile's examples, for tests that take a second for a dozen."""
    return settings(max_examples=max(settings.default.max_examples // 10, 5))(test)
