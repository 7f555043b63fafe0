"""Sets of fragment ids and row positions; the names follow ``lance.bitmap``."""

from __future__ import annotations

from lance_core.public.bitmap import Bitmap

__all__ = ["Bitmap"]
