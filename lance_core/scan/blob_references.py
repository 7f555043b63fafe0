"""Detection of blob values in locations that a copy of a version's files would not include.

A descriptor may refer to a file below a base path, or to a managed file below the root of its data file. These files
belong to no data file: a deep clone, which has no base paths, could not find them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from lance_core.file.read_config import ReadConfig
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.schema.blob_fields import is_blob_v2
from lance_core.schema.projection import project

if TYPE_CHECKING:
    from lance_core.schema.field import Field
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.manifest import Manifest

__all__ = ["field_with_references"]

_EXTERNAL: Final = 3
_CONFIG: Final = ReadConfig(batch_rows=65536)


def field_with_references(manifest: Manifest, locator: FileLocator) -> Field | None:
    """Return the first blob column that has, or may have, a value below a base path; None if there is none.

    Nested columns are not read; they are assumed to have such values.

    Args:
        manifest: the version.
        locator: finds its files.

    Raises:
        CorruptDataError: a file is damaged.
        StorageError: a storage operation failed.
    """
    schema = manifest.schema
    columns = [top for top in schema.fields if is_blob_v2(top)]
    inside = next((field for field in schema.walk() if is_blob_v2(field) and field not in columns), None)
    if inside is not None or not columns:
        return inside
    wanted = project(schema, [top.name for top in columns])
    for fragment in manifest.fragments:
        reader = FragmentReader(fragment, locator)
        for batch in reader.batches(wanted, 0, reader.num_live_rows, _CONFIG):
            for top, column in zip(columns, batch.columns, strict=True):
                kinds, bases = column.field("kind"), column.field("blob_id")
                lies_outside = pc.or_(
                    pc.greater(kinds, _EXTERNAL), pc.and_(pc.equal(kinds, _EXTERNAL), pc.not_equal(bases, 0))
                )
                if pc.any(lies_outside).as_py():
                    return top
    return None
