"""Config schemas whose defaults are the values of a declaration, so that the launchpad shows them.

Dagster builds a schema from a configuration class field by field, which takes milliseconds. This module builds the
schema once for each class; only the default value of the whole schema differs between datasets.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import dagster as dg
from dagster._config import ConfigType

__all__ = ["config_field"]


def config_field(config: type[dg.Config], declared: Mapping[str, Any] | None = None) -> dg.Field:
    """Return the config schema of an op or an asset.

    Args:
        config: the configuration class.
        declared: the values that the launchpad shows, and that a run without a configuration uses; None if a field has
            no default.
    """
    if declared is None:
        return dg.Field(_schema(config))
    return dg.Field(_schema(config), default_value=dict(declared), is_required=False)


@cache
def _schema(config: type[dg.Config]) -> ConfigType:
    return config.to_config_schema().as_field().config_type
