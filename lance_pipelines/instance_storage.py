"""The SQLite storage of a Dagster instance, with a lock that prevents two processes from opening it at the same time.

Dagster creates the tables of a new instance when its storage is opened for the first time, and assumes that no other
process does so at the same time; otherwise, one of the processes fails with "UNIQUE constraint failed". This happens
when the first two runs of a project start together, and when ``dagster dev`` starts its web server and its daemon. A
lock file next to the databases makes the second process wait until the first is done; apart from that, the storage is
the same as ``DagsterSqliteStorage``.

Dagster's daemon opens the storage before its first tick. Therefore, opening the storage also calls
``settle_automation_ticks``, which assigns each event to exactly one automation tick.

``dagster.yaml`` refers to this class. Without ``base_dir``, the databases are below ``DAGSTER_HOME``. If
``DAGSTER_HOME`` is not set, a command reads the ``dagster.yaml`` in its working directory and uses a temporary
directory, which is removed when the command ends.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import dagster as dg
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from filelock import FileLock

from lance_pipelines.settings import instance_directory, settle_automation_ticks

__all__ = ["LOCK_NAME", "LockedSqliteStorage"]

LOCK_NAME: Final = ".storage.lock"


class LockedSqliteStorage(DagsterSqliteStorage):
    """A ``DagsterSqliteStorage`` with a lock that prevents two processes from opening it at the same time."""

    @classmethod
    def config_type(cls) -> dict[str, dg.Field]:
        """Return the parent's configuration fields, with ``base_dir`` made optional."""
        return {"base_dir": dg.Field(dg.StringSource, is_required=False)}

    @classmethod
    def from_config_value(  # type: ignore[override]  # as the parent's: it narrows the configuration's type
        cls, inst_data: ConfigurableClassData, config_value: Mapping[str, str]
    ) -> Self:
        """Create the storage from the configuration of ``dagster.yaml``."""
        return cls.from_local(config_value.get("base_dir") or instance_directory(), inst_data)

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> Self:
        """Open the storage below a directory, creating missing directories."""
        settle_automation_ticks()
        directory = Path(base_dir)
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / LOCK_NAME):
            return super().from_local(base_dir, inst_data)
