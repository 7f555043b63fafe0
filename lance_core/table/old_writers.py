"""Defects that old releases of the reference implementation left in manifests, and their corrections.

=========================  ===================  ==================================================================
defect                     written by           correction and cause
=========================  ===================  ==================================================================
wrong row counts           0.8.0 and earlier,   The row counts are read from the data files; the next commit
                           which record no      records them. Cause: 0.8.0 counted live rows instead of all rows
                           writer version       of a file if rows written by an earlier release had been deleted.
shared field ids           up to 0.10.5         A field belongs to the last file of a fragment that lists it, and is
                                                dead in earlier files, as after any rewrite of a column. Cause:
                                                adding and dropping columns repeatedly reassigned ids in use.
understated format         0.16                 The format of the data files is used if all have the same format;
                                                mixed formats are rejected. Cause: the manifest records 0.1.
overlapping coverage       up to 0.21           A fragment is covered only by the oldest segment of an index that
                                                lists it. Cause: segments for appended rows also listed fragments
                                                that were already indexed.
unreliable coverage        before 0.8.15        The index covers no fragment, and queries read the rows instead.
                                                Cause: the covered fragments were not recorded, or were wrong after
                                                a compaction.
=========================  ===================  ==================================================================

A parsed manifest contains the corrected values, which the next commit records. A correction does not remove files,
because other readers still use the version as it was written and need all of its files. The reference implementation
returns wrong rows or fails for such a version. Its next commit assigns new ids to fields that share an id. This library
keeps the ids of fields, because files in format 0.1 and indices depend on them.

**Source:** the migrations in ``commit.rs`` of pylance 14.0.2; tables written by the releases above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lance_core.errors import LanceError
from lance_core.proto import pb_table
from lance_core.schema.convert import fields_from_proto
from lance_core.table.data_file import DEAD_FIELD_ID, DataFile
from lance_core.table.index_metadata import is_system_index, read_fragment_bitmap
from lance_core.table.index_rules import decode_index_section
from lance_core.versions import LanceFileVersion
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyroaring import BitMap

    from lance_core.schema.field import Field

__all__ = ["AsWritten", "Defect", "OldDefect", "corrected", "defects_of"]

_Release = tuple[int, ...]

_UNKNOWN: Final[_Release] = (0, 0, 0)
"""Represents releases that did not record their version; the last such release is 0.8.0."""

_LIBRARY: Final = "lance"
_NEVER_SHARES_FIELD_IDS: Final[_Release] = (0, 11, 0)
_RECORDS_COVERAGE: Final[_Release] = (0, 8, 15)
_NEVER_OVERLAPS: Final[_Release] = (0, 22, 0)

_NUMBERS: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


class OldDefect(StrEnum):
    """Kinds of defects left by old releases."""

    ROW_COUNTS = "wrong row counts"
    SHARED_FIELD_IDS = "shared field ids"
    UNDERSTATED_FORMAT = "understated format"
    OVERLAPPING_COVERAGE = "overlapping coverage"
    UNRELIABLE_COVERAGE = "unreliable coverage"


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect of a manifest.

    Attributes:
        kind: the kind of defect.
        detail: a short description of the location of the defect and of the recorded value.
    """

    kind: OldDefect
    detail: str


@dataclass(frozen=True, slots=True)
class AsWritten:
    """The values that a manifest file records, including wrong values.

    Attributes:
        message: the manifest.
        index_section: serialized ``IndexSection``; None if the table has no index.
    """

    message: pb_table.Manifest
    index_section: bytes | None


def corrected(written: AsWritten) -> AsWritten:
    """Return the corrected manifest; the argument itself if it has no defects.

    Raises:
        CorruptDataError: the index section, or a bitmap in it, cannot be decoded.
    """
    release = _release(written.message)
    is_legacy = written.message.data_format.version == LanceFileVersion.V0_1.value
    if release >= _NEVER_OVERLAPS and not is_legacy:
        return written
    message = pb_table.Manifest()
    message.CopyFrom(written.message)
    if release == _UNKNOWN:
        for fragment in message.fragments:
            fragment.physical_rows = 0
    if release < _NEVER_SHARES_FIELD_IDS:
        _give_each_field_one_file(message)
    if is_legacy:
        found = _format_of_files(message)
        if found is not None:
            message.data_format.version = found.value
    section = written.index_section
    if section is not None and release < _NEVER_OVERLAPS:
        section = _with_right_coverage(section, release)
    if message == written.message and section == written.index_section:
        return written
    return AsWritten(message, section)


