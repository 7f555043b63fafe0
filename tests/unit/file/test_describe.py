"""The text that describe_file and describe_layout return."""

from __future__ import annotations

import pyarrow as pa

from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.describe import describe_file, describe_layout
from lance_core.file.footer import Footer
from lance_core.file.global_buffers import FileDescriptor, serialize_table
from lance_core.file.reader import FileReader
from lance_core.io.byte_range import ByteRange
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb21
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

FLAT = pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=32))
MINI_BLOCK = pb21.PageLayout(
    mini_block=pb21.MiniBlockLayout(
        value_compression=FLAT,
        layers=[pb21.REPDEF_ALL_VALID_ITEM],
        num_buffers=1,
        num_items=3,
        has_large_chunk=True,
    )
)


def _file() -> bytes:
    """Return a file with one int32 column of one page, assembled from its parts."""
    arrow = pa.schema([pa.field("x", pa.int32(), metadata={"unit": "m"})], metadata={"long": "y" * 50})
    descriptor = FileDescriptor(schema=schema_from_arrow(arrow), num_rows=3).serialize()
    page = Page(buffers=(ByteRange(0, 4), ByteRange(64, 88)), length=3, first_row=0, encoding=MINI_BLOCK)
    column = ColumnMetadata(pages=(page,)).serialize()
    start = 128 + len(descriptor)
    footer = Footer(
        column_metadata_offset=start,
        column_table_offset=start + len(column),
        global_buffer_table_offset=start + len(column) + 16,
        num_global_buffers=1,
        num_columns=1,
        version=LanceFileVersion.V2_2,
    )
    tables = serialize_table([ByteRange(start, start + len(column))]) + serialize_table([ByteRange(128, start)])
    return bytes(128) + descriptor + column + tables + footer.serialize()


def test_describe_file_lists_the_schema_the_buffers_and_the_pages() -> None:
    store = MemoryStore()
    store.put("f", _file())
    text = describe_file(FileReader.open(store, "f"))
    assert text.splitlines() == [
        f"data file in format 2.2: 3 rows, {len(_file())} bytes",
        "schema",
        "  0 'x': int32",
        "    metadata 'unit' = 'm'",
        "  metadata 'long' = <50 bytes>",
        "global buffers",
        f"  0 [128, {128 + len(_descriptor())})",
        "columns",
        "  0 field 0 'x': 1 page",
        "    page 0 from row 0, length 3: mini_block(value_compression=flat(bits_per_value=32), "
        "layers=[all_valid_item], num_buffers=1, num_items=3, has_large_chunk=True)",
        "      buffer 0 [0, 4)",
        "      buffer 1 [64, 88)",
    ]


def _descriptor() -> bytes:
    arrow = pa.schema([pa.field("x", pa.int32(), metadata={"unit": "m"})], metadata={"long": "y" * 50})
    return FileDescriptor(schema=schema_from_arrow(arrow), num_rows=3).serialize()


def test_describe_layout_renders_nested_encodings() -> None:
    zstd = pb21.CompressiveEncoding(
        general=pb21.General(
            compression=pb21.BufferCompression(scheme=pb21.COMPRESSION_ALGORITHM_ZSTD),
            values=pb21.CompressiveEncoding(fsst=pb21.Fsst(symbol_table=bytes(2312))),
        )
    )
    layout = pb21.PageLayout(full_zip=pb21.FullZipLayout(bits_def=1, value_compression=zstd))
    assert describe_layout(layout) == (
        "full_zip(bits_def=1, value_compression=general(compression=(scheme=zstd), "
        "values=fsst(symbol_table=<2312 bytes>)))"
    )
    constant = pb21.PageLayout(constant=pb21.ConstantLayout(inline_value=b"\x07"))
    assert describe_layout(constant) == "constant(inline_value='\\x07')"
    assert describe_layout(pb21.PageLayout()) == "unset"
