"""Fragments: metadata, reading a single fragment, and writing new fragments; the names follow ``lance.fragment``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.absent import missing_name
from lance_core.api.fragment import LanceFragment
from lance_core.api.fragment_session import FragmentSession
from lance_core.api.write_dataset import write_fragments
from lance_core.columns.batch_udf import BatchUDF
from lance_core.file.session import Session
from lance_core.file.write_config import DEFAULT_MAX_BYTES_PER_FILE
from lance_core.public.bitmap import Bitmap
from lance_core.public.data_file_metadata import DataFile
from lance_core.public.fragment_metadata import DeletionFile, FragmentMetadata
from lance_core.public.row_sequences import RowDatasetVersionMeta, RowIdMeta, RowIdSequence
from lance_core.write.progress import FragmentWriteProgress, NoopFragmentWriteProgress

__all__ = [
    "DEFAULT_MAX_BYTES_PER_FILE",
    "BatchUDF",
    "Bitmap",
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "FragmentWriteProgress",
    "LanceFragment",
    "NoopFragmentWriteProgress",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "Session",
    "write_fragments",
]

if not TYPE_CHECKING:  # otherwise, type checkers would accept any name

    def __getattr__(name: str) -> object:
        raise missing_name(__name__, name)
