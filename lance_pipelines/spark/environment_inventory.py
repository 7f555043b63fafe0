"""The files installed in the running Python environment, as a DataFrame: a source that is available everywhere.

The driver finds the distributions, Spark reads their RECORD files in parallel as CSV, and workers add the text of small
Python files. An installed distribution is a directory ``{name}-{version}.dist-info`` in a directory of ``sys.path``;
its ``RECORD`` lists every file that it installed, relative to the directory that holds the ``.dist-info``.

A distribution without a RECORD, such as some system packages, contributes no rows. A file that has been deleted since
it was installed still has a row, but without text. The workers read the files, so on a cluster, the environment must
have the same path on every machine.

Source: "Recording installed projects" of the Python packaging specifications.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812  # the name in every Spark text
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from lance_core.errors import InvalidInputError, NotFoundError
from lance_pipelines.spark.failures import translated
from lance_pipelines.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["INVENTORY_SCHEMA", "MAX_SOURCE_BYTES", "InstalledRecord", "environment_inventory", "find_records"]

MAX_SOURCE_BYTES: Final = 64 * 1024
"""Maximum size, in bytes, of a Python file whose text is included."""


def _column(name: str, data_type: StringType | LongType | TimestampType, nullable: bool, comment: str) -> StructField:
    return StructField(name, data_type, nullable, {"comment": comment})


INVENTORY_SCHEMA: Final = StructType(
    [
        _column("package", StringType(), False, "Name of the distribution"),
        _column("version", StringType(), False, "Version of the distribution"),
        _column("path", StringType(), False, "Path as recorded, relative to the parent of the .dist-info directory"),
        _column("digest", StringType(), True, "Recorded hash: algorithm=value"),
        _column("size_bytes", LongType(), True, "Recorded size"),
        _column("captured_at", TimestampType(), False, "When the inventory was taken"),
        _column("source_text", StringType(), True, f"Text of a Python file of at most {MAX_SOURCE_BYTES} bytes"),
    ]
)
"""Columns of the inventory."""

_NUM_PARTITIONS: Final = 8
_BATCH_TEXT_BYTES: Final = 8 * 1024**2

_NAME: Final = re.compile(r"^Name:[ \t]*(\S+)", re.MULTILINE)
_VERSION: Final = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledRecord:
    """The RECORD of one distribution.

    Attributes:
        path: the RECORD file.
        package: the distribution's name, as spelled in its METADATA.
        version: the distribution's version.
    """

    path: str
    package: str
    version: str

    @property
    def root(self) -> str:
        """The directory to which the paths in the RECORD are relative."""
        return str(Path(self.path).parent.parent)

    @classmethod
    def of(cls, path: str) -> Self:
        """Read the name and version from the METADATA beside a RECORD; without METADATA, from the directory name."""
        directory = Path(path).parent
        name, _, version = directory.name.removesuffix(".dist-info").rpartition("-")
        try:
            # The first blank line ends the headers; the description may say "Name:" too.
            headers = (Distribution.at(directory).read_text("METADATA") or "").partition("\n\n")[0]
        except (OSError, UnicodeDecodeError):
            headers = ""
        named, versioned = _NAME.search(headers), _VERSION.search(headers)
        return cls(
            path=path,
            package=named[1] if named else name or version,
            version=versioned[1] if versioned else version,
        )


def environment_inventory(
    session: SparkSession, *, captured_at: datetime, records: Sequence[InstalledRecord] | None = None
) -> DataFrame:
    """Return one row for each file of each installed distribution; the order of the rows is deterministic.

    Args:
        session: a running session.
        captured_at: timestamp of every row; timezone-aware.
        records: the distributions; if None, those of the running environment.

    Returns:
        A DataFrame with :data:`INVENTORY_SCHEMA`. The files of a distribution are in one partition, sorted by path.

    Raises:
        InvalidInputError: ``captured_at`` has no time zone.
        NotFoundError: no distribution has a RECORD.
    """
    if captured_at.tzinfo is None:
        raise InvalidInputError(f"captured_at {captured_at.isoformat()} has no time zone")
    installed = find_records() if records is None else list(records)
    if not installed:
        raise NotFoundError("no distribution of this Python environment has a RECORD of its files")
    with translated("cannot read the RECORD files of the Python environment"):
        recorded = (
            session.read.format("csv")
            .schema("path STRING, digest STRING, size STRING")
            # A quote inside quotes is doubled in a RECORD.
            .options(header="false", sep=",", quote='"', escape='"', encoding="UTF-8", mode="PERMISSIVE")
            .load([f"file:{_without_glob(record.path)}" for record in installed])
            .select(
                F.col("_metadata.file_path").alias("record"),
                "path",
                "digest",
                F.expr("try_cast(size AS BIGINT)").alias("size_bytes"),
            )
            .where("path <> ''")
        )
        # Spark assigns files to partitions arbitrarily; this makes order and partitions deterministic.
        ordered = recorded.repartition(_NUM_PARTITIONS, "record").sortWithinPartitions("record", "path")
        add = partial(_complete, {record.path: record for record in installed}, captured_at.astimezone(UTC))
        return ordered.mapInArrow(add, INVENTORY_SCHEMA)


def find_records(search_path: Sequence[str] | None = None) -> list[InstalledRecord]:
    """Return every RECORD of an environment, sorted by package name.

    Args:
        search_path: directories in import order; if None, ``sys.path``. If a distribution is installed in several of
            them, the first directory takes precedence, as for imports.
    """
    found: dict[str, InstalledRecord] = {}
    for entry in dict.fromkeys(os.path.realpath(entry) for entry in (sys.path if search_path is None else search_path)):
        for path in sorted(Path(entry).glob("*.dist-info/RECORD")):
            record = InstalledRecord.of(str(path))
            found.setdefault(re.sub(r"[-_.]+", "-", record.package).lower(), record)
    return [found[name] for name in sorted(found)]


def _complete(
    installed: Mapping[str, InstalledRecord], captured_at: datetime, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Convert (record, path, digest, size_bytes) to the inventory's columns; runs in a worker."""
    schema = arrow_schema(INVENTORY_SCHEMA)
    moment = pa.scalar(captured_at, schema.field("captured_at").type)
    for batch in batches:
        encoded = batch.column("record").dictionary_encode()
        records = [_record_of(uri, installed) for uri in encoded.dictionary.to_pylist()]
        packages = pa.array([record.package for record in records], pa.string()).take(encoded.indices)
        versions = pa.array([record.version for record in records], pa.string()).take(encoded.indices)
        roots = pa.array([record.root for record in records], pa.string()).take(encoded.indices)
        for start, texts in _texts(roots, batch.column("path")):
            part = slice(start, start + len(texts))
            yield pa.RecordBatch.from_arrays(
                [
                    packages[part],
                    versions[part],
                    batch.column("path")[part],
                    batch.column("digest")[part],
                    batch.column("size_bytes")[part],
                    pa.repeat(moment, len(texts)),
                    texts,
                ],
                schema=schema,
            )


