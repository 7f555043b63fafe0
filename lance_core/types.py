"""Types of arguments; the names follow ``lance.types``."""

from __future__ import annotations

from lance_core.write.data_input import ReaderLike

__all__ = ["ReaderLike"]
