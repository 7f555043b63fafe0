"""The IO manager for the messages between steps: small JSON documents, which are not assets.

Steps do not use the project's ``io_manager``, because a project's IO manager may store only data frames.
"""

from typing import Final

import dagster as dg

__all__ = ["DEFAULT_MESSAGES", "MESSAGES"]

MESSAGES: Final = "lance_messages"
"""The resource key."""

DEFAULT_MESSAGES: Final = dg.FilesystemIOManager()
"""Stores messages in the instance's storage directory. All calls of ``build_definitions`` share this object."""
