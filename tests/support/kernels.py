"""Tests that compare the native kernels with the readable ones."""

import os
from unittest import mock

import pytest

from hf_sgpe import kernels
from hf_sgpe.splitting.scripts.script_tables import TEN

needs_native = pytest.mark.skipif(not kernels.is_native(), reason=f"compares the native kernels: {kernels.describe()}")


def readable_only():
    """Turn off the native kernels inside the block. Existing objects keep their kernels."""
    return mock.patch.dict(os.environ, HF_SGPE_KERNEL="python")


EVERY_KIND = (*(script.name for script in TEN), "myanmar", "khmer", "thai", "tibetan", "hebrew", "hangul", "emoji")
"""A script of each kind that the kernels treat differently."""
