"""Layers: the meaning of the repetition and definition levels of one page.

A page lists one layer per level of nesting, including the leaf, from the leaf outward. A layer specifies whether its
slots are lists, whether they may be null, and whether they may be empty; null and empty take one *definition level*
each:

====  ==================================  =================  ====================================================
Code  Layer                               Definition levels  Meaning
====  ==================================  =================  ====================================================
1     ``ALL_VALID_ITEM``                  0                  leaf, struct or fixed-size list without nulls
2     ``ALL_VALID_LIST``                  0                  list without nulls or empty lists
3     ``NULLABLE_ITEM``                   1                  leaf, struct or fixed-size list with nulls
4     ``NULLABLE_LIST``                   1                  list with nulls
5     ``EMPTYABLE_LIST``                  1                  list with empty lists
6     ``NULL_AND_EMPTY_LIST``             2                  list with nulls (lower level) and empty lists
====  ==================================  =================  ====================================================

Definition levels are numbered from 1, layer by layer from the leaf outward; level 0 represents a value. A repetition
level k means that a new entry of the k-th list from the inside starts; at the start of a row, k equals the number of
lists. (Parquet counts both from the outside.)

The levels of the layers inside the innermost list own a value slot. Higher levels are *invisible*: they do not own a
value slot, because they represent a null or empty list, or a null struct that encloses a list.

Source: ``lance.encodings21.RepDefLayer``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "ALL_VALID_ITEM",
    "ALL_VALID_LIST",
    "DEFINITION_LEVELS",
    "EMPTYABLE_LIST",
    "LIST_LAYERS",
    "NULLABLE_ITEM",
    "NULLABLE_LIST",
    "NULL_AND_EMPTY_LIST",
    "Layers",
    "described",
]

ALL_VALID_ITEM: Final = pb21.REPDEF_ALL_VALID_ITEM
ALL_VALID_LIST: Final = pb21.REPDEF_ALL_VALID_LIST
NULLABLE_ITEM: Final = pb21.REPDEF_NULLABLE_ITEM
NULLABLE_LIST: Final = pb21.REPDEF_NULLABLE_LIST
EMPTYABLE_LIST: Final = pb21.REPDEF_EMPTYABLE_LIST
NULL_AND_EMPTY_LIST: Final = pb21.REPDEF_NULL_AND_EMPTY_LIST

DEFINITION_LEVELS: Final = {
    ALL_VALID_ITEM: 0,
    ALL_VALID_LIST: 0,
    NULLABLE_ITEM: 1,
    NULLABLE_LIST: 1,
    EMPTYABLE_LIST: 1,
    NULL_AND_EMPTY_LIST: 2,
}
"""Maps each type of layer to the number of definition levels that it adds."""

LIST_LAYERS: Final = frozenset({ALL_VALID_LIST, NULLABLE_LIST, EMPTYABLE_LIST, NULL_AND_EMPTY_LIST})
"""Types of layers that also add a repetition level."""

_MAX_LAYERS: Final = 128


def described(codes: Sequence[int]) -> str:
    """Describe layers in words, for messages."""
    names = [pb21.RepDefLayer.Name(code) if code in DEFINITION_LEVELS else f"unknown layer {code}" for code in codes]
    return f"the layers ({', '.join(names) or 'none'})"


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of one page, from the leaf outward.

    Attributes:
        codes: one code per layer, starting with the leaf.
    """

    codes: tuple[pb21.RepDefLayer, ...]

    @classmethod
    def parse(cls, codes: Iterable[pb21.RepDefLayer], what: str) -> Self:
        """Check the codes found in a page.

        Raises:
            CorruptDataError: the page has no layers, a code is unknown, or the leaf is a list.
            NotSupportedError: there are more layers than in any schema that this library reads.
        """
        layers = tuple(codes)
        if not layers or layers[0] in LIST_LAYERS or not DEFINITION_LEVELS.keys() >= set(layers):
            raise CorruptDataError(f"{what}: {described(layers)} do not describe a column")
        if len(layers) > _MAX_LAYERS:
            raise NotSupportedError(
                f"{what}: found {counted(len(layers), 'layer')} of nesting; at most {_MAX_LAYERS} are supported"
            )
        return cls(layers)

    @property
    def max_repetition(self) -> int:
        """The repetition level that starts a row; 0 if there are no lists."""
        return sum(code in LIST_LAYERS for code in self.codes)

    def check_repetition(self, *, is_present: bool) -> None:
        """Check that a page has repetition levels if, and only if, its column has lists.

        Raises:
            CorruptDataError: repetition levels are missing or unexpected.
        """
        if is_present != (self.max_repetition > 0):
            problem = "present, but the column has no lists" if is_present else "missing"
            raise CorruptDataError(f"repetition levels are {problem}: {described(self.codes)}")

    @property
    def max_definition(self) -> int:
        """The highest definition level."""
        return sum(DEFINITION_LEVELS[code] for code in self.codes)

    @property
    def max_visible(self) -> int:
        """The highest definition level that still owns a value slot."""
        visible = 0
        for code in self.codes:
            if code in LIST_LAYERS:
                break
            visible += DEFINITION_LEVELS[code]
        return visible

    @property
    def has_invisible(self) -> bool:
        """Whether some definition levels do not own a value slot."""
        return self.max_definition > self.max_visible
