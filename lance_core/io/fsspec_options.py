"""Converts storage options for Google Cloud Storage and Azure to the arguments of gcsfs and adlfs.

Option names are the same as in pylance. They are case-insensitive, and unknown names are ignored. Both packages read
settings from the environment themselves.

Source: storage options of pylance 14.0.2; arguments of ``GCSFileSystem`` and ``AzureBlobFileSystem``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lance_core.errors import InvalidInputError
from lance_core.io.s3_settings import lowered_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["BACKENDS", "Backend"]

_TRUE: Final = frozenset({"1", "true", "on", "yes", "y"})
_GOOGLE_SECRET_NAMES: Final = (
    "google_service_account_key",
    "service_account_key",
    "google_storage_token",
)
_AZURE_NAMES: Final = {
    "account_name": ("azure_storage_account_name", "account_name"),
    "account_key": (
        "azure_storage_account_key",
        "azure_storage_access_key",
        "azure_storage_master_key",
        "access_key",
        "account_key",
        "master_key",
    ),
    "sas_token": ("azure_storage_sas_token", "azure_storage_sas_key", "sas_token", "sas_key"),
    "client_id": ("azure_storage_client_id", "azure_client_id", "client_id"),
    "client_secret": ("azure_storage_client_secret", "azure_client_secret", "client_secret"),
    "tenant_id": (
        "azure_storage_tenant_id",
        "azure_storage_authority_id",
        "azure_tenant_id",
        "azure_authority_id",
        "tenant_id",
        "authority_id",
    ),
    "connection_string": ("azure_storage_connection_string", "connection_string"),
}
_AZURE_SECRETS: Final = ("account_key", "sas_token", "client_secret", "connection_string")


@dataclass(frozen=True, slots=True)
class Backend:
    """An fsspec package that provides access to one kind of store.

    Attributes:
        package: name of the package to install.
        module: module of the package's file system class.
        file_system: name of the package's file system class.
        arguments: converts the storage options and the container (as written in the URI) to the arguments of the file
            system; also returns those arguments that are secret.
        exclusive: arguments with which ``pipe_file`` performs an exclusive create.
    """

    package: str
    module: str
    file_system: str
    arguments: Callable[[Mapping[str, str], str], tuple[dict[str, Any], tuple[str, ...]]]
    exclusive: Mapping[str, Any]


def _pick(options: Mapping[str, str], *names: str) -> str | None:
    return next((options[name] for name in names if options.get(name)), None)


def _google(options: Mapping[str, str], container: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    found = lowered_options(options)
    arguments: dict[str, Any] = {}
    key = _pick(found, "google_service_account_key", "service_account_key")
    file = _pick(
        found,
        "google_service_account",
        "google_service_account_path",
        "service_account",
        "service_account_path",
        "google_application_credentials",
        "application_credentials",
    )
    if key is not None:
        try:
            arguments["token"] = json.loads(key)
        except ValueError as error:
            # The error would include the text, which is secret.
            raise InvalidInputError("storage option 'google_service_account_key' must be a JSON document") from (
                ValueError(type(error).__name__)
            )
    elif file is not None:
        arguments["token"] = file
    elif (_pick(found, "google_skip_signature", "skip_signature") or "").lower() in _TRUE:
        arguments["token"] = "anon"
    endpoint = _pick(found, "google_base_url", "base_url", "google_endpoint", "endpoint")
    if endpoint is not None:
        arguments["endpoint_url"] = endpoint
    return arguments, tuple(found[name] for name in _GOOGLE_SECRET_NAMES if found.get(name))


def _azure(options: Mapping[str, str], container: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    found = lowered_options(options)
    arguments: dict[str, Any] = {
        name: value for name, names in _AZURE_NAMES.items() if (value := _pick(found, *names)) is not None
    }
    _, at, host = container.partition("@")
    if at:
        # abfss://container@account.dfs.core.windows.net/path
        arguments["account_name"] = host.partition(".")[0]
    endpoint = _pick(found, "azure_storage_endpoint", "azure_endpoint", "endpoint")
    if endpoint is not None:
        try:
            arguments["account_host"] = urlsplit(endpoint).netloc
        except ValueError:
            # The URL contains an unclosed bracket.
            raise InvalidInputError("the Azure endpoint in the storage options must be a URL") from None
    if (_pick(found, "azure_skip_signature", "skip_signature") or "").lower() in _TRUE:
        arguments["anon"] = True
    return arguments, tuple(str(arguments[name]) for name in _AZURE_SECRETS if name in arguments)


# The class that gcsfs registers is not used: it first queries the kind of the bucket over gRPC.
_GOOGLE: Final = Backend("gcsfs", "gcsfs.core", "GCSFileSystem", _google, {"mode": "create"})
_AZURE: Final = Backend("adlfs", "adlfs", "AzureBlobFileSystem", _azure, {"overwrite": False})

BACKENDS: Final[Mapping[str, Backend]] = {
    "gs": _GOOGLE,
    "gcs": _GOOGLE,
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
}
"""Maps each URI scheme to the package that supports it."""
