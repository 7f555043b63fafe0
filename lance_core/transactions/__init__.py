"""Describing a change of a table, and committing it."""
