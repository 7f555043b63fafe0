"""Every arm of the page encodings is either decoded or refused by name."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from lance_core.encodings import compressive
from lance_core.encodings.page_decoder import STRUCTURAL, STRUCTURAL_NOT_YET
from lance_core.encodings.registry import COMPRESSIVE, COMPRESSIVE_NOT_YET
from lance_core.proto import pb21


def arms(message, oneof):
    return {field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


@pytest.mark.parametrize(
    ("message", "oneof", "decoded", "refused"),
    [
        (pb21.CompressiveEncoding, "compression", COMPRESSIVE, COMPRESSIVE_NOT_YET),
        (pb21.PageLayout, "layout", STRUCTURAL, STRUCTURAL_NOT_YET),
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
