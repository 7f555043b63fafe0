"""Small records for tests of manifests and commits that need no data files."""

import uuid

import pyarrow as pa

from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Schema
from lance_core.table.data_file import DataFile
from lance_core.table.fragment import Fragment
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.transaction import Transaction
from lance_core.versions import LanceFileVersion

ARROW_SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
SCHEMA: Schema = schema_from_arrow(ARROW_SCHEMA)


def data_file(path: str = "", **changes: object) -> DataFile:
    """Return a data file with the two columns of ``SCHEMA``."""
    values = {
        "path": path or f"{uuid.uuid4().hex}.lance",
        "field_ids": (0, 1),
        "column_indices": (0, 1),
        "file_version": LanceFileVersion.V2_2,
        "num_bytes": 100,
    }
    return DataFile(**{**values, **changes})


def fragment(num_rows: int = 10, **changes: object) -> Fragment:
    """Return a new fragment of one data file."""
    return Fragment.of([data_file(**changes)], physical_rows=num_rows)


def append(*fragments: Fragment, read_version: int) -> Transaction:
    """Return a transaction that appends."""
    return Transaction(read_version=read_version, operation=Append(fragments=fragments))


def overwrite(*fragments: Fragment, read_version: int = 0, **changes: object) -> Transaction:
    """Return a transaction that creates or overwrites a table."""
    return Transaction(read_version=read_version, operation=Overwrite(schema=SCHEMA, fragments=fragments, **changes))
