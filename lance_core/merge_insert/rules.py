"""MergeRules: what a merge does with matched and unmatched rows; checks these rules against a table and a source.

========================  ==============================================================================
rows                      what can happen to them
========================  ==============================================================================
matched                   nothing, update (if a condition is true), delete, fail
of the source, unmatched  nothing, insert
of the table, unmatched   nothing, delete (if a condition is true)
========================  ==============================================================================

Source: ``MergeInsertBuilder`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from lance_core.errors import (
    InvalidInputError,
    InvalidMergeError,
    InvalidTypeError,
    SchemaMismatchError,
)
from lance_core.predicate.predicate import Predicate
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_core.scan.table_view import Handle

__all__ = [
    "MergeRules",
    "WhenMatched",
    "WriteMode",
    "condition_columns",
    "key_names",
    "plan_condition",
    "primary_key",
]

_Meaning = TypeVar("_Meaning")

SOURCE: Final = "source"
TARGET: Final = "target"
"""In the condition of an update, the prefixes of the columns of the source, and of those of the table."""


class WhenMatched(Enum):
    """What happens to rows of the table that have the key of a source row."""

    NOTHING = "DoNothing"
    UPDATE = "UpdateAll"
    DELETE = "Delete"
    FAIL = "Fail"


_WHEN_MATCHED: Final[Mapping[str, WhenMatched]] = MappingProxyType({each.name.lower(): each for each in WhenMatched})


class WriteMode(StrEnum):
    """How updated rows are written."""

    AUTO = "auto"
    ROWS = "rewrite_rows"
    COLUMNS = "rewrite_columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """What a merge does.

    Attributes:
        keys: names of the key columns.
        when_matched: what happens to matched rows.
        condition: the matched rows that are updated, as SQL text; None for all.
        inserts: whether unmatched rows of the source are inserted.
        deletes_unmatched: whether unmatched rows of the table are deleted.
        deleted_if: the unmatched rows of the table that are deleted, as SQL text; None for all.
        write_mode: how updated rows are written.
        uses_index: whether an index on the key influences how updated rows are written.
    """

    keys: tuple[str, ...]
    when_matched: WhenMatched = WhenMatched.NOTHING
    condition: str | None = None
    inserts: bool = False
    deletes_unmatched: bool = False
    deleted_if: str | None = None
    write_mode: WriteMode = WriteMode.AUTO
    uses_index: bool = True

    @classmethod
    def of(
        cls,
        dataset: Handle,
        on: object = None,
        *,
        when_matched: str = "update",
        condition: str | None = None,
        when_not_matched: str = "insert",
        when_not_matched_by_source: str = "nothing",
        delete_condition: str | None = None,
    ) -> Self:
        """Return the rules that the given strings specify.

        Args:
            dataset: a handle to a version of the table.
            on: the key columns: a name or names; None for the declared primary key.
            when_matched: what happens to rows of the table that have the key of a source row: "update", "nothing",
                "delete", or "fail".
            condition: the matched rows that are updated, as SQL text. Columns of the table have the prefix
                ``target.``, and columns of the source the prefix ``source.``.
            when_not_matched: what happens to the other rows of the source: "insert" or "nothing".
            when_not_matched_by_source: what happens to the other rows of the table: "nothing" or "delete".
            delete_condition: SQL condition; only unmatched rows of the table for which it is true are deleted.

        Raises:
            InvalidInputError: a value is unknown, a condition applies to an action that is not taken, the table has no
                such key column or no primary key, or the rules request no changes.
            InvalidTypeError: ``on`` is neither a name nor an iterable of names.
        """
        rules = cls(
            keys=key_names(dataset.view.schema, on),
            when_matched=_word("when_matched", when_matched, _WHEN_MATCHED),
            condition=condition,
            inserts=_word("when_not_matched", when_not_matched, {"insert": True, "nothing": False}),
            deletes_unmatched=_word(
                "when_not_matched_by_source", when_not_matched_by_source, {"delete": True, "nothing": False}
            ),
            deleted_if=delete_condition,
        )
        if condition is not None and not rules.updates:
            raise InvalidInputError("condition requires when_matched 'update'", argument="condition")
        if delete_condition is not None and not rules.deletes_unmatched:
            raise InvalidInputError(
                "delete_condition requires when_not_matched_by_source 'delete'", argument="delete_condition"
            )
        rules.check()
        return rules

    @property
    def updates(self) -> bool:
        """Whether matched rows are updated."""
        return self.when_matched is WhenMatched.UPDATE

    @property
    def writes_rows(self) -> bool:
        """Whether rows are inserted or updated."""
        return self.updates or self.inserts

    @property
    def only_deletes(self) -> bool:
        """Whether the merge needs only the keys of the source."""
        return not self.writes_rows and self.when_matched is not WhenMatched.FAIL

    def check(self) -> None:
        """Check that the merge does something.

        Raises:
            InvalidInputError: the rules request no changes.
        """
        if not self.writes_rows and not self.deletes_unmatched and self.when_matched is WhenMatched.NOTHING:
            raise InvalidInputError(
                "the merge would not change any row; call at least one of the methods when_matched_update_all, "
                "when_matched_delete, when_matched_fail, when_not_matched_insert_all, and "
                "when_not_matched_by_source_delete"
            )

    def check_source(self, table: Schema, source: pa.Schema) -> None:
        """Check the columns of the source.

        Raises:
            SchemaMismatchError: the source lacks a key column, or rows are inserted without the value of a column that
                is not nullable.
        """
        missing = [name for name in self.keys if name not in source.names]
        if missing:
            raise SchemaMismatchError(f"the source has no key column {missing[0]!r}", column=missing[0])
        required = [top.name for top in table.fields if not top.nullable and top.name not in source.names]
        if self.inserts and required:
            raise SchemaMismatchError(
                f"rows cannot be inserted without values for the non-nullable columns {', '.join(required)}",
                column=required[0],
            )


def key_names(schema: Schema, on: object) -> tuple[str, ...]:
    """Return the key columns that the argument ``on`` denotes: a name, names, or None for the primary key.

    If no column has exactly the given name, case is ignored.

    Raises:
        InvalidTypeError: ``on`` is neither a name nor an iterable of names.
        InvalidInputError: the table has no such column, or no primary key.
        InvalidMergeError: a name denotes a field inside a column.
    """
    if on is None:
        names = [top.name for top in primary_key(schema)]
    elif isinstance(on, str):
        names = [on]
    else:
        try:
            names = list(on)  # type: ignore[call-overload]  # refused below if it is not an iterable of names
        except TypeError as error:
            raise InvalidTypeError(f"argument `on` must be a str or an iterable of str, found {on!r:.80}") from error
    if not names:
        raise InvalidInputError(
            "a merge needs key columns: name them in the argument `on`, or declare a primary key in the schema"
        )
    return tuple(dict.fromkeys(_column(schema, name) for name in names))


def plan_condition(table: Schema, source: pa.Schema, text: str) -> Predicate:
    """Bind the condition of an update; columns have the prefix ``source.`` or ``target.``.

    Returns:
        A predicate on two structs, ``source`` and ``target``.

    Raises:
        InvalidMergeError: the condition is invalid.
    """
    members = [(SOURCE, schema_from_arrow(source).fields), (TARGET, table.fields)]
    sides = [Field(name=name, logical_type="struct", children=tuple(fields)) for name, fields in members]
    both = Schema(fields=(sides[0].with_ids(0), sides[1].with_ids(1 + len(list(sides[0].walk())))), metadata={})
    try:
        return Predicate.plan(both, text)
    except InvalidInputError as error:
        raise InvalidMergeError(f"when_matched_update_all: {error}") from error


def condition_columns(condition: Predicate) -> dict[str, list[str]]:
    """Return the names of the columns that a condition needs, keyed by ``"source"`` and ``"target"``."""
    return {top.name: [each.name for each in top.children] for top in condition.wanted.fields}


def primary_key(schema: Schema) -> Sequence[Field]:
    """Return the fields of the declared primary key, in the order of the key."""
    return sorted((field for field in schema.walk() if field.unenforced_primary_key), key=_position)


def _word(name: str, word: str, meanings: Mapping[str, _Meaning]) -> _Meaning:
    if word not in meanings:
        raise InvalidInputError(f"{name} must be one of {list(meanings)}, found {word!r:.80}", argument=name)
    return meanings[word]


def _position(field: Field) -> tuple[bool, int]:
    """Sort key that puts fields with a position first; the others follow in the order of their ids."""
    position = field.unenforced_primary_key_position
    return (not position, position or field.id)


def _column(schema: Schema, name: object) -> str:
    if not isinstance(name, str):
        raise InvalidTypeError(f"the names of key columns must be strings, found {name!r:.80}")
    same = [top for top in schema.names if top == name] or [top for top in schema.names if top.lower() == name.lower()]
    if not same and schema.find(name) is not None:
        raise InvalidMergeError(
            f"key column {name!r} is nested in another column; a key column must be a top-level column", column=name
        )
    if len(same) != 1:
        problem = f"several columns differ from {name!r} only in case" if same else f"unknown key column {name!r}"
        raise InvalidInputError(f"{problem}; the table has: {', '.join(schema.names)}", column=name)
    return same[0]
