"""The options of a compaction: the caller's options, the table's defaults, and the built-in defaults.

The value of an option is taken from the first of these sources that defines it: the caller's options, the key
``lance.compaction.<name>`` of the table config, and the built-in defaults. For every option,
``_OPTIONS`` defines how its value is checked and how its text in the table config is parsed. All options are those of
pylance, except ``target_bytes_per_fragment``, which is an addition.

Options that only tune how pylance reads data have no effect here. Unsupported options that would change the result are
rejected.

Source: options, config keys, and JSON documents of pylance 14.0.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict

from lance_core.compaction.option_values import (
    MODES,
    boolean,
    file_version,
    fraction,
    fragment_ids,
    mode,
    not_deferred,
    parse_boolean,
    parse_whole,
    positive,
)
from lance_core.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CONFIG_PREFIX", "MAX_OVERLAYS", "CompactionOptions", "CompactionSettings"]

CONFIG_PREFIX: Final = "lance.compaction."
"""Prefix of the table config keys that set the default compaction options of a table."""

MAX_OVERLAYS: Final = 10
"""Maximum number of overlays of a fragment; a fragment with more overlays is rewritten for this reason alone."""

_FIXED_DOCUMENT: Final = MappingProxyType(
    {
        "index_remap_mode": "Direct",
        "enable_binary_copy": False,
        "enable_binary_copy_force": False,
        "max_overlays_per_fragment": MAX_OVERLAYS,
        "has_eager_remappable_index": None,
    }
)
"""Constant entries of pylance's options document: written for compatibility, and ignored when a document is read."""


