"""Feature flags: two bit sets in every manifest, one for readers and one for writers.

A reader or writer that finds an unknown bit must not use the version. Both bit sets (words) are recomputed from the
content at every commit; only the sticky bits are copied from the previous version.

=======  ======================================  ======  ======  ==============================================
value    meaning                                 reader  writer  in this library
=======  ======================================  ======  ======  ==============================================
1        some fragment has a deletion file       x       x       read and kept
2        rows have stable ids                    x       x       kept; new rows get ids
4        left over from early 2.x releases                       ignored, not kept
8        the table config is not empty                   x       kept
16       some files are in base paths            x       x       read and kept
32       transactions are only inline                    x       ignored, not kept
64        data overlays                           x       x       refused, unless enabled in the environment
128      an index stores extra columns           x       x       kept
256      data files have several versions        x       x       sticky; both words or neither
512      unknown purpose                                         refused
1024     fragment reuse maps in files            x       x       read; writing refused; both words or neither
2048     row lineage in hidden columns           x       x       read (columns skipped) and kept
4096     unassigned                                              refused
8192     clustering                                              refused
16384    managed blobs                           x       x       read; writing refused; both words or neither
32768    field ids are never reused                      x       kept; set with ``max_allocated_field_id``
65536    seeds of zone writes                    x       x       refused; both words or neither
others   unknown                                                 refused
=======  ======================================  ======  ======  ==============================================

"Both words or neither" means that a version with the flag in only one of the bit sets is damaged.

Source: ``lance.table.Manifest.reader_feature_flags`` and ``writer_feature_flags``; pylance 14.0.2, bit by bit.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Final

from lance_core.errors import CorruptDataError, UnsupportedFeatureFlagError
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.overlay_files import overlays_enabled
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from lance_core.proto import pb_table
    from lance_core.table.fragment_totals import FragmentTotals

__all__ = ["FeatureFlag", "derive_flags", "require_readable", "require_writable"]


class FeatureFlag(IntFlag):
    """The feature flags that have a known purpose."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    EARLY_V2_FORMAT = 4
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    INLINE_TRANSACTIONS_ONLY = 32
    DATA_OVERLAYS = 64
    COVERING_INDICES = 128
    MIXED_FILE_VERSIONS = 256
    FRAGMENT_REUSE_FILES = 1024
    SPILLED_ROW_LINEAGE = 2048
    CLUSTERING = 8192
    MANAGED_BLOBS = 16384
    UNIQUE_FIELD_IDS = 32768
    ZONE_WRITE_SEED = 65536


_KNOWN: Final = (
    FeatureFlag.DELETION_FILES
    | FeatureFlag.STABLE_ROW_IDS
    | FeatureFlag.EARLY_V2_FORMAT
    | FeatureFlag.TABLE_CONFIG
    | FeatureFlag.BASE_PATHS
    | FeatureFlag.INLINE_TRANSACTIONS_ONLY
    | FeatureFlag.COVERING_INDICES
    | FeatureFlag.MIXED_FILE_VERSIONS
    | FeatureFlag.SPILLED_ROW_LINEAGE
)
# Plain integers: the complement of an IntFlag omits every unnamed bit.
_READABLE: Final = int(_KNOWN | FeatureFlag.FRAGMENT_REUSE_FILES | FeatureFlag.MANAGED_BLOBS)
_WRITABLE: Final = int(_KNOWN | FeatureFlag.UNIQUE_FIELD_IDS)

_STICKY: Final = FeatureFlag.MIXED_FILE_VERSIONS | FeatureFlag.FRAGMENT_REUSE_FILES | FeatureFlag.MANAGED_BLOBS
_IN_BOTH_WORDS: Final = _STICKY | FeatureFlag.ZONE_WRITE_SEED


def require_readable(message: pb_table.Manifest) -> None:
    """Check that this library may read a version.

    Raises:
        UnsupportedFeatureFlagError: a reader flag is not supported; the message contains the flag.
        CorruptDataError: the flags are inconsistent with each other or with the content.
    """
    _check_pairs(message)
    _refuse(message.reader_feature_flags & ~(_READABLE | _switched_on()), "read", message.version)


def require_writable(message: pb_table.Manifest) -> None:
    """Check that this library may commit on top of a version; see :func:`require_readable`."""
    require_readable(message)
    writable = _WRITABLE | _switched_on()
    _refuse(message.writer_feature_flags & ~writable, "write", message.version)
    _refuse(message.reader_feature_flags & ~writable, "write", message.version)


