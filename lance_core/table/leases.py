"""Leases: tags that expire. A cleanup keeps a leased version until the lease ends.

::

    _refs/tags/lease.{16 hex digits}.json    a tag whose metadata has the key "lance.lease.expires_at"

A reader that needs a version for a limited time leases it instead of tagging it. Other libraries treat a lease as an
ordinary tag, so they keep the version too, even after the lease has expired. In this library, an expired lease protects
nothing, and the next cleanup removes its file.

A tag whose expiry cannot be read is an ordinary tag: it protects its version until the tag is deleted.

Source: an extension of this library; pylance 14.0.2 keeps tag metadata that it does not recognize.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from lance_core.table.paths import TAGS_DIRECTORY
from lance_core.table.ref_files import REF_SUFFIX
from lance_core.table.tags import list_tags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.io.object_store import ObjectStore
    from lance_core.table.tags import TagRecord

__all__ = ["LEASE_PREFIX", "TagsInForce", "expiry_ns", "lease_metadata", "lease_path"]

LEASE_PREFIX: Final = "lease."
"""Prefix of the names of leases."""

_EXPIRES_AT: Final = "lance.lease.expires_at"
_HOLDER: Final = "lance.lease.holder"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def lease_metadata(holder: str, expires_at: datetime) -> dict[str, str]:
    """Return the metadata of a tag that is a lease."""
    return {_EXPIRES_AT: expires_at.astimezone(UTC).isoformat(), _HOLDER: holder}


def expiry_ns(name: str, tag: TagRecord) -> int | None:
    """Return when a lease expires, in nanoseconds since the epoch; None if the tag is not a lease."""
    if not name.startswith(LEASE_PREFIX):
        return None
    try:
        moment = datetime.fromisoformat(tag.metadata[_EXPIRES_AT])
        return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    except (KeyError, ValueError, TypeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsInForce:
    """The tags of a table at one moment, without expired leases.

    Attributes:
        tags: the ordinary tags, by name.
        leases: the leases that have not expired, by name.
        expired: the paths of the expired leases, relative to the main root.
    """

    tags: Mapping[str, TagRecord]
    leases: Mapping[str, TagRecord]
    expired: frozenset[str]

    @classmethod
    def read(cls, store: ObjectStore, root: str, now_ns: int) -> Self:
        """Read all tags.

        Raises:
            CorruptDataError: a file is not a tag.
        """
        tags: dict[str, TagRecord] = {}
        leases: dict[str, TagRecord] = {}
        expired: set[str] = set()
        for name, tag in list_tags(store, root).items():
            expiry = expiry_ns(name, tag)
            if expiry is None:
                tags[name] = tag
            elif expiry > now_ns:
                leases[name] = tag
            else:
                expired.add(lease_path(name))
        return cls(tags=tags, leases=leases, expired=frozenset(expired))

    @property
    def all(self) -> dict[str, TagRecord]:
        """The tags and the leases, by name."""
        return {**self.tags, **self.leases}


def lease_path(name: str) -> str:
    """Return the path of the file of a lease, relative to the main root."""
    return f"{TAGS_DIRECTORY}/{name}{REF_SUFFIX}"
