"""Storage options for individual base paths, for example for cold storage, other regions, or separate credentials.

Such options can be specified in two ways, as in the reference implementation. ``base_store_params`` maps the path of a
base to options that replace all options of the table; entries ``base_{id}.{name}`` of the table's own options override
individual options.

All options are passed as one dictionary to the code that opens files. The options of base paths are in an attribute of
this dictionary, not among its items, so that the table's own store never receives them.

Source: ``base_store_params`` and ``storage_options`` of pylance 14.0.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.uri import recorded_uri

if TYPE_CHECKING:
    from typing import Any

__all__ = ["StorageOptions", "inherited_options", "options_of_base", "with_base_params"]


class StorageOptions(dict[str, str]):
    """The storage options of a table and of its base paths.

    Attributes:
        bases: maps the path of each base to the options for its store.
    """

    bases: Mapping[str, Mapping[str, str]]

    def __repr__(self) -> str:
        """Include only the names of the options, because values may be credentials."""
        return f"StorageOptions({sorted(self)}, bases={sorted(self.bases)})"


def with_base_params(
    storage_options: dict[str, str] | None, base_store_params: Mapping[str, Mapping[str, str]] | None
) -> dict[str, str] | None:
    """Combine the storage options of a table with those of its base paths.

    Args:
        storage_options: the options of the table; may already include options of base paths.
        base_store_params: maps the path or URI of each base to the options for its store; if None, the options of
            base paths in ``storage_options`` are kept.

    Raises:
        InvalidTypeError: ``base_store_params`` is not a dictionary of dictionaries.
    """
    if base_store_params is None:
        return storage_options
    given: Any = base_store_params
    if not isinstance(given, Mapping) or not all(
        isinstance(path, str) and isinstance(options, Mapping) for path, options in given.items()
    ):
        raise InvalidTypeError(
            "base_store_params must be a dict that maps base paths to dicts of storage options",
            argument="base_store_params",
        )
    result = StorageOptions(storage_options or {})
    result.bases = {_recorded(path): dict(options) for path, options in base_store_params.items()}
    return result


def inherited_options(
    of_handle: dict[str, str] | None,
    storage_options: dict[str, str] | None,
    base_store_params: Mapping[str, Mapping[str, str]] | None,
) -> dict[str, str] | None:
    """Return the options for a call on an open table; for arguments that are None, the options of the table are used.

    Args:
        of_handle: the options with which the table was opened.
        storage_options: the ``storage_options`` argument of the call.
        base_store_params: the ``base_store_params`` argument of the call.
    """
    if base_store_params is None and isinstance(of_handle, StorageOptions):
        base_store_params = of_handle.bases
    return with_base_params(of_handle if storage_options is None else storage_options, base_store_params)


def options_of_base(storage_options: Mapping[str, str] | None, base_id: int, path: str) -> Mapping[str, str] | None:
    """Return the options for the store of a base path.

    Args:
        storage_options: the options of the table.
        base_id: id of the base.
        path: path of the base.
    """
    if isinstance(storage_options, StorageOptions):
        for spelling in (path.rstrip("/"), _recorded(path)):
            if spelling in storage_options.bases:
                return storage_options.bases[spelling]
    if not storage_options:
        return storage_options
    prefix = f"base_{base_id}."
    own: dict[str, Any] = {
        name[len(prefix) :]: value for name, value in storage_options.items() if name.lower().startswith(prefix)
    }
    if not own:
        return storage_options
    # Names are case-insensitive: the base's own value must replace the table's.
    names = {name.lower() for name in own}
    return {**{name: value for name, value in storage_options.items() if name.lower() not in names}, **own}


def _recorded(path: str) -> str:
    """Return the path of a base in the form that manifests use; users may write it in several forms."""
    try:
        return recorded_uri(path)
    except InvalidInputError:
        return path.rstrip("/")
