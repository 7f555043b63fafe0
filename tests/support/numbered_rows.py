"""Tables whose rows are numbered."""

import pyarrow as pa


def numbered_rows(start: int, stop: int) -> pa.Table:
    """Return the numbers of a range in column ``x``."""
    return pa.table({"x": list(range(start, stop))})


def numbers_twice(*numbers: int) -> pa.Table:
    """Return the same numbers in the columns ``a`` and ``b``."""
    return pa.table({name: pa.array(numbers, pa.int64()) for name in ("a", "b")})
