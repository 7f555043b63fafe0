"""DataReplacement: replace data files of fragments with files that contain the same fields of the same rows.

A new file replaces the file with exactly the same list of fields and the same format version. If there is no such file,
the new file is added. If the fragment already stores all of the new file's fields, these fields are marked as removed
in the old files, and an old file that contains no other fields is removed. If the fragment stores none of the fields,
they were read as null before. A file may contain dropped columns if the fragment does.

Indices on these fields no longer cover the fragments, and older overlays no longer apply to the fields. Schema,
deletions and row ids are kept; if row ids are stable, all rows of the fragment count as updated.

Source: ``lance.table.Transaction.DataReplacement``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import checked_number
from lance_core.public.fragment_conversion import data_file_from_record, data_file_to_record
from lance_core.table.data_file import DataFile
from lance_core.table.feature_flags import require_writable
from lance_core.table.field_ids import with_relatives
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_files import drop_dead_files, field_files, only_new_files, with_dead_fields
from lance_core.table.index_rules import without_empty_indices, without_fragments
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.moved_rows import refresh_changed_rows
from lance_core.table.overlay_files import retire_overlaid_fields
from lance_core.transactions.operations.fragment_rules import check_file
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

if TYPE_CHECKING:
    from lance_core.public.data_file_metadata import DataFile as ShownDataFile
    from lance_core.table.manifest import Manifest

__all__ = ["DataReplacement", "PublicDataReplacement", "PublicDataReplacementGroup", "Replacement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A new data file for one fragment.

    Attributes:
        fragment_id: the id of the fragment.
        new_file: the new data file.
    """

    fragment_id: int
    new_file: DataFile


@named("DataReplacementGroup")
@dataclass
class PublicDataReplacementGroup:
    """A new data file for a fragment.

    Attributes:
        fragment_id: the id of the fragment.
        new_file: the new file, with the same fields as the file that it replaces.
    """

    fragment_id: int
    new_file: ShownDataFile


