"""Switches for the progress bars and warnings of this package and of other libraries."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec

_quiet = False


def be_quiet(quiet: bool) -> None:
    """Turn progress and warnings off or on, for ``--quiet``. Errors are always shown."""
    global _quiet
    _quiet = quiet
    logging.getLogger().setLevel(logging.ERROR if quiet else logging.WARNING)


def is_quiet() -> bool:
    """Return whether ``--quiet`` is on."""
    return _quiet


def somebody_watches() -> bool:
    """Return whether to show progress: stderr is a terminal, and ``--quiet`` is off."""
    return not _quiet and sys.stderr is not None and sys.stderr.isatty()


def bar_disabled(progress: bool | None) -> bool:
    """Convert an argument ``progress`` to tqdm's ``disable``. None shows the bar if `somebody_watches`."""
    return not (somebody_watches() if progress is None else progress)


def quiet_libraries() -> None:
    """Turn off the logging of libraries that a command imports later. On a terminal, the Hub client reports its retries."""
    os.environ.setdefault("DATASETS_VERBOSITY", "critical")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not somebody_watches():
        os.environ.setdefault("HF_HUB_VERBOSITY", "critical")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def bars_on_terminals_only() -> AbstractContextManager[None]:
    """Hide the progress bars of transformers inside the block, unless `somebody_watches`."""
    if find_spec("transformers") is None:
        return nullcontext()
    from transformers.utils import logging

    return hidden_bars(logging.is_progress_bar_enabled(), logging.disable_progress_bar, logging.enable_progress_bar)


@contextmanager
def hidden_bars(are_shown: bool, hide: Callable[[], None], show: Callable[[], None]) -> Iterator[None]:
    """Hide the progress bars of a library inside the block, unless `somebody_watches`."""
    if somebody_watches() or not are_shown:
        yield
        return
    hide()
    try:
        yield
    finally:
        show()


@contextmanager
def without_remarks() -> Iterator[None]:
    """Hide warnings from transformers and from Python inside the block. Errors are still shown."""
    try:
        from transformers.utils import logging
    except ImportError:  # also if transformers does not fit the installed tokenizers
        yield
        return
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(), bars_on_terminals_only():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)
