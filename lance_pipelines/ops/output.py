"""The human-readable output of a step: one line in the log and on standard output, or a table, and how long it took."""

import sys
import time
from typing import Final

import dagster as dg

__all__ = ["SECONDS_KEY", "duration", "print_text", "say"]

SECONDS_KEY: Final = "lance/seconds"
"""Metadata key: seconds since the run started."""


def say(context: dg.OpExecutionContext, dataset: str, line: str) -> None:
    """Log one line, and print it to standard output; logs go to standard error."""
    context.log.info(line)
    print_text(f"{dataset}: {line}\n")


def print_text(text: str) -> None:
    """Print text with a single write, because steps in different processes may share standard output."""
    sys.stdout.write(text)
    sys.stdout.flush()


def duration(context: dg.OpExecutionContext) -> dict[str, float]:
    """Return the metadata entry with the seconds since the run started; empty if the instance does not know the run."""
    record = context.instance.get_run_record_by_id(context.run_id)
    if record is None or record.start_time is None:
        return {}
    return {SECONDS_KEY: round(time.time() - record.start_time, 1)}
