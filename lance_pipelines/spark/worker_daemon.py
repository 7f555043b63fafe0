"""The process from which Spark forks its Python workers, with the modules of the tasks already imported.

Spark starts one daemon for each executor and forks a worker from it for each task that runs at the same time. PySpark's
own daemon imports almost nothing, so every worker imports pyarrow, pandas (on behalf of pyarrow), numba, and this
project again, which takes seconds of processor time per worker. This daemon imports them once, before the first fork,
and writes a small fragment, which also loads the compiled kernels; the workers share the memory. The daemon is enabled
by ``spark.python.daemon.module``; everything else is PySpark's daemon.

A fork copies only the thread that calls it, and a lock that another thread holds remains locked forever. Therefore, the
imports must not leave a thread behind. If one does, or if an import fails, the process becomes PySpark's own daemon.

Source: ``pyspark/daemon.py`` and ``PythonWorkerFactory`` of Spark 4.3.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DAEMON_MODULE", "preload"]

DAEMON_MODULE: Final = "lance_pipelines.spark.worker_daemon"
"""Value of ``spark.python.daemon.module``."""

_PLAIN_DAEMON: Final = "pyspark.daemon"
_NO_THREADS: Final = MappingProxyType(
    {
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }
)
"""Environment variables that prevent numpy and pyarrow from starting threads when they are imported."""

_NUM_STRINGS: Final = 5000
"""Enough strings for the writer to compress them with FSST, for which it loads the compiled kernels."""


def preload() -> None:
    """Import the modules of the tasks.

    Raises:
        Exception: a module cannot be imported; the exception can be of any type.
        RuntimeError: the imports left threads running.
    """
    # The JVM reads the port of the daemon from standard output.
    with redirect_stdout(sys.stderr), _without_threads():
        _import_modules()
        _write_once()
    if _num_threads() > 1:
        raise RuntimeError("importing the modules left threads running")
    # Otherwise every worker would draw the same numbers; Python's own generator takes care of itself.
    if "numpy.random" in sys.modules:
        os.register_at_fork(after_in_child=sys.modules["numpy.random"].seed)
    # A collection in a worker would write to every object, and thereby copy the memory that the workers share.
    gc.collect()
    gc.freeze()


def _import_modules() -> None:
    """Import what the tasks of PySpark and of this project import; pyarrow imports pandas."""
    import pyarrow.dataset  # noqa: F401
    import pyspark.worker  # noqa: F401

    import lance_core.optimize  # noqa: F401
    import lance_pipelines.spark.data_source.source
    import lance_pipelines.spark.environment_inventory
    import lance_pipelines.spark.reader
    import lance_pipelines.spark.rewriter
    import lance_pipelines.spark.writer  # noqa: F401


@contextmanager
def _without_threads() -> Iterator[None]:
    """Set environment variables that prevent threads, unless the user has set them, until the modules are imported."""
    added = [name for name in _NO_THREADS if name not in os.environ]
    os.environ.update({name: _NO_THREADS[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _write_once() -> None:
    """Write a small fragment, which loads the modules and compiled kernels that the writer loads on first use."""
    import pyarrow as pa

    import lance_core

    texts = pa.array([f"a text that is compressed, number {number}" for number in range(_NUM_STRINGS)], pa.string())
    compressed = pa.field("text", pa.string(), metadata={"lance-encoding:compression": "fsst"})
    rows = pa.table([texts], schema=pa.schema([compressed]))
    with tempfile.TemporaryDirectory(prefix="lance-pipelines-preload-") as directory:
        lance_core.write_fragments(rows, f"{directory}/preload.lance", mode="create")


def _num_threads() -> int:
    """Return the number of threads of the process, including those that Python did not start; 1 if it is unknown."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 1


def _main() -> None:
    try:
        preload()
    except Exception as error:  # noqa: BLE001  # whatever a broken package raises, the tasks may not need it
        sys.stderr.write(f"Python workers start without preloaded modules: {type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, "-m", _PLAIN_DAEMON, *sys.argv[1:]])
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    _main()
