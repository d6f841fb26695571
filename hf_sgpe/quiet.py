"""When progress and remarks are shown, ours and those of other libraries."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_quiet = False


def be_quiet(quiet: bool) -> None:
    """For commands: with ``--quiet`` no progress and no warnings from here on. Errors are still shown."""
    global _quiet
    _quiet = quiet
    logging.getLogger().setLevel(logging.ERROR if quiet else logging.WARNING)


def is_quiet() -> bool:
    """Whether a command was told to be quiet."""
    return _quiet


def somebody_watches() -> bool:
    """Whether progress is worth showing: stderr is a terminal, and ``--quiet`` was not given."""
    return not _quiet and sys.stderr is not None and sys.stderr.isatty()


def bar_disabled(progress: bool | None) -> bool:
    """tqdm's ``disable`` for our ``progress``, whose None means: on a terminal only."""
    return not (somebody_watches() if progress is None else progress)


def quiet_libraries() -> None:
    """For commands: keeps libraries that are imported later from logging.

    Somebody who waits at a terminal still sees that the client of the Hub tries again.
    """
    os.environ.setdefault("DATASETS_VERBOSITY", "critical")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not somebody_watches():
        os.environ.setdefault("HF_HUB_VERBOSITY", "critical")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


@contextmanager
def bars_on_terminals_only() -> Iterator[None]:
    """A block in which transformers shows progress on terminals only."""
    from transformers.utils import logging

    if somebody_watches() or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


@contextmanager
def without_remarks() -> Iterator[None]:
    """A block in which transformers logs errors only, and Python's warnings are not shown."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(), bars_on_terminals_only():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
