"""Every arm of the page encodings is either decoded or refused by name."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any

from lance_core.encodings import compressive
from lance_core.encodings.page_decoder import STRUCTURAL, STRUCTURAL_NOT_YET
from lance_core.encodings.registry import COMPRESSIVE, COMPRESSIVE_NOT_YET
from lance_core.encodings.v2_0 import registry as v2_0
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.file.column_metadata import ColumnMetadata
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
from lance_core.proto import pb20, pb21, pb_file2
from lance_core.versions import LanceFileVersion


def arms(message, oneof):
    return {field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


@pytest.mark.parametrize(
    ("message", "oneof", "decoded", "refused"),
    [
        (pb21.CompressiveEncoding, "compression", COMPRESSIVE, COMPRESSIVE_NOT_YET),
        (pb21.PageLayout, "layout", STRUCTURAL, STRUCTURAL_NOT_YET),
        (pb20.ArrayEncoding, "array_encoding", {**v2_0.ARMS, **v2_0.STRUCTURE}, v2_0.REFUSED),
    ],
)
def test_every_arm_is_decoded_or_refused(message, oneof, decoded, refused):
    assert set(decoded) | set(refused) == arms(message, oneof)
    assert not set(decoded) & set(refused)
    assert all(refused.values()), "a refusal says what the arm is"


def test_files_are_named_after_their_arm():
    files = {path.stem for path in Path(compressive.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == set(COMPRESSIVE)
    for arm in files:
        module = importlib.import_module(f"lance_core.encodings.compressive.{arm}")
        assert module.ENCODING is COMPRESSIVE[arm]
        assert module.ENCODING.arm == arm


def test_every_encoding_has_a_form():
    for encoding in COMPRESSIVE.values():
        assert encoding.mini_block or encoding.per_value or encoding.block, encoding.arm


# ── Column encodings and where descriptions are ──────────────────────────────────────────────────────────────────────


def column_message(encoding, url="/lance.encodings.ColumnEncoding"):
    message = pb_file2.ColumnMetadata()
    wrapped = Any(type_url=url, value=encoding.SerializeToString())
    message.encoding.direct.encoding = wrapped.SerializeToString()
    return message


COLUMN_ENCODINGS = {
    "values": pb20.ColumnEncoding(values={}),
    "blob": pb20.ColumnEncoding(blob=pb20.Blob(inner=pb20.ColumnEncoding(values={}))),
    "zone_index": pb20.ColumnEncoding(zone_index=pb20.ZoneIndex(inner=pb20.ColumnEncoding(values={}))),
}


def test_every_column_encoding_is_known():
    assert set(COLUMN_ENCODINGS) == arms(pb20.ColumnEncoding, "column_encoding")


@pytest.mark.parametrize("arm", COLUMN_ENCODINGS)
def test_every_column_encoding_is_read_in_2_0(arm):
    data = column_message(COLUMN_ENCODINGS[arm]).SerializeToString()
    assert ColumnMetadata.parse(data, 0, "here", LanceFileVersion.V2_0).is_blob == (arm == "blob")


@pytest.mark.parametrize("arm", ["blob", "zone_index"])
def test_later_versions_have_column_encodings_of_values_only(arm):
    data = column_message(COLUMN_ENCODINGS[arm]).SerializeToString()
    with pytest.raises(UnsupportedEncodingError, match=arm):
        ColumnMetadata.parse(data, 0, "here", LanceFileVersion.V2_2)


def test_descriptions_are_read_where_they_are_and_refused_elsewhere():
    assert arms(pb_file2.Encoding, "location") == {"direct", "indirect", "none"}
    message = pb_file2.ColumnMetadata()
    message.encoding.indirect.SetInParent()
    with pytest.raises(UnsupportedEncodingError, match="elsewhere"):
        ColumnMetadata.parse(message.SerializeToString(), 0, "here", LanceFileVersion.V2_0)
    message.encoding.none.SetInParent()
    with pytest.raises(CorruptDataError):
        ColumnMetadata.parse(message.SerializeToString(), 0, "here", LanceFileVersion.V2_0)


# ── Arms in use ──────────────────────────────────────────────────────────────────────────────────────────────────────

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "golden" / "data"
TYPES = {
    "lance.encodings21.CompressiveEncoding": COMPRESSIVE,
    "lance.encodings21.PageLayout": STRUCTURAL,
    "lance.encodings.ArrayEncoding": {**v2_0.ARMS, **v2_0.STRUCTURE},
}
HAND_MADE = {
    # No release writes them; the reference reads them.
    ("lance.encodings.ArrayEncoding", "bitpacked"): "tests/unit/encodings/v2_0",
    ("lance.encodings.ArrayEncoding", "fixed_size_binary"): "tests/unit/encodings/v2_0",
}


def used_arms(message):
    """(message type, arm) of everything that is set in a description."""
    for choice in message.DESCRIPTOR.oneofs:
        arm = message.WhichOneof(choice.name)
        if arm is not None and message.DESCRIPTOR.full_name in TYPES:
            yield message.DESCRIPTOR.full_name, arm
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                yield from used_arms(part)


def arms_of_file(path):
    """The arms of a file of version 2.0 or later, which is read as a whole."""
    reader = LanceFileReader(path)
    assert reader.read_all().to_table().num_rows == reader.num_rows()
    columns = reader._reader.column_metadatas
    return {used for column in columns for page in column.pages for used in used_arms(page.encoding)}


def columns_for_every_arm(version):
    """Columns that make the writer use each encoding it has."""
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
    """The arms of files that this library writes, and reads."""
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
    """The arms of files that releases of pylance wrote."""
    root, found = tmp_path_factory.mktemp("goldens"), set()
    for release in ["0.16.0", "14.0.2"]:
        with zipfile.ZipFile(GOLDENS / f"{release}.zip") as archive:
            archive.extractall(root / release)
        for path in (root / release).rglob("*.lance"):
            if path.is_file() and "-0.1" not in str(path.relative_to(root)):
                found |= arms_of_file(str(path))
    return found


@pytest.mark.parametrize("message", TYPES)
def test_every_registered_arm_is_decoded_by_a_test(message, written, read):
    for arm in TYPES[message]:
        if (message, arm) in HAND_MADE:
            texts = [path.read_text() for path in (ROOT / HAND_MADE[message, arm]).glob("test_*.py")]
            assert any(f"{arm}=" in text or f".{arm}." in text for text in texts), arm
        else:
            assert (message, arm) in written | read, arm


@pytest.mark.parametrize("message", TYPES)
def test_every_arm_that_can_be_encoded_is_written_by_a_test(message, written):
    hand_made = {arm for name, arm in HAND_MADE if name == message}
    assert set(TYPES[message]) - hand_made == {arm for name, arm in written if name == message}
