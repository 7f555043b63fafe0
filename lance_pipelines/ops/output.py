"""What a step says to people: one line in the log and on standard output, or a table."""

import sys

import dagster as dg

__all__ = ["print_text", "say"]


def say(context: dg.OpExecutionContext, dataset: str, line: str) -> None:
    """One line. Logs go to standard error; this is the program's output."""
    context.log.info(line)
    print_text(f"{dataset}: {line}\n")


def print_text(text: str) -> None:
    """Text as it is, at once: the steps of a run may be processes that share standard output."""
    sys.stdout.write(text)
    sys.stdout.flush()
