"""What an operation brings along that lies on storage: new fragments, further data files, deletion files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.proto import pb_table
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_files import new_files
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.data_replacement import DataReplacement
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.update import Update

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.transactions.registry import Operation

__all__ = ["added_files", "brought_fragments", "changed_deletions"]


def brought_fragments(operation: Operation) -> tuple[Fragment, ...]:
    """The fragments that an operation adds."""
    match operation:
        case Append() | Overwrite():
            return operation.fragments
        case Rewrite() | Update():
            return operation.new_fragments
        case _:
            return ()


def added_files(operation: Operation, current: Manifest) -> tuple[Fragment, ...]:
    """The data files that an operation adds to fragments which are there: each fragment with those files only."""
    if not isinstance(operation, (Merge, Update, DataReplacement)):
        return ()
    present = {fragment.id: fragment for fragment in current.message.fragments}
    match operation:
        case Merge():
            changed = [fragment.message for fragment in operation.fragments]
        case Update():
            changed = [fragment.message for fragment in operation.updated_fragments]
        case DataReplacement():
            changed = [
                pb_table.DataFragment(
                    id=each.fragment_id,
                    files=[each.new_file.to_proto()],
                    physical_rows=present[each.fragment_id].physical_rows,
                )
                for each in operation.replacements
                if each.fragment_id in present
            ]
    parts = ((fragment, new_files(present.get(fragment.id), fragment)) for fragment in changed)
    return tuple(
        Fragment(pb_table.DataFragment(id=fragment.id, files=files, physical_rows=fragment.physical_rows))
        for fragment, files in parts
        if files
    )


def changed_deletions(operation: Operation) -> tuple[Fragment, ...]:
    """The fragments that get another deletion file."""
    if not isinstance(operation, (Delete, Update)):
        return ()
    return tuple(fragment for fragment in operation.updated_fragments if fragment.deletion_file is not None)
