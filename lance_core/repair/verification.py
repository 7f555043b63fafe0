"""Verification: finds everything that is wrong with a table, except silently changed values.

The manifests of all versions are parsed, and the tags and branches are compared with the existing versions. All files
of one version of the table, and of the newest version of each branch, are examined: they are opened and compared with
the manifest (:mod:`lance_core.repair.validation`), and the transaction and the indices must exist. On request, all
values are read. Files contain no checksums, so a flipped bit in a number is not detected.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lance_core.errors import CorruptDataError, DatasetNotFoundError, LanceError, NotFoundError, VersionNotFoundError
from lance_core.repair.validation import VIOLATIONS, fragment_errors, version_errors
from lance_core.scan.table_view import TableView
from lance_core.table.branches import branch_root, list_branches
from lance_core.table.index_directories import index_directories
from lance_core.table.index_metadata import is_system_index
from lance_core.table.index_rules import decode_index_section
from lance_core.table.paths import VERSION_HINT_NAME, VERSIONS_DIRECTORY
from lance_core.table.tags import list_tags
from lance_core.transactions.transaction import Transaction
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Set

    from lance_core.scan.table_view import Handle
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["Fault", "find_faults", "find_fragment_faults"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong with a table.

    Attributes:
        place: what is affected, such as ``version 3``, ``tag release``, or ``branch trial, version 4``.
        message: what is wrong with it.
    """

    place: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary."""
        return asdict(self)


def find_faults(
    log: VersionLog,
    version: int | None = None,
    *,
    reads_pages: bool = False,
    on_fragment: Callable[[int, int], object] = lambda done, total: None,
    storage_options: dict[str, str] | None = None,
    examines_fragments: bool = True,
) -> Iterator[Fault]:
    """Yield the faults of a table. Changes nothing.

    Args:
        log: the version log of the table's main branch.
        version: the version whose files are examined; None means the latest one.
        reads_pages: whether all values of the version are read, too.
        on_fragment: called after every fragment with the number of fragments of the version that were examined so far,
            and their total number.
        storage_options: options for the stores of base paths.
        examines_fragments: whether the files of the version's fragments are examined; if not, use
            :func:`find_fragment_faults` for them, for example in other processes.

    Raises:
        DatasetNotFoundError: no table exists at this location.
        VersionNotFoundError: the version does not exist.
        StorageError: a storage operation failed.
    """
    check = partial(_line_faults, reads_pages=reads_pages, on_fragment=on_fragment, storage_options=storage_options)
    versions: dict[str | None, Set[int]] = {}
    versions[None] = yield from check(log, "", version, examines_fragments=examines_fragments)
    try:
        branches = list_branches(log.store, log.root)
    except VIOLATIONS as error:
        yield Fault("branches", str(error))
        branches = {}
    for name in branches:
        versions[name] = yield from check(log.at(branch_root(log.store, log.root, name)), f"branch {name}, ", None)
    try:
        tags = list_tags(log.store, log.root)
    except VIOLATIONS as error:
        yield Fault("tags", str(error))
        tags = {}
    for name, tag in tags.items():
        branch = None if tag.is_on_main_line else tag.branch
        if tag.version not in versions.get(branch, ()):
            where = "" if branch is None else f" of branch {branch!r}"
            yield Fault(f"tag {name}", f"the tag refers to version {tag.version}{where}, which does not exist")


def find_fragment_faults(dataset: Handle, fragment_ids: Collection[int], *, reads_pages: bool = False) -> list[Fault]:
    """Return the faults of some fragments of a handle's version.

    Args:
        dataset: an open handle.
        fragment_ids: the fragments.
        reads_pages: whether to read all values in addition to the metadata.

    Raises:
        StorageError: a storage operation failed.
    """
    view = dataset.view
    return [
        Fault(f"version {view.version}", str(error))
        for fragment in view.manifest.fragments
        if fragment.id in fragment_ids
        for error in fragment_errors(fragment, view.schema, view.locator, reads_pages=reads_pages)
    ]


def _line_faults(
    log: VersionLog,
    prefix: str,
    version: int | None,
    *,
    reads_pages: bool,
    on_fragment: Callable[[int, int], object],
    storage_options: dict[str, str] | None,
    examines_fragments: bool = True,
) -> Generator[Fault, None, Set[int]]:
    """Yield the faults of a branch, and return the numbers of its versions."""
    try:
        names = log.newer_than(0)
    except VIOLATIONS as error:
        yield Fault(f"{prefix}versions", str(error))
        return set()
    if not names and not prefix:
        raise DatasetNotFoundError(f"no dataset exists at {log.uri}: it has no versions", path=log.root)
    if not names:
        yield Fault(f"{prefix}versions", f"no manifest exists in {log.root}/{VERSIONS_DIRECTORY}")
        return set()
    numbers = {name.version for name in names}
    wanted = max(numbers) if version is None else version
    if wanted not in numbers:
        raise VersionNotFoundError(f"version {wanted} of {log.uri} does not exist", version=wanted)
    yield from (Fault(f"{prefix}version hint", text) for text in _hint_faults(log, max(numbers)))
    for name in names:
        place = f"{prefix}version {name.version}"
        try:
            manifest = log.read(name)
        except VIOLATIONS as error:
            yield Fault(place, str(error))
            continue
        if name.version != wanted:
            continue
        errors = list(_transaction_errors(log, manifest))
        try:
            view = TableView(log.uri, log, manifest, storage_options)
            errors += _index_errors(view)
            errors += version_errors(
                view.counted_manifest,
                view.locator,
                on_fragment,
                reads_pages=reads_pages,
                examines_fragments=examines_fragments,
            )
        except VIOLATIONS as error:
            errors.append(error)
        yield from (Fault(place, str(error)) for error in errors)
    return numbers


def _hint_faults(log: VersionLog, latest: int) -> Iterator[str]:
    path = log.store.join(log.root, VERSIONS_DIRECTORY, VERSION_HINT_NAME)
    try:
        hint = int(json.loads(bytes(log.store.get(path)))["version"])
    except NotFoundError:
        return
    except (ValueError, TypeError, KeyError):
        yield f"{VERSION_HINT_NAME} is not a JSON object with a numeric entry 'version'"
        return
    if hint > latest:
        yield f"{VERSION_HINT_NAME} contains version {hint}, but the latest version is {latest}"


def _transaction_errors(log: VersionLog, manifest: Manifest) -> Iterator[LanceError]:
    what = f"transaction of version {manifest.version}"
    try:
        if manifest.transaction is not None:
            Transaction.parse(manifest.transaction, what)
        if manifest.message.transaction_file:
            Transaction.parse(log.store.get(log.transaction_path(manifest.message.transaction_file)), what)
    except VIOLATIONS as error:
        yield error


def _index_errors(view: TableView) -> Iterator[LanceError]:
    """Check that the indices refer to fields of the schema, and that their files exist."""
    try:
        section = view.manifest.index_section
        indices, directories = decode_index_section(section), index_directories(section)
        known = {field.id for field in view.manifest.schema.walk()}
    except VIOLATIONS as error:
        yield error
        return
    for index, (directory, base_id) in zip(indices, directories.items(), strict=True):
        unknown = sorted(set(index.fields) - known)
        if unknown:
            yield CorruptDataError(f"index {index.name!r} refers to unknown field ids: {unknown}", index=index.name)
        try:
            yield from _missing_index_files(view, index, directory, base_id)
        except VIOLATIONS as error:
            yield error


def _missing_index_files(view: TableView, index: Any, directory: str, base_id: int | None) -> Iterator[LanceError]:
    location = view.locator.index_directory(directory, base_id)
    sizes = {
        info.path.removeprefix(location.path).lstrip("/"): info.num_bytes
        for info in location.store.list_recursive(location.path)
    }
    if not sizes and not is_system_index(index.name):
        yield NotFoundError(f"index {index.name!r}: no file exists in {location.uri}")
        return
    for file in index.files:
        if file.path not in sizes:
            yield NotFoundError(f"index {index.name!r}: file {file.path} does not exist in {location.uri}")
        elif file.size_bytes and file.size_bytes != sizes[file.path]:
            yield CorruptDataError(
                f"index {index.name!r}: file {file.path} has {counted(sizes[file.path], 'byte')}, expected "
                f"{file.size_bytes}"
            )
