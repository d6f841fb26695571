"""Keeping other libraries from saying what is in order here, or what they then raise."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


def quiet_libraries() -> None:
    """For commands: keeps libraries that are imported later from logging.

    Somebody who waits at a terminal still sees that the client of the Hub tries again.
    """
    os.environ.setdefault("DATASETS_VERBOSITY", "critical")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_VERBOSITY", "critical")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


@contextmanager
def bars_on_terminals_only() -> Iterator[None]:
    """A block in which transformers shows progress to somebody who watches, and to nobody else."""
    from transformers.utils import logging

    if sys.stderr.isatty() or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


@contextmanager
def without_remarks() -> Iterator[None]:
    """A block in which transformers, and what warns as Python does, says nothing short of an error."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(), bars_on_terminals_only():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
