"""Stores: local files, memory, S3, Google Cloud Storage and Azure, behind one protocol."""
