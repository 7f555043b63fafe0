"""Stores for local files, memory, S3, Google Cloud Storage, and Azure, with a common protocol.

Start with ``object_store``, the protocol, and ``uri``, which resolves a URI to a store and a path in it. There is one
module per store: ``local_store``, ``memory_store``, ``s3_store``, and ``fsspec_store`` for Google Cloud Storage and
Azure; each of the other modules supports the store whose module name starts with the same word. ``byte_range`` plans
reads.
"""
