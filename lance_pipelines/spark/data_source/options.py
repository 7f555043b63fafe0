"""The options of the data source ``lance``: one table, from which the reference of the options is generated.

Spark passes option names in lower case. Storage options have the prefix ``storage.``, so that the values of all of them
can be hidden by one pattern; see :func:`~lance_pipelines.spark.data_source.registration.register`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["OPTIONS", "PROPERTY_PREFIX", "STORAGE_PREFIX", "Option", "Use", "parse_options"]

STORAGE_PREFIX: Final = "storage."
"""Prefix of the options that contain credentials and settings of the table's store."""

PROPERTY_PREFIX: Final = "property."
"""Prefix of the options that become properties of the transaction of a write."""

Use = str
"""What a data source is used for: one of the following constants."""

READ: Final = "read"
WRITE: Final = "write"
STREAM_READ: Final = "stream read"
STREAM_WRITE: Final = "stream write"

_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option.

    Attributes:
        name: the name, as documented; upper and lower case do not matter.
        uses: the uses of the data source to which the option applies.
        parse: converts the text, or raises ValueError.
        expects: what the text must be, for the reference and for error messages.
        meaning: what the option does, for the reference.
        default: the default, for the reference.
    """

    name: str
    uses: frozenset[Use]
    parse: Callable[[str], Any]
    expects: str
    meaning: str
    default: str = "none"


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= _LARGEST:
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> timedelta:
    return timedelta(seconds=_positive(text))


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, or a JSON list for names that contain a comma."""
    if text.lstrip().startswith("["):
        names = json.loads(text)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(text)
        return tuple(names)
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _lengths(text: str) -> dict[str, int]:
    pairs = [part.rpartition(":") for part in text.split(",")]
    if not all(name.strip() for name, _, _ in pairs):
        raise ValueError(text)
    return {name.strip(): _positive(length.strip()) for name, _, length in pairs}


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return parse


def _starting_version(text: str) -> int | str:
    return "latest" if text.lower() == "latest" else _positive(text)


_READS: Final = frozenset({READ, STREAM_READ})
_WRITES: Final = frozenset({WRITE, STREAM_WRITE})

OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="path",
        uses=_READS | _WRITES,
        parse=str,
        expects="the location of a table",
        meaning="the table's location; the argument of `load`, `save`, `start`, or `toTable`",
    ),
    Option(
        name="version",
        uses=frozenset({READ}),
        parse=_positive,
        expects="a version number",
        meaning="the version to read",
        default="the latest",
    ),
    Option(
        name="tag",
        uses=frozenset({READ}),
        parse=str,
        expects="the name of a tag",
        meaning="read the version to which the tag refers",
    ),
    Option(
        name="branch",
        uses=_READS,
        parse=str,
        expects="the name of a branch",
        meaning="read the branch; `version` is then a version of the branch",
        default="the main branch",
    ),
    Option(
        name="timestamp",
        uses=frozenset({READ}),
        parse=datetime.fromisoformat,
        expects="a date and time in ISO 8601 format",
        meaning="read the version that was the latest at this time; without an offset, the time is in UTC",
    ),
    Option(
        name="columns",
        uses=_READS,
        parse=_names,
        expects="names of columns, separated by commas, or a JSON list of names",
        meaning="the columns to read; an empty string means none, which suffices to count rows. The system columns "
        "`_rowid` and `_rowaddr` can be read too",
        default="all columns",
    ),
    Option(
        name="filter",
        uses=_READS,
        parse=str,
        expects="a SQL condition",
        meaning="read only the rows that match this condition, which is evaluated by this library; it may use columns "
        "that are not read",
    ),
    Option(
        name="batchSize",
        uses=_READS,
        parse=_positive,
        expects="a positive number of rows",
        meaning="maximum number of rows in a batch",
        default="8192, or as many as take 16 MiB",
    ),
    Option(
        name="taskBytes",
        uses=_READS,
        parse=_positive,
        expects="a positive number of bytes",
        meaning="approximate number of bytes that a task reads",
        default="134217728 (128 MiB)",
    ),
    Option(
        name="leaseSeconds",
        uses=frozenset({READ}),
        parse=_seconds,
        expects="a positive number of seconds",
        meaning="protect the version from cleanups for this time, with a lease that expires by itself",
        default="no lease",
    ),
    Option(
        name="startingVersion",
        uses=frozenset({STREAM_READ}),
        parse=_starting_version,
        expects="a version number or `latest`",
        meaning="a new query begins with the rows that this version added; `latest` means those of future versions",
        default="all rows of the latest version, then the rows of future versions",
    ),
    Option(
        name="onChange",
        uses=frozenset({STREAM_READ}),
        parse=_one_of("fail", "skip", "append"),
        expects="`fail`, `skip`, or `append`",
        meaning="what to do about versions that do more than append rows; see [Streams](#streams)",
        default="fail",
    ),
    Option(
        name="failOnDataLoss",
        uses=frozenset({STREAM_READ}),
        parse=_boolean,
        expects="`true` or `false`",
        meaning="whether the query fails if versions that it has not read no longer exist, if the table has been "
        "replaced by one with fewer versions, or if it is at another location than the one that the query has read",
        default="true",
    ),
    *(
        Option(
            name=name,
            uses=frozenset({STREAM_READ}),
            parse=_positive,
            expects="a positive whole number",
            meaning=f"approximate maximum number of {what} in a micro-batch, which has at least one fragment",
            default="no limit",
        )
        for name, what in (
            ("maxRowsPerTrigger", "rows"),
            ("maxBytesPerTrigger", "bytes"),
            ("maxFilesPerTrigger", "fragments"),
        )
    ),
    Option(
        name="ifExists",
        uses=frozenset({WRITE}),
        parse=_one_of("append", "error", "ignore"),
        expects="`append`, `error`, or `ignore`",
        meaning="in mode `append`: what to do if the table exists. Spark does not support its own modes `error` and "
        "`ignore` for data sources in Python",
        default="append",
    ),
    Option(
        name="maxRowsPerFile",
        uses=_WRITES,
        parse=_positive,
        expects="a positive number of rows",
        meaning="number of rows at which a task starts its next file",
        default="1048576",
    ),
    Option(
        name="maxBytesPerFile",
        uses=_WRITES,
        parse=_positive,
        expects="a positive number of bytes",
        meaning="approximate number of bytes at which a task starts its next file",
        default="2147483648 (2 GiB)",
    ),
    Option(
        name="dataStorageVersion",
        uses=_WRITES,
        parse=str,
        expects="a format version such as 2.1",
        meaning="version of the data files of a new table, or of an overwritten one",
        default="that of the table, or 2.2",
    ),
    Option(
        name="stableRowIds",
        uses=_WRITES,
        parse=_boolean,
        expects="`true` or `false`",
        meaning="whether a new table has stable row ids",
        default="false",
    ),
    Option(
        name="vectorColumns",
        uses=_WRITES,
        parse=_lengths,
        expects="names and lengths, such as `embedding:768,image:512`",
        meaning="columns that are stored as fixed-size lists, and the length of their lists",
        default="as declared by the metadata of the columns",
    ),
    Option(
        name="targetBases",
        uses=_WRITES,
        parse=_names,
        expects="base paths, each given by its name or its path, separated by commas",
        meaning="the base paths of the table among which the files are distributed",
        default="the table's own location",
    ),
)
"""All options, except those with a prefix."""

