"""Conversions of times, and the names of distance metrics; the names follow ``lance.util``."""

from __future__ import annotations

from typing import Literal

from lance_core.public.times import sanitize_ts, td_to_micros

__all__ = ["MetricType", "sanitize_ts", "td_to_micros"]

MetricType = Literal["l2", "euclidean", "dot", "cosine"]
"""Names of the metrics for the distance between vectors."""
