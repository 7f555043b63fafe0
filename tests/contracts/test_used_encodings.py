"""A test decodes every supported page encoding from a file, and a test writes every encoding that can be written."""

from __future__ import annotations

import zipfile

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
from tests.support.encoding_choices import ARRAY_ENCODING, COLUMN_ENCODING, DECODED, ROOT

GOLDENS = ROOT / "tests" / "golden" / "data"
USED = {choice: arms for choice, arms in DECODED.items() if choice != COLUMN_ENCODING}
HAND_MADE = {
    # No release writes these encodings, but the reference reads them.
    (ARRAY_ENCODING, "bitpacked"): "tests/unit/encodings/v2_0",
    (ARRAY_ENCODING, "fixed_size_binary"): "tests/unit/encodings/v2_0",
}


def used_arms(message):
    """Return (oneof, arm) for each alternative that is set in an encoding description."""
    for choice in message.DESCRIPTOR.oneofs:
        arm = message.WhichOneof(choice.name)
        if arm is not None and choice.full_name in USED:
            yield choice.full_name, arm
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from used_arms(part)


def arms_of_file(path):
    """Return the arms of a file of version 2.0 or later after reading the whole file."""
    reader = LanceFileReader(path)
    assert reader.read_all().to_table().num_rows == reader.num_rows()
    columns = reader._reader.column_metadatas
    return {used for column in columns for page in column.pages for used in used_arms(page.encoding)}


def columns_for_every_arm(version):
    """Return columns that make the writer use every encoding that it supports."""
    count = 3000
    texts = [f"https://example.com/{number * 7919 % 10007}/page" for number in range(count)]
    lists = [[number] * (number % 3) for number in range(count)]
    packed = [pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.int64(), nullable=False)]
    columns = [
        (pa.array(np.random.default_rng(1).random(count)), {}),
        (pa.array(np.arange(count) // 100, pa.int64()), {}),
        (pa.array(np.arange(count) % 50, pa.int32()), {}),
        (pa.array(np.sqrt(np.arange(count)), pa.float32()), {"compression": "lz4", "bss": "on"}),
        (pa.array(texts), {"compression": "fsst"}),
        (pa.array(texts), {"compression": "zstd"}),
        (pa.array(texts), {}),
        (pa.array([text * 20 for text in texts]), {"structural-encoding": "fullzip"}),
        (pa.array(["red", "green"] * (count // 2)), {}),
        (pa.array(["same"] * count), {}),
        (pa.array(["red", "green"] * (count // 2)).dictionary_encode(), {}),
        (pa.array(lists, pa.list_(pa.int32())), {}),
        (pa.array([[1.0, None]] * count, pa.list_(pa.float32(), 2)), {}),
        (pa.array([[None, None]] * count, pa.list_(pa.float32(), 2)), {"structural-encoding": "fullzip"}),
        (pa.array([{"x": number} for number in range(count)]), {}),
        (pa.array([{"a": 1, "b": number} for number in range(count)], pa.struct(packed)), {"packed": "true"}),
        (pa.array([b"blob"] * count, pa.large_binary()), {"blob": "true"}),
    ]
    if version == "2.2":
        variable = pa.struct([*packed, pa.field("s", pa.string(), nullable=False)])
        columns.append((pa.array([{"a": 1, "b": 2, "s": text} for text in texts], variable), {"packed": "true"}))
    return columns


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The arms of files that this library writes and reads back."""
    found = set()
    for version in ["2.0", "2.1", "2.2"]:
        for number, (array, options) in enumerate(columns_for_every_arm(version)):
            path = str(tmp_path_factory.mktemp("arms") / f"{number}.lance")
            metadata = {f"lance-encoding:{key}": value for key, value in options.items()}
            schema = pa.schema([pa.field("c", array.type, nullable="packed" not in options, metadata=metadata)])
            with LanceFileWriter(path, schema, version=version) as writer:
                writer.write_batch(pa.table([array], schema=schema))
            found |= arms_of_file(path)
    return found


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """The arms of files written by releases of pylance."""
    root, found = tmp_path_factory.mktemp("goldens"), set()
    for release in ["0.16.0", "14.0.2"]:
        with zipfile.ZipFile(GOLDENS / f"{release}.zip") as archive:
            archive.extractall(root / release)
        for path in (root / release).rglob("*.lance"):
            if path.is_file() and "-0.1" not in str(path.relative_to(root)):
                found |= arms_of_file(str(path))
    return found


@pytest.mark.parametrize("choice", USED)
def test_every_supported_encoding_is_decoded_by_a_test(choice, written, read):
    for arm in USED[choice]:
        if (choice, arm) in HAND_MADE:
            texts = [path.read_text() for path in (ROOT / HAND_MADE[choice, arm]).glob("test_*.py")]
            assert any(f"{arm}=" in text or f".{arm}." in text for text in texts), arm
        else:
            assert (choice, arm) in written | read, arm


@pytest.mark.parametrize("choice", USED)
def test_every_encoding_that_the_writer_supports_is_written_by_a_test(choice, written):
    hand_made = {arm for name, arm in HAND_MADE if name == choice}
    assert USED[choice] - hand_made == {arm for name, arm in written if name == choice}
