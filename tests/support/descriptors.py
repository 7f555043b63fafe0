"""The file descriptors that this process has open."""

import gc
import os
from collections.abc import Callable


def open_descriptors() -> dict[str, str]:
    """Return number and target of each open descriptor."""
    gc.collect()
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            # The descriptor of the listing itself.
            continue
    return found


def descriptors_left_by(act: Callable[[], object], *, times: int = 3) -> set[str]:
    """Return the targets of descriptors that an action leaves open; the action first runs once to warm up."""
    act()
    before = open_descriptors()
    for _ in range(times):
        act()
    after = open_descriptors()
    return {target for number, target in after.items() if before.get(number) != target}
