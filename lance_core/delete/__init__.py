"""Deletes rows: plans a delete, and executes the plan."""
