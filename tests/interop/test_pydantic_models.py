"""Pydantic models have the schema that pylance derives, and their instances can be written."""

import datetime as dt
import enum
from pathlib import Path
from typing import Any, List, Literal, Optional  # noqa: UP035  # annotations of users

import lance
import lance.pydantic
import pyarrow as pa
import pydantic
import pytest

import lance_core
import lance_core.pydantic
from lance_core.errors import InvalidInputError, InvalidTypeError

UNSUPPORTED = (Any, int | str, dict, List, complex, Literal["a"], dict[str, int])  # noqa: UP006  # without items


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Nobody(enum.Enum):
    pass


def model_of(module: Any) -> type[pydantic.BaseModel]:
    class Inner(pydantic.BaseModel):
        x: int
        y: float | None = None

    class BigDocument(pydantic.BaseModel):
        id: int
        text: str
        optional: str | None = None
        old_optional: Optional[int] = None  # noqa: UP045  # annotation of a user
        ratio: float = 1.0
        flag: bool = True
        data: bytes = b""
        day: dt.date = dt.date(2020, 1, 1)
        time: dt.datetime = dt.datetime(2020, 1, 1)  # a column without a zone
        instant: dt.datetime = pydantic.Field(
            default=dt.datetime(2020, 1, 1, tzinfo=dt.UTC), json_schema_extra={"tz": "UTC"}
        )
        numbers: list[int] = [1]
        holes: list[int | None] = [1, None]
        nested: list[list[str]] = [["a"]]
        pair: tuple[int, ...] = (1, 2)
        vector: module.Vector(2) = [1, 2]  # type: ignore[valid-type]  # made at run time
        precise: module.Vector(2, pa.float64(), False) = [1, 2]  # type: ignore[valid-type]  # made at run time
        optional_vector: module.Vector(2) | None = None  # type: ignore[valid-type]  # made at run time
        vectors: module.MultiVector(2) = [[1, 2], [3, 4]]  # type: ignore[valid-type]  # made at run time
        inner: Inner = Inner(x=1)
        optional_inner: Inner | None = None
        inners: list[Inner] = [Inner(x=2)]
        level: Level = Level.LOW
        mixed: Mixed = Mixed.TWO
        nobody: Nobody | None = None
        color: Color = Color.RED

    return BigDocument


def test_schema_of_a_pydantic_model_equals_that_of_pylance() -> None:
    ours = lance_core.pydantic.pydantic_to_schema(model_of(lance_core.pydantic))
    assert ours.equals(lance.pydantic.pydantic_to_schema(model_of(lance.pydantic)), check_metadata=True)


@pytest.mark.parametrize("annotation", UNSUPPORTED, ids=str)
def test_pydantic_field_without_an_arrow_type_is_refused_as_in_pylance(annotation: Any) -> None:
    model = pydantic.create_model("Model", field=(annotation, ...), __config__={"arbitrary_types_allowed": True})
    with pytest.raises(TypeError):
        lance.pydantic.pydantic_to_schema(model)
    with pytest.raises(InvalidTypeError):
        lance_core.pydantic.pydantic_to_schema(model)


def test_pydantic_models_are_written_and_appended(tmp_path: Path) -> None:
    model = model_of(lance_core.pydantic)
    uri = tmp_path / "documents"
    lance_core.LanceDataset.from_pydantic_model(model, [model(id=1, text="a"), model(id=2, text="b")], uri)
    lance_core.write_dataset([model(id=3, text="c", color=Color.BLUE)], uri, mode="append")
    rows = lance.dataset(uri).to_table(columns=["id", "color", "level", "mixed", "vectors", "inner"])
    assert rows.slice(2).to_pylist() == [
        {
            "id": 3,
            "color": "blue",
            "level": 1,
            "mixed": "two",
            "vectors": [[1, 2], [3, 4]],
            "inner": {"x": 1, "y": None},
        }
    ]


def test_dataset_of_pydantic_models_is_named_after_their_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(lance_core.pydantic)
    monkeypatch.chdir(tmp_path)
    lance_core.LanceDataset.from_pydantic_model(model, [model(id=1, text="a")])
    assert lance.dataset(tmp_path / "big_document").count_rows() == 1


@pytest.mark.parametrize("case", ["no models", "no class", "tuple", "other class", "subclass"])
def test_invalid_pydantic_models_are_refused_as_in_pylance(case: str, tmp_path: Path) -> None:
    for library, module, errors in (
        (lance, lance.pydantic, (TypeError, ValueError)),
        (lance_core, lance_core.pydantic, (InvalidTypeError, InvalidInputError)),
    ):
        model = model_of(module)

        class Special(model):  # type: ignore[misc,valid-type]  # made at run time
            extra: int = 1

        arguments: dict[str, tuple[Any, Any]] = {
            "no models": (model, []),
            "no class": (int, [1]),
            "tuple": (model, (model(id=1, text="a"),)),
            "other class": (model, [1]),
            "subclass": (model, [Special(id=1, text="a")]),
        }
        with pytest.raises(errors):  # type: ignore[arg-type]  # tuples of errors
            library.LanceDataset.from_pydantic_model(*arguments[case], tmp_path / "none")
    assert not list(tmp_path.iterdir())
