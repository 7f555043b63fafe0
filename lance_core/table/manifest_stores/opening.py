"""URIs of external manifest stores.

===================================================  ==================================================================
``s3+ddb://bucket/path?ddbTableName=T``              DynamoDB table T, shared with the reference implementation
``{scheme}+sql://…/path``, ``…?sqlTableName=T``      table T (``lance_manifests`` by default) of the database whose URL
                                                     is in ``sql_url`` or ``LANCE_SQL_URL``, see below
===================================================  ==================================================================

The URL of the database is set by the storage option ``sql_url`` or the environment variable ``LANCE_SQL_URL``. This
URL is not part of the dataset's URI, because it may contain a password, and the URIs of datasets are logged and stored.

Source: URIs of pylance 14.0.2 for DynamoDB; URIs for SQL databases are specific to this library.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from lance_core.errors import InvalidInputError, UnsupportedSchemeError
from lance_core.io.s3_settings import lowered_options
from lance_core.io.uri import canonical_scheme, split_external_scheme
from lance_core.table.manifest_stores.dynamodb import DynamoDbManifests
from lance_core.table.manifest_stores.sql import DEFAULT_TABLE, SqlManifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.table.manifest_stores.api import ManifestStore

__all__ = ["open_manifest_store"]

_URL_OPTION: Final = "sql_url"
_URL_VARIABLE: Final = "LANCE_SQL_URL"


def open_manifest_store(uri: str, storage_options: Mapping[str, str] | None) -> ManifestStore | None:
    """Return the external manifest store of a URI; None if the URI does not specify one.

    Raises:
        InvalidInputError: the query of the URI is invalid for its scheme, or the URL of the database is missing.
        UnsupportedSchemeError: DynamoDB was requested for a store other than S3.
        NotSupportedError: a required package is not installed.
    """
    scheme, suffix, query = split_external_scheme(uri)
    if suffix == "ddb":
        if scheme != "s3":
            raise UnsupportedSchemeError(f"{scheme}+ddb:// is not supported; use s3+ddb://", scheme=scheme)
        return DynamoDbManifests(_parameter(query, "ddbTableName", None), storage_options)
    if suffix == "sql":
        url = lowered_options(storage_options).get(_URL_OPTION) or os.environ.get(_URL_VARIABLE)
        if not url:
            raise InvalidInputError(
                f"{scheme}+sql:// needs a database: set the storage option {_URL_OPTION!r} or the "
                f"environment variable {_URL_VARIABLE}"
            )
        return SqlManifests(url, _parameter(query, "sqlTableName", DEFAULT_TABLE), canonical_scheme(scheme))
    return None


def _parameter(query: str, name: str, default: str | None) -> str:
    """Return the value of the only parameter that the query may have."""
    found = parse_qsl(query, keep_blank_values=True)
    if not found and default is not None:
        return default
    if len(found) != 1 or found[0][0] != name:
        names = sorted({each for each, _ in found})
        raise InvalidInputError(f"the URI must have exactly one query parameter, {name}; found {names!r:.100}")
    if not found[0][1]:
        raise InvalidInputError(f"the URI's query parameter {name} is empty")
    return found[0][1]
