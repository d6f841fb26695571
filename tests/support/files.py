"""Compressed files, by the suffix of their names."""

import bz2
import gzip
import lzma

import zstandard

PACK = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