class CompactionOptions(TypedDict, total=False):
    """Options of a compaction, as a dictionary. An option that is missing or None has its default value.

    Attributes:
        target_rows_per_fragment: fragments with fewer rows than this are merged; new fragments have at least this
            number of rows if possible. 1024 * 1024 by default.
        target_bytes_per_fragment: fragments of at least this many bytes are not merged, and new files are closed at
            this size. By default, only the number of rows is considered. Not an option in pylance.
        max_bytes_per_file: the same as ``target_bytes_per_fragment``, under pylance's name; if both are given, the
            smaller value applies. In pylance, this option only determines when files are closed, and the next
            compaction merges them again.
        materialize_deletions: whether fragments with many deleted rows are rewritten. True by default.
        materialize_deletions_threshold: fraction of deleted rows above which a fragment counts as having many deleted
            rows. 0.1 by default.
        max_source_fragments: maximum number of fragments to rewrite.
        max_source_rows: maximum number of live rows to rewrite.
        max_source_bytes: maximum size of the data files to rewrite, in bytes.
        excluded_fragment_ids: ids of fragments that are not rewritten; the fragments before and after an excluded
            fragment are not merged with each other.
        num_threads: number of tasks that run concurrently.
        batch_size: number of rows to read at a time.
        compaction_mode: "reencode", or "try_binary_copy", which has the same effect in this library.
        data_storage_version: format of the new files; by default, the table's format. It may differ from the format
            of the existing files, except that 0.1 cannot be mixed with other formats.
        defer_index_remap: not supported.
        max_rows_per_group: number of rows in each batch of a data file in format 0.1. 1024 by default.
        io_buffer_size: has no effect.
        binary_copy_read_batch_bytes: has no effect.
    """

    target_rows_per_fragment: int | None
    target_bytes_per_fragment: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    num_threads: int | None
    batch_size: int | None
    io_buffer_size: int | None
    compaction_mode: Literal["reencode", "try_binary_copy", "force_binary_copy"] | None
    binary_copy_read_batch_bytes: int | None
    defer_index_remap: bool | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    excluded_fragment_ids: list[int] | None
    data_storage_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """The compaction options with all defaults filled in; see :class:`CompactionOptions`."""

    target_rows_per_fragment: int = 1024 * 1024
    target_bytes_per_fragment: int | None = None
    max_rows_per_group: int = 1024
    max_bytes_per_file: int | None = None
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    num_threads: int | None = None
    batch_size: int | None = None
    io_buffer_size: int | None = None
    compaction_mode: str | None = None
    binary_copy_read_batch_bytes: int | None = 16 * 1024 * 1024
    defer_index_remap: bool = False
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: tuple[int, ...] = ()
    data_storage_version: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], config: Mapping[str, str]) -> Self:
        """Fill in missing options from the table config and the built-in defaults.

        Raises:
            InvalidInputError: an option is unknown, or its value is out of range; the message contains the option's
                name.
            InvalidTypeError: a value has the wrong type.
            NotSupportedError: an option is not supported.
        """
        if not isinstance(options, Mapping):
            raise InvalidTypeError(f"compaction options must be a dictionary, found {options!r}")
        for name in options:
            if not isinstance(name, str):
                raise InvalidTypeError(f"the name of a compaction option must be a string, found {name!r}")
            if name not in _OPTIONS:
                raise InvalidInputError(f"unknown compaction option {name!r}; expected one of {sorted(_OPTIONS)}")
        values = _configured(config)
        values.update((name, (name, value)) for name, value in options.items() if value is not None)
        return cls(**{name: _OPTIONS[name].check(where, value) for name, (where, value) in values.items()})

    @property
    def byte_target(self) -> int | None:
        """The smaller of ``target_bytes_per_fragment`` and ``max_bytes_per_file``; None if neither is set."""
        return min(filter(None, (self.target_bytes_per_fragment, self.max_bytes_per_file)), default=None)

    @property
    def has_budget(self) -> bool:
        """Whether an option limits the amount of data to rewrite."""
        return (self.max_source_fragments, self.max_source_rows, self.max_source_bytes) != (None, None, None)

    def to_document(self) -> dict[str, Any]:
        """Return the options as a JSON document in pylance's format."""
        document = asdict(self) | _FIXED_DOCUMENT
        document["excluded_fragment_ids"] = list(self.excluded_fragment_ids)
        document["compaction_mode"] = None if self.compaction_mode is None else MODES[self.compaction_mode]
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a JSON document; the inverse of :meth:`to_document`. Entries of newer releases are ignored.

        Raises:
            InvalidInputError: an entry is malformed.
            NotSupportedError: an entry has an unsupported value.
        """
        known = {field.name for field in fields(cls)}
        options = {name: value for name, value in document.items() if name in known}
        asked = options.get("compaction_mode")
        options["compaction_mode"] = next((name for name, spelled in MODES.items() if spelled == asked), asked)
        return cls.of(options, {})


@dataclass(frozen=True, slots=True)
class _Option:
    """Defines how the values of one option are checked and parsed.

    Attributes:
        check: takes a description of the value's origin, and the value; returns the checked value, or raises an error
            for the caller.
        parse: converts text in the table config to a value; None if the option is not allowed in the table config.
        expected: description of valid text in the table config, for error messages.
    """

    check: Callable[[str, Any], Any]
    parse: Callable[[str], Any] | None = None
    expected: str = ""


def _configured(config: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """Return the config key and the value of each option that the table config contains, keyed by option name."""
    values: dict[str, tuple[str, Any]] = {}
    for name, option in _OPTIONS.items():
        key = f"{CONFIG_PREFIX}{name}"
        if option.parse is None or key not in config:
            continue
        try:
            values[name] = key, option.parse(config[key])
        except (ValueError, KeyError) as error:
            raise InvalidInputError(
                f"invalid value of {key} in the table config: expected {option.expected}, found {config[key]!r}",
                key=key,
            ) from error
    return values


_NUMBER: Final = _Option(positive, parse_whole, "a whole number")

_OPTIONS: Final[Mapping[str, _Option]] = MappingProxyType(
    {
        "target_rows_per_fragment": _NUMBER,
        "target_bytes_per_fragment": _NUMBER,
        "max_rows_per_group": _NUMBER,
        "max_bytes_per_file": _NUMBER,
        "materialize_deletions": _Option(boolean, parse_boolean, "'true' or 'false'"),
        "materialize_deletions_threshold": _Option(fraction, float, "a number"),
        "num_threads": _Option(positive),
        "batch_size": _NUMBER,
        "io_buffer_size": _NUMBER,
        "compaction_mode": _Option(mode, str, "a compaction mode"),
        "binary_copy_read_batch_bytes": _NUMBER,
        "defer_index_remap": _Option(not_deferred, parse_boolean, "'true' or 'false'"),
        "max_source_fragments": _NUMBER,
        "max_source_rows": _NUMBER,
        "max_source_bytes": _NUMBER,
        "excluded_fragment_ids": _Option(fragment_ids),
        "data_storage_version": _Option(file_version, str, "a data file version"),
    }
)
"""All options, keyed by name."""
