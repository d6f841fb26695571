"""Tests that compare the native kernels with the readable ones."""

from __future__ import annotations

import pytest

from hf_sgpe import kernel
from hf_sgpe.splitting.script_tables import TEN

needs_native = pytest.mark.skipif(not kernel.is_native(), reason=f"compares the native kernels: {kernel.describe()}")

EVERY_KIND = (*(script.name for script in TEN), "myanmar", "khmer", "thai", "tibetan", "hebrew", "hangul", "emoji")
"""Scripts of every kind that the kernels treat in a way of its own."""
