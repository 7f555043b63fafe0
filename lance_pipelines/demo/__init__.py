"""The demonstration: ingests, deletes, and maintenance with a real ``dagster dev``."""
