"""The CPU time of a run's steps: of their processes, and of child processes such as Spark.

With one process for all steps, the clock starts with the first step; with one process for each step, it starts with the
process. Every step records the CPU time used since the previous one, so that the times of the steps add up. Work on
other machines, such as that of a Spark cluster, is not included.
"""

from typing import Final

import psutil

__all__ = ["start_cpu_clock", "take_cpu_seconds"]

_taken: Final = {"seconds": 0.0}
"""The CPU time of this process and its children that is already attributed to earlier steps, or excluded."""


def start_cpu_clock() -> None:
    """Exclude the CPU time that the process has used so far; called when a run begins."""
    _taken["seconds"] = _cpu_seconds()


def take_cpu_seconds() -> float:
    """Return the CPU time, in seconds, since the clock started or since the last call."""
    now = _cpu_seconds()
    passed = now - _taken["seconds"]
    _taken["seconds"] = now
    # A process that was started independently of its parent, and has ended, takes its time with it.
    return max(0.0, passed)


def _cpu_seconds() -> float:
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            # Ended since it was listed.
            continue
        total += times.user + times.system
        # Of children that have ended; macOS and Windows do not record them.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total
