"""Tables whose rows are numbered."""

import pyarrow as pa


def numbered_rows(start: int, stop: int) -> pa.Table:
    """The numbers of a range in column ``x``."""
    return pa.table({"x": list(range(start, stop))})
