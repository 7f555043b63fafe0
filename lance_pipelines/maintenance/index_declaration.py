"""IndexDeclaration: an index that a dataset should have.

Indices are built and updated by pylance, the optional extra of this project. The types and the names of the parameters
are those of pylance's ``create_scalar_index`` and ``create_index``.

Source: index types and parameters of pylance 14.0.2.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from lance_core.errors import InvalidInputError

__all__ = ["VECTOR_DETAILS", "IndexDeclaration", "IndexType", "check_indices", "indices_digest"]

VECTOR_DETAILS: Final = "Vector"
"""The type that manifests record for all vector indices."""

_DIGEST_DIGITS: Final = 8

_MIN_VECTORS: Final = 256
"""Default minimum number of rows for building a vector index: a codebook for 8-bit codes has this number of entries."""


class IndexType(StrEnum):
    """The type of an index, as pylance names it."""

    BTREE = "BTREE"
    """For comparisons, ranges, and sorting of columns with many different values."""

    BITMAP = "BITMAP"
    """For columns with few different values."""

    LABEL_LIST = "LABEL_LIST"
    """For the elements of lists."""

    NGRAM = "NGRAM"
    """For ``contains`` on text."""

    ZONEMAP = "ZONEMAP"
    """Small; for columns whose values are roughly sorted."""

    BLOOMFILTER = "BLOOMFILTER"
    """Small; for equality."""

    INVERTED = "INVERTED"
    """For full-text search."""

    IVF_FLAT = "IVF_FLAT"
    """For vector searches, without compression."""

    IVF_PQ = "IVF_PQ"
    """For vector searches, with product quantization; requires the parameter ``num_sub_vectors``."""

    IVF_SQ = "IVF_SQ"
    """For vector searches, with scalar quantization."""

    IVF_RQ = "IVF_RQ"
    """For vector searches, with RaBitQ quantization."""

    IVF_HNSW_FLAT = "IVF_HNSW_FLAT"
    """For vector searches: a graph in each partition, without compression."""

    IVF_HNSW_PQ = "IVF_HNSW_PQ"
    """For vector searches: a graph in each partition, with product quantization; requires ``num_sub_vectors``."""

    IVF_HNSW_SQ = "IVF_HNSW_SQ"
    """For vector searches: a graph in each partition, with scalar quantization."""

    @property
    def is_vector(self) -> bool:
        """Whether this is a type of vector index."""
        return self.value.startswith("IVF_")

    @property
    def details(self) -> str:
        """The type that manifests record for an index of this type, in upper case and without underscores."""
        return VECTOR_DETAILS.upper() if self.is_vector else self.value.replace("_", "")


_OF_VECTORS: Final = frozenset({"metric", "num_partitions", "target_partition_size", "sample_rate", "max_iters"})
_OF_PQ: Final = frozenset({"num_sub_vectors", "num_bits"})
_OF_HNSW: Final = frozenset({"m", "ef_construction", "max_level"})
_OF_TEXT: Final = frozenset(
    {
        "with_position",
        "block_size",
        "memory_limit",
        "num_workers",
        "base_tokenizer",
        "language",
        "max_token_length",
        "lower_case",
        "stem",
        "remove_stop_words",
        "custom_stop_words",
        "ascii_folding",
    }
)
_NONE: Final[frozenset[str]] = frozenset()

_PARAMETERS: Final[Mapping[IndexType, frozenset[str]]] = MappingProxyType(
    {
        IndexType.BTREE: _NONE,
        IndexType.BITMAP: _NONE,
        IndexType.LABEL_LIST: _NONE,
        IndexType.NGRAM: _NONE,
        IndexType.ZONEMAP: frozenset({"rows_per_zone"}),
        IndexType.BLOOMFILTER: frozenset({"number_of_items", "probability"}),
        IndexType.INVERTED: _OF_TEXT,
        IndexType.IVF_FLAT: _OF_VECTORS,
        IndexType.IVF_PQ: _OF_VECTORS | _OF_PQ,
        IndexType.IVF_SQ: _OF_VECTORS,
        IndexType.IVF_RQ: _OF_VECTORS | {"num_bits"},
        IndexType.IVF_HNSW_FLAT: _OF_VECTORS | _OF_HNSW,
        IndexType.IVF_HNSW_PQ: _OF_VECTORS | _OF_PQ | _OF_HNSW,
        IndexType.IVF_HNSW_SQ: _OF_VECTORS | _OF_HNSW,
    }
)
"""Maps each type to its parameters. pylance ignores unknown parameters of most types, so a typo would go unnoticed."""

_REQUIRED: Final = MappingProxyType(
    {IndexType.IVF_PQ: ("num_sub_vectors",), IndexType.IVF_HNSW_PQ: ("num_sub_vectors",)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDeclaration:
    """An index that a dataset should have.

    Attributes:
        column: the indexed column; for a field of a struct, its path: ``address.city``.
        type: the type of the index.
        name: name of the index; if empty, the column's name and ``_idx``, which is also pylance's default.
        parameters: parameters of the type, such as ``{"num_sub_vectors": 16}``, as pylance names them. A change of
            parameters alone does not rebuild an existing index.
        min_rows: number of rows that the dataset must have before the index is built. If None, 256 for a vector index,
            which is trained on the rows, and 1 for all other types.
    """

    column: str
    type: IndexType
    name: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    min_rows: int | None = None

    def __post_init__(self) -> None:
        column: object = self.column
        if not isinstance(column, str) or not column:
            raise InvalidInputError(f"the column of an index must be one column name, found {column!r:.80}")
        what = f"index on {self.column!r}"
        try:
            object.__setattr__(self, "type", IndexType(str(self.type).upper()))
        except ValueError as error:
            raise InvalidInputError(
                f"{what}: unknown type {str(self.type)!r}; expected one of {', '.join(IndexType)}"
            ) from error
        object.__setattr__(self, "name", self.name or f"{self.column}_idx")
        object.__setattr__(self, "parameters", dict(self.parameters))
        known = _PARAMETERS[self.type]
        unknown = [name for name in self.parameters if name not in known]
        if unknown:
            expected = f"expected one of {', '.join(sorted(known))}" if known else "it has no parameters"
            raise InvalidInputError(f"{what}: {self.type} has no parameter {unknown[0]!r}; {expected}")
        missing = [name for name in _REQUIRED.get(self.type, ()) if name not in self.parameters]
        if missing:
            raise InvalidInputError(f"{what}: {self.type} requires the parameter {missing[0]!r}")
        if self.min_rows is not None and self.min_rows < 1:
            raise InvalidInputError(f"{what}: min_rows must be at least 1, found {self.min_rows}")

    @property
    def num_rows_needed(self) -> int:
        """Number of rows that the dataset must have before the index is built."""
        if self.min_rows is not None:
            return self.min_rows
        return _MIN_VECTORS if self.type.is_vector else 1

    def describes(self, index_type: str, columns: Sequence[str]) -> bool:
        """Return whether an existing index has the declared type and column.

        Args:
            index_type: the type that the manifest records.
            columns: paths of the indexed fields.
        """
        return index_type.upper() == self.type.details and list(columns) == [self.column]


def indices_digest(indices: Sequence[IndexDeclaration]) -> str:
    """Return a hexadecimal digest of declared indices; empty if there are none."""
    if not indices:
        return ""
    text = json.dumps([dataclasses.asdict(index) for index in indices], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]


def check_indices(what: str, indices: object) -> tuple[IndexDeclaration, ...]:
    """Return the declared indices of a dataset as a tuple.

    Raises:
        InvalidInputError: an element is not a declaration of an index, or two indices have the same name.
    """
    if not isinstance(indices, Sequence) or not all(isinstance(index, IndexDeclaration) for index in indices):
        raise InvalidInputError(
            f"{what}: indices must be a sequence of IndexDeclaration objects, found {indices!r:.80}"
        )
    names = [index.name for index in indices]
    repeated = [name for number, name in enumerate(names) if name in names[:number]]
    if repeated:
        raise InvalidInputError(f"{what}: two indices have the name {repeated[0]!r}; give each a different name")
    return tuple(indices)
