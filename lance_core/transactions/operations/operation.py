"""Operation: the interface of all operations, with defaults that the module of an operation can override.

Everything specific to one operation is in its module: the internal form, the conversion to and from protobuf, the parts
of the table that the operation changes or adds, and the version that it creates. Code that commits or checks operations
calls this interface and never tests for a particular operation; only the conflict matrix uses the names of operations.

BaseOperation is the public counterpart: each operation's module also defines its public class, and ``LanceOperation``
exposes these classes under the names that the reference implementation uses.
"""

from __future__ import annotations

import re
from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self, TypeVar

from lance_core.errors import InternalError, InvalidTypeError, NotSupportedError
from lance_core.public.fragment_metadata import FragmentMetadata
from lance_core.table.manifest import Manifest
from lance_core.table.row_lineage import HiddenColumns, no_hidden_columns
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import pyarrow as pa
    from google.protobuf.message import Message

    from lance_core.proto import pb_table, pb_transaction
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.paths import ManifestNaming
    from lance_core.transactions.operations.parts import OverlayGroup, RewriteGroup

__all__ = ["ApplyContext", "BaseOperation", "NewTable", "Operation", "check_fragments", "named"]


_T = TypeVar("_T")

_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """The version to which an operation is applied, and the other inputs of the operation.

    Attributes:
        current: the version to build on.
        read_version: the version that the change was planned on; 0 means ``current``.
        restored: the manifest of :attr:`Operation.restored_version`, if the operation restores a version.
        hidden: reads hidden columns of the fragments of ``current`` and of the operation.
    """

    current: Manifest
    read_version: int = 0
    restored: Manifest | None = None
    hidden: HiddenColumns = no_hidden_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """Properties of a new table that are not determined by the operation that creates it.

    Attributes:
        naming: the naming scheme of its manifests.
        stable_row_ids: whether rows get stable ids.
        file_version: the version of its data files, if the table starts without data files; None for the default.
        source: the manifest of the version that is cloned; None for an independent table.
    """

    naming: ManifestNaming
    stable_row_ids: bool
    file_version: LanceFileVersion | None = None
    source: Manifest | None = None


