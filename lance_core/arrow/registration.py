"""Registers extension types with Arrow."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

__all__ = ["register"]


def register(dtype: pa.ExtensionType) -> None:
    """Register an extension type with Arrow, unless another library in this process has already done so."""
    with suppress(pa.ArrowKeyError):
        pa.register_extension_type(dtype)
