"""The application loaded by ``dagster -m lance_pipelines.definitions``: the datasets of ``declarations.py``."""

import dagster as dg

from lance_pipelines.build import build_definitions
from lance_pipelines.declarations import default_declarations
from lance_pipelines.settings import ExecutorKind, Settings

__all__ = ["application", "defs"]


def application(settings: Settings) -> dg.Definitions:
    """Return the definitions of the declared datasets, with the executor of the settings."""
    in_process = settings.executor is ExecutorKind.IN_PROCESS
    executor = dg.in_process_executor if in_process else dg.multiprocess_executor
    return dg.Definitions.merge(build_definitions(default_declarations(settings)), dg.Definitions(executor=executor))


defs = application(Settings.from_environment())
