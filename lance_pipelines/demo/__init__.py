"""The demonstration: a story of ingests, deletes and maintenance, told by a real ``dagster dev``."""
