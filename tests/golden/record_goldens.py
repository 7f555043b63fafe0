"""Convert the output of ``write_goldens.py`` into the files that the tests read. Requires pylance 14.0.2.

Usage: ``python tests/golden/record_goldens.py WRITTEN [RELEASE ...]``

Each release has one archive, ``data/<release>.zip``, with its tables and files. ``expected.zip`` has the rows, named by
their content, so that cases of several releases can share them. ``cases.json`` maps each case to its rows, and records
where the expected rows come from:

* ``source``: pylance 14.0.2 reads the rows that were written, or fails to read its own old file; the expected rows are
  those of the source.
* ``reference``: the format or the release did not preserve the rows; the expected rows are those that pylance 14.0.2
  reads, and the columns that differ from the source are listed."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path

import lance
import lance.file
import pyarrow as pa

HERE = Path(__file__).parent
FIXED_TIME = (2020, 1, 1, 0, 0, 0)


def rows_of(column: pa.ChunkedArray) -> list[str]:
    """Values as text, in which NaN equals itself and -0.0 differs from 0.0."""
    return [repr(value) for value in column.to_pylist()]


def read_by_reference(directory: Path) -> pa.Table:
    """What pylance 14.0.2 reads."""
    file = directory / "file.lance"
    if file.exists():
        return lance.file.LanceFileReader(str(file)).read_all().to_table()
    return lance.dataset(str(directory / "table.lance")).to_table()


def recorded(directory: Path) -> tuple[dict[str, object], pa.Table]:
    """The entry of a case and its expected rows."""
    entry = json.loads((directory / "how.json").read_text())
    entry["path"] = f"{directory.name}/{'file' if (directory / 'file.lance').exists() else 'table'}.lance"
    with pa.memory_map(str(directory / "source.arrow")) as file:
        source = pa.ipc.open_file(file).read_all()
    source = source.replace_schema_metadata(None)
    try:
        found = read_by_reference(directory).replace_schema_metadata(None)
    except BaseException as error:  # noqa: BLE001 - PanicException is no Exception
        lines = [line for line in str(error).splitlines() if line.strip()]
        return {**entry, "expected_from": "source", "reference_fails": lines[0][:160] if lines else "panic"}, source
    different = [name for name in source.column_names if rows_of(found.column(name)) != rows_of(source.column(name))]
    if not different:
        return {**entry, "expected_from": "source"}, found.select(source.column_names)
    return {**entry, "expected_from": "reference", "changed": different}, found.select(source.column_names)


def content(table: pa.Table) -> bytes:
    """The table as a compressed Arrow file without field metadata."""
    fields = [field.remove_metadata() for field in table.schema]
    plain = pa.Table.from_batches(table.combine_chunks().to_batches(), table.schema).cast(pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, plain.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(plain)
    return sink.getvalue().to_pybytes()


def add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add a file without the time of day."""
    info = zipfile.ZipInfo(name, FIXED_TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def main() -> None:
    """Record every release below the directory, or those that are named."""
    written = Path(sys.argv[1])
    releases = sys.argv[2:] or sorted(path.name for path in written.iterdir())
    cases_file, expected_file = HERE / "cases.json", HERE / "expected.zip"
    cases = json.loads(cases_file.read_text()) if cases_file.exists() else []
    cases = [case for case in cases if case["release"] not in releases]
    expected: dict[str, bytes] = {}
    if expected_file.exists():
        with zipfile.ZipFile(expected_file) as archive:
            expected = {name: archive.read(name) for name in archive.namelist()}
    (HERE / "data").mkdir(exist_ok=True)
    for release in releases:
        with zipfile.ZipFile(HERE / "data" / f"{release}.zip", "w") as archive:
            for directory in sorted((written / release).iterdir()):
                entry, table = recorded(directory)
                data = content(table)
                name = f"{hashlib.sha256(data).hexdigest()[:16]}.arrow"
                expected[name] = data
                cases.append({**entry, "expected": name})
                verdict = entry.get("reference_fails") or entry.get("changed") or "as written"
                print(release, directory.name, verdict)
                for path in sorted(directory.rglob("*")):
                    if path.is_file() and path.name not in ("source.arrow", "how.json"):
                        add(archive, path.relative_to(directory.parent).as_posix(), path.read_bytes())
    wanted = {case["expected"] for case in cases}
    with zipfile.ZipFile(expected_file, "w") as archive:
        for name in sorted(wanted):
            add(archive, name, expected[name])
    cases.sort(key=lambda case: ([int(part) for part in case["release"].split(".")], case["path"]))
    cases_file.write_text(json.dumps(cases, indent=1) + "\n")
    print(len(cases), "cases,", len(wanted), "expected tables")


if __name__ == "__main__":
    main()