def defects_of(written: AsWritten, num_rows: Mapping[int, int]) -> Iterator[Defect]:
    """Yield the defects of a manifest as it was written.

    Args:
        written: the content of the file.
        num_rows: maps fragment ids to the number of rows in their files; fragments without an entry are not checked.

    Raises:
        CorruptDataError: the index section, or a bitmap in it, cannot be decoded.
    """
    right = corrected(written)
    if right is written:
        return
    for before, after in zip(written.message.fragments, right.message.fragments, strict=True):
        rows = num_rows.get(before.id, before.physical_rows)
        if before.physical_rows not in (0, rows):
            detail = f"fragment {before.id} records {counted(before.physical_rows, 'row')} but has {rows}"
            yield Defect(OldDefect.ROW_COUNTS, detail)
        shared = sorted(
            {
                old
                for was, now in zip(before.files, after.files, strict=True)
                for old, new in zip(was.fields, now.fields, strict=True)
                if old != new
            }
        )
        if shared:
            ids = ", ".join(map(str, shared))
            detail = f"fragment {before.id} has several data files for the same fields: {ids}"
            yield Defect(OldDefect.SHARED_FIELD_IDS, detail)
    recorded, found = written.message.data_format.version, right.message.data_format.version
    if recorded != found:
        yield Defect(OldDefect.UNDERSTATED_FORMAT, f"format {recorded} is recorded for data files in format {found}")
    is_unreliable = _release(written.message) < _RECORDS_COVERAGE
    kind = OldDefect.UNRELIABLE_COVERAGE if is_unreliable else OldDefect.OVERLAPPING_COVERAGE
    indices = zip(decode_index_section(written.index_section), decode_index_section(right.index_section), strict=True)
    for name in sorted({was.name for was, now in indices if was != now}):
        yield Defect(kind, f"index {name!r}")


def _release(message: pb_table.Manifest) -> _Release:
    """Return the pylance release that wrote a manifest.

    The result is :data:`_UNKNOWN` if no writer is recorded, and a release without defects if the writer is not pylance.
    """
    if not message.HasField("writer_version"):
        return _UNKNOWN
    numbers = _NUMBERS.match(message.writer_version.version)
    if message.writer_version.library != _LIBRARY or numbers is None:
        return _NEVER_OVERLAPS
    return max(tuple(map(int, numbers.groups())), (0, 0, 1))


def _give_each_field_one_file(message: pb_table.Manifest) -> None:
    """Mark a field of a fragment as dead in all data files except the last one that lists it."""
    several = [fragment for fragment in message.fragments if len(fragment.files) > 1]
    if not any(_lists_twice(fragment) for fragment in several):
        return
    nodes = {node.id: node for node in fields_from_proto(message.fields).walk()}
    for fragment in several:
        held: set[int] = set()
        for file in reversed(fragment.files):
            live = [field_id for field_id in file.fields if field_id >= 0]
            # A struct is listed in every file that contains one of its members.
            own = {field_id for field_id in live if field_id not in held and _is_leaf(nodes.get(field_id))}
            kept = own | {field_id for field_id in live if _holds(nodes.get(field_id), own)}
            held |= own
            file.fields[:] = [
                field_id if field_id < 0 or field_id in kept else DEAD_FIELD_ID for field_id in file.fields
            ]


def _lists_twice(fragment: pb_table.DataFragment) -> bool:
    listed = [field_id for file in fragment.files for field_id in file.fields if field_id >= 0]
    return len(listed) != len(set(listed))


def _is_leaf(node: Field | None) -> bool:
    """Return whether a field has no children; fields that are not in the schema count as leaves."""
    return node is None or node.is_leaf


def _holds(node: Field | None, field_ids: set[int]) -> bool:
    return node is not None and any(leaf.id in field_ids for leaf in node.leaves())


def _format_of_files(message: pb_table.Manifest) -> LanceFileVersion | None:
    """Return the common format of all data files; None if the formats differ or there are no files."""
    pairs = {
        (file.file_major_version, file.file_minor_version): file
        for fragment in message.fragments
        for file in fragment.files
    }
    try:
        versions = {DataFile.from_proto(file).file_version for file in pairs.values()}
    except LanceError:
        # The check of the data files reports the invalid version.
        return None
    return versions.pop() if len(versions) == 1 else None


def _with_right_coverage(section: bytes, release: _Release) -> bytes:
    indices = decode_index_section(section)
    own = [index for index in indices if not is_system_index(index.name)]
    if release < _RECORDS_COVERAGE:
        changed = [index for index in own if _set_coverage(index, ())]
    else:
        changed = _without_overlaps(own)
    return pb_table.IndexSection(indices=indices).SerializeToString() if changed else section


def _without_overlaps(indices: Sequence[pb_table.IndexMetadata]) -> list[pb_table.IndexMetadata]:
    """Assign each fragment to the oldest segment of an index that lists it; return the segments that changed."""
    # Imported on first use: few tables have an index.
    from pyroaring import BitMap

    covered: dict[str, BitMap] = {}
    changed = []
    for index in sorted(indices, key=lambda index: index.dataset_version):
        bitmap = read_fragment_bitmap(index)
        if bitmap is None:
            continue
        before = covered.setdefault(index.name, BitMap())
        if not bitmap.isdisjoint(before):
            _set_coverage(index, bitmap - before)
            changed.append(index)
        before |= bitmap
    return changed


def _set_coverage(index: pb_table.IndexMetadata, fragment_ids: Sequence[int] | BitMap) -> bool:
    from pyroaring import BitMap

    after = BitMap(fragment_ids, optimize=False).serialize()
    changed = index.fragment_bitmap != after
    index.fragment_bitmap = after
    return changed
