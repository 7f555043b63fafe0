"""``latest_version_hint.json``: the number of the latest version, for stores that do not list in order.

The hint is advisory. It may be missing, stale, too high, or invalid, and this library never relies on it: versions are
found by listing. It is kept up to date because the reference implementation reads it when it commits to such a store.

Setting ``LANCE_USE_VERSION_HINT`` to ``0``, ``false``, or ``off`` disables it.

Source: file written by pylance 14.0.2: exactly ``{"version":N}``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lance_core.errors import LanceError
from lance_core.table.paths import VERSION_HINT_NAME, VERSIONS_DIRECTORY

if TYPE_CHECKING:
    from lance_core.io.object_store import ObjectStore

__all__ = ["write_version_hint"]

_SWITCH: Final = "LANCE_USE_VERSION_HINT"
_OFF: Final = frozenset({"0", "false", "off"})


def write_version_hint(store: ObjectStore, root: str, version: int) -> None:
    """Write the hint after a commit, if the store needs one. Failures are ignored."""
    if not store.capabilities.version_hint or os.environ.get(_SWITCH, "").strip().lower() in _OFF:
        return
    with suppress(LanceError):
        store.put(store.join(root, VERSIONS_DIRECTORY, VERSION_HINT_NAME), b'{"version":%d}' % version, durable=False)
