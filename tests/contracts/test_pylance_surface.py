"""The comparison with the public API of pylance is up to date, and errors suggest replacements for missing names."""

import copy
import pickle
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from pydoc import locate
from types import ModuleType
from unittest import mock

import pyarrow as pa
import pytest

import lance_core
from lance_core.absent import ABSENT
from lance_core.compaction.optimizer import DatasetOptimizer

ROOT = Path(__file__).resolve().parents[2]
CLASSES = {
    "DataFile": lance_core.DataFile,
    "DatasetOptimizer": DatasetOptimizer,
    "LanceDataset": lance_core.LanceDataset,
    "LanceFragment": lance_core.LanceFragment,
    "LanceScanner": lance_core.LanceScanner,
    "MergeInsertBuilder": lance_core.MergeInsertBuilder,
    "Session": lance_core.Session,
}
CODE = re.compile("`([^`]+)`")
NAME = re.compile(r"\w+(\.\w+)*")
ATTRIBUTES = {"_rowaddr", "batch_size", "buffer", "fields", "files", "storage_options"}
"""Columns, arguments, and fields of records that reasons mention."""

MEMBERS = [tuple(key.split(".")) for key in ABSENT if "." in key and "(" not in key and not key.startswith("lance.")]
MEMBERS = [(owner, name) for owner, name in MEMBERS if not name.startswith("__")]
"""Members with two leading underscores are not explained, because Python looks them up without ``__getattr__``."""
NAMES = [key for key in ABSENT if "." not in key and "(" not in key]
MODULES = [key.removeprefix("lance.") for key in ABSENT if key.startswith("lance.")]
MODULES = [name for name in MODULES if find_spec(f"lance_core.{name}") is None]
"""Absent modules of pylance whose names no package of ours has."""


@pytest.fixture
def dataset(tmp_path: Path) -> lance_core.LanceDataset:
    return lance_core.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "points")


def test_comparison_with_pylance_is_up_to_date_and_gives_a_reason_for_every_absent_member() -> None:
    # In a separate process, because the script imports every module of pylance.
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "pylance_surface.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("section", "function"), [("lance", "LanceDataset"), ("lance", "write_dataset"), ("LanceDataset", "scanner")]
)
def test_arguments_that_the_comparison_with_pylance_lists_as_rejected_are_rejected(
    section: str, function: str, dataset: lance_core.LanceDataset
) -> None:
    page = (ROOT / "docs" / "reference" / "pylance-surface.md").read_text(encoding="utf-8")
    rows = re.split(rf"^##+ {section}$", page, flags=re.MULTILINE)[1].partition("\n#")[0].splitlines()
    start = next(index for index, row in enumerate(rows) if row.startswith(f"| `{function}("))
    arguments = dict(
        re.findall(r"`(\w+)=` \| ([\w ]+) \|", row)[0]
        for row in takewhile(lambda row: "&emsp;" in row, rows[start + 1 :])
    )
    rejected = [name for name, status in arguments.items() if status == "rejected"]
    assert rejected
    calls = {
        "LanceDataset": lambda **given: lance_core.LanceDataset(dataset.uri, **given),
        "write_dataset": lambda **given: lance_core.write_dataset({"a": [3]}, dataset.uri, mode="append", **given),
        "scanner": dataset.scanner,
    }
    for name in rejected:
        with pytest.raises(lance_core.NotSupportedError, match=rf"argument '{name}' is not supported"):
            calls[function](**{name: object()})
    assert dataset.latest_version == 1


def test_error_message_in_the_migration_guide_matches_the_actual_message(dataset: lance_core.LanceDataset) -> None:
    guide = (ROOT / "docs" / "guides" / "from-pylance.md").read_text(encoding="utf-8")
    (name,) = re.findall(r'"/data/points"\)\.(\w+)\(', guide)
    with pytest.raises(AttributeError) as raised:
        getattr(dataset, name)
    assert f"\nAttributeError: {raised.value}\n" in guide


@pytest.mark.parametrize("key", ABSENT)
def test_names_in_the_reasons_for_absence_exist(key: str) -> None:
    names = {code.partition("(")[0] for code in CODE.findall(ABSENT[key])} - ATTRIBUTES
    roots = ("", "lance_core.", "lance_core.LanceDataset.", "lance_core.LanceFragment.")
    assert [name for name in names if NAME.fullmatch(name) and not any(locate(root + name) for root in roots)] == []


