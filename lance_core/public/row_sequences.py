"""Row ids and row versions of a fragment, in the form used in transactions that are assembled by hand.

:class:`RowIdMeta` and :class:`RowDatasetVersionMeta` hold what the metadata of a fragment records: either the bytes of
a sequence, or a reference to a hidden column of a data file. :class:`RowIdSequence` is a list of row ids that can be
converted to and from a :class:`RowIdMeta` with the bytes of a sequence.

Source: classes and JSON of pylance 14.0.2 (``lance.fragment``).
"""

from __future__ import annotations

import json as json_text
from operator import index
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.proto import pb_rowids
from lance_core.public.json_document import byte_string, parse_value
from lance_core.table.row_id_segments import encode_segment
from lance_core.table.row_id_sequence import RowIdSequence as RowIdSequenceRecord
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

__all__ = ["RowDatasetVersionMeta", "RowIdMeta", "RowIdSequence", "document_of", "ids_of", "versions_of"]

_INLINE: Final = "Inline"
_SHOWN: Final = 10
"""Maximum number of ids in the result of ``repr``."""
_LARGEST: Final = 2**64 - 1
_MAX_IDS: Final = 2**32
"""Maximum number of rows in a fragment."""


class _Meta:
    """A value in the JSON form of a fragment; it is kept without being interpreted."""

    __slots__ = ("_document",)

    def __init__(self, document: Any) -> None:
        """Keep the JSON form."""
        self._document = document

    def __repr__(self) -> str:
        """Return a representation with the beginning of the JSON form."""
        return f"{type(self).__name__}({self._document!r:.80})"

    def __eq__(self, other: object) -> bool:
        """Return whether the other object is of the same class and has the same JSON form."""
        return type(other) is type(self) and other._document == self._document

    __hash__ = None  # type: ignore[assignment]  # the JSON form is a dictionary

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling."""
        return type(self), (self._document,)

    def asdict(self) -> Any:
        """Return the JSON form as Python objects."""
        return self._document

    def json(self) -> str:
        """Return the JSON document."""
        return json_text.dumps(self._document)


class RowIdMeta(_Meta):
    """The stable row ids of a fragment: bytes of a sequence, or a reference to a hidden column."""

    __slots__ = ()

    @staticmethod
    def from_dict(dict: Any) -> RowIdMeta:
        """Return the object with this JSON form; the inverse of :meth:`asdict`."""
        return RowIdMeta(dict)

    @staticmethod
    def from_json(json: str) -> RowIdMeta:
        """Parse the JSON document; the inverse of :meth:`json`.

        Raises:
            InvalidInputError: the text is not JSON.
        """
        return RowIdMeta(parse_value("list of row ids", json))


class RowDatasetVersionMeta(_Meta):
    """The versions that created, or last changed, the rows of a fragment."""

    __slots__ = ()

    @staticmethod
    def from_json(json: str) -> RowDatasetVersionMeta:
        """Parse the JSON document; the inverse of :meth:`json`.

        Raises:
            InvalidInputError: the text is not JSON.
        """
        return RowDatasetVersionMeta(parse_value("list of row versions", json))


class RowIdSequence:
    """The stable row ids of the rows of a fragment, in row order.

    To keep the ids of rows that a transaction moves to a new fragment, set the fragment's ``row_id_meta``::

        sequence = RowIdSequence([7, 12])
        fragment.row_id_meta = sequence.to_inline_metadata()

    The sequence may be shorter than the fragment: its ids belong to the first rows, and the commit assigns ids to the
    others. Only ids of rows that the same transaction removes from other fragments may be used.

    Args:
        row_ids: distinct ids from 0 to 2**64 - 1: a range, an Arrow array, or other integers.

    Raises:
        InvalidTypeError: an id is not an integer, or the ids cannot be iterated over.
        InvalidInputError: an id is null, out of range, or occurs twice, or there are more than 2**32 ids.
    """

    def __init__(self, row_ids: range | pa.Array | pa.ChunkedArray | Iterable[int]) -> None:
        """Check the ids, and encode them."""
        self._keep(_encoded(row_ids))

    def __len__(self) -> int:
        """Return the number of ids."""
        return len(self._record)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the ids."""
        return iter(self._record.numbers().tolist())

    def __eq__(self, other: object) -> bool:
        """Return whether the other object is a sequence of the same ids."""
        return (
            isinstance(other, RowIdSequence)
            and len(other) == len(self)
            and bool(np.array_equal(self._record.numbers(), other._record.numbers()))
        )

    __hash__ = None  # type: ignore[assignment]  # as in pylance

    def __repr__(self) -> str:
        """Return a representation with the first ids."""
        first = self._record.at(np.arange(min(len(self), _SHOWN)))
        return f"RowIdSequence([{', '.join(map(str, first.tolist()))}{', …' if len(self) > _SHOWN else ''}])"

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling."""
        return RowIdSequence.from_inline_metadata, (self.to_inline_metadata(),)

    @staticmethod
    def from_inline_metadata(metadata: RowIdMeta) -> RowIdSequence:
        """Return the sequence stored in inline metadata.

        Raises:
            NotSupportedError: the ids are not in the metadata, but in a hidden column.
            InvalidInputError: the metadata is malformed.
        """
        document = metadata.asdict()
        if not isinstance(document, dict) or _INLINE not in document:
            raise NotSupportedError(f"expected row ids that are stored inline, found {metadata!r}")
        sequence = RowIdSequence.__new__(RowIdSequence)
        try:
            sequence._keep(byte_string(document[_INLINE], _INLINE))
        except CorruptDataError as error:
            raise InvalidInputError(f"invalid row ids: {error}") from error
        return sequence

    def to_inline_metadata(self) -> RowIdMeta:
        """Return metadata that contains the sequence, for ``FragmentMetadata.row_id_meta``."""
        return RowIdMeta({_INLINE: list(self._encoded)})

    def to_pyarrow(self) -> pa.UInt64Array:
        """Return the ids as an array of unsigned 64-bit integers."""
        return pa.array(self._record.numbers())

    def _keep(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._record = RowIdSequenceRecord.parse(encoded, "row ids")
        if len(self._record) > _MAX_IDS:
            raise InvalidInputError(f"a fragment has at most {_MAX_IDS} rows, found {len(self._record)} row ids")


def _encoded(row_ids: Any) -> bytes:
    """Return the bytes of a sequence; a range is encoded without listing its ids."""
    if isinstance(row_ids, range) and row_ids.step == 1 and len(row_ids):
        if not 0 <= row_ids.start <= row_ids.stop <= _LARGEST + 1:
            raise InvalidInputError(f"row ids must be numbers from 0 to {_LARGEST}, found {row_ids!r}")
        if len(row_ids) > _MAX_IDS:
            raise InvalidInputError(f"a fragment has at most {_MAX_IDS} rows, found {len(row_ids)} row ids")
        segments = [pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=row_ids.start, end=row_ids.stop))]
    else:
        ids = _numbers(row_ids)
        _refuse_duplicates(ids)
        segments = [encode_segment(ids)] if len(ids) else []
    return pb_rowids.RowIdSequence(segments=segments).SerializeToString()


def _numbers(row_ids: Any) -> npt.NDArray[np.uint64]:
    """Return the ids as an array of shape (num_ids,)."""
    if isinstance(row_ids, pa.Array | pa.ChunkedArray):
        if not pa.types.is_integer(row_ids.type):
            raise InvalidTypeError(f"row ids must be integers, found {row_ids.type}", argument="row_ids")
        if row_ids.null_count:
            raise InvalidInputError(f"row ids must not be null, found {counted(row_ids.null_count, 'null')}")
        try:
            numbers: npt.NDArray[np.uint64] = row_ids.cast(pa.uint64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"row ids must be numbers from 0 to {_LARGEST}: {error}") from error
        return numbers
    try:
        return np.fromiter(map(index, row_ids), np.uint64)
    except TypeError as error:
        raise InvalidTypeError(f"row ids must be integers: {error}", argument="row_ids") from error
    except OverflowError as error:
        raise InvalidInputError(f"row ids must be numbers from 0 to {_LARGEST}: {error}") from error


def _refuse_duplicates(ids: npt.NDArray[np.uint64]) -> None:
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        raise InvalidInputError(f"row ids must be unique, but row id {int(repeated[0])} appears more than once")


def document_of(value: Any) -> Any:
    """Return the JSON form of a value, which is an object of this module or already in JSON form."""
    return value.asdict() if isinstance(value, _Meta) else value


def ids_of(value: Any) -> RowIdMeta | None:
    """Convert row ids from their JSON form to an object; None remains None."""
    return value if value is None or isinstance(value, RowIdMeta) else RowIdMeta(value)


def versions_of(value: Any) -> RowDatasetVersionMeta | None:
    """Convert row versions from their JSON form to an object; None remains None."""
    return value if value is None or isinstance(value, RowDatasetVersionMeta) else RowDatasetVersionMeta(value)