_BY_NAME: Final[Mapping[str, Option]] = MappingProxyType({option.name.lower(): option for option in OPTIONS})

_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options that Spark itself adds to those of a stream."""

_PREFIXED: Final[Mapping[str, frozenset[Use]]] = MappingProxyType(
    {STORAGE_PREFIX: _READS | _WRITES, PROPERTY_PREFIX: _WRITES}
)


def parse_options(given: Mapping[str, str], use: Use) -> dict[str, Any]:
    """Parse the options of one use.

    Args:
        given: the options, as Spark passes them.
        use: what the data source is used for.

    Returns:
        The value of each option that is given, by its documented name; ``storage`` and ``property`` map the names
        without the prefix to strings.

    Raises:
        InvalidInputError: an option is unknown, does not apply to this use, or is malformed. The message does not
            contain values of storage options.
    """
    found: dict[str, Any] = {prefix.rstrip("."): {} for prefix in _PREFIXED}
    for key, text in given.items():
        name = key.lower()
        if name in _OF_SPARK:
            continue
        prefix = next((prefix for prefix in _PREFIXED if name.startswith(prefix)), None)
        if prefix is not None:
            _check_use(name, _PREFIXED[prefix], use)
            found[prefix.rstrip(".")][name.removeprefix(prefix)] = text
            continue
        option = _BY_NAME.get(name)
        if option is None:
            raise _unknown(name, use)
        _check_use(option.name, option.uses, use)
        try:
            found[option.name] = option.parse(text)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidInputError(
                f"option {option.name!r} is {text!r}; expected {option.expects.replace('`', '')}", option=option.name
            ) from error
    if not str(found.get("path", "")).strip():
        raise InvalidInputError("the location of the table is missing; pass it as the path", option="path")
    return found


def _check_use(name: str, uses: frozenset[Use], use: Use) -> None:
    if use not in uses:
        raise InvalidInputError(
            f"option {name!r} does not apply to a {use}; it applies to: {', '.join(sorted(uses))}", option=name
        )


def _unknown(name: str, use: Use) -> InvalidInputError:
    known = [option.name for option in OPTIONS if use in option.uses]
    close = get_close_matches(name, [each.lower() for each in known], n=1)
    hint = f"; did you mean {_BY_NAME[close[0]].name!r}?" if close else f"; the options are: {', '.join(known)}"
    if re.search(r"key|secret|token|endpoint|region|account|^aws_|^google_|^azure_", name):
        hint = f"; options of the store begin with {STORAGE_PREFIX!r}"
    return InvalidInputError(f"unknown option {name!r} of the data source lance{hint}", option=name)
