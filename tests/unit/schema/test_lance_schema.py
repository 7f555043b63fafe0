"""LanceSchema and its fields, compared with those of pylance."""

import pickle

import lance
import lance.schema
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.schema import LanceSchema

KEY = "lance-schema:unenforced-primary-key"
CLUSTERING = "lance-schema:unenforced-clustering-key:position"
ARROW = pa.schema(
    [
        pa.field("a", pa.int64(), metadata={KEY: "true", f"{KEY}:position": "2"}, nullable=False),
        pa.field("s", pa.struct([("x", pa.int32()), ("Y", pa.list_(pa.string()))]), metadata={"q": "1"}),
        pa.field("c", pa.int64(), metadata={f"{KEY}:position": "1", CLUSTERING: "1"}, nullable=False),
        pa.field("Ab", pa.int8()),
        pa.field("aB", pa.int8()),
        pa.field("v", pa.list_(pa.float32(), 4)),
    ],
    metadata={"k": "v"},
)
OURS, THEIRS = LanceSchema.from_pyarrow(ARROW), lance.schema.LanceSchema.from_pyarrow(ARROW)


def shown(field) -> dict | None:
    """Return the results of the methods of a field."""
    if field is None:
        return None
    return {
        "name": field.name(),
        "id": field.id(),
        "children": [shown(child) for child in field.children()],
        "metadata": field.metadata,
        "arrow": str(field.to_arrow()),
        "primary": (field.is_unenforced_primary_key(), field.unenforced_primary_key_position()),
        "clustering": (field.is_unenforced_clustering_key(), field.unenforced_clustering_key_position()),
    }


def test_schema_fields_equal_those_of_pylance() -> None:
    assert [shown(field) for field in OURS.fields()] == [shown(field) for field in THEIRS.fields()]


@pytest.mark.parametrize("name", ["a", "A", "s.x", "S.X", "s.Y.item", "s.y.ITEM", "Ab", "aB", "AB", "zz", "", "s.zz"])
def test_schema_fields_are_found_as_in_pylance(name: str) -> None:
    assert shown(OURS.field(name)) == shown(THEIRS.field(name))
    assert shown(OURS.field_case_insensitive(name)) == shown(THEIRS.field_case_insensitive(name))


def test_schema_keys_equal_those_of_pylance() -> None:
    primary, clustering = OURS.unenforced_primary_key(), OURS.unenforced_clustering_key()
    assert [field.name() for field in primary] == ["c", "a"]
    assert [shown(field) for field in primary] == [shown(field) for field in THEIRS.unenforced_primary_key()]
    assert [shown(field) for field in clustering] == [shown(field) for field in THEIRS.unenforced_clustering_key()]


def test_lance_schema_is_converted_to_arrow() -> None:
    assert OURS.to_pyarrow().equals(THEIRS.to_pyarrow(), check_metadata=True)


def test_lance_schemas_can_be_compared_and_pickled() -> None:
    assert LanceSchema.from_pyarrow(ARROW) == OURS == pickle.loads(pickle.dumps(OURS))
    assert OURS.fields()[0] == OURS.fields()[0] != OURS.fields()[1]
    assert LanceSchema.from_pyarrow(ARROW.remove(0)) != OURS


@pytest.mark.parametrize("dtype", [pa.month_day_nano_interval(), pa.list_view(pa.int8())])
def test_unsupported_types_are_refused_as_in_pylance(dtype: pa.DataType) -> None:
    for library in (LanceSchema, lance.schema.LanceSchema):
        with pytest.raises(ValueError, match=r"(?i)unsupported|not supported"):
            library.from_pyarrow(pa.schema([("x", dtype)]))
    with pytest.raises(InvalidInputError, match="'x' of type"):
        LanceSchema.from_pyarrow(pa.schema([("x", dtype)]))


def test_value_that_is_not_a_schema_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"must be a pyarrow\.Schema, found int"):
        LanceSchema.from_pyarrow(5)


def test_operations_accept_a_lance_schema(tmp_path) -> None:
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    dataset = lance_core.write_dataset(rows, str(tmp_path / "t"))
    whole, kept = (LanceSchema(each) for each in (dataset.lance_schema, dataset.lance_schema.project(["b"])))
    for schema, operation in [
        (whole, lambda fragments: lance_core.LanceOperation.Overwrite(whole, fragments)),
        (whole, lambda fragments: lance_core.LanceOperation.Merge(fragments, whole)),
        (kept, lambda _: lance_core.LanceOperation.Project(kept)),
    ]:
        fragments = [fragment.metadata for fragment in dataset.get_fragments()]
        dataset = lance_core.LanceDataset.commit(dataset.uri, operation(fragments), read_version=dataset.version)
        assert LanceSchema(dataset.lance_schema) == schema
    assert dataset.to_table().equals(rows.select(["b"]))
