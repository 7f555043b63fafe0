"""The commands that create versions or remove files: ``restore``, ``plan``, and ``apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.api.open_dataset import dataset
from lance_core.cli.answers import Answer

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["restore"]


def restore(given: Namespace) -> Answer:
    """Create a version with the content of an earlier one."""
    table = dataset(given.dataset).checkout_version(given.version)
    restored = table.version
    table.restore()
    document = {"dataset": given.dataset, "restored_version": restored, "version": table.version}
    return Answer(document, [f"version {table.version} has the content of version {restored}"])
