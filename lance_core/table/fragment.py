"""Fragment: a horizontal slice of a table, with one or more data files for different columns of the same rows.

The record wraps the ``DataFragment`` message and parses only what is needed. Parts that this library keeps without
interpreting them (row id and version sequences, overlays, clustering, metadata) are therefore preserved by every
commit.

Inside a transaction, a new fragment has id 0, which means "assign an id at commit"; in a manifest, 0 is the id of the
first fragment. Only the context distinguishes the two meanings.

Source: ``lance.table.DataFragment``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, overload

from lance_core.proto import pb_table
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_file import DeletionFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Fragment", "Fragments"]


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment of a version, or a new fragment in a transaction.

    Attributes:
        message: the protobuf message; never changed.
    """

    message: pb_table.DataFragment

    @classmethod
    def of(
        cls,
        files: Iterable[DataFile],
        *,
        physical_rows: int,
        fragment_id: int = 0,
        deletion: DeletionFile | None = None,
    ) -> Self:
        """Return a fragment that consists of the given files and has no row ids."""
        return cls(
            pb_table.DataFragment(
                id=fragment_id,
                files=[file.to_proto() for file in files],
                physical_rows=physical_rows,
                deletion_file=None if deletion is None else deletion.to_proto(),
            )
        )

    @property
    def id(self) -> int:
        """The fragment id, unique in the history of the table; 0 in a transaction means "not assigned yet"."""
        return self.message.id

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The parsed data files. Raises the same errors as :meth:`DataFile.from_proto`."""
        return tuple(DataFile.from_proto(file) for file in self.message.files)

    @property
    def deletion_file(self) -> DeletionFile | None:
        """The file that lists the deleted rows; None if no row is deleted."""
        return DeletionFile.from_proto(self.message.deletion_file) if self.message.HasField("deletion_file") else None

    @property
    def physical_rows(self) -> int:
        """Number of rows in each data file, including deleted rows."""
        return self.message.physical_rows

    @property
    def has_row_ids(self) -> bool:
        """Whether the rows have stable ids, inline or in a hidden column."""
        return self.message.WhichOneof("row_id_sequence") is not None

    @property
    def has_overlays(self) -> bool:
        """Whether overlay files replace some values in the data files."""
        return len(self.message.overlays) > 0

    @property
    def data_file_paths(self) -> tuple[str, ...]:
        """The paths of the data files, relative to the directory ``data/`` of the dataset or of their base path.

        If the base path is not the root of a dataset, it has no ``data/``, and the paths are relative to the base path.
        """
        return tuple(file.path for file in self.message.files)

    @property
    def data_file_bytes(self) -> tuple[int, ...]:
        """The recorded sizes of the data files in bytes; 0 where no size is recorded."""
        return tuple(file.file_size_bytes for file in self.message.files)

    @property
    def has_deletion_file(self) -> bool:
        """Whether some rows are deleted."""
        return self.message.HasField("deletion_file")

    @property
    def num_deleted_rows(self) -> int:
        """The recorded number of deleted rows; 0 if it was not recorded."""
        return self.message.deletion_file.num_deleted_rows

    @property
    def content_key(self) -> str:
        """Text that identifies the fragment's rows: its data files, deletion file, and overlays.

        The form of the text must never change, because digests of the text are stored.
        """
        deletion = self.message.deletion_file
        overlays = (overlay.SerializeToString(deterministic=True).hex() for overlay in self.message.overlays)
        return " ".join([f"{self.data_file_paths} {(deletion.read_version, deletion.id)}", *overlays])

    @property
    def num_live_rows(self) -> int:
        """Number of rows that are not deleted; too large if the number of deleted rows was not recorded."""
        return self.message.physical_rows - self.message.deletion_file.num_deleted_rows

    def with_deletion(self, deletion: pb_table.DeletionFile | None) -> Self:
        """Return a copy with a new deletion file, or with none if ``deletion`` is None; all other content is kept."""
        message = pb_table.DataFragment()
        message.CopyFrom(self.message)
        message.ClearField("deletion_file")
        if deletion is not None:
            message.deletion_file.CopyFrom(deletion)
        return type(self)(message)

    def with_row_ids(self, sequence: bytes) -> Self:
        """Return a copy that lists the stable ids of its rows, as a serialized ``RowIdSequence``."""
        message = pb_table.DataFragment()
        message.CopyFrom(self.message)
        message.inline_row_ids = sequence
        return type(self)(message)

    def with_physical_rows(self, physical_rows: int) -> Self:
        """Return a copy with a new number of rows."""
        message = pb_table.DataFragment()
        message.CopyFrom(self.message)
        message.physical_rows = physical_rows
        return type(self)(message)

    def live_field_ids(self) -> set[int]:
        """Return the ids of the fields that have a column in a data file."""
        return {field_id for file in self.message.files for field_id in file.fields if field_id >= 0}


class Fragments(Sequence[Fragment]):
    """The fragments of a version. Each is wrapped on access, as most operations on a large table access only a few.

    Args:
        messages: the fragment messages of the manifest; never changed.
    """

    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[pb_table.DataFragment]) -> None:
        """Initialize without wrapping any fragment."""
        self._messages = messages

    def __len__(self) -> int:
        """Return the number of fragments."""
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Fragment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Fragment]: ...

    def __getitem__(self, index: int | slice) -> Fragment | list[Fragment]:
        """Return one fragment by position, or several for a slice."""
        if isinstance(index, slice):
            return [Fragment(message) for message in self._messages[index]]
        return Fragment(self._messages[index])

    def __iter__(self) -> Iterator[Fragment]:
        """Yield the fragments in order."""
        return map(Fragment, self._messages)
