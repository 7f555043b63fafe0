"""Builds a page from levels, values, and the choice made by the policy.

Source: ``lance.encodings21.PageLayout``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import EncodedPage, FixedSizeListBlock, NullBlock, StructBlock, VariableWidthBlock
from lance_core.encodings.compressive.fsst import wrapped, wrapped_rows
from lance_core.encodings.compressive.general import compress_chunks, compress_values
from lance_core.encodings.policy.choices import with_room_for_levels
from lance_core.encodings.registry import ENCODER
from lance_core.encodings.structural import constant, full_zip, mini_block
from lance_core.proto import pb21

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock
    from lance_core.encodings.compressive.fsst import CompressedStrings
    from lance_core.encodings.levels.build import Levels
    from lance_core.encodings.policy.choices import MiniBlockChoice
    from lance_core.encodings.policy.field_options import FieldOptions
    from lance_core.encodings.policy.format_rules import FormatRules

__all__ = ["SCHEMES", "PagePlan", "encode_mini_block", "encode_zipped", "values_arm"]

SCHEMES: Final = {"zstd": pb21.COMPRESSION_ALGORITHM_ZSTD, "lz4": pb21.COMPRESSION_ALGORITHM_LZ4}
"""Compression schemes, keyed by their names in field metadata."""


@dataclass(frozen=True, slots=True)
class PagePlan:
    """The properties of a page that do not depend on its values.

    Attributes:
        levels: levels of the page.
        num_rows: value of ``Page.length``.
        options: encoding options of the field.
        rules: rules of the format version.
    """

    levels: Levels
    num_rows: int
    options: FieldOptions
    rules: FormatRules

    def all_null_page(self) -> EncodedPage:
        """Return a page whose values are all null; it stores only levels."""
        return constant.encode_all_null(
            self.levels,
            num_rows=self.num_rows,
            encoded_levels=self.rules.encoded_constant_levels,
            run_levels=self.rules.run_levels,
        )


def encode_mini_block(
    choice: MiniBlockChoice,
    block: DataBlock,
    plan: PagePlan,
    *,
    dictionary: tuple[pb21.CompressiveEncoding, pa.Buffer, int] | None = None,
    symbols: CompressedStrings | None = None,
) -> EncodedPage | None:
    """Encode a page with its values in chunks; return None if the levels or values are too large for chunks.

    Args:
        choice: how to divide the values into chunks and encode them.
        block: the values.
        plan: properties of the page that do not depend on its values.
        dictionary: encoding, bytes, and number of items of the dictionary, if the values are indices into one.
        symbols: the symbol table and the compressed strings, if ``block`` contains compressed strings.
    """
    found = with_room_for_levels(choice, block, plan.levels)
    while found is not None:
        chunks = ENCODER.mini_block(found.arm, block, found.values_per_chunk)
        if symbols is not None:
            chunks = wrapped(symbols, chunks)
        if found.compression is not None:
            scheme = SCHEMES[found.compression.scheme]
            chunks = compress_chunks(chunks, scheme, found.compression.level) or chunks
        page = mini_block.encode(
            plan.levels,
            chunks,
            num_rows=plan.num_rows,
            dictionary=dictionary,
            is_large=plan.rules.large_chunks,
            run_levels=plan.rules.run_levels,
        )
        if page is not None:
            return page
        found = found.smaller(block)
    return None


def encode_zipped(
    block: DataBlock,
    plan: PagePlan,
    *,
    level: int | None = None,
    present: NDArray[np.bool_] | None = None,
    symbols: CompressedStrings | None = None,
) -> EncodedPage:
    """Encode a page in which every value follows its levels.

    Args:
        block: the values; the width of a value must be a whole number of bytes.
        plan: properties of the page that do not depend on its values.
        level: zstd level for compressing each string separately; None = no compression.
        present: (num_slots,) mask of the value slots that ``block`` contains, for values of variable width; all other
            slots are empty. None = all slots.
        symbols: the symbol table and the compressed strings, if ``block`` contains compressed strings.
    """
    encoding, values = ENCODER.per_value(values_arm(block), block)
    if symbols is not None:
        encoding = wrapped_rows(symbols, encoding)
    if level is not None and isinstance(values, VariableWidthBlock):
        encoding, values = compress_values(encoding, values, level) or (encoding, values)
    if present is not None and isinstance(values, VariableWidthBlock):
        offsets = np.zeros(len(present) + 1, values.offsets.dtype)
        sizes = np.zeros(len(present), values.offsets.dtype)
        sizes[present] = np.diff(values.offsets)
        np.cumsum(sizes, out=offsets[1:])
        values = VariableWidthBlock(offsets, values.data)
    return full_zip.encode(plan.levels, encoding, values, num_rows=plan.num_rows)


def values_arm(block: DataBlock) -> str:
    """Return the name of the encoding that stores values of this kind unchanged."""
    if isinstance(block, FixedSizeListBlock):
        return "fixed_size_list"
    if isinstance(block, StructBlock):
        is_variable = any(isinstance(member, (VariableWidthBlock, FixedSizeListBlock)) for member in block.members)
        return "variable_packed_struct" if is_variable else "packed_struct"
    if isinstance(block, NullBlock):
        return "constant"
    return "variable" if isinstance(block, VariableWidthBlock) else "flat"