@pytest.mark.parametrize(("owner", "name"), MEMBERS, ids=[".".join(member) for member in MEMBERS])
def test_error_for_an_absent_member_explains_the_absence_on_the_class_and_its_objects(owner: str, name: str) -> None:
    kind = CLASSES[owner]
    for each in (kind, kind.__new__(kind)):
        assert not hasattr(each, name)
        with pytest.raises(AttributeError) as raised:
            getattr(each, name)
        shown = f"type object {owner!r}" if each is kind else f"{owner!r} object"
        assert str(raised.value) == f"{shown} has no attribute {name!r}: {ABSENT[f'{owner}.{name}']}"


@pytest.mark.parametrize("name", [*NAMES, *MODULES])
def test_error_for_an_absent_name_of_the_package_explains_the_absence(name: str) -> None:
    assert not hasattr(lance_core, name)
    with pytest.raises(AttributeError) as raised:
        getattr(lance_core, name)
    reason = ABSENT.get(name) or ABSENT[f"lance.{name}"]
    assert str(raised.value) == f"module 'lance_core' has no attribute {name!r}: {reason}"


@pytest.mark.parametrize(
    ("module", "name"), [("blob", "BlobIterator"), ("dataset", "VectorIndexReader"), ("fragment", "CompactedSsTable")]
)
def test_error_for_an_absent_name_of_a_module_explains_the_absence(module: str, name: str) -> None:
    ours = import_module(f"lance_core.{module}")
    assert isinstance(ours, ModuleType)
    with pytest.raises(AttributeError) as raised:
        getattr(ours, name)
    assert str(raised.value) == f"module 'lance_core.{module}' has no attribute {name!r}: {ABSENT[name]}"


@pytest.mark.parametrize("owner", [lance_core.LanceDataset, lance_core.LanceFragment, lance_core.LanceScanner])
def test_unknown_attribute_raises_the_standard_message_of_python(owner: type) -> None:
    with pytest.raises(AttributeError, match=rf"^type object '{owner.__name__}' has no attribute 'teleport'$"):
        _ = owner.teleport
    with pytest.raises(AttributeError, match=rf"^'{owner.__name__}' object has no attribute 'teleport'$"):
        _ = owner.__new__(owner).teleport


def test_error_for_an_absent_member_explains_the_absence_on_a_subclass(dataset: lance_core.LanceDataset) -> None:
    class Points(lance_core.LanceDataset):
        pass

    with pytest.raises(
        AttributeError, match=r"^'Points' object has no attribute 'create_scalar_index': existing indices "
    ):
        _ = Points(dataset.uri).create_scalar_index


def test_attribute_error_inside_a_property_is_not_replaced(dataset: lance_core.LanceDataset) -> None:
    class Points(lance_core.LanceDataset):
        @property
        def labels(self) -> str:
            return self.uri.labels

    with pytest.raises(AttributeError, match="'str' object has no attribute 'labels'"):
        _ = Points(dataset.uri).labels


def test_class_that_explains_absent_members_can_be_abstract(dataset: lance_core.LanceDataset) -> None:
    class Checked(ABC):
        @abstractmethod
        def check(self) -> int: ...

    class Points(lance_core.LanceDataset, Checked):
        def check(self) -> int:
            return self.count_rows()

    assert Points(dataset.uri).check() == 2
    with pytest.raises(TypeError, match="abstract"):
        type("Unchecked", (lance_core.LanceDataset, Checked), {})(dataset.uri)


def test_handles_that_explain_absent_members_can_be_pickled_copied_and_mocked(dataset: lance_core.LanceDataset) -> None:
    for handle in (dataset, dataset.get_fragments()[0]):
        for twin in (pickle.loads(pickle.dumps(handle)), copy.copy(handle), copy.deepcopy(handle)):
            assert type(twin) is type(handle)
            assert twin.to_table() == handle.to_table()
        double = mock.create_autospec(type(handle), instance=True)
        double.count_rows.return_value = 7
        assert double.count_rows() == 7
        with pytest.raises(AttributeError):
            _ = double.to_nothing


def test_error_for_a_rejected_argument_explains_the_rejection(dataset: lance_core.LanceDataset) -> None:
    with pytest.raises(lance_core.NotSupportedError) as raised:
        dataset.scanner(full_text_query="hello")
    reason = ABSENT["(full_text_query)"]
    assert str(raised.value) == f"scanner: argument 'full_text_query' is not supported: {reason}"
