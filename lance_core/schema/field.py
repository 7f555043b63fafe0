"""Field and Schema: a tree of named and typed fields, whose ids make schema evolution possible.

A field is identified by its id. Names may change, and fields with different parents may have the same name. Ids are
unique within a table and are assigned depth first, starting from 0, when the table is created. A data file may contain
only some of the fields.

Structs, lists, maps, and ``fixed_size_list:struct:n`` have child fields. Fixed-size lists of other types do not: their
item type is part of their logical type.

**Source:** ``lance.file.Field`` and ``lance.file.Schema``; behavior of pylance 14.0.2 for ids and column ownership.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.wording import shown_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "BLOB_KEY",
    "BLOB_V2",
    "EXTENSION_METADATA_KEY",
    "EXTENSION_NAME_KEY",
    "HIDDEN_FIELD_IDS",
    "PACKED_KEYS",
    "UNASSIGNED_ID",
    "Field",
    "Schema",
    "is_true",
    "suggestion",
    "trail_of",
]

EXTENSION_NAME_KEY: Final = "ARROW:extension:name"
EXTENSION_METADATA_KEY: Final = "ARROW:extension:metadata"

PACKED_KEYS: Final = ("lance-encoding:packed", "packed")
"""Metadata keys that mark structs whose members are stored row by row in one column; the second is the older one."""

BLOB_KEY: Final = "lance-encoding:blob"
"""Metadata key that marks a large_binary field as a v1 blob. Only its presence matters: ``false`` also marks a blob."""

BLOB_V2: Final = "lance.blob.v2"
"""Extension type of blobs since format 2.2. Table schemas contain this name, and file schemas contain ``BLOB_KEY``."""

UNASSIGNED_ID: Final = -1
"""Placeholder for the id of a field until an id is assigned."""

HIDDEN_FIELD_IDS: Final = frozenset({-3, -4, -5})
"""Field ids of hidden columns in which data files store the ids and versions of rows. No table schema has these ids."""

_TRUE: Final = frozenset({b"true", b"1", b"yes", b"on", b"y"})
_LISTS: Final = frozenset({"list", "large_list", "list.struct", "large_list.struct"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One node of the schema tree.

    Attributes:
        id: id of the field, unique in the table; ``UNASSIGNED_ID`` until the table assigns one.
        name: name of the field: the last path component ("item", not "x.item").
        logical_type: the type string ("int32", "list.struct", "timestamp:us:UTC").
        nullable: whether nulls are allowed.
        children: the members of a struct, the item of a list, or the entries of a map.
        metadata: Arrow field metadata, read-only.
        extension_name: copy of the metadata entry ``ARROW:extension:name``; empty if there is none.
        unenforced_primary_key: whether the field belongs to the declared primary key.
        unenforced_primary_key_position: 1-based position of the field in the primary key; 0 if not specified.
        unenforced_clustering_key: whether the field belongs to the declared clustering key.
        unenforced_clustering_key_position: 1-based position of the field in the clustering key; 0 if not specified.
    """

    id: int = UNASSIGNED_ID
    name: str
    logical_type: str
    nullable: bool = True
    children: tuple[Field, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    extension_name: str = ""
    unenforced_primary_key: bool = False
    unenforced_primary_key_position: int = 0
    unenforced_clustering_key: bool = False
    unenforced_clustering_key_position: int = 0

    def __post_init__(self) -> None:
        """Make a read-only copy of the metadata."""
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the read-only metadata converted to a dictionary."""
        return _rebuild, (Field, _plain_values(self))

    @property
    def is_struct(self) -> bool:
        """Whether the field is a struct, packed or not."""
        return self.logical_type == "struct"

    @property
    def is_list(self) -> bool:
        """Whether the field is a variable-length list; False for a map."""
        return self.logical_type in _LISTS

    @property
    def is_map(self) -> bool:
        """Whether the field is a map, whose only child is a struct of key and value."""
        return self.logical_type == "map"

    @property
    def is_fixed_size_list(self) -> bool:
        """Whether the field is a fixed-size list of any type."""
        return self.logical_type.startswith("fixed_size_list:")

    @property
    def is_structural_fixed_size_list(self) -> bool:
        """Whether the field is a fixed-size list of structs.

        Other fixed-size lists have a column of their own and no child field.
        """
        return self.is_fixed_size_list and bool(self.children)

    @property
    def is_dictionary(self) -> bool:
        """Whether the field is an Arrow dictionary."""
        return self.logical_type.startswith("dict:")

    @property
    def is_packed(self) -> bool:
        """Whether the field is a struct that is stored row by row in one column."""
        return self.is_struct and any(is_true(self.metadata.get(key)) for key in PACKED_KEYS)

    @property
    def is_blob(self) -> bool:
        """Whether the field is a blob: a large_binary or a blob v2 struct whose values are stored outside the pages."""
        if not self.metadata and not self.extension_name:
            return False
        name = self.extension_name or self.metadata.get(EXTENSION_NAME_KEY, b"").decode(errors="replace")
        return BLOB_KEY in self.metadata or name == BLOB_V2

    @property
    def is_leaf(self) -> bool:
        """Whether the field has its own column in a data file in format 2.1 or later."""
        return not self.children or self.is_packed or self.is_blob

    def leaves(self) -> list[Field]:
        """Return the leaves of this tree, depth first; see :attr:`is_leaf`. The only leaf of a leaf is itself."""
        if self.is_leaf:
            return [self]
        return [leaf for child in self.children for leaf in child.leaves()]

    def walk(self) -> Iterator[Field]:
        """Yield this field and all of its descendants, depth first, parents before children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> Field | None:
        """Return the direct child with the given name; None if there is no such child."""
        return next((child for child in self.children if child.name == name), None)

    def with_ids(self, first_id: int) -> Field:
        """Return a copy of the tree, with ids assigned depth first from ``first_id``."""
        children = []
        next_id = first_id + 1
        for child in self.children:
            children.append(child.with_ids(next_id))
            next_id += sum(1 for _ in child.walk())
        return replace(self, id=first_id, children=tuple(children))

    def with_children(self, children: Sequence[Field]) -> Field:
        """Return a copy with new children."""
        return replace(self, children=tuple(children))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The top-level fields of a table or of a data file.

    Attributes:
        fields: the fields, in column order.
        metadata: Arrow schema metadata, read-only.
    """

    fields: tuple[Field, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Make a read-only copy of the metadata."""
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the read-only metadata converted to a dictionary."""
        return _rebuild, (Schema, _plain_values(self))

    @property
    def names(self) -> list[str]:
        """Names of the top-level fields, in order."""
        return [top.name for top in self.fields]

    def walk(self) -> Iterator[Field]:
        """Yield every field, depth first, parents before children; this is the order in which fields are serialized."""
        for top in self.fields:
            yield from top.walk()

    def leaves(self) -> list[Field]:
        """Return the leaves of all fields, depth first; see :attr:`Field.is_leaf`."""
        return [leaf for top in self.fields for leaf in top.leaves()]

    def field_ids(self) -> list[int]:
        """Return the ids of all fields, depth first."""
        return [node.id for node in self.walk()]

    def max_field_id(self) -> int:
        """Return the largest id in use; -1 for an empty schema."""
        return max(self.field_ids(), default=-1)

    def find(self, key: str | int) -> Field | None:
        """Return the field with the given id or path ("a", "s.x", "l.item"); None if it does not exist.

        At every level, the exact name is tried first, so that nested fields whose names contain dots are found.
        """
        if isinstance(key, int):
            return next((node for node in self.walk() if node.id == key), None)
        trail = trail_of(self.fields, key)
        return None if trail is None else trail[-1]

    def field(self, key: str | int) -> Field:
        """Return the field with the given id or path; see :meth:`find`.

        Raises:
            InvalidInputError: the field does not exist.
        """
        found = self.find(key)
        if found is None:
            raise InvalidInputError(f"the schema has no field {key!r}; top-level fields: {self.names}", field=key)
        return found

    def trail(self, path: str) -> list[Field]:
        """Return the fields on a path ("s.x", "l.item"), from the top level to the field itself.

        Raises:
            SchemaMismatchError: the field does not exist; the message suggests close matches.
        """
        found = trail_of(self.fields, path)
        if found is None:
            raise SchemaMismatchError(str(_unknown_column(self, path)), column=path)
        return found

    def project(self, columns: Sequence[str], *, orders_members: bool = False) -> Schema:
        """Return the schema of the given columns, in this order. Fields keep their ids.

        Args:
            columns: names of top-level fields, or dotted paths into structs ("s.x", "people.item.name", "s.`a.b`"). For
                two paths into the same top-level field, the field is returned once, with both members in schema order.
            orders_members: whether members are returned in the requested order instead, as pylance does for files but
                not for datasets.

        Raises:
            InvalidInputError: a name is repeated or unknown; for an unknown name, the message suggests close matches.
        """
        # For each top-level field, the nodes to keep, in the order in which they were first requested.
        wanted: dict[str, dict[int, None]] = {}
        seen: set[str] = set()
        for column in columns:
            if column in seen:
                raise InvalidInputError(f"column {column!r} is requested more than once", column=column)
            seen.add(column)
            trail = trail_of(self.fields, column)
            if trail is None:
                raise _unknown_column(self, column)
            # Keep all descendants of the last node, and its ancestors.
            keep = wanted.setdefault(trail[0].name, {})
            keep.update(dict.fromkeys(id(node) for node in trail[:-1]))
            keep.update(dict.fromkeys(id(node) for node in trail[-1].walk()))
        by_name = {top.name: top for top in self.fields}
        tops = []
        for name, keep in wanted.items():
            top = by_name[name]
            order = keep if orders_members else [id(node) for node in top.walk() if id(node) in keep]
            tops.append(_pruned(top, {node: rank for rank, node in enumerate(order)}))
        return replace(self, fields=tuple(tops))

    def with_ids(self, first_id: int = 0) -> Schema:
        """Return a copy with ids assigned depth first from ``first_id``."""
        numbered = []
        next_id = first_id
        for top in self.fields:
            numbered.append(top.with_ids(next_id))
            next_id += sum(1 for _ in top.walk())
        return replace(self, fields=tuple(numbered))

    def with_metadata(self, metadata: Mapping[str, bytes]) -> Schema:
        """Return a copy with new schema metadata."""
        return replace(self, metadata=metadata)


def is_true(value: bytes | None) -> bool:
    """Return whether a metadata value means true: ``true``, ``1``, ``yes``, ``on``, or ``y``, ignoring case."""
    return value is not None and value.lower() in _TRUE


def trail_of(siblings: Sequence[Field], path: str) -> list[Field] | None:
    """Return the fields on a dotted path, which starts with one of ``siblings``; None if the path does not exist.

    A name that contains dots may be written literally or in backticks (``s.`a.b```); in backticks, a backtick that is
    part of the name is written twice.
    """
    for quoted in (False, True):
        for node in siblings:
            name = "`" + node.name.replace("`", "``") + "`" if quoted else node.name
            if path == name:
                return [node]
            if path.startswith(f"{name}."):
                below = trail_of(node.children, path[len(name) + 1 :])
                if below is not None:
                    return [node, *below]
    return None


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: similar names, or else the first of the known names."""
    close = get_close_matches(name, known, n=3)
    if close:
        return "; did you mean " + " or ".join(repr(match) for match in close) + "?"
    return f"; known columns: {shown_list(known)}"


def _pruned(node: Field, ranks: Mapping[int, int]) -> Field:
    # A packed struct or a blob is one column: its members cannot be read separately.
    if node.is_leaf or node.is_map:
        return node
    kept = sorted((child for child in node.children if id(child) in ranks), key=lambda child: ranks[id(child)])
    return node.with_children([_pruned(child, ranks) for child in kept])


def _unknown_column(schema: Schema, column: str) -> InvalidInputError:
    return InvalidInputError(f"column {column!r} does not exist{suggestion(column, _paths(schema))}", column=column)


def _paths(schema: Schema) -> list[str]:
    paths: list[str] = []
    stack = [(top, top.name) for top in reversed(schema.fields)]
    while stack:
        node, path = stack.pop()
        paths.append(path)
        stack.extend((child, f"{path}.{child.name}") for child in reversed(node.children))
    return paths


def _plain_values(record: Field | Schema) -> dict[str, Any]:
    # A mappingproxy cannot be pickled.
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    return {**values, "metadata": dict(record.metadata)}


def _rebuild(cls: type[Any], values: dict[str, Any]) -> object:
    return cls(**values)
