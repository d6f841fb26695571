"""Addition of any number of files of word counts, with little memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from hf_sgpe.counts.count_files import CountsInfo, Dropped, check_total, read, read_info, write
from hf_sgpe.counts.word_arrays import BUCKETS
from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.splitting import Splitting

if TYPE_CHECKING:
    import pyarrow as pa

READER_BYTES = 12 << 20
"""The memory, in bytes, for reading one file during an addition."""

MOST_FILES = 64
"""The number of files to open at a time. A process may open about a thousand files."""


def added(streams: Sequence[Iterator[tuple[int, pa.Table]]]) -> Iterator[pa.Table]:
    """Add up several streams of buckets (from `read`). Yield tables with the total count of each word, sorted as in a file
    of counts. Only one bucket of each stream and the sum of these buckets are in memory.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    by_bucket = itemgetter(0)
    for _, group in groupby(merge(*streams, key=by_bucket), key=by_bucket):
        tables = [table for _, table in group]
        if len(tables) == 1:
            yield tables[0]
            continue
        check_total(sum(pc.max(table["count"]).as_py() for table in tables))
        summed = pa.concat_tables(tables).group_by("word", use_threads=False).aggregate([("count", "sum")])
        yield summed.rename_columns({"count_sum": "count"}).select(["word", "count"]).sort_by("word")


def sum_of(
    files: Iterable[Path], folder: Path, *, most: int = MOST_FILES, buckets: range = range(BUCKETS)
) -> Iterator[pa.Table]:
    """Add up files of counts, as `added` does. If there are more than ``most`` files to open at a time, write partial sums
    to ``folder``, and remove files in this folder that have been added.
    """
    waiting, numbers = deque(files), count()
    while len(waiting) > most:
        some = [waiting.popleft() for _ in range(most)]
        path = folder / f"sum-{next(numbers)}.parquet"
        write(path, added([read(file, buckets) for file in some]), read_info(some[0]).splitting)
        for file in some:
            if file.parent == folder:
                file.unlink()
        waiting.append(path)
    yield from added([read(file, buckets) for file in waiting])


def all_dropped(parts: Iterable[Dropped | None]) -> Dropped | None:
    """Combine what was left out of the parts of a text into one record of the whole text."""
    losses = [part for part in parts if part]
    if not losses:
        return None
    least = max(part["min_count"] for part in losses)
    return {"min_count": least, **{name: sum(part[name] for part in losses) for name in ("distinct", "total", "pair")}}


def all_versions(infos: Iterable[CountsInfo]) -> dict[str, str]:
    """Return the versions of the packages that split the text of several files into words (see `CountsInfo`)."""
    found: dict[str, set[str]] = {}
    for info in infos:
        for package, versions in info.versions.items():
            found.setdefault(package, set()).update(versions.split(", "))
    return {package: ", ".join(sorted(versions)) for package, versions in found.items()}


def check_same_settings(infos: Mapping[Path, CountsInfo], splitting: Splitting | None = None) -> None:
    """Check that the words of all files were split by the same rules, those of ``splitting`` if it is given, and that their
    total count is not too large.
    """
    check_total(sum(info.total for info in infos.values()))
    first = next(iter(infos))
    wanted = splitting or infos[first].splitting
    for path, info in infos.items():
        if setting := info.splitting.difference(wanted):
            there, here = (json.dumps(cut.to_dict()[setting], ensure_ascii=False) for cut in (info.splitting, wanted))
            owner = "the configuration" if splitting else first
            raise SGPEError(f"{path} was counted with {setting.replace('_', ' ')} {there}, but {owner} has {here}")