def derive_flags(
    message: pb_table.Manifest,
    totals: FragmentTotals,
    *,
    index_section: bytes | None,
    stable_row_ids: bool,
    previous: pb_table.Manifest,
) -> tuple[int, int]:
    """Compute the feature flags of a new version.

    Args:
        message: the new version's content.
        totals: the totals over the new version's fragments.
        index_section: the new version's serialized index section.
        stable_row_ids: whether rows of the table get stable ids; this is decided when the table is created.
        previous: the previous version, from which the sticky bits are copied.

    Returns:
        The flags for readers, and the flags for writers.
    """
    both = FeatureFlag(0)
    if totals.num_deletion_files:
        both |= FeatureFlag.DELETION_FILES
    if stable_row_ids:
        both |= FeatureFlag.STABLE_ROW_IDS
    if message.base_paths:
        both |= FeatureFlag.BASE_PATHS
    if totals.num_overlays:
        both |= FeatureFlag.DATA_OVERLAYS
    if any(index.covering_field_ids for index in parse_index_section(index_section)):
        both |= FeatureFlag.COVERING_INDICES
    if _mixes_file_versions(message, totals):
        both |= FeatureFlag.MIXED_FILE_VERSIONS
    # Only rows with stable ids have a lineage. This library never writes hidden columns, but may keep existing ones.
    if stable_row_ids and totals.has_spilled_lineage:
        both |= FeatureFlag.SPILLED_ROW_LINEAGE
    reader = both | (previous.reader_feature_flags & _STICKY)
    writer = both | (previous.writer_feature_flags & _STICKY)
    if message.config:
        writer |= FeatureFlag.TABLE_CONFIG
    if message.HasField("max_allocated_field_id"):
        writer |= FeatureFlag.UNIQUE_FIELD_IDS
    return int(reader), int(writer)


def _mixes_file_versions(message: pb_table.Manifest, totals: FragmentTotals) -> bool:
    """Return whether a data file has a different version than the table."""
    if not message.HasField("data_format"):
        return False
    pairs = set(totals.version_pairs())
    if totals.num_overlays:
        overlays = (overlay.data_file for each in message.fragments for overlay in each.overlays)
        pairs.update((file.file_major_version, file.file_minor_version) for file in overlays)
    return any(LanceFileVersion.from_pair(*pair).value != message.data_format.version for pair in pairs)


def _switched_on() -> int:
    """Return the flags enabled by environment variables."""
    return int(FeatureFlag.DATA_OVERLAYS) if overlays_enabled() else 0


def _check_pairs(message: pb_table.Manifest) -> None:
    where = f"version {message.version}"
    half_set = (message.reader_feature_flags ^ message.writer_feature_flags) & int(_IN_BOTH_WORDS)
    if half_set:
        raise CorruptDataError(
            f"{where}: feature flags must be set for both readers and writers; "
            f"set for only one of them: {_names(half_set)}",
            flags=half_set,
        )
    if message.reader_feature_flags & FeatureFlag.UNIQUE_FIELD_IDS:
        raise CorruptDataError(
            f"{where}: feature flag {_names(FeatureFlag.UNIQUE_FIELD_IDS)} must not be set for readers"
        )
    flagged = bool(message.writer_feature_flags & FeatureFlag.UNIQUE_FIELD_IDS)
    if flagged != message.HasField("max_allocated_field_id"):
        raise CorruptDataError(
            f"{where}: feature flag {_names(FeatureFlag.UNIQUE_FIELD_IDS)} is {'set' if flagged else 'not set'}, "
            f"but max_allocated_field_id is {'absent' if flagged else 'present'}"
        )


def _refuse(unknown: int, verb: str, version: int) -> None:
    if unknown:
        raise UnsupportedFeatureFlagError(
            f"version {version}: cannot {verb} the table: unsupported feature flags: {_names(unknown)}",
            flags=unknown,
            version=version,
        )


def _names(flags: int) -> str:
    bits = [1 << position for position in range(flags.bit_length()) if flags >> position & 1]
    named = {flag.value: flag.name for flag in FeatureFlag}
    return " and ".join(f"{bit} ({named[bit]})" if bit in named else f"{bit} (unknown)" for bit in bits)
