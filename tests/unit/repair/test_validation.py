"""validate() checks rules of the manifest that reading does not depend on."""

import pytest

from lance_core.errors import CorruptDataError
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb_table
from lance_core.repair.validation import validate_version
from lance_core.table.base_paths import FileLocator
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming

FILE = {"path": "x.lance", "fields": [0], "column_indices": [0], "file_major_version": 2, "file_minor_version": 2}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"fragments": [{"id": 2}, {"id": 1}]}, "fragment 1 is listed after fragment 2"),
        ({"fragments": [{"id": 2}, {"id": 2}]}, "lists two fragments with id 2"),
        ({"fragments": [{"id": 2}], "max_fragment_id": 1}, "max_fragment_id is 1, but the highest fragment id is 2"),
        ({"fields": [{"id": 0, "name": "a", "parent_id": 3, "logical_type": "int64"}]}, "parent 3"),
        ({"fragments": [{"files": [FILE, FILE]}]}, "field id 0 is stored in two data files"),
        ({"fragments": [{"files": [{**FILE, "column_indices": []}]}]}, r"number of field ids \(1\) differs"),
    ],
)
def test_validation_names_the_broken_rule(values: dict[str, object], words: str) -> None:
    message = pb_table.Manifest(version=1, data_format={"file_format": "lance", "version": "2.2"}, **values)
    manifest = Manifest(message=message, naming=ManifestNaming.V2)
    with pytest.raises(CorruptDataError, match=words):
        validate_version(manifest, FileLocator(MemoryStore(), "table"))
