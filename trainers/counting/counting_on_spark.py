"""Counting of words on Spark. Spark's Python workers split Arrow batches into words, and Spark adds up the counts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.text_files import no_such
from hf_sgpe.counts.count_files import CountsInfo, write
from hf_sgpe.counts.counters import make_word_counter
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.splitting.splitting import HasSplitting
from trainers.counting.counting_on_disk import RareWords

# Memory for a worker's distinct words. When this memory is full, the worker passes on its counts.
_WORKER_BYTES = 512 << 20


def count_on_spark(
    sources: Sequence[str],
    out: Path,
    config: HasSplitting,
    *,
    source_format: str = "parquet",
    text_field: str = "text",
    min_count: int = 1,
) -> CountsInfo:
    """Count the words in the column ``text_field`` of files, folders or globs that Spark reads, and write the counts to a
    file, as `trainers.count_to_file` does.

    Args:
        source_format: Spark's name for the format of the sources, such as ``json``.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise not_installed("counting on Spark needs pyspark", "pyspark") from None

    rare = RareWords(min_count)
    spark = SparkSession.builder.appName("count words").getOrCreate()
    where = ", ".join(sources)
    try:
        frame = spark.read.format(source_format).load(list(sources))
    except PySparkException as error:
        raise SGPEError(f"{where}: {str(error).splitlines()[0]}") from None
    if text_field not in frame.columns:
        raise SGPEError(f"{where}: {no_such('column', text_field, frame.columns)}")
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=out.resolve().parent) as folder:
        _word_counts(frame, text_field, config).write.mode("overwrite").parquet(folder)
        tables = rare.left_out_of(_tables(Path(folder)))
        named = [{"name": name} for name in sources]
        return write(out, tables, config.splitting, sources=named, dropped=rare.report, needs_words=True)


def _word_counts(frame: Any, column: str, config: HasSplitting) -> Any:
    """Return a Spark data frame with the columns ``word``, ``count`` and ``bucket``. Its partitions, read in order, are
    sorted as a file of counts.
    """
    from pyspark.sql import functions

    def count_batches(batches: Iterator[Any]) -> Iterator[Any]:
        counter = make_word_counter(config)
        for batch in batches:
            counter.add([text for text in batch.column(0).to_pylist() if text is not None])
            if counter.peak(0) > _WORKER_BYTES:
                yield from _batches(counter)
        yield from _batches(counter)

    words = frame.select(column).mapInArrow(count_batches, "word binary, count long")
    summed = words.groupBy("word").agg(functions.sum("count").alias("count"))
    bucket = functions.shiftrightunsigned(functions.crc32("word"), 22)
    return summed.withColumn("bucket", bucket).repartitionByRange("bucket").sortWithinPartitions("bucket", "word")


def _batches(counter: Any) -> Iterator[Any]:
    import pyarrow as pa

    schema = pa.schema({"word": pa.binary(), "count": pa.int64()})
    for _, table in counter.take():
        yield from table.cast(schema).to_batches()


def _tables(folder: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema({"word": pa.large_binary(), "count": pa.int64()})
    for part in sorted(folder.glob("part-*.parquet")):
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(columns=["word", "count"]):
                yield pa.Table.from_batches([batch]).cast(schema)
