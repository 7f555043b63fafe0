"""Operations and transactions as users write them.

Source: names, arguments and defaults of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from lance_core.api import operation_base
from lance_core.api.column_operations import ColumnOperations
from lance_core.api.operation_base import check_fragments
from lance_core.api.table_operations import TableOperations

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lance_core.api.dataset_base_path import DatasetBasePath
    from lance_core.api.fragment_metadata import FragmentMetadata
    from lance_core.schema.field import Schema

__all__ = ["LanceOperation", "Transaction"]


class LanceOperation(ColumnOperations, TableOperations):
    """A namespace: what can be committed to a dataset."""

    BaseOperation: TypeAlias = operation_base.BaseOperation

    @dataclass
    class Overwrite(BaseOperation):
        """Create a dataset, or replace its rows and schema.

        Attributes:
            new_schema: the schema. An Arrow schema gets field ids depth first from 0, as
                ``write_fragments(mode="overwrite")`` gives them; a ``Schema`` keeps its own.
            fragments: the new fragments.
            initial_bases: places outside the root that a new dataset may keep files in.
        """

        new_schema: pa.Schema | Schema
        fragments: Iterable[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

        def __post_init__(self) -> None:
            """Check the argument types."""
            check_fragments(self.fragments)

    @dataclass
    class Append(BaseOperation):
        """Add rows.

        Attributes:
            fragments: the new fragments; their data files refer to the dataset's field ids.
        """

        fragments: Iterable[FragmentMetadata]

        def __post_init__(self) -> None:
            """Check the argument types."""
            check_fragments(self.fragments)

    @dataclass
    class Delete(BaseOperation):
        """Hide rows, or drop whole fragments.

        Attributes:
            updated_fragments: the fragments that lost some of their rows, with their new deletion files: what
                ``LanceFragment.delete`` returned.
            deleted_fragment_ids: the fragments that lost every row: where it returned None.
            predicate: the condition that chose the rows, for information.
        """

        updated_fragments: Iterable[FragmentMetadata]
        deleted_fragment_ids: Iterable[int]
        predicate: str

        def __post_init__(self) -> None:
            """Check the argument types."""
            check_fragments(self.updated_fragments)

    @dataclass
    class Restore(BaseOperation):
        """Make an older version's content the dataset's again.

        Attributes:
            version: its number.
        """

        version: int

    @dataclass
    class RewriteGroup:
        """Fragments that were rewritten together.

        Attributes:
            old_fragments: as they were when their rows were read.
            new_fragments: what holds the rows now. Id 0 stands for "give it one at commit", any other was reserved.
        """

        old_fragments: Iterable[FragmentMetadata]
        new_fragments: Iterable[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """An index whose row addresses were rewritten: a new one in place of the old.

        Attributes:
            old_id: uuid of the index that is replaced.
            new_id: uuid of its successor.
            new_details_type_url: which kind of index it is; the table keeps what it says of the old one.
            new_details_value: its serialized parameters, likewise.
            new_index_version: version of the kind's own format, likewise.
        """

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """Put the same rows into other fragments.

        Attributes:
            groups: what replaces what.
            rewritten_indices: indices that were rewritten along; no other one answers for the new fragments.
        """

        groups: Iterable[LanceOperation.RewriteGroup]
        rewritten_indices: Iterable[LanceOperation.RewrittenIndex]

        def __post_init__(self) -> None:
            """Check the argument types."""
            groups = list(self.groups)
            check_fragments([fragment for group in groups for fragment in group.old_fragments])
            check_fragments([fragment for group in groups for fragment in group.new_fragments])

    @dataclass
    class ReserveFragments(BaseOperation):
        """Take fragment ids for a later Rewrite. Not in the reference's Python interface.

        Attributes:
            num_fragments: how many.
        """

        num_fragments: int

    @dataclass
    class UpdateMap:
        """A change of one map of settings.

        Attributes:
            updates: new values; None removes the key.
            replace: drop every other entry.
        """

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Change settings and metadata. None leaves a map alone.

        Attributes:
            config_updates: of the table config.
            table_metadata_updates: of the table metadata.
            schema_metadata_updates: of the schema metadata.
            field_metadata_updates: of the metadata of fields, by field id.
        """

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class Other(BaseOperation):
        """An operation found in the history of a dataset that this library cannot commit.

        Attributes:
            name: which one; "unknown" for one of a newer release.
        """

        name: str


@dataclass
class Transaction:
    """A change of a dataset, proposed or committed.

    Attributes:
        read_version: the version that the change was planned on.
        operation: what to do.
        uuid: identifies the change: committing one uuid twice makes one version.
        transaction_properties: free-form; ``__lance_commit_message`` holds the commit message.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuid_module.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)
