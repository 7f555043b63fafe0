"""Builds and updates indices with pylance, the optional extra of this project; no other module imports it.

pylance works on a branch of the dataset, so it never writes to the dataset's own versions; ``index_commit.py`` moves
the results. Errors of pylance become typed errors with one-line messages. pylance skips an index that it cannot
read, and only logs a warning; therefore the caller checks what the branch's indices cover afterward.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import InvalidInputError, NotSupportedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_pipelines.maintenance.index_declaration import IndexDeclaration

__all__ = ["PylanceBranch", "missing_extra"]

_MODULE: Final = "lance"
_MISSING: Final = "the package pylance is not installed: pip install 'lance-pipelines[pylance]'"

_RUST_POSITION: Final = re.compile(r", /\S+\.rs:\d+:\d+")
"""Matches the positions in pylance's source code with which its messages end."""

_PANICS: Final = "pyo3_runtime"
"""Module of the exception class for panics in Rust, which is not derived from ``Exception``."""


def missing_extra() -> str:
    """Return why indices cannot be built in this environment; empty if pylance, which is not imported, is installed."""
    try:
        spec = importlib.util.find_spec(_MODULE)
    except ValueError:
        # A module that was made unavailable has no spec.
        spec = None
    # Python also finds a directory of this name that contains no modules, but it has no origin.
    return _MISSING if spec is None or spec.origin is None else ""


class PylanceBranch:
    """A branch of a dataset, opened with pylance.

    Args:
        uri: the dataset's location.
        branch: name of the branch.
        storage_options: credentials and settings of the dataset's store.
    """

    def __init__(self, uri: str, branch: str, storage_options: dict[str, str] | None = None) -> None:
        """Open the branch.

        Raises:
            NotSupportedError: pylance is not installed, cannot be imported, or is not a supported release.
            InvalidInputError: pylance rejects the location, the branch, or an option.
            StorageError: pylance cannot open the branch.
        """
        if missing_extra():
            raise NotSupportedError(_MISSING)
        with _typed_errors(f"cannot open branch {branch!r} of {uri}"):
            import lance

            dataset = lance.dataset(uri, storage_options=storage_options)
            self._dataset = dataset.checkout_version((branch, None))

    def build(self, index: IndexDeclaration) -> None:
        """Build an index on all rows, in place of an existing index of the same name.

        Raises:
            InvalidInputError: pylance does not support the index for this column, or rejects a parameter.
            StorageError: the index could not be built.
        """
        parameters: Mapping[str, Any] = index.parameters
        dataset: Any = self._dataset
        create = dataset.create_index if index.type.is_vector else dataset.create_scalar_index
        with _typed_errors(f"cannot build index {index.name!r}"):
            create(index.column, index.type.value, name=index.name, replace=True, **parameters)

    def update(self, names: Sequence[str], *, retrain: bool) -> None:
        """Update some indices so that they cover all fragments, in one version.

        Args:
            names: the names of the indices.
            retrain: whether to retrain the indices, with their recorded parameters; only for vector indices.

        Raises:
            InvalidInputError: pylance rejects the update.
            StorageError: the indices could not be updated.
        """
        with _typed_errors(f"cannot update {'index' if len(names) == 1 else 'indices'} {', '.join(names)}"):
            self._dataset.optimize.optimize_indices(index_names=list(names), retrain=retrain)


@contextmanager
def _typed_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise InvalidInputError(f"{what}: {_one_line(error)}") from error
    except (ImportError, AttributeError) as error:
        raise NotSupportedError(
            f"{what}: the installed pylance cannot be used: {_one_line(error)}; pip install 'lance-pipelines[pylance]'"
        ) from error
    except (OSError, RuntimeError) as error:
        raise StorageError(f"{what}: {_one_line(error)}") from error
    except BaseException as error:
        if type(error).__module__ != _PANICS:
            raise
        raise StorageError(f"{what}: pylance panicked: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    """Return the message of an error in one line, without positions in source code."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return _RUST_POSITION.sub("", " ".join(text.split())) or type(error).__name__
