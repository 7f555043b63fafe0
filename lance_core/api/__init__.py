"""The public API: datasets, fragments, writing, and committing."""
