"""Checks a staged write before it becomes a version. The checks change nothing.

A commit publishes files by name only: it would succeed even if a file were missing or truncated, and only readers
would notice. Therefore, the commit step first verifies that

* every row that was passed to the writers is in a fragment (:func:`verify_row_counts`);
* every data file exists, with the size that its writer recorded (:func:`verify_files`);
* no key of an upsert is incomplete or repeated (:func:`verify_keys`, already in the write step);
* the fragments contain the dataset's columns, under the dataset's field ids (:func:`verify_schema`);
* the dataset has not been recreated since the write was planned (:func:`verify_read_version`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance_core
from lance_core import LanceFileVersion
from lance_core.errors import (
    IncompatibleTransactionError,
    InvalidInputError,
    NotFoundError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from lance_core.metadata import DATA_DIRECTORY, check_compatible, check_new_keys, open_store, stored_field_ids
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_pipelines.ingest.staged_write import StagedWrite
    from lance_pipelines.progress import Report

__all__ = [
    "StagedWriteError",
    "verify_files",
    "verify_keys",
    "verify_read_version",
    "verify_row_counts",
    "verify_schema",
]


class StagedWriteError(InvalidInputError):
    """The written files do not match the message of the write step. Nothing was committed; run the write step again."""


def verify_row_counts(staged: StagedWrite) -> None:
    """Check that three independent row counts agree: those of the source, the writers, and the fragments.

    Raises:
        StagedWriteError: the counts differ; the message contains them.
    """
    in_fragments = sum(fragment["physical_rows"] for fragment in staged.fragments)
    if not staged.rows_counted == staged.rows_written == in_fragments:
        raise StagedWriteError(
            f"{staged.uri}: the source has {amount(staged.rows_counted, 'row')}, the writers report "
            f"{staged.rows_written}, and the fragments contain {in_fragments} (fragments: {len(staged.fragments)}); "
            "rows were lost or written twice",
            uri=staged.uri,
            rows_counted=staged.rows_counted,
            rows_written=staged.rows_written,
            rows_in_fragments=in_fragments,
        )


def verify_files(
    staged: StagedWrite,
    storage_options: dict[str, str] | None = None,
    report: Report = lambda progress: None,
) -> None:
    """Check that every data file exists with its recorded size and has this write's token in its name.

    Args:
        staged: the message of the write step.
        storage_options: credentials and settings of the dataset's store.
        report: receives the progress.

    Raises:
        StagedWriteError: a data file fails this check; the message contains the path of the first such file.
    """
    store, root = open_store(staged.uri, storage_options)
    data_files = list(_data_files(staged))
    for done, data_file in enumerate(data_files, 1):
        name, expected = data_file["path"], data_file["file_size_bytes"]
        if not name.removesuffix(".lance").endswith(staged.file_token):
            raise StagedWriteError(
                f"{staged.uri}: data file {name} does not belong to this write: its name must end in "
                f"{staged.file_token}.lance",
                uri=staged.uri,
                path=name,
            )
        path = store.join(root, DATA_DIRECTORY, name)
        try:
            found = store.head(path).num_bytes
        except NotFoundError as error:
            raise StagedWriteError(f"data file {path} is missing", uri=staged.uri, path=path) from error
        if found != expected:
            raise StagedWriteError(
                f"data file {path}: expected {expected} bytes, found {found}",
                uri=staged.uri,
                path=path,
                expected=expected,
                found=found,
            )
        report(Progress(stage="checking written files", tasks=done, total_tasks=len(data_files), unit="files"))


def verify_keys(staged: StagedWrite, storage_options: dict[str, str] | None = None) -> None:
    """Check that every row of an upsert has a key and that no two rows have the same key; other writes have no keys.

    Raises:
        InvalidMergeError: a key contains a null, or occurs twice; the message contains the key.
    """
    if not staged.keys:
        return
    fragments = [lance_core.FragmentMetadata.from_json(fragment) for fragment in staged.fragments]
    base: lance_core.LanceDataset | str = staged.uri
    if staged.read_version:
        base = lance_core.dataset(staged.uri, version=staged.read_version, storage_options=storage_options)
    check_new_keys(base, fragments, staged.keys, schema=staged.schema, storage_options=storage_options)


def verify_schema(staged: StagedWrite, schema: lance_core.Schema) -> None:
    """Check that the fragments can be added to a dataset with this schema.

    Names, types, and field ids must match: files written for a different schema store the same columns under different
    ids, and readers would return wrong values without an error. The ids that a file lists, and their order, depend on
    the file's format version.

    Raises:
        SchemaMismatchError: a column or a data file does not match; the message identifies the first mismatch.
    """
    check_compatible(schema, staged.schema)
    for column in staged.schema:
        stored = schema.field(column.name)
        if column.nullable and not stored.nullable:
            raise SchemaMismatchError(
                f"{staged.uri}: column {column.name!r} is not nullable in the dataset, but nullable in the new rows",
                uri=staged.uri,
                column=column.name,
            )
    for data_file in _data_files(staged):
        version = LanceFileVersion.from_pair(data_file["file_major_version"], data_file["file_minor_version"])
        expected_ids = stored_field_ids(schema, staged.schema.names, version)
        if data_file["fields"] != expected_ids:
            raise SchemaMismatchError(
                f"{staged.uri}: data file {data_file['path']} stores field ids {data_file['fields']}, but the "
                f"dataset has these columns under the field ids {expected_ids}",
                uri=staged.uri,
                path=data_file["path"],
            )


def verify_read_version(staged: StagedWrite, dataset: lance_core.LanceDataset) -> None:
    """Check that the dataset has not been recreated since the write was planned.

    Raises:
        IncompatibleTransactionError: the read version is newer than the latest version, or another transaction
            created it.
    """
    planned = staged.read_version
    if planned > dataset.version:
        raise IncompatibleTransactionError(
            f"{staged.uri} is at version {dataset.version}, but the write is based on version {planned}; the "
            "dataset was replaced in the meantime",
            uri=staged.uri,
            planned=planned,
            found=dataset.version,
        )
    try:
        transaction = dataset.read_transaction(planned)
    except VersionNotFoundError:
        # Old versions may be cleaned up while a write runs; the commit checks for conflicts with later ones.
        return
    if staged.read_transaction is None or transaction is None or transaction.uuid == staged.read_transaction:
        return
    raise IncompatibleTransactionError(
        f"{staged.uri} was replaced in the meantime: version {planned} recorded transaction "
        f"{staged.read_transaction} when the write was planned, and now records {transaction.uuid}",
        uri=staged.uri,
        version=planned,
        planned=staged.read_transaction,
        found=transaction.uuid,
    )


def _data_files(staged: StagedWrite) -> Iterator[dict[str, Any]]:
    for fragment in staged.fragments:
        yield from fragment["files"]
