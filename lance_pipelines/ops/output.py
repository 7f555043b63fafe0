"""The human-readable output of a step: one line in the log and on standard output, or a table."""

import sys

import dagster as dg

__all__ = ["print_text", "say"]


def say(context: dg.OpExecutionContext, dataset: str, line: str) -> None:
    """Log one line, and print it to standard output; logs go to standard error."""
    context.log.info(line)
    print_text(f"{dataset}: {line}\n")


def print_text(text: str) -> None:
    """Print text with a single write, because steps in different processes may share standard output."""
    sys.stdout.write(text)
    sys.stdout.flush()
