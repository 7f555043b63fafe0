"""DataOverlayFile: an overlay in the public API, and its two JSON dialects.

The JSON document of a fragment lists the covered rows in the entry ``offsets``; compaction plans and results contain
them as serialized bitmaps in the entry ``coverage``. Both dialects can be read.

Source: JSON of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.public.json_document import JsonObject, Reader, byte_string, entries, listed, malformed, nullable, whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lance_core.public.data_file_metadata import DataFile

__all__ = [
    "DataOverlayFile",
    "bitmap_of_offsets",
    "offsets_of_bitmap",
    "overlay_reader",
    "plain_offsets",
    "with_coverage",
]

_OFFSET: Final = whole(0, 2**32)
_VERSION: Final = whole(0, 2**64)


@dataclass
class DataOverlayFile:
    """Newer values for individual cells of a fragment.

    Attributes:
        data_file: a file with a column for each field and a value for each covered row.
        offsets: physical positions of the covered rows: one list for all fields, or one list for each field.
        committed_version: the version that added the overlay; None before the commit.
    """

    data_file: DataFile
    offsets: Iterable[int] | list[Iterable[int]]
    committed_version: int | None = None


def plain_offsets(offsets: Iterable[Any]) -> list[Any]:
    """Convert row offsets to a list, or to a list of lists if they are given for each field."""
    listed_offsets = list(offsets)
    if all(isinstance(each, int) for each in listed_offsets):
        return listed_offsets
    return [list(each) for each in listed_offsets]


def with_coverage(fragment: dict[str, Any]) -> dict[str, Any]:
    """Return a fragment's document with the coverage of each overlay in the form that compaction plans use."""
    for overlay in fragment["overlays"]:
        offsets = overlay["offsets"]
        if all(isinstance(each, int) for each in offsets):
            overlay["coverage"] = {"Shared": list(bitmap_of_offsets(offsets))}
        else:
            overlay["coverage"] = {"PerField": [list(bitmap_of_offsets(each)) for each in offsets]}
    return fragment


def bitmap_of_offsets(offsets: Collection[int]) -> bytes:
    """Convert row offsets to a serialized Roaring bitmap.

    Raises:
        InvalidInputError: an offset occurs twice, or is out of range.
    """
    from pyroaring import BitMap

    bitmap = BitMap(_OFFSET(each, "offset") for each in offsets)
    if len(bitmap) != len(offsets):
        raise InvalidInputError("an overlay lists the same row offset twice")
    return bitmap.serialize()


def offsets_of_bitmap(data: bytes) -> list[int]:
    """Convert a serialized Roaring bitmap to row offsets.

    Raises:
        CorruptDataError: the data is not a serialized Roaring bitmap.
    """
    # Imported only when needed: few tables have overlays.
    from pyroaring import BitMap

    try:
        return list(BitMap.deserialize(data))
    except (ValueError, IndexError, MemoryError) as error:
        raise CorruptDataError(f"the row offsets of an overlay are not a valid Roaring bitmap: {error}") from error


def overlay_reader(data_file: Reader[DataFile]) -> Reader[DataOverlayFile]:
    """Return a reader for the overlays of a fragment.

    Args:
        data_file: the reader for the data file of an overlay.
    """

    def read(document: JsonObject) -> DataOverlayFile:
        offsets: Any = document.take("offsets", _offsets, None)
        return DataOverlayFile(
            data_file=document.take("data_file", data_file),
            offsets=document.take("coverage", _coverage) if offsets is None else offsets,
            committed_version=document.take("committed_version", nullable(_VERSION), None),
        )

    return entries(read)


def _offsets(value: Any, where: str) -> Any:
    if value is None:
        return None
    if isinstance(value, list) and any(isinstance(each, list) for each in value):
        return listed(listed(_OFFSET))(value, where)
    return listed(_OFFSET)(value, where)


def _coverage(value: Any, where: str) -> Any:
    if isinstance(value, dict) and "Shared" in value:
        return offsets_of_bitmap(byte_string(value["Shared"], f"{where}.Shared"))
    if not isinstance(value, dict) or "PerField" not in value:
        malformed(where, "an object with the entry 'Shared' or 'PerField'", value)
    bitmaps = listed(byte_string)(value["PerField"], f"{where}.PerField")
    return [offsets_of_bitmap(bitmap) for bitmap in bitmaps]
