"""Deleting rows: the plan, and its execution."""
