"""Protobuf messages of the Lance format, under the short names used everywhere.

The ``*_pb2`` modules are generated from ``protos/``; see ``docs/guides/regenerate-protos.md``.

=================  ==========================================================================
``pb_file``        schema fields, 2.x file descriptor, 0.1 file metadata (``lance.file``)
``pb_file2``       column metadata and pages of 2.x files (``lance.file.v2``)
``pb20``           page encodings of 2.0, column encodings of 2.x (``lance.encodings``)
``pb21``           page layouts and encodings of 2.1 and 2.2 (``lance.encodings21``)
``pb23``           page layout of 2.3, unstable (``lance.encodings23``)
``pb_table``       manifest, fragments, files, index section (``lance.table``)
``pb_transaction`` transactions and their operations (``lance.table``)
``pb_rowids``      row id and row version sequences (``lance.table``)
``pb_columns``     the fragments of a manifest, read by column (our own view of the same bytes)
=================  ==========================================================================
"""

from lance_core.proto import columns_pb2 as pb_columns
from lance_core.proto import encodings_v2_0_pb2 as pb20
from lance_core.proto import encodings_v2_1_pb2 as pb21
from lance_core.proto import encodings_v2_3_pb2 as pb23
from lance_core.proto import file2_pb2 as pb_file2
from lance_core.proto import file_pb2 as pb_file
from lance_core.proto import rowids_pb2 as pb_rowids
from lance_core.proto import table_pb2 as pb_table
from lance_core.proto import transaction_pb2 as pb_transaction

__all__ = [
    "pb20",
    "pb21",
    "pb23",
    "pb_columns",
    "pb_file",
    "pb_file2",
    "pb_rowids",
    "pb_table",
    "pb_transaction",
]
