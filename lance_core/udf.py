"""Functions that compute new columns; the names follow ``lance.udf``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.absent import missing_name
from lance_core.columns.batch_udf import BatchUDF, BatchUDFCheckpoint, batch_udf

__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf"]

if not TYPE_CHECKING:  # otherwise, type checkers would accept any name

    def __getattr__(name: str) -> object:
        raise missing_name(__name__, name)
