"""Running lance-core commands."""

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]
"""Runs a command in this process; returns its exit code, output, and errors. The fixture ``run`` of the unit tests."""
