"""Stores for local files, memory, S3, Google Cloud Storage, and Azure, with a common protocol."""
