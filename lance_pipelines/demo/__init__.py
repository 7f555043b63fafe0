"""The demonstration: ingests, deletes and maintenance on a real ``dagster dev``."""
