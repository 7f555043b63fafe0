"""The read-only commands: ``describe``, ``inspect``, ``log``, and ``diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.api.dataset import LanceDataset
from lance_core.cli.answers import Answer
from lance_core.cli.version_diff import compare
from lance_core.file.describe import describe_fields, describe_file
from lance_core.file.reader import FileReader
from lance_core.io.uri import resolve
from lance_core.places.location import open_log
from lance_core.places.references import read_manifest
from lance_core.public.version_info import version_info
from lance_core.scan.table_view import TableView
from lance_core.transactions.transaction import COMMIT_MESSAGE_KEY, read_transaction
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping

    from lance_core.api.fragment import LanceFragment
    from lance_core.schema.field import Field
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["describe", "diff", "inspect", "log"]


def describe(given: Namespace) -> Answer:
    """Describe one data file."""
    store, path = resolve(given.file, None)
    reader = FileReader.open(store, path)
    lines = describe_file(reader).splitlines()
    facts = {"file": given.file, "format": reader.version.value, "num_rows": reader.num_rows}
    return Answer({**facts, "description": lines}, lines)


def inspect(given: Namespace) -> Answer:
    """Describe one version of a dataset."""
    versions = open_log(given.dataset, None)
    manifest = read_manifest(versions, given.version)
    table = LanceDataset.from_manifest(given.dataset, versions, manifest, None)
    fragments = table.get_fragments()
    document = {
        "dataset": given.dataset,
        "version": table.version,
        "latest_version": table.latest_version,
        "format": table.data_storage_version,
        "num_rows": table.count_rows(),
        "schema": [_field(field) for field in manifest.schema.fields],
        "versions": [_version(version_info(each)) for each in _manifests(versions)],
        "fragments": [_fragment(fragment) for fragment in fragments],
    }
    return Answer(document, list(_inspected(given.dataset, table, manifest, document)))


def _inspected(uri: str, table: LanceDataset, manifest: Manifest, document: Mapping[str, Any]) -> Iterator[str]:
    yield f"dataset {uri}"
    yield (
        f"version {table.version} (latest: {document['latest_version']}), format {document['format']}, "
        f"rows: {document['num_rows']}, fragments: {len(document['fragments'])}"
    )
    yield "schema"
    yield from describe_fields(manifest.schema)
    yield "versions"
    for each in document["versions"]:
        yield f"  {each['version']} {_moment(each)}, rows: {each['num_rows']}, fragments: {each['num_fragments']}"
    yield "fragments"
    for fragment in document["fragments"]:
        deleted = f", deleted: {fragment['num_deleted_rows']}" if fragment["num_deleted_rows"] else ""
        yield f"  fragment {fragment['id']}, rows: {fragment['physical_rows']}{deleted}"
        for file in fragment["files"]:
            size = "size not recorded" if file["num_bytes"] is None else f"{file['num_bytes']} bytes"
            fields = ", ".join(map(str, file["fields"])) or "none"
            base_id = file["base_id"]
            # A base path that is not a dataset root contains its files directly.
            place = f"data/{file['path']}" if base_id is None else f"{file['path']} in base path {base_id}"
            yield f"    {place}: format {file['format']}, {size}, fields {fields}"
        if fragment["deletion_file"] is not None:
            yield f"    {fragment['deletion_file']}"


def log(given: Namespace) -> Answer:
    """List the versions of a dataset, newest first, with the operations that created them."""
    versions = open_log(given.dataset, None)
    read_manifest(versions, None)
    entries: list[dict[str, Any]] = []
    for manifest in _manifests(versions, newest_first=True):
        if given.limit is not None and len(entries) >= given.limit:
            break
        transaction = read_transaction(versions, manifest)
        entries.append(
            {
                **_version(version_info(manifest)),
                "operation": None if transaction is None else transaction.operation_name,
                "message": None if transaction is None else transaction.properties.get(COMMIT_MESSAGE_KEY),
            }
        )
    lines = [
        f"{each['version']} {_moment(each)} {each['operation'] or 'operation not recorded'}, rows: {each['num_rows']}"
        + (f": {each['message']}" if each["message"] else "")
        for each in entries
    ]
    return Answer({"dataset": given.dataset, "versions": entries}, lines)


def diff(given: Namespace) -> Answer:
    """Compare two versions of a dataset."""
    versions = open_log(given.dataset, None)
    views = (
        TableView(given.dataset, versions, read_manifest(versions, each), None) for each in (given.before, given.after)
    )
    found = compare(*views)
    return Answer({"dataset": given.dataset, **found.document()}, list(found.lines()))


def _manifests(versions: VersionLog, *, newest_first: bool = False) -> Iterator[Manifest]:
    names = versions.newer_than(0)
    return map(versions.read, reversed(names) if newest_first else names)


def _version(info: Mapping[str, Any]) -> dict[str, Any]:
    facts = info["metadata"]
    return {
        "version": info["version"],
        "timestamp": info["timestamp"].astimezone().isoformat(),
        "num_rows": int(facts["total_rows"]),
        "num_fragments": int(facts["total_fragments"]),
    }


def _moment(version: Mapping[str, Any]) -> str:
    return str(version["timestamp"])[:19].replace("T", " ")


def _field(field: Field) -> dict[str, Any]:
    facts = {"id": field.id, "name": field.name, "type": field.logical_type, "nullable": field.nullable}
    return {**facts, "children": [_field(child) for child in field.children]} if field.children else facts


def _fragment(fragment: LanceFragment) -> dict[str, Any]:
    files = [
        {
            "path": file.path,
            "base_id": file.base_id,
            "format": LanceFileVersion.from_pair(file.file_major_version, file.file_minor_version).value,
            "num_bytes": file.file_size_bytes or None,
            "fields": list(file.fields),
        }
        for file in fragment.data_files()
    ]
    return {
        "id": fragment.fragment_id,
        "physical_rows": fragment.physical_rows,
        "num_deleted_rows": fragment.num_deletions,
        "files": files,
        "deletion_file": fragment.deletion_file(),
    }
