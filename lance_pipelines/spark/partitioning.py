"""The number of writing tasks, which is the minimum number of fragments."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PARTITION_BYTES", "coalesce_small_partitions"]

PARTITION_BYTES: Final = 128 * 1024**2
"""Bytes of source, by Spark's estimate, that are worth a task of their own; Spark's own size of a file split."""

_logger: Final = logging.getLogger(__name__)


def coalesce_small_partitions(frame: DataFrame, *, partition_bytes: int = PARTITION_BYTES) -> DataFrame:
    """Merge small partitions, so that ten thousand small files do not become ten thousand fragments.

    Every task writes at least one fragment, so partitions are merged down to one per ``partition_bytes`` of Spark's
    estimate of the frame, but never to fewer than the cluster has cores. Merging moves no rows between machines.
    Without an estimate Spark assumes a huge frame, and nothing is merged; neither on Spark Connect, which has no
    estimates.

    Args:
        frame: any frame.
        partition_bytes: bytes per partition, at least 1.

    Returns:
        The frame, with at most that many partitions.
    """
    try:
        estimate = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        cores = frame.sparkSession.sparkContext.defaultParallelism
    except (PySparkException, Py4JError, AttributeError) as error:
        _logger.debug("partitions are not merged, since there is no estimate of the frame's size: %s", error)
        return frame
    wanted = max(cores, -(-estimate // partition_bytes))
    # Beyond the largest int of Java there is certainly nothing to merge.
    return frame if wanted >= 2**31 else frame.coalesce(wanted)
