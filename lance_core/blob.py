"""Blob columns: values to write, file objects for reading values, and writers for sidecar files.

The names follow ``lance.blob``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.absent import missing_name
from lance_core.blobs.files import DEFAULT_BLOB_BUFFER_SIZE, BlobColumn, BlobFile
from lance_core.file.blob_descriptors import BlobDescriptor, BlobDescriptorArrayBuilder
from lance_core.file.blob_writers import DedicatedBlobWriter, PackedBlobWriter
from lance_core.schema.blob_types import Blob, BlobArray, BlobType, blob_array, blob_field

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "BlobType",
    "DedicatedBlobWriter",
    "PackedBlobWriter",
    "blob_array",
    "blob_field",
]

if not TYPE_CHECKING:  # otherwise, type checkers would accept any name

    def __getattr__(name: str) -> object:
        raise missing_name(__name__, name)
