"""Records the class archive of the current Java runtime and Spark installation, by running a small session.

``python -m lance_pipelines.spark.class_recording`` records the archive now, for example while an image is built.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from filelock import FileLock, Timeout
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # the name in every Spark text

from lance_pipelines.spark.class_archive import ClassArchive, archive_options, recording_options
from lance_pipelines.spark.java import find_java_home
from lance_pipelines.spark.session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["record"]

_DUMP_SECONDS: Final = 600
_LOCK_NAME: Final = "recording.lock"


def record(archive: ClassArchive) -> bool:
    """Record an archive, unless another process is doing so; return whether the archive exists now.

    Raises:
        OSError: the cache directory cannot be written.
        LanceError: Spark does not start.
    """
    directory = archive.stem.parent
    directory.mkdir(parents=True, exist_ok=True)
    recorded = directory / f"{archive.stem.name}.{secrets.token_hex(8)}.recorded"
    try:
        with FileLock(directory / _LOCK_NAME, timeout=0):
            if archive.path is not None:
                return True
            archive.attempt.touch()
            if _run(recording_options(recorded)) and recorded.exists() and _run(archive_options(recorded)):
                recorded.replace(archive.named(recorded.stat().st_size))
                archive.attempt.unlink(missing_ok=True)
    except Timeout:
        return False
    finally:
        with suppress(OSError):
            recorded.unlink(missing_ok=True)
    return archive.path is not None


def _run(java_options: str) -> bool:
    """Run a session with the given options, and return whether its JVM has ended by itself."""
    session = start_session({"spark.master": "local[2]", "spark.driver.extraJavaOptions": java_options})
    has_ended = False
    try:
        _use_common_classes(session)
    finally:
        has_ended = stop_session(session, max_seconds=_DUMP_SECONDS)
    return has_ended


def _use_common_classes(session: SparkSession) -> None:
    """Do what ingests and rewrites do: read files, query them, pass the rows through Python, and observe a count."""
    with tempfile.TemporaryDirectory(prefix="lance-pipelines-recording-") as directory:
        frame = session.range(100).select("id", F.col("id").cast("string").alias("text"))
        for source_format in ("parquet", "csv", "json"):
            path = f"{directory}/{source_format}"
            frame.write.format(source_format).save(path)
            reader = session.read.format(source_format).schema("id BIGINT, text STRING")
            rows = reader.load(path).repartition(2).sortWithinPartitions("id")
            counted = Observation()
            rows.observe(counted, F.count(F.lit(1)).alias("n")).mapInArrow(_count, "n BIGINT NOT NULL").collect()
        rows.createOrReplaceTempView("rows")
        session.sql("SELECT a.id, count(*) AS n FROM rows a JOIN rows b USING (id) GROUP BY 1 ORDER BY 1").toArrow()


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    for batch in batches:
        yield pa.RecordBatch.from_pylist([{"n": batch.num_rows}], schema=schema)


def _main() -> int:
    if len(sys.argv) > 1:
        archive: ClassArchive | None = ClassArchive(stem=Path(sys.argv[1]))
    else:
        archive = ClassArchive.of(find_java_home(), Path(_find_spark_home(), "jars"))
    # What is recorded must not depend on where the user is, and must not appear there.
    os.chdir(tempfile.gettempdir())
    return 0 if archive is not None and record(archive) else 1


if __name__ == "__main__":
    sys.exit(_main())