class Operation(Protocol):
    """One change to a table. Operations are immutable."""

    __slots__ = ()

    arm: ClassVar[str]
    """The name of the operation's field in ``Transaction.operation``."""

    is_known: ClassVar[bool] = True
    """Whether this library knows the operation, so that it can be committed and checked for conflicts."""

    is_planned_on_any_version: ClassVar[bool] = False
    """Whether the operation is independent of the fragments and fields of the version that it was planned on."""

    is_first_of_its_root: ClassVar[bool] = False
    """Whether the operation always creates the first version of a dataset or branch. That version has the same number
    as the version from which it was copied."""

    makes_tables: ClassVar[bool] = False
    """Whether the operation can create the first version of a table."""

    replaces_all_files: ClassVar[bool] = False
    """Whether the new version contains no file of the previous version, only files of the operation itself."""

    appends_fragments: ClassVar[bool] = False
    """Whether the operation adds fragments with new files after the existing fragments."""

    hides_rows: ClassVar[bool] = False
    """Whether the operation deletes individual rows and can be merged with other deletes (:meth:`with_hidden_rows`)."""

    only_removes_rows: ClassVar[bool] = False
    """Whether the operation only removes rows and changes nothing else."""

    lists_all_fragments: ClassVar[bool] = False
    """Whether the operation lists every fragment of the table, including those that it adds."""

    may_keep_metadata: ClassVar[bool] = False
    """Whether the reference implementation keeps schema metadata that the stored transaction does not contain."""

    holds_values: ClassVar[bool] = False
    """Whether the operation contains values from its read version; if so, it must be adapted to each later version."""

    may_change_rows: ClassVar[bool] = True
    """Whether the operation may change the rows or columns that readers see."""

    only_reserves_ids: ClassVar[bool] = False
    """Whether the operation only reserves fragment ids for a later commit."""

    leaves_no_trace: ClassVar[bool] = False
    """Whether later versions contain no evidence that they were built on the version that the operation created."""

    @classmethod
    def from_proto(cls, message: Any) -> Self:  # each operation has a message of its own
        """Parse the protobuf message."""
        ...

    def to_proto(self) -> Message:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        ...

    def to_public(self) -> BaseOperation:
        """Return the public form of the operation; the inverse of :meth:`BaseOperation.to_record`."""
        ...

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: the operation is incompatible with the table.
        """
        ...

    @property
    def restored_version(self) -> int | None:
        """The version that is restored; None if the operation restores none."""
        return None

    @property
    def cloned_version(self) -> tuple[str, int] | None:
        """The root and the version of the table that is cloned; None if the operation clones none."""
        return None

    def starting_point(self, new_table: NewTable) -> Manifest:
        """Return the manifest on which the first version of a table created by the operation is built."""
        files = [file for fragment in self.added_fragments() for file in fragment.files]
        return Manifest.empty(
            file_version=files[0].file_version if files else new_table.file_version or DEFAULT_VERSION,
            stable_row_ids=new_table.stable_row_ids,
            naming=new_table.naming,
        )

    def touched_fragments(self) -> frozenset[int] | None:
        """Return the ids of existing fragments that the operation changes or that its indices cover; None if unknown.

        Raises:
            CorruptDataError: the fragment bitmap of a new index is not a bitmap.
        """
        return None

    def added_fragments(self) -> tuple[Fragment, ...]:
        """Return the fragments that the operation adds; empty for an operation that lists all fragments."""
        return ()

    def changed_fragments(self) -> tuple[Fragment, ...]:
        """Return the existing fragments with deleted rows or rewritten columns, in their new form."""
        return ()

    def removed_fragments(self) -> frozenset[int]:
        """Return the ids of the fragments that lose every row."""
        return frozenset()

    def changed_deletions(self) -> tuple[Fragment, ...]:
        """Return the fragments that get a new deletion file."""
        return tuple(fragment for fragment in self.changed_fragments() if fragment.deletion_file is not None)

    def with_hidden_rows(self, changed: tuple[Fragment, ...], emptied: Collection[int]) -> Self:
        """Return the operation with new deletion files and removed fragments, for example after a merge of two deletes.

        Args:
            changed: the new value of :meth:`changed_fragments`.
            emptied: the ids of additional fragments that lose every row.
        """
        raise InternalError(f"the operation {self.arm!r} does not delete rows", arm=self.arm)

    def added_files(self, current: Manifest) -> tuple[Fragment, ...]:
        """Return the existing fragments to which the operation adds data files, with only these files."""
        return ()

    def new_schema(self) -> Schema | None:
        """Return the schema of the table after the operation, to which new files refer; None if it is unchanged."""
        return None

    def added_bases(self) -> Sequence[pb_table.BasePath]:
        """Return the base paths that the operation adds."""
        return ()

    def held_field_ids(self) -> frozenset[int]:
        """Return the field ids of the new rows or indices; other writers may drop these fields before the commit."""
        return frozenset()

    def on_top_of(self, before: Manifest, after: Manifest) -> Self:
        """Return the operation, adapted to the next version.

        Args:
            before: the version for which the operation was valid.
            after: the next version.
        """
        return self

    def rewritten_groups(self) -> tuple[RewriteGroup, ...]:
        """Return groups of old fragments and the new fragments that contain their rows."""
        return ()

    def moved_fragments(self) -> tuple[Fragment, ...]:
        """Return the new fragments that contain rows from touched fragments, with the ids of these rows."""
        return ()

    def laid_overlays(self) -> tuple[OverlayGroup, ...]:
        """Return the overlays that the operation adds to fragments."""
        return ()

    def rebuilt_indices(self) -> tuple[pb_transaction.Transaction.Rewrite.RewrittenIndex, ...]:
        """Return the indices that were rebuilt for moved rows."""
        return ()

    def with_rebuilt_indices(self, indices: tuple[pb_transaction.Transaction.Rewrite.RewrittenIndex, ...]) -> Self:
        """Return the operation with the given :meth:`rebuilt_indices`."""
        raise InternalError(f"the operation {self.arm!r} does not rebuild indices", arm=self.arm)


class BaseOperation(ABC):  # noqa: B024  # a marker for users, as in the reference
    """Base class of all public operations."""

    needs_read_version: ClassVar[bool] = True
    """Whether the version that the operation was planned on must be specified."""

    @property
    def arm(self) -> str:
        """The name of the operation's field in the transaction message, for example ``reserve_fragments``."""
        return _WORD_START.sub("_", type(self).__name__).lower()

    def to_record(self) -> Operation:
        """Return the internal form of the operation, which is committed.

        Raises:
            InvalidInputError: a value is malformed.
            InvalidTypeError: a value has the wrong type.
            NotSupportedError: the operation cannot be committed.
        """
        name = getattr(self, "name", type(self).__name__)
        raise NotSupportedError(f"committing the operation {name!r} is not supported", operation=name)

    def unnumbered_schema(self) -> pa.Schema | None:
        """Return the schema of the operation if the schema has no field ids; None otherwise."""
        return None

    def with_schema(self, schema: Schema) -> Self:
        """Return the operation with the given schema, which has field ids, instead of :meth:`unnumbered_schema`."""
        return self

    def appended_fragments(self) -> list[FragmentMetadata] | None:
        """Return the new fragments if the operation only appends fragments; None otherwise."""
        return None


def named(name: str) -> Callable[[type[_T]], type[_T]]:
    """Return a decorator that presents a class as a member of ``LanceOperation``, where users and ``pickle`` find it.

    Args:
        name: the name of the member.
    """

    def rename(members: type[_T]) -> type[_T]:
        members.__module__ = "lance_core"
        members.__qualname__ = f"LanceOperation.{name}"
        members.__name__ = name
        return members

    return rename


def check_fragments(fragments: object) -> None:
    """Check that the argument is a list of :class:`FragmentMetadata`.

    Raises:
        InvalidTypeError: the argument is not such a list.
    """
    if not isinstance(fragments, list):
        raise InvalidTypeError(f"fragments must be a list of FragmentMetadata, found {type(fragments).__name__}")
    for index, fragment in enumerate(fragments):
        if not isinstance(fragment, FragmentMetadata):
            raise InvalidTypeError(
                f"fragments must be a list of FragmentMetadata, but item {index} is {type(fragment).__name__}"
            )
