"""Functions that change or examine a table with Spark, without Dagster ("verbs"): one module per verb.

Each verb plans on the driver, executes tasks that can be repeated any number of times, collects metadata only, and
commits one version in the driver process. ``table_change`` contains what the verbs share: attempts, files, and the
removal of leftovers.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_pipelines.spark.verbs.compaction import Compacted, compact, materialize_deletions
    from lance_pipelines.spark.verbs.copying import Copied, copy
    from lance_pipelines.spark.verbs.deletion import Deleted, delete
    from lance_pipelines.spark.verbs.merging import Upserted, upsert
    from lance_pipelines.spark.verbs.new_columns import add_columns
    from lance_pipelines.spark.verbs.replacement import Replaced, replace_rows
    from lance_pipelines.spark.verbs.updating import Updated, update
    from lance_pipelines.spark.verbs.verification import verify
    from lance_pipelines.spark.verbs.writing import Written, write

__all__ = [
    "Compacted",
    "Copied",
    "Deleted",
    "Replaced",
    "Updated",
    "Upserted",
    "Written",
    "add_columns",
    "compact",
    "copy",
    "delete",
    "materialize_deletions",
    "replace_rows",
    "update",
    "upsert",
    "verify",
    "write",
]

_HOMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Compacted": "compaction",
        "Copied": "copying",
        "Deleted": "deletion",
        "Replaced": "replacement",
        "Updated": "updating",
        "Upserted": "merging",
        "Written": "writing",
        "add_columns": "new_columns",
        "compact": "compaction",
        "copy": "copying",
        "delete": "deletion",
        "materialize_deletions": "compaction",
        "replace_rows": "replacement",
        "update": "updating",
        "upsert": "merging",
        "verify": "verification",
        "write": "writing",
    }
)
"""Each name is imported on first use: a worker that executes tasks of one verb does not load the others."""


def __getattr__(name: str) -> object:
    """Import a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