def _texts(roots: pa.Array, paths: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Yield (first row, texts of the rows from there), split where the texts reach several megabytes."""
    texts: list[str | None] = [None] * len(paths)
    start = num_bytes = 0
    for row in np.flatnonzero(pc.ends_with(paths, ".py").to_numpy(zero_copy_only=False)).tolist():
        text = _text_of(Path(roots[row].as_py(), paths[row].as_py()))
        texts[row] = text
        num_bytes += len(text or "")
        if num_bytes >= _BATCH_TEXT_BYTES:
            yield start, pa.array(texts[start : row + 1], pa.string())
            start, num_bytes = row + 1, 0
    if start < len(paths):
        yield start, pa.array(texts[start:], pa.string())


def _text_of(path: Path) -> str | None:
    """Return a regular, small file's text; None when it is anything else, is not UTF-8, or cannot be read."""
    try:
        status = path.stat()
        # Opening a pipe would wait for its other end.
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SOURCE_BYTES:
            return None
        with path.open("rb") as file:
            return file.read(MAX_SOURCE_BYTES).decode("utf-8")
    except (OSError, ValueError):
        return None


def _record_of(uri: str, installed: Mapping[str, InstalledRecord]) -> InstalledRecord:
    """Return the distribution of a RECORD as Spark names it: a URI, percent-encoded, with one or three slashes."""
    path = "/" + unquote(re.sub(r"^file:/*", "", uri))
    return installed.get(path) or InstalledRecord.of(path)


def _without_glob(path: str) -> str:
    """Return the path with every character escaped that Spark would take for a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
