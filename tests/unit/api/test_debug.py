"""The functions that print the metadata of a dataset as text, and the logger."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core import debug, log


@pytest.fixture
def dataset(tmp_path: Path) -> lance_core.LanceDataset:
    lance_core.write_dataset(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path)
    return lance_core.write_dataset(pa.table({"a": [3], "b": ["z"]}), tmp_path, mode="append")


def test_schema_text_lists_the_fields_with_their_ids_and_types(dataset: lance_core.LanceDataset) -> None:
    shown = debug.format_schema(dataset)
    assert shown.count("field {") == 2
    assert 'name: "b"' in shown
    assert 'logical_type: "string"' in shown


def test_manifest_text_contains_the_version_and_the_fragments(dataset: lance_core.LanceDataset) -> None:
    shown = debug.format_manifest(dataset)
    assert "version: 2" in shown
    assert shown.count("\n  fragments {") == 2


def test_fragment_text_lists_the_fields_of_its_files(dataset: lance_core.LanceDataset) -> None:
    fragment = dataset.get_fragments()[1].metadata
    assert f"# {fragment.files[0].path}: a, b\n" in debug.format_fragment(fragment, dataset)


@pytest.mark.parametrize(("number", "arms"), [(10, ["append", "overwrite"]), (1, ["append"]), (0, [])])
def test_transactions_are_listed_newest_first(dataset: lance_core.LanceDataset, number: int, arms: list[str]) -> None:
    shown = debug.list_transactions(dataset, number)
    assert len(shown) == len(arms)
    assert all(f"\n  {arm} {{" in text for arm, text in zip(arms, shown, strict=True))


def test_set_logger_writes_log_messages_to_a_file(tmp_path: Path) -> None:
    before = log.LOGGER.handlers[:], log.LOGGER.level
    path = tmp_path / "lance.log"
    try:
        lance_core.set_logger(str(path), level=logging.DEBUG)
        logging.getLogger("lance_core.scan").debug("a message")
        (added,) = set(log.LOGGER.handlers) - set(before[0])
        added.close()
    finally:
        log.LOGGER.handlers, log.LOGGER.level = before[0], before[1]
    assert path.read_text().endswith(": a message\n")


@pytest.mark.parametrize(
    ("value", "level"),
    [("", "INFO"), ("warn", "WARN"), ("trace", "DEBUG"), ("lance=debug", "INFO"), ("a=b,error", "ERROR")],
)
def test_log_level_is_read_from_the_environment(value: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(log.ENV_NAME_PYLANCE_LOGGING_LEVEL, value)
    assert log.get_log_level() == level
