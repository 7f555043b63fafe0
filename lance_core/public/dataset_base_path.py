"""DatasetBasePath: a location outside a dataset's root where some of its files are stored, in the public API.

Source: names, arguments, and defaults of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.uri import recorded_uri
from lance_core.proto import pb_table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DatasetBasePath", "base_path_from_proto", "base_path_to_proto", "new_bases", "numbered_bases"]

_MAX_U32 = 2**32 - 1


class DatasetBasePath:
    """A base path: a table root, or a directory that contains data files.

    Args:
        path: absolute path or URI.
        name: the name that writers can use for the base path; if None, it has no name.
        is_dataset_root: True if ``path`` is a table root, with ``data/``, ``_deletions/``, and ``_indices/`` below it;
            False if it directly contains data files.
        id: the id that files use to refer to the base path; if None, an id is assigned at commit.
    """

    __slots__ = ("_id", "_is_dataset_root", "_name", "_path")

    def __init__(
        self,
        path: str,
        name: str | None = None,
        is_dataset_root: bool = False,  # the reference's signature
        id: int | None = None,
    ) -> None:
        """Check the arguments.

        Raises:
            InvalidTypeError: the path or the name is not a string.
            InvalidInputError: the path is empty, or the id does not fit in 32 bits.
        """
        if not isinstance(path, str) or not isinstance(name, (str, type(None))):  # type: ignore[redundant-expr]  # callers need not be typed
            raise InvalidTypeError(f"a base path and its name must be strings, found {path!r:.80} and {name!r:.80}")
        if not path:
            raise InvalidInputError("a base path is empty")
        if id is not None and not 0 <= id <= _MAX_U32:
            raise InvalidInputError(f"the id of a base path must be between 0 and {_MAX_U32}, found {id}")
        self._path = path
        self._name = name
        self._is_dataset_root = bool(is_dataset_root)
        self._id = id or 0

    @property
    def id(self) -> int:
        """The id that files use to refer to this base path; 0 before an id is assigned."""
        return self._id

    @property
    def name(self) -> str | None:
        """The name that writers can use for this base path."""
        return self._name

    @property
    def path(self) -> str:
        """The absolute path or URI."""
        return self._path

    @property
    def is_dataset_root(self) -> bool:
        """Whether the base path has the directory layout of a dataset."""
        return self._is_dataset_root

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        return isinstance(other, DatasetBasePath) and self._values() == other._values()

    def __hash__(self) -> int:
        """Hash by value."""
        return hash(self._values())

    def __repr__(self) -> str:
        """Return the constructor call that creates an equal object."""
        path, name, is_root, base_id = self._values()
        return f"DatasetBasePath({path!r}, name={name!r}, is_dataset_root={is_root}, id={base_id})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by value."""
        return DatasetBasePath, self._values()

    def _values(self) -> tuple[str, str | None, bool, int]:
        return self._path, self._name, self._is_dataset_root, self._id


def base_path_to_proto(base: DatasetBasePath) -> pb_table.BasePath:
    """Convert a base path to a protobuf message.

    Raises:
        InvalidTypeError: the argument is not a ``DatasetBasePath``.
    """
    if not isinstance(base, DatasetBasePath):
        raise InvalidTypeError(f"a base path must be a DatasetBasePath, found {type(base).__name__}")
    return pb_table.BasePath(id=base.id, name=base.name, is_dataset_root=base.is_dataset_root, path=base.path)


def base_path_from_proto(message: pb_table.BasePath) -> DatasetBasePath:
    """Convert a protobuf message to a base path."""
    name = message.name if message.HasField("name") else None
    return DatasetBasePath(message.path, name, message.is_dataset_root, message.id)


def new_bases(bases: Sequence[DatasetBasePath]) -> tuple[pb_table.BasePath, ...]:
    """Convert base paths to protobuf messages with absolute paths.

    Raises:
        InvalidTypeError: the argument is not a list of ``DatasetBasePath``.
        InvalidInputError: a path is malformed.
    """
    if not isinstance(bases, (list, tuple)):
        raise InvalidTypeError(f"bases must be a list of DatasetBasePath, found {type(bases).__name__}")
    messages = [base_path_to_proto(base) for base in bases]
    for message in messages:
        message.path = recorded_uri(message.path, None)
    return tuple(messages)


def numbered_bases(bases: Sequence[DatasetBasePath]) -> tuple[pb_table.BasePath, ...]:
    """Convert the base paths of a new table to messages; a base path without an id gets the lowest unused id, from 1.

    Raises:
        InvalidTypeError: the argument is not a list of ``DatasetBasePath``.
        InvalidInputError: a path is malformed, or two base paths have the same id, name, or path.
    """
    messages = new_bases(bases)
    taken = {message.id for message in messages if message.id}
    free = iter(number for number in range(1, 2 * len(messages) + 1) if number not in taken)
    for message in messages:
        message.id = message.id or next(free)
    for what, values in (
        ("id", [message.id for message in messages]),
        ("path", [message.path for message in messages]),
        ("name", [message.name for message in messages if message.HasField("name")]),
    ):
        if len(set(values)) != len(values):
            raise InvalidInputError(f"two of the new base paths have the same {what}: {values}")
    return messages
