"""Settings of the project, and the environment variables that define them.

==============================  ===========================================  ==========================================
Variable                        Meaning                                      When absent
==============================  ===========================================  ==========================================
``LANCE_PIPELINES_WAREHOUSE``   directory or URI that holds the datasets     ``warehouse`` below the working directory
``LANCE_PIPELINES_EXECUTOR``    ``in_process`` or ``multiprocess``           ``in_process``
==============================  ===========================================  ==========================================

With ``in_process``, the steps of a run share one process and one Spark session. With ``multiprocess``, every step has
its own process, and every step that uses Spark has its own session.
"""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from lance_core.errors import InvalidInputError

__all__ = [
    "ExecutorKind",
    "Settings",
    "absolute_uri",
    "child_environment",
    "instance_directory",
    "settle_automation_ticks",
]

WAREHOUSE_VARIABLE: Final = "LANCE_PIPELINES_WAREHOUSE"
EXECUTOR_VARIABLE: Final = "LANCE_PIPELINES_EXECUTOR"
HOME_VARIABLE: Final = "DAGSTER_HOME"
INSTANCE_VARIABLE: Final = "LANCE_PIPELINES_INSTANCE"
"""Environment variable that passes a temporary instance directory to child processes if ``DAGSTER_HOME`` is unset."""

SETTLE_VARIABLE: Final = "DAGSTER_AUTOMATION_TICK_SETTLE_SECONDS"
"""Environment variable that Dagster reads; see :func:`settle_automation_ticks`."""

_SETTLE_SECONDS: Final = "0.1"

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""Matches the start of a URI, such as ``s3://bucket/x`` or ``file:/x``; Hadoop and Spark print local paths in the
latter form.
"""


class ExecutorKind(StrEnum):
    """How the steps of a run are executed."""

    IN_PROCESS = "in_process"
    MULTIPROCESS = "multiprocess"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the project.

    Attributes:
        warehouse: absolute path or URI of the directory that holds the datasets.
        executor: how the steps of a run are executed.
    """

    warehouse: str
    executor: ExecutorKind = ExecutorKind.IN_PROCESS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read the settings from environment variables; an empty variable counts as unset.

        Args:
            environment: the environment variables; if None, those of the process.

        Raises:
            InvalidInputError: the executor is unknown.
        """
        variables = os.environ if environment is None else environment
        executor = variables.get(EXECUTOR_VARIABLE) or ExecutorKind.IN_PROCESS
        if executor not in set(ExecutorKind):
            raise InvalidInputError(
                f"invalid {EXECUTOR_VARIABLE} {executor!r}; expected one of {', '.join(ExecutorKind)}"
            )
        return cls(
            warehouse=absolute_uri(variables.get(WAREHOUSE_VARIABLE) or "warehouse"),
            executor=ExecutorKind(executor),
        )

    @property
    def history_uri(self) -> str:
        """The location of the history of maintenance, in the warehouse."""
        return self.dataset_uri("maintenance_history")

    def dataset_uri(self, name: str) -> str:
        """Return the location of the dataset with that name in the warehouse."""
        return f"{self.warehouse.rstrip('/')}/{name}.lance"


def absolute_uri(location: str) -> str:
    """Return an absolute path, so that all processes of a run use the same location; a URI with a scheme is unchanged.

    Raises:
        InvalidInputError: the path begins with ``~``, and the user's home directory cannot be found.
    """
    if _SCHEME.match(location):
        return location
    try:
        return str(Path(location).expanduser().absolute())
    except RuntimeError as error:
        raise InvalidInputError(f"invalid path {location!r}: {error}", uri=location) from error


def child_environment(*, warehouse: Path, dagster_home: Path) -> dict[str, str]:
    """Return the environment variables for a process with a separate warehouse and a separate Dagster instance.

    Variables that refer to the user's instance or datasets are removed.
    """
    own = {name: text for name, text in os.environ.items() if not name.startswith(("DAGSTER_", "LANCE_PIPELINES_"))}
    return {**own, WAREHOUSE_VARIABLE: str(warehouse), HOME_VARIABLE: str(dagster_home)}


def settle_automation_ticks() -> None:
    """Assign each event to exactly one automation tick, in this process and in the processes that it starts.

    A tick first records the position of the end of the event log and then reads the latest events. An event that is
    logged between these two steps would be read by both this tick and the next, which would cause two runs for one
    change. Dagster leaves such an event to the next tick only if :data:`SETTLE_VARIABLE` specifies how long a tick
    waits after it has recorded the position. An existing value of the variable is kept.
    """
    os.environ.setdefault(SETTLE_VARIABLE, _SETTLE_SECONDS)


def instance_directory() -> str:
    """Return the directory of the Dagster instance's databases.

    The directory is ``DAGSTER_HOME``. If that variable is not set, a command uses a temporary directory, which it
    shares with its child processes and removes when it ends.
    """
    known = os.environ.get(HOME_VARIABLE) or os.environ.get(INSTANCE_VARIABLE)
    if known:
        return known
    directory = tempfile.mkdtemp(prefix="lance-pipelines-instance-")
    os.environ[INSTANCE_VARIABLE] = directory
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