@named("DataReplacement")
@dataclass
class PublicDataReplacement(BaseOperation):
    """Replace data files.

    Attributes:
        replacements: the new files.
    """

    replacements: list[PublicDataReplacementGroup]

    def to_record(self) -> DataReplacement:
        """Return the internal form of the operation."""
        return DataReplacement(
            replacements=tuple(
                Replacement(
                    fragment_id=checked_number("fragment id", each.fragment_id, 0, 2**64),
                    new_file=data_file_to_record(each.new_file),
                )
                for each in self.replacements
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReplacement(Operation):
    """Replace data files.

    Attributes:
        replacements: the new files.
    """

    arm: ClassVar[str] = "data_replacement"

    replacements: tuple[Replacement, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.DataReplacement) -> Self:
        """Parse the protobuf message; the errors are those of :meth:`DataFile.from_proto`."""
        return cls(
            replacements=tuple(
                Replacement(fragment_id=each.fragment_id, new_file=DataFile.from_proto(each.new_file))
                for each in message.replacements
            )
        )

    def to_proto(self) -> pb_transaction.Transaction.DataReplacement:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.DataReplacement(
            replacements=[
                pb_transaction.Transaction.DataReplacementGroup(
                    fragment_id=each.fragment_id, new_file=each.new_file.to_proto()
                )
                for each in self.replacements
            ]
        )

    def touched_fragments(self) -> frozenset[int]:
        """Return the ids of the fragments that get a new file."""
        return frozenset(each.fragment_id for each in self.replacements)

    def field_ids(self) -> frozenset[int]:
        """Return the ids of the fields that are rewritten."""
        return frozenset(field_id for each in self.replacements for field_id in each.new_file.live_field_ids)

    def added_files(self, current: Manifest) -> tuple[Fragment, ...]:
        """Return the fragments that get a new file and exist in the given version, each with only its new file."""
        present = {fragment.id: fragment for fragment in current.message.fragments}
        return only_new_files(
            present,
            (
                pb_table.DataFragment(
                    id=each.fragment_id,
                    files=[each.new_file.to_proto()],
                    physical_rows=present[each.fragment_id].physical_rows,
                )
                for each in self.replacements
                if each.fragment_id in present
            ),
        )

    def to_public(self) -> PublicDataReplacement:
        """Return the public form of the operation."""
        return PublicDataReplacement(
            [
                PublicDataReplacementGroup(each.fragment_id, data_file_from_record(each.new_file))
                for each in self.replacements
            ]
        )

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        The new values count as values of ``context.read_version``: overlays newer than that version continue to
        override them.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: a fragment is not in the table, is listed twice, or stores only some of the fields of
                its new file; or the files contain different fields.
            SchemaMismatchError: a field is neither in the table nor in the fragment.
        """
        current = context.current
        require_writable(current.message)
        self._check(current)
        read_version = context.read_version or None
        present = {fragment.id: fragment for fragment in current.message.fragments}
        changed = {}
        for each in self.replacements:
            if each.fragment_id not in present:
                raise InvalidInputError(
                    f"a replacement data file belongs to fragment {each.fragment_id}, which is not in version "
                    f"{current.version}"
                )
            changed[each.fragment_id] = _replaced(present[each.fragment_id], each.new_file, current, read_version)
        draft = ManifestDraft(current)
        if current.has_stable_row_ids:
            for fragment in changed.values():
                refresh_changed_rows(fragment, None, draft.version)
        draft.replace_fragments(changed)
        changed_fields = with_relatives(current.message.fields, self.field_ids())
        section = without_fragments(draft.index_section, self.touched_fragments(), changed_fields)
        draft.set_index_section(without_empty_indices(section))
        return draft

    def _check(self, current: Manifest) -> None:
        if len(self.touched_fragments()) != len(self.replacements):
            raise InvalidInputError("a data replacement lists a fragment twice")
        if len({each.new_file.field_ids for each in self.replacements}) > 1:
            raise InvalidInputError("all files of a data replacement must contain the same fields")
        known = {field.id for field in current.message.fields}
        for each in self.replacements:
            check_file(
                each.new_file,
                f"fragment {each.fragment_id}",
                field_ids=known,
                base_ids={base.id for base in current.message.base_paths},
                file_version=current.file_version,
            )


def _replaced(
    fragment: pb_table.DataFragment, file: DataFile, current: Manifest, read_version: int | None
) -> pb_table.DataFragment:
    message = file.to_proto()
    result = pb_table.DataFragment()
    result.CopyFrom(fragment)
    retire_overlaid_fields(result, file.live_field_ids, read_version)
    for position, old in enumerate(Fragment(fragment).files):
        if old.field_ids == file.field_ids and old.file_version is file.file_version:
            result.files[position].path = message.path
            result.files[position].file_size_bytes = message.file_size_bytes
            result.files[position].column_indices[:] = message.column_indices
            result.files[position].ClearField("base_id")
            if message.HasField("base_id"):
                result.files[position].base_id = message.base_id
            return result
    field_ids = {field.id for field in current.message.fields}
    _check_fits(fragment, file, field_ids)
    for old_file in result.files:
        old_file.CopyFrom(with_dead_fields(old_file, file.live_field_ids))
    result.files.add().CopyFrom(message)
    drop_dead_files(result, field_ids)
    return result


def _check_fits(fragment: pb_table.DataFragment, file: DataFile, field_ids: set[int]) -> None:
    """Check a file that does not replace another file: the fragment must store all of its fields, or none of them."""
    held = field_files(fragment).keys() & set(file.live_field_ids)
    unknown = set(file.live_field_ids) - field_ids - held
    if unknown:
        raise SchemaMismatchError(
            f"neither the table nor fragment {fragment.id} has field {min(unknown)} of the replacement data file",
            field=min(unknown),
        )
    if held and (file.file_version.is_legacy or len(held) < len(file.live_field_ids)):
        raise InvalidInputError(
            f"fragment {fragment.id} stores field {min(held)} in a data file that the replacement cannot replace: no "
            f"data file in format {file.file_version.value} has exactly the fields {list(file.field_ids)}",
            fragment=fragment.id,
        )
