"""The files installed in the running Python environment, as a DataFrame: a source that is available everywhere.

The driver finds the distributions, and each Spark task reads the RECORD files of some of them and adds the text of
small Python files. An installed distribution is a directory ``{name}-{version}.dist-info`` in a directory of
``sys.path``; its ``RECORD`` lists every file that it installed, relative to the directory that holds the
``.dist-info``. Spark's CSV reader is not used: it would list hundreds of files in a job of their own, and sort the rows
in another one.

A distribution without a RECORD, such as some system packages, contributes no rows. A file that has been deleted since
it was installed still has a row, but without text. The workers read the files, so on a cluster, the environment must
have the same path on every machine.

Source: "Recording installed projects" of the Python packaging specifications.
"""

from __future__ import annotations

import csv
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

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from lance_core.errors import InvalidInputError, NotFoundError, StorageError
from lance_pipelines.spark.failures import reported_to_driver, translated
from lance_pipelines.spark.types import natural_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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

_NUM_PARTITIONS: Final = 4
_BATCH_TEXT_BYTES: Final = 8 * 1024**2
_SIZE: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)

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
        raise NotFoundError("no distribution of this Python environment has a RECORD file")
    # The largest first, so that the partitions have about the same number of files.
    ordered = sorted(installed, key=lambda record: (-_num_bytes(record.path), record.path))
    parts = [part for first in range(_NUM_PARTITIONS) if (part := ordered[first::_NUM_PARTITIONS])]
    with translated("cannot read the RECORD files of the Python environment"):
        numbers = session.range(0, len(parts), 1, len(parts))
        return numbers.mapInArrow(partial(_read_parts, parts, captured_at.astimezone(UTC)), INVENTORY_SCHEMA)


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


def _num_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _read_parts(
    parts: Sequence[Sequence[InstalledRecord]], captured_at: datetime, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the parts whose numbers are in the batches; runs in a worker."""
    with reported_to_driver():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for record in parts[number]:
                    yield from _inventory_of(record, captured_at)


def _inventory_of(record: InstalledRecord, captured_at: datetime) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one distribution, sorted by path.

    Raises:
        NotFoundError: the RECORD no longer exists.
        StorageError: it cannot be read.
    """
    schema = natural_schema(INVENTORY_SCHEMA)
    rows = _lines_of(record.path)
    for start, texts in _texts(record.root, [path for path, *_ in rows]):
        paths, digests, sizes = zip(*rows[start : start + len(texts)], strict=True)
        num_rows = len(texts)
        columns = [
            pa.repeat(pa.scalar(record.package, pa.string()), num_rows),
            pa.repeat(pa.scalar(record.version, pa.string()), num_rows),
            pa.array(paths, pa.string()),
            pa.array(digests, pa.string()),
            pa.array(sizes, pa.int64()),
            pa.repeat(pa.scalar(captured_at, schema.field("captured_at").type), num_rows),
            pa.array(texts, pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _lines_of(path: str) -> list[tuple[str, str | None, int | None]]:
    """Return (path, digest, size) of each line of a RECORD that has a path, sorted by path."""
    try:
        with Path(path).open(encoding="utf-8", errors="replace", newline="") as file:
            lines = [(*line, "", "")[:3] for line in csv.reader(file) if line and line[0]]
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} no longer exists", path=path) from error
    except (OSError, csv.Error) as error:
        raise StorageError(f"{path} cannot be read: {error}", path=path) from error
    return sorted(
        ((name, digest or None, int(size) if _SIZE.fullmatch(size) else None) for name, digest, size in lines),
        key=lambda line: line[0],
    )


def _texts(root: str, paths: Sequence[str]) -> Iterator[tuple[int, list[str | None]]]:
    """Yield (first row, texts of the rows from there), split where the texts reach several megabytes."""
    texts: list[str | None] = []
    start = num_bytes = 0
    for path in paths:
        text = _text_of(Path(root, path)) if path.endswith(".py") else None
        texts.append(text)
        num_bytes += len(text or "")
        if num_bytes >= _BATCH_TEXT_BYTES:
            yield start, texts
            start, num_bytes, texts = start + len(texts), 0, []
    if texts:
        yield start, texts


def _text_of(path: Path) -> str | None:
    """Return the text of a small regular file; None for anything else, and for a file that cannot be read as UTF-8."""
    try:
        status = path.stat()
        # Opening a pipe would wait for its other end.
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SOURCE_BYTES:
            return None
        with path.open("rb") as file:
            return file.read(MAX_SOURCE_BYTES).decode("utf-8")
    except (OSError, ValueError):
        return None
