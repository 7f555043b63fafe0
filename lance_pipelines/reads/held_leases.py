"""HeldLeases: the leases of a process, renewed by a thread until they are released together."""

import logging
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Final

import lance_core
from lance_core.errors import AccessDeniedError, LanceError
from lance_core.metadata import VersionLease, lease_version

__all__ = ["HeldLeases"]

_RENEWALS: Final = 3
"""Number of times that a lease is renewed within its duration."""

_logger: Final = logging.getLogger(__name__)


class HeldLeases:
    """Leases that are renewed until they are released.

    Args:
        duration: time after which a lease expires if this process is killed; if zero, no leases are taken.
    """

    def __init__(self, duration: timedelta) -> None:
        """Initialize without taking a lease."""
        self._duration = duration
        self._leases: dict[tuple[str, int], VersionLease] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, dataset: lance_core.LanceDataset, holder: str) -> None:
        """Lease the version of a handle, unless it is already leased. A location that is read-only is not leased.

        Raises:
            VersionNotFoundError: the version no longer exists.
            LanceError: the lease could not be created.
        """
        key = (dataset.uri, dataset.version)
        with self._lock:
            if not self._duration or key in self._leases:
                return
            try:
                self._leases[key] = lease_version(dataset, holder=holder, duration=self._duration)
            except AccessDeniedError as error:
                _logger.warning("%s: version %d is read without a lease: %s", *key, error)
                return
            if self._thread is None:
                self._ended.clear()
                self._thread = threading.Thread(target=self._renew_until_ended, name="lance-leases", daemon=True)
                self._thread.start()

    def release(self) -> None:
        """Release all leases. A lease that cannot be released expires."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        while self._leases:
            _, lease = self._leases.popitem()
            with suppress(LanceError):
                lease.release()

    def renew(self) -> None:
        """Renew all leases now. A failure is only logged, because a later attempt may succeed."""
        with self._lock:
            leases = dict(self._leases)
        for (uri, version), lease in leases.items():
            try:
                lease.renew()
            except LanceError as error:
                _logger.warning("%s: the lease of version %d could not be renewed: %s", uri, version, error)

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(self._duration.total_seconds() / _RENEWALS):
            self.renew()
