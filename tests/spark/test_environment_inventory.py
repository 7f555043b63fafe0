"""The inventory of installed files: unusual RECORD files, missing files, and the running environment."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_core.errors import InvalidInputError, NotFoundError
from lance_pipelines.ingest.sources import FileSource, SourceContext, SourceFormat
from lance_pipelines.spark.environment_inventory import (
    INVENTORY_SCHEMA,
    MAX_SOURCE_BYTES,
    InstalledRecord,
    environment_inventory,
    find_records,
)
from lance_pipelines.spark.sources import read_source

CAPTURED_AT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def install(root: Path, name: str, version: str, record: str | None, *, metadata: bool = True) -> Path:
    """Create a ``.dist-info`` directory below ``root``."""
    directory = root / f"{name}-{version}.dist-info"
    directory.mkdir(parents=True)
    if metadata:
        (directory / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.title()}\nVersion: {version}\n\nName: not-me\nVersion: 0\n"
        )
    if record is not None:
        (directory / "RECORD").write_bytes(record.encode())
    return directory


def test_records_of_installed_files_are_found_in_import_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    install(first, "beta_one", "1.0", "x.py,,\n")
    install(second, "beta-one", "0.9", "x.py,,\n")
    install(second, "alpha", "2!1.0rc1", "x.py,,\n", metadata=False)
    install(second, "bare", "1", None)
    (tmp_path / "link").symlink_to(second)
    found = find_records([str(first), str(tmp_path / "link"), str(second), str(tmp_path / "missing")])
    assert [(record.package, record.version) for record in found] == [("alpha", "2!1.0rc1"), ("Beta_One", "1.0")]
    assert found[1].root == str(first)


def test_package_metadata_that_is_not_text_is_replaced_by_the_directory_name(tmp_path: Path) -> None:
    directory = install(tmp_path, "odd", "1.2", "x.py,,\n")
    (directory / "METADATA").write_bytes(b"\xff\xfe\x00")
    assert InstalledRecord.of(str(directory / "RECORD")).version == "1.2"


@pytest.mark.slow
def test_a_time_without_a_zone_and_an_empty_environment_are_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="no time zone"):
        environment_inventory(spark, captured_at=datetime(2026, 1, 1))
    with pytest.raises(NotFoundError, match="RECORD"):
        environment_inventory(spark, captured_at=CAPTURED_AT, records=[])


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory whose name needs escaping, with files to read and a file that must not be opened."""
    site = tmp_path / "si te%41[ä]{x}*" / "lib"
    package = site / "pkg"
    package.mkdir(parents=True)
    (site.parent / "bin").mkdir()
    (package / "a.py").write_text("print('ä')\n", encoding="utf-8")
    (package / "empty.py").touch()
    (package / "latin.py").write_bytes(b"# \xe4\n")
    (package / "limit.py").write_bytes(b"#" * MAX_SOURCE_BYTES)
    (package / "large.py").write_bytes(b"#" * (MAX_SOURCE_BYTES + 1))
    (package / 'quo"te, comma.py').write_text("x = 1\n")
    (site.parent / "bin" / "tool.py").write_text("outside\n")
    (package / "data.bin").write_bytes(b"\x00")
    os.mkfifo(package / "pipe.py")
    return site


RECORD = "\r\n".join(
    [
        "pkg/a.py,sha256=abc,11",
        "pkg/empty.py,sha256=e,0",
        "pkg/latin.py,,",
        "pkg/limit.py,,65536",
        "pkg/large.py,,65537",
        '"pkg/quo""te, comma.py",sha256=q,6',
        "../bin/tool.py,sha256=t,8",
        "pkg/data.bin,sha256=d,1",
        "pkg/pipe.py,,",
        "pkg/gone.py,sha256=g,5",
        "pkg/size.py,,many",
        "",
        ",,",
    ]
)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_inventory_lists_every_recorded_file(spark: SparkSession, site: Path, zone: str) -> None:
    install(site, "pkg", "1.5", RECORD)
    records = find_records([str(site)])
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = environment_inventory(
            spark, captured_at=CAPTURED_AT.astimezone(timezone(timedelta(hours=2))), records=records
        )
        table: pa.Table = frame.toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert frame.schema == INVENTORY_SCHEMA
    assert [field.metadata["comment"] for field in frame.schema.fields] == [
        field.metadata["comment"] for field in INVENTORY_SCHEMA.fields
    ]
    assert {(row["package"], row["version"]) for row in table.to_pylist()} == {("Pkg", "1.5")}
    assert {row["captured_at"] for row in table.to_pylist()} == {CAPTURED_AT}
    columns = table.select(["path", "digest", "size_bytes", "source_text"]).to_pylist()
    by_path: dict[str, tuple[Any, ...]] = {
        row["path"]: (row["digest"], row["size_bytes"], row["source_text"]) for row in columns
    }
    assert list(by_path) == sorted(by_path)
    assert by_path == {
        "../bin/tool.py": ("sha256=t", 8, "outside\n"),
        "pkg/a.py": ("sha256=abc", 11, "print('ä')\n"),
        "pkg/data.bin": ("sha256=d", 1, None),
        "pkg/empty.py": ("sha256=e", 0, ""),
        "pkg/gone.py": ("sha256=g", 5, None),
        "pkg/large.py": (None, 65537, None),
        "pkg/latin.py": (None, None, None),
        "pkg/limit.py": (None, 65536, "#" * MAX_SOURCE_BYTES),
        "pkg/pipe.py": (None, None, None),
        'pkg/quo"te, comma.py': ("sha256=q", 6, "x = 1\n"),
        "pkg/size.py": (None, None, None),
    }


@pytest.mark.spark
@pytest.mark.slow
def test_file_texts_are_returned_in_batches_of_bounded_size(spark: SparkSession, tmp_path: Path) -> None:
    text = "#" * MAX_SOURCE_BYTES
    names = [f"f{number:03d}.py" for number in range(300)]
    for name in names:
        (tmp_path / name).write_text(text)
    install(tmp_path, "many", "1", "".join(f"{name},,\n" for name in [*names, "last.txt"]))
    frame = environment_inventory(spark, captured_at=CAPTURED_AT, records=find_records([str(tmp_path)]))

    def sizes(batches: Any) -> Any:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"num_bytes": [batch.nbytes], "num_rows": [batch.num_rows]})

    # Spark may divide batches again on the way to the next worker; only the completeness of the rows matters.
    seen = frame.mapInArrow(sizes, "num_bytes BIGINT, num_rows BIGINT").collect()
    assert sum(row.num_rows for row in seen) == 301
    assert frame.where(f"length(source_text) = {MAX_SOURCE_BYTES}").count() == 300


@pytest.mark.spark
@pytest.mark.slow
def test_the_inventory_of_the_running_environment_lists_its_packages(spark: SparkSession) -> None:
    frame = read_source(
        spark, FileSource(format=SourceFormat.ENVIRONMENT), SourceContext(captured_at=CAPTURED_AT)
    ).cache()
    try:
        counts = {row.package.lower(): row["count"] for row in frame.groupBy("package").count().collect()}
        expected = {record.package.lower() for record in find_records(sys.path)}
        assert set(counts) == expected
        assert counts["pyarrow"] > 100
        (row,) = frame.where("lower(package) = 'pyspark' AND path = 'pyspark/sql/functions/__init__.py'").collect()
        assert "pyspark" in row.source_text
        assert row.size_bytes == len(row.source_text.encode())
    finally:
        frame.unpersist()
