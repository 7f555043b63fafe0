"""Stores for local files, memory, S3, Google Cloud Storage, and Azure, with a common protocol.

Start with ``object_store``, the protocol, and ``uri``, which resolves a URI to a store and a path in it. There is one
module per store: ``local_store``, ``memory_store``, ``s3_store``, and ``fsspec_store`` for Google Cloud Storage and
Azure. The other ``s3_…`` and ``fsspec_…`` modules support these stores, as ``file_ranges`` and ``file_sync`` support
``local_store``. ``byte_range`` plans reads.
"""
