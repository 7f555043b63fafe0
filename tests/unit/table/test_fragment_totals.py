"""Totals over all fragments, computed by column, equal the sums over the individual fragments."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.errors import CorruptDataError, LanceError
from lance_core.proto import pb_table
from lance_core.table.fragment_totals import FragmentTotals
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming

small = st.integers(0, 3)
files = st.builds(
    lambda pair, size, fields, path: pb_table.DataFile(
        path=path, fields=fields, file_major_version=pair[0], file_minor_version=pair[1], file_size_bytes=size
    ),
    st.sampled_from([(2, 2), (2, 1), (2, 0), (0, 2), (0, 0), (0, 3)]),
    st.integers(0, 2**40),
    st.lists(st.integers(-5, 300), max_size=4),
    st.sampled_from(["", "a.lance"]),
)
deletions = st.builds(lambda rows: pb_table.DeletionFile(num_deleted_rows=rows), small)
fragments = st.builds(
    lambda number, held, deletion, rows, overlays, spilled: pb_table.DataFragment(
        id=number,
        files=held,
        deletion_file=deletion,
        physical_rows=rows,
        overlays=[pb_table.DataOverlayFile()] * overlays,
        column_row_ids={} if spilled else None,
    ),
    st.integers(0, 6),
    st.lists(files, max_size=3),
    st.none() | deletions,
    st.integers(0, 2) | st.just(2**64 - 1),
    st.integers(0, 1),
    st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(fragments, max_size=6))
def test_fragment_totals_are_the_sum_over_all_fragments(drawn: list[pb_table.DataFragment]) -> None:
    message = pb_table.Manifest(version=1, fragments=drawn)
    totals = FragmentTotals.of(message)
    held = [file for fragment in drawn for file in fragment.files]
    deletion = [fragment.deletion_file for fragment in drawn if fragment.HasField("deletion_file")]
    ids = [fragment.id for fragment in drawn]
    assert totals.num_fragments == len(drawn)
    assert totals.num_files == len(held)
    assert totals.file_bytes == sum(file.file_size_bytes for file in held)
    assert totals.version_pairs() == {(file.file_major_version, file.file_minor_version) for file in held}
    assert totals.num_deletion_files == len(deletion)
    assert totals.physical_rows == sum(fragment.physical_rows for fragment in drawn)
    assert totals.deleted_rows == sum(each.num_deleted_rows for each in deletion)
    assert totals.counts_every_fragment == all(fragment.physical_rows for fragment in drawn)
    assert totals.counts_every_deletion == all(each.num_deleted_rows for each in deletion)
    is_known = not deletion and all(fragment.physical_rows for fragment in drawn)
    assert totals.live_counts == ([fragment.physical_rows for fragment in drawn] if is_known else None)
    assert totals.num_overlays == sum(len(fragment.overlays) for fragment in drawn)
    assert totals.has_spilled_lineage == any(fragment.HasField("column_row_ids") for fragment in drawn)
    if any(0 < each.physical_rows == each.deletion_file.num_deleted_rows for each in drawn):
        assert totals.may_have_empty_fragments
    if any(-2 in file.fields for file in held):
        assert totals.may_have_dead_fields
    ascends = all(left < right for left, right in pairwise(ids))
    assert (totals.ascending_ids is not None) == ascends
    assert totals.ascending_ids is None or list(totals.ascending_ids) == ids


def test_manifest_without_fragments_has_empty_totals() -> None:
    totals = FragmentTotals.of(pb_table.Manifest())
    assert (totals.num_fragments, totals.num_files, totals.num_live_rows) == (0, 0, 0)
    assert totals.version_pairs() == frozenset()
    assert list(totals.ascending_ids or ()) == []


@pytest.mark.parametrize(
    ("rows", "deleted", "live"),
    [((10, 10), (3, 4), 13), ((10, 0), (3, 4), None), ((10, 10), (3, 0), None), ((10, 10), (), 20)],
)
def test_live_row_total_is_known_only_when_every_count_is_recorded(
    rows: tuple[int, ...], deleted: tuple[int, ...], live: int | None
) -> None:
    message = pb_table.Manifest(fragments=[{"physical_rows": each} for each in rows])
    for fragment, count in zip(message.fragments, deleted, strict=False):
        fragment.deletion_file.num_deleted_rows = count
    assert FragmentTotals.of(message).num_live_rows == live


def _field(number: int, value: int) -> bytes:
    return bytes([number << 3, value])


def _nested(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


@pytest.mark.parametrize(
    "contents",
    [
        # A value that occurs twice in a message counts once, but occupies two positions of a column.
        [_field(4, 2) + _field(4, 2), _field(5, 1) + _field(5, 1)],
        [_field(4, 2) + _field(4, 0) + _field(5, 2), _field(4, 2) + _field(5, 2)],
        [_field(4, 2) * 3, _field(5, 2), b""],
    ],
)
def test_manifest_with_repeated_scalar_fields_raises_a_typed_error(contents: list[bytes]) -> None:
    parts = [_nested(2, _field(4, 1) + _nested(2, _nested(1, b"x") + each)) for each in contents]
    message = pb_table.Manifest.FromString(b"".join(parts))
    message.data_format.file_format, message.data_format.version = "lance", "2.1"
    with pytest.raises(LanceError):
        Manifest(message=message, naming=ManifestNaming.V2).check_readable()


def test_unknown_file_version_pair_in_a_manifest_raises_corrupt_data() -> None:
    parts = [_field(4, 2) * 2, _field(5, 1) * 2]
    data = b"".join(_nested(2, _field(4, 1) + _nested(2, _nested(1, b"x") + each)) for each in parts)
    message = pb_table.Manifest.FromString(data)
    message.data_format.file_format, message.data_format.version = "lance", "2.1"
    manifest = Manifest(message=message, naming=ManifestNaming.V2)
    with pytest.raises(CorruptDataError):
        manifest.check_readable()
