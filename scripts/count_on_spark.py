"""Count the words of a column of a Spark data frame into one file, for hf-sgpe train --counts.

Words are split in Spark's Python workers over Arrow batches, and Spark adds up the counts. The result is the same file that
hf-sgpe count writes. For a Spark job of your own, use `word_counts`.

    spark-submit scripts/count_on_spark.py 's3a://corpus/*.parquet' --out counts.parquet --script all
    python scripts/count_on_spark.py corpus.jsonl --format json --out counts.parquet      # pip install pyspark; needs Java
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hf_sgpe.corpora.text_files import no_such
from hf_sgpe.counts import count_files
from hf_sgpe.counts.counters import make_word_counter
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.files.atomic import check_file
from hf_sgpe.files.overwriting import check_new_file
from hf_sgpe.splitting.splitting import HasSplitting, Splitting
from hf_sgpe.terminal.command import ArgumentParser, exit_code

# Memory for the distinct words of a worker before it passes them on.
_WORKER_BYTES = 512 << 20


def main() -> int:
    parser = ArgumentParser(__doc__)
    parser.add_argument("source", help="file, folder or glob that Spark reads")
    parser.add_argument("--format", default="parquet", help="Spark's name for the format (default: %(default)s)")
    parser.add_argument("--column", default="text", help="column with the text (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    parser.add_argument("--recipe", default="hybrid", help="as for hf-sgpe count (default: %(default)s)")
    parser.add_argument("--script", action="append", help="as for hf-sgpe count (repeatable; default: all)")
    parser.add_argument("--pattern", default="o200k", help="as for hf-sgpe count (default: %(default)s)")
    args = parser.parse_args()
    return exit_code(lambda: count(args))


def count(args: Any) -> None:
    """Counts the words of the column and writes the file."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise not_installed("counting on Spark needs pyspark", "pyspark") from None

    check_file(args.out)
    check_new_file(args.out, overwrite=args.overwrite)
    scripts = tuple(args.script or ("all",))
    splitting = Splitting(args.recipe, scripts, args.pattern)
    spark = SparkSession.builder.appName("count words").getOrCreate()
    try:
        frame = spark.read.format(args.format).load(args.source)
    except PySparkException as error:
        raise SGPEError(f"{args.source}: {str(error).splitlines()[0]}") from None
    if args.column not in frame.columns:
        raise SGPEError(f"{args.source}: {no_such('column', args.column, frame.columns)}")
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=args.out.resolve().parent) as folder:
        word_counts(frame, args.column, splitting).write.mode("overwrite").parquet(folder)
        info = count_files.write(args.out, _tables(Path(folder)), splitting, sources=[{"name": args.source}])
    print(f"{args.out}: {info.summary()}")


def word_counts(frame: Any, column: str, config: HasSplitting) -> Any:
    """Returns a data frame of ``word``, ``count`` and ``bucket``, sorted like a file of counts across its partitions.

    Args:
        frame: A Spark data frame.
        column: Name of the column with the texts.
        config: A `Splitting`, a `TrainingConfig`, or another object with a ``splitting``.
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
    """The tables that Spark wrote, in the order of their numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema({"word": pa.large_binary(), "count": pa.int64()})
    for part in sorted(folder.glob("part-*.parquet")):
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(columns=["word", "count"]):
                yield pa.Table.from_batches([batch]).cast(schema)


if __name__ == "__main__":
    sys.exit(main())
