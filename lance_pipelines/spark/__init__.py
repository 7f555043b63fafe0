"""The Spark layer: the work that runs in parallel, and the session that runs it. It does not depend on Dagster.

:func:`register` makes the data source ``lance`` available in a session (``data_source``), and :func:`translated`
converts Spark's exceptions to typed errors. ``verbs`` changes tables without declarations. For the pipelines,
``staging`` is the entry point: ``stage_write`` reads a source (``sources``, ``environment_inventory``) and writes it
(``schema``, ``conform``, ``writer``); ``rewrite_tasks`` rewrites fragments (``rewriter``). ``types`` lists the types,
``read_tasks`` divides reads into tasks, and ``tasks`` executes independent tasks. ``leftovers`` removes the files of
failed jobs, ``owned_jobs`` and ``interruption`` end jobs that nobody is waiting for, ``failures`` converts Spark's
exceptions, and ``session`` starts and stops Spark with the Java that ``java`` finds.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_pipelines.spark.data_source.registration import register
    from lance_pipelines.spark.failures import translated
    from lance_pipelines.spark.session import LOCAL_DEFAULTS, SESSION_DEFAULTS, start_session, stop_session

__all__ = ["LOCAL_DEFAULTS", "SESSION_DEFAULTS", "register", "start_session", "stop_session", "translated"]

_HOMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "LOCAL_DEFAULTS": "lance_pipelines.spark.session",
        "SESSION_DEFAULTS": "lance_pipelines.spark.session",
        "register": "lance_pipelines.spark.data_source.registration",
        "start_session": "lance_pipelines.spark.session",
        "stop_session": "lance_pipelines.spark.session",
        "translated": "lance_pipelines.spark.failures",
    }
)
"""Each name is imported on first use: a worker that needs one module does not load the others."""


def __getattr__(name: str) -> object:
    """Import a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
