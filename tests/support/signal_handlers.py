"""Signal handlers during a test.

A shell starts what runs in the background with SIGINT ignored. Dagster copies the handler of SIGINT onto SIGTERM, for
good, and forked processes inherit it: a pool whose workers ignore SIGTERM waits for their end without one.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def own_signal_handlers() -> Iterator[None]:
    """Handle SIGINT like a program in the foreground, and restore the handlers afterward."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    if before[signal.SIGINT] is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
