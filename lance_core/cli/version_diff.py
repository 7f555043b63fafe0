"""VersionDiff: what differs between two versions of a dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyroaring import BitMap64

from lance_core.scan.row_columns import ROW_ID_NAME
from lance_core.scan.scanner import LanceScanner
from lance_core.table.index_metadata import parse_index_section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Field

__all__ = ["VersionDiff", "compare"]

_SHOWN: Final = 8
"""Maximum number of names in a line of text."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two versions in one kind of item, such as fields or fragments.

    Attributes:
        added: the names of the items that only the later version has.
        removed: the names of the items that only the earlier version has.
        changed: the names of the items that both versions have, but that differ.
    """

    added: list[Any]
    removed: list[Any]
    changed: list[Any]

    @classmethod
    def of(cls, before: Mapping[Any, object], after: Mapping[Any, object]) -> Changes:
        """Compare the values of two mappings; the keys are the names."""
        return cls(
            added=[name for name in after if name not in before],
            removed=[name for name in before if name not in after],
            changed=[name for name in after if name in before and before[name] != after[name]],
        )

    def line(self) -> str | None:
        """Return the changes as text; None if there are none."""
        parts = [
            f"{len(names)} {verb} ({', '.join(map(str, names[:_SHOWN]))}{', …' * (len(names) > _SHOWN)})"
            for verb, names in asdict(self).items()
            if names
        ]
        return ", ".join(parts) or None


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What differs between two versions.

    Attributes:
        before: number of the earlier version.
        after: number of the later version.
        rows_before: number of rows of the earlier version.
        rows_after: number of rows of the later version.
        rows_added: number of rows whose ids only the later version has.
        rows_removed: number of rows whose ids only the earlier version has.
        rows_updated: number of rows that were updated between the versions and that both have; None if the table has no
            stable row ids, in which case each updated row counts as a removed row and an added one.
        changes: the changes to other items: fields of the schema, fragments, configuration, table metadata, indices.
    """

    before: int
    after: int
    rows_before: int
    rows_after: int
    rows_added: int
    rows_removed: int
    rows_updated: int | None
    changes: dict[str, Changes]

    def document(self) -> dict[str, Any]:
        """Return the attributes as a dictionary, with each of the changes as a separate entry."""
        values = asdict(self)
        return {**values, **values.pop("changes")}

    def lines(self) -> Iterator[str]:
        """Yield the attributes as text."""
        yield f"versions {self.before} and {self.after}"
        updated = "" if self.rows_updated is None else f", {self.rows_updated} updated"
        counts = f"{self.rows_added} added, {self.rows_removed} removed{updated}"
        yield f"rows: {self.rows_before} and {self.rows_after} ({counts})"
        for name, changes in self.changes.items():
            yield f"{name}: {changes.line() or 'no changes'}"


def compare(before: TableView, after: TableView) -> VersionDiff:
    """Compare two versions of a dataset. Only their row ids are read."""
    old, new = _row_ids(before), _row_ids(after)
    earlier, later = sorted((before, after), key=lambda view: view.version)
    updated = None
    if before.manifest.has_stable_row_ids and after.manifest.has_stable_row_ids:
        bound = earlier.version
        condition = f"_row_last_updated_at_version > {bound} and _row_created_at_version <= {bound}"
        updated = LanceScanner(later.source(), columns=[], filter=condition).count_rows()
    configs = (view.manifest.message.config for view in (before, after))
    metadata = (view.manifest.message.table_metadata for view in (before, after))
    return VersionDiff(
        before=before.version,
        after=after.version,
        rows_before=len(old),
        rows_after=len(new),
        rows_added=len(new - old),
        rows_removed=len(old - new),
        rows_updated=updated,
        changes={
            "schema": Changes.of(_fields(before), _fields(after)),
            "fragments": Changes.of(_fragments(before), _fragments(after)),
            "config": Changes.of(*map(dict, configs)),
            "metadata": Changes.of(*map(dict, metadata)),
            "indices": Changes.of(_indices(before), _indices(after)),
        },
    )


def _row_ids(view: TableView) -> BitMap64:
    found = BitMap64()
    for batch in LanceScanner(view.source(), columns=[ROW_ID_NAME]).to_batches():
        found |= BitMap64(batch.column(0).to_numpy())
    return found


def _fields(view: TableView) -> dict[str, object]:
    return {
        path: (field.id, field.logical_type, field.nullable, dict(field.metadata))
        for path, field in _walk(view.manifest.schema.fields, "")
    }


def _walk(fields: Iterable[Field], prefix: str) -> Iterator[tuple[str, Field]]:
    for field in fields:
        yield f"{prefix}{field.name}", field
        yield from _walk(field.children, f"{prefix}{field.name}.")


def _fragments(view: TableView) -> dict[int, object]:
    return {fragment.id: fragment.content_key for fragment in view.fragments}


def _indices(view: TableView) -> dict[str, object]:
    found: dict[str, list[object]] = {}
    for index in parse_index_section(view.manifest.index_section):
        found.setdefault(index.name, []).append(index)
    return dict(found)
