"""Fits the columns of new rows to a dataset, according to the schema mode of its declaration.

In schema mode ``add``, new columns are committed before any row is written, because data files refer to columns by the
ids that this commit assigns::

    version 4    id, name
    version 5    id, name, country     nulls for all rows
    version 6    id, name, country     the new rows

If the write fails after version 5, the next run finds the columns and adds none.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

import lance_core
from lance_core.errors import SchemaMismatchError, TooMuchWriteContentionError
from lance_core.metadata import add_columns
from lance_pipelines.ingest.declaration import SchemaMode, WriteMode
from lance_pipelines.ingest.fitting import fit_schema, new_columns
from lance_pipelines.ingest.write_plan import plan_write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_pipelines.ingest.declaration import DatasetDeclaration
    from lance_pipelines.ingest.write_plan import WritePlan

__all__ = ["fit_columns"]

_MAX_ATTEMPTS: Final = 10
"""Maximum number of attempts to add columns; an attempt is repeated only if another writer committed first."""


def fit_columns(
    declaration: DatasetDeclaration, plan: WritePlan, found: pa.Schema, *, properties: Mapping[str, str]
) -> tuple[WritePlan, pa.Schema]:
    """Return the schema with which the rows are written, and the plan of the write.

    If columns are added to the dataset, the plan is based on the version that has them.

    Args:
        declaration: the dataset.
        plan: the plan of the write.
        found: the schema of the rows.
        properties: properties of the transaction that adds columns.

    Raises:
        SchemaMismatchError: the columns do not fit; nothing was changed.
        LanceError: the columns could not be added.
    """
    for _ in range(_MAX_ATTEMPTS):
        if plan.schema is None:
            return plan, found
        if declaration.effective_schema_mode is not SchemaMode.ADD:
            return plan, fit_schema(found, plan.schema)
        added = new_columns(found, plan.schema)
        known = pa.schema([field for field in found if field.name not in added.names])
        # An upsert replaces whole rows: a missing column would lose its values.
        target = fit_schema(known, plan.schema, allows_missing=declaration.mode is not WriteMode.UPSERT)
        if not added.names:
            return plan, target
        # If another run has added one of the columns, the next attempt checks whether its type fits.
        with suppress(SchemaMismatchError):
            dataset = lance_core.dataset(declaration.uri, storage_options=declaration.resolved_storage_options())
            add_columns(dataset, added, properties=properties)
        plan = plan_write(declaration)
    raise TooMuchWriteContentionError(
        f"{declaration.uri}: giving up after {_MAX_ATTEMPTS} attempts to add columns, because other writers "
        "changed the dataset each time",
        uri=declaration.uri,
    )
