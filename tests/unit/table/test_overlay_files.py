"""The cells that overlays cover, and overlays that are no longer needed."""

import pytest
from pyroaring import BitMap

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_table
from lance_core.table.overlay_files import (
    OVERLAYS_VARIABLE,
    coverage,
    covered_anywhere,
    drop_dead_overlays,
    overlaid_fields,
    overlays_enabled,
    retire_overlaid_fields,
)
from tests.support.manifests import column_file


def _shared(*offsets: int, field_ids: tuple[int, ...] = (0, 1), version: int = 1) -> pb_table.DataOverlayFile:
    return pb_table.DataOverlayFile(
        data_file=column_file("o", *field_ids),
        shared_offset_bitmap=BitMap(offsets).serialize(),
        committed_version=version,
    )


def _sparse(*offsets: tuple[int, ...]) -> pb_table.DataOverlayFile:
    message = pb_table.DataOverlayFile(data_file=column_file("o", 0, 1))
    message.field_coverage.offset_bitmaps.extend(BitMap(each).serialize() for each in offsets)
    return message


@pytest.mark.parametrize("value", ["1", "0", "", "no"])
def test_overlays_are_enabled_by_any_value_of_the_environment_variable(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.delenv(OVERLAYS_VARIABLE, raising=False)
    assert not overlays_enabled()
    monkeypatch.setenv(OVERLAYS_VARIABLE, value)
    assert overlays_enabled()


def test_overlay_coverage_is_shared_or_per_field() -> None:
    assert coverage(_shared(1, 4), {1}, "f") == BitMap([1, 4])
    assert coverage(_shared(1), {9}, "f") is None
    sparse = _sparse((1,), (2, 3))
    assert [coverage(sparse, {field_id}, "f") for field_id in (0, 1)] == [BitMap([1]), BitMap([2, 3])]
    assert covered_anywhere(sparse, "f") == BitMap([1, 2, 3])
    assert coverage(_sparse((1,), (1,)), {0, 1}, "f") == BitMap([1])


@pytest.mark.parametrize(
    "overlay",
    [
        _sparse((1,)),
        _sparse((1,), (2,)),
        pb_table.DataOverlayFile(data_file=column_file("o", 0), shared_offset_bitmap=b"\1\2"),
        pb_table.DataOverlayFile(data_file=column_file("o", 0)),
    ],
)
def test_damaged_overlay_coverage_raises_corrupt_data(overlay: pb_table.DataOverlayFile) -> None:
    with pytest.raises(CorruptDataError, match=r"fragment 7: .*overlay o"):
        coverage(overlay, {0, 1}, "fragment 7")


def test_fields_with_newer_values_are_removed_from_their_overlays() -> None:
    overlays = [_shared(1, version=2), _shared(2, field_ids=(0,), version=3), _shared(3, field_ids=(0,), version=5)]
    fragment = pb_table.DataFragment(overlays=overlays)
    assert overlaid_fields(fragment.overlays) == {0, 1}
    retire_overlaid_fields(fragment, {0}, until=4)
    assert [list(each.data_file.fields) for each in fragment.overlays] == [[-2, 1], [0]]
    retire_overlaid_fields(fragment, {0})
    assert [list(each.data_file.fields) for each in fragment.overlays] == [[-2, 1]]
    drop_dead_overlays(fragment, {0})
    assert not fragment.overlays
