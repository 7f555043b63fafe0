"""The metadata of a dataset as text, for troubleshooting; the names follow ``lance.debug``.

Each function returns the text form of the protobuf messages that are stored. The commands ``lance-core inspect`` and
``lance-core describe`` print a summary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.text_format import MessageToString

from lance_core.proto import pb_transaction
from lance_core.public.arguments import whole_number
from lance_core.public.fragment_conversion import fragment_to_record
from lance_core.transactions.transaction import read_transaction

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from lance_core.api.dataset import LanceDataset
    from lance_core.public.fragment_metadata import FragmentMetadata

__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]


def format_schema(dataset: LanceDataset) -> str:
    """Return the fields of a dataset, with their ids and logical types."""
    return "".join(f"field {_block(field)}\n" for field in dataset._view.manifest.message.fields)


def format_manifest(dataset: LanceDataset) -> str:
    """Return the whole manifest of the version of a handle."""
    return f"manifest {_block(dataset._view.manifest.message)}\n"


def format_fragment(fragment: FragmentMetadata, dataset: LanceDataset) -> str:
    """Return the record of a fragment, and the fields of the dataset that each of its data files contains.

    Raises:
        InvalidInputError: the metadata is malformed.
    """
    record = fragment_to_record(fragment)
    names = {field.id: field.name for field in dataset._view.manifest.message.fields}
    files = [
        f"# {file.path}: {', '.join(names.get(field_id, f'unknown field {field_id}') for field_id in file.field_ids)}\n"
        for file in record.files
    ]
    return f"fragment {_block(record.message)}\n{''.join(files)}"


def list_transactions(dataset: LanceDataset, /, max_transactions: int = 10) -> list[str]:
    """Return the transactions that created the most recent versions, newest first.

    Transactions that are not recorded, or whose files were removed, are left out.

    Args:
        dataset: a handle to the newest of the versions.
        max_transactions: maximum number of versions.

    Raises:
        InvalidTypeError: ``max_transactions`` is not a whole number.
        CorruptDataError: a transaction cannot be decoded.
    """
    view = dataset._view
    wanted = whole_number("max_transactions", max_transactions)
    versions = view.lineage(wanted) if wanted > 0 else []
    found = (read_transaction(view.log, view.log.read_version(version)) for version in versions)
    messages = (pb_transaction.Transaction.FromString(each.serialize()) for each in found if each is not None)
    return [f"transaction {_block(message)}\n" for message in messages]


def _block(message: Message) -> str:
    return f"{{\n{MessageToString(message, indent=2)}}}"
