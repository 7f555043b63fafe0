"""LanceStats: statistics of a version of a dataset: numbers of fragments and rows, and bytes per field.

Source: ``LanceDataset.stats`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypedDict

from lance_core.errors import NotSupportedError
from lance_core.public.arguments import whole_number
from lance_core.public.index_records import indices_named

if TYPE_CHECKING:
    from lance_core.scan.table_view import TableView
    from lance_core.table.data_file import DataFile

__all__ = ["DataStatistics", "DatasetStats", "FieldStatistics", "LanceStats"]


@dataclass
class FieldStatistics:
    """The size of a field.

    Attributes:
        id: field id.
        bytes_on_disk: size of the pages of the field in all data files, in bytes; 0 for a field without pages of its
            own, such as a struct, and for files in format 0.1.
    """

    id: int
    bytes_on_disk: int


@dataclass
class DataStatistics:
    """The sizes of the fields of a dataset.

    Attributes:
        fields: one entry per field, ordered depth-first.
    """

    fields: list[FieldStatistics]


class DatasetStats(TypedDict):
    """Statistics of a dataset.

    Attributes:
        num_deleted_rows: number of rows that are stored, but deleted.
        num_fragments: number of fragments.
        num_small_files: number of fragments with fewer rows than a limit.
    """

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


class LanceStats:
    """Statistics of one version of a dataset.

    Args:
        view: the version.
    """

    def __init__(self, view: TableView) -> None:
        """Initialize without reading anything."""
        self._view = view

    def dataset_stats(self, max_rows_per_group: int = 1024) -> DatasetStats:
        """Return statistics from the manifest; deletion files are read only if it does not record their row counts.

        Args:
            max_rows_per_group: a fragment with fewer rows, including deleted rows, counts as small.
        """
        limit = whole_number("max_rows_per_group", max_rows_per_group)
        sizes = [fragment.physical_rows for fragment in self._view.fragments]
        return {
            "num_deleted_rows": sum(sizes) - self._view.source().num_live_rows,
            "num_fragments": len(sizes),
            "num_small_files": sum(num_rows < limit for num_rows in sizes),
        }

    def index_stats(self, index_name: str) -> NoReturn:
        """Raise an error: indices are not read.

        Raises:
            IndexNotFoundError: there is no such index.
            NotSupportedError: there is such an index.
        """
        indices_named(self._view.manifest, index_name, self._view.log.root)
        raise NotSupportedError(
            f"statistics of index {index_name!r} are not supported; use LanceDataset.describe_indices instead"
        )

    def data_stats(self) -> DataStatistics:
        """Return the sizes of all fields; reads the metadata of every data file.

        Raises:
            NotFoundError: a data file is missing.
            CorruptDataError: a data file is damaged.
        """
        sizes = dict.fromkeys((field.id for field in self._view.schema.walk()), 0)
        for fragment in self._view.fragments:
            for file in fragment.files:
                for field_id, num_bytes in self._file_sizes(file).items():
                    if field_id in sizes:
                        sizes[field_id] += num_bytes
        return DataStatistics([FieldStatistics(*each) for each in sizes.items()])

    def _file_sizes(self, file: DataFile) -> dict[int, int]:
        """Return the number of bytes of each field in one file."""
        if not file.column_indices:
            return {}
        place = self._view.locator.data_file(file)
        reader = self._view.session.open_file(
            place.store, place.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
        )
        columns = reader.column_metadatas
        return {
            field_id: sum(page.num_bytes for page in columns[index].pages) for field_id, index in file.columns().items()
        }
