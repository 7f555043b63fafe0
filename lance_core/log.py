"""The logger of the library; the names follow ``lance.log``."""

from __future__ import annotations

import logging
import os
from typing import Final

__all__ = ["ENV_NAME_PYLANCE_LOGGING_LEVEL", "LOGGER", "get_log_level", "get_python_log_level", "set_logger"]

ENV_NAME_PYLANCE_LOGGING_LEVEL: Final = "LANCE_LOG"
"""The environment variable from which :func:`get_log_level` reads the level."""

_DEFAULT_LEVEL: Final = "INFO"
_FORMAT: Final = "%(asctime)s %(name)s [%(levelname)s] %(filename)s:%(lineno)d %(funcName)s : %(message)s"

LOGGER: Final = logging.getLogger("lance_core")
"""The parent of all loggers of the library."""


def get_python_log_level(rust_log_level: str) -> str:
    """Return the name of a level in Python: "trace" becomes "DEBUG", and all others remain as they are."""
    return "DEBUG" if rust_log_level.lower() == "trace" else rust_log_level


def get_log_level() -> str:
    """Return the level in the environment variable ``LANCE_LOG``; "INFO" if it is unset or names only modules."""
    levels = [
        level for level in os.environ.get(ENV_NAME_PYLANCE_LOGGING_LEVEL, "").upper().split(",") if "=" not in level
    ]
    return get_python_log_level(levels[0]) if levels and levels[0] else _DEFAULT_LEVEL


def set_logger(
    file_path: str | None = "pylance.log",
    name: str = "lance_core",
    level: int = logging.INFO,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Write log messages to a file, or pass them to a handler.

    Args:
        file_path: path of the file, to which messages are appended; ignored if there is a handler.
        name: name of the logger; by default, the parent of all loggers of the library.
        level: level of the logger and of the handler.
        format_string: format of a message; None for one with time, level, file, and line.
        log_handler: the handler; None for one that writes to the file.
    """
    handler = logging.FileHandler(file_path or "pylance.log") if log_handler is None else log_handler
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(format_string or _FORMAT))
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.addHandler(handler)
