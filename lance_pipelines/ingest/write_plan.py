"""Plans a write: examines the dataset's location before the write starts.

A write is based on one version: the fragments get the schema of that version, and the commit is checked for conflicts
with all later versions. A write that can be rejected without reading any row is rejected here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance_core
from lance_core.errors import AlreadyExistsError, DatasetNotFoundError, InvalidInputError
from lance_core.metadata import key_columns
from lance_pipelines.ingest.declaration import DatasetDeclaration, SchemaMode, WriteMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_pipelines.ingest.partition_rows import Partition

__all__ = ["WritePlan", "check_run_partitions", "open_dataset", "plan_write", "upsert_keys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The state of the dataset on which a write is based.

    Attributes:
        read_version: the latest version; 0 if the dataset does not exist.
        read_transaction: UUID of the transaction that created this version; None if the dataset does not exist, or if
            the version records no transaction.
        schema: the schema that the rows must fit; None if the dataset gets that of the source, because it does not
            exist or because the write replaces its columns.
        replaces_content: whether the version will contain only the new fragments, in files of any format version.
        data_storage_version: format version of the dataset's data files; None if the dataset does not exist.
    """

    read_version: int
    read_transaction: str | None
    schema: pa.Schema | None
    replaces_content: bool
    data_storage_version: str | None = None


def open_dataset(uri: str, storage_options: dict[str, str] | None = None) -> lance_core.LanceDataset | None:
    """Return the latest version of the dataset at ``uri``, or None if the dataset does not exist."""
    try:
        return lance_core.dataset(uri, storage_options=storage_options)
    except DatasetNotFoundError:
        return None


def plan_write(declaration: DatasetDeclaration) -> WritePlan:
    """Examine the dataset's location, and return the plan of a write.

    Raises:
        AlreadyExistsError: the mode is ``create`` and the dataset exists.
    """
    dataset = open_dataset(declaration.uri, declaration.resolved_storage_options())
    if dataset is None:
        return WritePlan(read_version=0, read_transaction=None, schema=None, replaces_content=True)
    if declaration.mode is WriteMode.CREATE:
        raise AlreadyExistsError(
            f"{declaration.uri} already contains a dataset (version {dataset.version}), which mode create does not "
            "allow; choose mode append or overwrite, or another URI",
            uri=declaration.uri,
            version=dataset.version,
        )
    transaction = dataset.read_transaction(dataset.version)
    return WritePlan(
        read_version=dataset.version,
        read_transaction=None if transaction is None else transaction.uuid,
        schema=None if declaration.effective_schema_mode is SchemaMode.OVERWRITE else dataset.schema,
        replaces_content=declaration.mode is WriteMode.OVERWRITE,
        data_storage_version=dataset.data_storage_version,
    )


def upsert_keys(declaration: DatasetDeclaration, schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the key columns of a write; empty unless its mode is ``upsert``.

    Args:
        declaration: the dataset.
        schema: the schema of the dataset, or of the rows that create it.

    Raises:
        InvalidInputError: a column does not exist, or no key is declared.
    """
    if declaration.mode is not WriteMode.UPSERT:
        return ()
    try:
        return key_columns(schema, declaration.upsert_by or None)
    except InvalidInputError as error:
        if declaration.upsert_by:
            raise InvalidInputError(f"dataset {declaration.name}: upsert_by: {error}") from error
        raise InvalidInputError(
            f"dataset {declaration.name}: mode upsert requires upsert_by, or a primary key that the schema declares"
        ) from error


def check_run_partitions(declaration: DatasetDeclaration, partitions: Sequence[Partition]) -> None:
    """Check that the mode of a declaration suits a run for these partitions.

    Raises:
        InvalidInputError: the mode needs partitions and the run has none, or the run has partitions and the mode cannot
            use them.
    """
    if declaration.mode is WriteMode.OVERWRITE_PARTITION and not partitions:
        raise InvalidInputError(
            f"dataset {declaration.name}: mode overwrite_partition replaces the rows of the run's partitions, but this "
            "run has none; materialize partitions, or choose mode append or overwrite"
        )
    if declaration.mode is WriteMode.OVERWRITE and partitions:
        raise InvalidInputError(
            f"dataset {declaration.name}: mode overwrite would replace all rows with those of the run's partitions; "
            "choose mode overwrite_partition, or start a run without partitions"
        )
