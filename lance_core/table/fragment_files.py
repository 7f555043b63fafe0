"""Files of a fragment: which file contains which field, and which files are no longer needed.

The newest file that lists a field contains its values; older files then list the field as dead (-2). The next commit
removes files without live fields from the fragment. However, the last file of a fragment is always kept, because a
fragment without files could not represent rows whose values are null.

Source: ``lance.table.DataFragment.files``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.proto import pb_table
from lance_core.table.data_file import DEAD_FIELD_ID
from lance_core.table.deletion_file import deletion_file_path
from lance_core.table.fragment import Fragment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lance_core.io.object_store import ObjectStore

__all__ = [
    "drop_dead_files",
    "field_files",
    "new_files",
    "only_new_files",
    "own_deletion_path",
    "rewritten_fields",
    "with_dead_fields",
]


def field_files(fragment: pb_table.DataFragment) -> Mapping[int, tuple[int | None, str]]:
    """Map each field id to the base path id and path of the file that contains the field."""
    return {field_id: _place(file) for file in fragment.files for field_id in file.fields if field_id >= 0}


def rewritten_fields(before: pb_table.DataFragment, after: pb_table.DataFragment) -> frozenset[int]:
    """Return the ids of the fields whose file changed, including fields that gained or lost their file."""
    old, new = field_files(before), field_files(after)
    return frozenset(field_id for field_id, _ in old.items() ^ new.items())


def new_files(before: pb_table.DataFragment | None, after: pb_table.DataFragment) -> list[pb_table.DataFile]:
    """Return the files of a fragment that are not in ``before``, its earlier state; all files if ``before`` is None."""
    known = set() if before is None else {_place(file) for file in before.files}
    return [file for file in after.files if _place(file) not in known]


def only_new_files(
    before: Mapping[int, pb_table.DataFragment], after: Iterable[pb_table.DataFragment]
) -> tuple[Fragment, ...]:
    """Return each fragment with only its new files; fragments without new files are omitted.

    Args:
        before: the old fragments, keyed by fragment id.
        after: the new fragments.
    """
    parts = ((fragment, new_files(before.get(fragment.id), fragment)) for fragment in after)
    return tuple(
        Fragment(pb_table.DataFragment(id=fragment.id, files=files, physical_rows=fragment.physical_rows))
        for fragment, files in parts
        if files
    )


def with_dead_fields(file: pb_table.DataFile, field_ids: Collection[int]) -> pb_table.DataFile:
    """Return a copy of a file's record in which some fields are marked as dead; their columns remain listed."""
    copy = type(file)()
    copy.CopyFrom(file)
    copy.fields[:] = [DEAD_FIELD_ID if field_id in field_ids else field_id for field_id in file.fields]
    return copy


def drop_dead_files(fragment: pb_table.DataFragment, field_ids: Collection[int] | None = None) -> bool:
    """Remove, in place, the files of a fragment that no longer contain a live field.

    Args:
        fragment: the fragment to change.
        field_ids: ids of all fields in the schema; if None, only files whose fields are all marked as dead are removed.

    Returns:
        Whether a file was removed.
    """
    kept = [file for file in fragment.files if _is_needed(file, field_ids)]
    kept = kept or list(fragment.files[-1:])
    if len(kept) == len(fragment.files):
        return False
    del fragment.files[:]
    fragment.files.extend(kept)
    return True


def own_deletion_path(store: ObjectStore, root: str, fragment: Fragment) -> str | None:
    """Return the path of a fragment's deletion file; None if it has none, or if the file is in a base path."""
    deletion = fragment.deletion_file
    if deletion is None or deletion.base_id is not None:
        return None
    return deletion_file_path(store, root, fragment.id, deletion)


def _is_needed(file: pb_table.DataFile, field_ids: Collection[int] | None) -> bool:
    if field_ids is None:
        return DEAD_FIELD_ID not in file.fields or any(field_id != DEAD_FIELD_ID for field_id in file.fields)
    # Hidden lineage columns (-3 to -5) are not in any schema and are kept.
    return any(field_id in field_ids or field_id < DEAD_FIELD_ID for field_id in file.fields)


def _place(file: pb_table.DataFile) -> tuple[int | None, str]:
    return (file.base_id if file.HasField("base_id") else None, file.path)
