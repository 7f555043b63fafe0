"""Compaction: fewer and larger fragments, without deleted rows, holding the same data."""
