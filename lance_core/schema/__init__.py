"""Fields, field ids, and logical types.

The package is internal, except for the names in ``__all__``, which are those of ``lance.schema``. They are imported on
first use, because most programs do not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lance_core.schema.lance_schema import LanceField, LanceSchema
    from lance_core.schema.schema_json import json_to_schema, schema_to_json

__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]

_HOMES: Final = {
    "LanceField": "lance_core.schema.lance_schema",
    "LanceSchema": "lance_core.schema.lance_schema",
    "json_to_schema": "lance_core.schema.schema_json",
    "schema_to_json": "lance_core.schema.schema_json",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
