"""Keys declared in field metadata, when a table is created or once afterwards, are handled as in pylance."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidSchemaError

KEY = "lance-schema:unenforced-primary-key"
PLACE = f"{KEY}:position"
SORT = "lance-schema:unenforced-clustering-key"
SORT_PLACE = f"{SORT}:position"

_REFUSALS: Mapping[ModuleType, type[Exception]] = {lance: OSError, lance_core: InvalidSchemaError}

Metadata = Mapping[str, str | None]


def _rows(metadata: Mapping[str, Mapping[str, str]]) -> pa.Table:
    inner = pa.field("x", pa.int64(), False, metadata=metadata.get("s.x"))
    item = pa.field("item", pa.int64(), False, metadata=metadata.get("l.item"))
    fields = [
        pa.field("a", pa.int64(), False, metadata=metadata.get("a")),
        pa.field("b", pa.int64(), metadata=metadata.get("b")),
        pa.field("s", pa.struct([inner]), False, metadata=metadata.get("s")),
        pa.field("l", pa.list_(item), False, metadata=metadata.get("l")),
    ]
    values = [[1, 2], [1, 2], [{"x": 1}] * 2, [[1]] * 2]
    arrays = [pa.array(column, field.type) for column, field in zip(values, fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def _keys(uri: str) -> dict[str, tuple[Any, ...]]:
    fields = lance_core.dataset(uri).manifest.message.fields
    return {
        field.name: (
            field.unenforced_primary_key,
            field.unenforced_primary_key_position,
            field.unenforced_clustering_key,
            field.unenforced_clustering_key_position,
            dict(field.metadata),
        )
        for field in fields
    }


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": {KEY: "true"}},
        {"a": {KEY: "YES"}},
        {"a": {KEY: "no"}},
        {"a": {PLACE: "1"}, "s.x": {PLACE: "2"}},
        {"a": {PLACE: "0"}},
        {"a": {PLACE: "+1"}},
        {"a": {PLACE: "00000000007"}},
        {"a": {PLACE: "4294967295"}},
        {"a": {PLACE: "4294967296"}},
        {"a": {PLACE: "abc"}},
        {"a": {PLACE: "-1", KEY: "true"}},
        {"b": {SORT: "true"}},
        {"b": {SORT_PLACE: "2"}},
        {"b": {SORT_PLACE: "abc"}},
        {"b": {KEY: "true"}},
        {"s": {KEY: "true"}},
        {"l": {KEY: "true"}},
        {"l.item": {KEY: "true"}},
    ],
    ids=str,
)
def test_keys_declared_in_new_tables_are_accepted_or_refused_as_in_pylance(
    tmp_path: Path, metadata: Mapping[str, Mapping[str, str]]
) -> None:
    found = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        try:
            library.write_dataset(_rows(metadata), uri)
        except _REFUSALS[library]:
            found.append(None)
            continue
        found.append(_keys(uri))
    assert found[0] == found[1]


def _update(library: ModuleType, uri: str, update: Mapping[str, Metadata]) -> str:
    try:
        library.dataset(uri).update_field_metadata(update)
    except _REFUSALS[library]:
        return "refused"
    return "done"


@pytest.mark.parametrize(
    ("declared", "updates"),
    [
        ({}, [{"a": {KEY: "true"}}, {"a": {KEY: "true"}}, {"a": {"k": "v"}}, {"a": {KEY: None}}, {"b": {KEY: None}}]),
        ({}, [{"a": {PLACE: "1"}, "s.x": {PLACE: "2"}}, {"s.x": {KEY: "true"}}]),
        ({}, [{"a": {KEY: "false"}}, {"a": {PLACE: "abc"}}, {"a": {PLACE: "-1"}}, {"a": {PLACE: "0"}}]),
        ({}, [{"a": {KEY: "true", PLACE: "abc"}}]),
        ({}, [{"b": {KEY: None}}, {"b": {KEY: None}, "a": {KEY: "true"}}]),
        ({}, [{"b": {KEY: "true"}}, {"s": {KEY: "true"}}, {"l.item": {KEY: "true"}}, {"s.x": {KEY: "true"}}]),
        ({"a": {KEY: "true"}}, [{"a": {KEY: "true"}}, {"a": {PLACE: "1"}}, {"s.x": {KEY: "true"}}, {"a": {"k": "v"}}]),
        ({}, [{"b": {SORT: "true"}}, {"b": {SORT: "true"}}, {"b": {SORT_PLACE: "abc"}}, {"b": {SORT_PLACE: "3"}}]),
        ({}, [{"s": {SORT: "true"}}, {"l": {SORT: "true"}}, {"l": {SORT: None}}]),
        ({}, [{"b": {SORT_PLACE: "2"}}, {"b": {SORT_PLACE: "2"}}, {"a": {SORT_PLACE: "1"}}, {"b": {"k": "v"}}]),
        ({}, [{"b": {SORT_PLACE: None}}, {"b": {SORT_PLACE: "0"}}, {"b": {SORT_PLACE: "1"}}]),
        ({"b": {SORT_PLACE: "2"}}, [{"b": {SORT_PLACE: None}}, {"b": {SORT: "true"}}]),
    ],
)
def test_declaring_keys_of_an_existing_table_has_the_same_outcome_as_in_pylance(
    tmp_path: Path, declared: Mapping[str, Mapping[str, str]], updates: list[Mapping[str, Metadata]]
) -> None:
    twins = {library: str(tmp_path / library.__name__) for library in (lance, lance_core)}
    for uri in twins.values():
        lance.write_dataset(_rows(declared), uri)
    for update in updates:
        outcomes = [_update(library, uri, update) for library, uri in twins.items()]
        assert outcomes[0] == outcomes[1], update
        assert _keys(twins[lance]) == _keys(twins[lance_core])
    assert lance.dataset(twins[lance_core]).to_table() == lance.dataset(twins[lance]).to_table()


@pytest.mark.parametrize("declared", [{KEY: "true"}, {SORT_PLACE: "2"}], ids=str)
@pytest.mark.parametrize("name", ["a", "b"])
def test_replacing_all_metadata_keeps_keys(tmp_path: Path, declared: Mapping[str, str], name: str) -> None:
    found = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(_rows({"a": declared}), uri)
        try:
            library.dataset(uri).replace_field_metadata(name, {"k": "v"})
        except OSError:
            assert name == "a"
        found.append(_keys(uri))
    assert found[0] == found[1]
    assert found[1]["a"][4] == {key: value.encode() for key, value in declared.items()}


def test_a_key_declaration_read_from_a_transaction_can_be_committed_again(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    for uri in (first, second):
        lance.write_dataset(_rows({}), uri)
    lance.dataset(first).update_field_metadata({"a": {KEY: "true"}})
    operation = lance_core.dataset(first).read_transaction(2).operation
    lance_core.LanceDataset.commit(second, operation, read_version=1)
    assert _keys(second) == _keys(first)
