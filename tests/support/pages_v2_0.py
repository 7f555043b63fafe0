"""Pages in format 2.0 in memory: encode, decode, and change them by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import PageBuffers, PageBuilder, Steps
from lance_core.encodings.v2_0.page_encoder import ValueOptions, encode_values
from lance_core.encodings.v2_0.registry import decode_array
from lance_core.encodings.v2_0.spans import Spans
from lance_core.proto import pb20


def encode(array: pa.Array, **metadata: str) -> tuple[pb20.ArrayEncoding, list[bytes]]:
    """Encode one page; metadata keys are given without their prefix ``lance-encoding:``."""
    page = PageBuilder()
    options = ValueOptions.of(
        {f"lance-encoding:{key.replace('_', '-')}": value.encode() for key, value in metadata.items()}
    )
    encoding = encode_values(array, page, options)
    return encoding, [buffer.to_pybytes() for buffer in page.buffers]


def decode(
    encoding: pb20.ArrayEncoding,
    buffers: Sequence[bytes],
    dtype: pa.DataType,
    rows: Spans | int,
    column_buffers: Sequence[bytes] = (),
) -> pa.Array:
    """Decode rows of a page; a number selects this many rows from the start."""
    rows = Spans.single(0, rows) if isinstance(rows, int) else rows
    array = answer(lambda page: decode_array(encoding, dtype, rows, page), buffers, column_buffers=column_buffers)
    assert array.type == dtype
    array.validate(full=True)
    return array


def answer(make_steps: object, buffers: Sequence[bytes], column_buffers: Sequence[bytes] = ()) -> object:
    """Answer the read requests of a decoder from a file of consecutive, unaligned buffers."""
    file = b"?"
    places = []
    for data in [*buffers, *column_buffers]:
        places.append((len(file), len(data)))
        file += data + b"?"
    content = np.frombuffer(file, np.uint8)
    steps: Steps[object] = make_steps(PageBuffers(places[: len(buffers)], places[len(buffers) :]))
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send([pa.py_buffer(content[spans.positions()].tobytes()) for spans in wanted])
    except StopIteration as stop:
        return stop.value


def flat(bits: int, index: int = 0, **kind: object) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(flat=pb20.Flat(bits_per_value=bits, buffer=pb20.Buffer(buffer_index=index), **kind))


def no_nulls(values: pb20.ArrayEncoding) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(nullable=pb20.Nullable(no_nulls=pb20.Nullable.NoNull(values=values)))


def some_nulls(validity: pb20.ArrayEncoding, values: pb20.ArrayEncoding) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(
        nullable=pb20.Nullable(some_nulls=pb20.Nullable.SomeNull(validity=validity, values=values))
    )


def binary(adjustment: int, indices: pb20.ArrayEncoding, data: pb20.ArrayEncoding) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(binary=pb20.Binary(indices=indices, bytes=data, null_adjustment=adjustment))


def u64(*values: int) -> bytes:
    return np.array(values, "<u8").tobytes()
