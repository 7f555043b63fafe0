"""Building the manifest of the next version: what is added, inherited, and replaced."""

import pytest

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.proto import pb_rowids, pb_table
from lance_core.schema.convert import fields_to_proto
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.paths import ManifestName, ManifestNaming
from tests.support.records import SCHEMA, data_file, fragment


def _previous(index_section: bytes | None = None, **values: object) -> Manifest:
    values = {
        "version": 4,
        "data_format": {"file_format": "lance", "version": "2.2"},
        "fields": fields_to_proto(SCHEMA),
        **values,
    }
    return Manifest(message=pb_table.Manifest(**values), naming=ManifestNaming.V2, index_section=index_section)


def _sealed(draft: ManifestDraft, transaction: bytes = b"") -> Manifest:
    sealed = draft.seal(transaction=transaction, transaction_file="4-x.txn", timestamp_ns=1_700_000_000_123_456_789)
    name = ManifestName(sealed.manifest.version, sealed.manifest.naming)
    return Manifest.parse(sealed.data, path="m", name=name)


def _appended(previous: Manifest, *num_rows: int) -> Manifest:
    draft = ManifestDraft(previous)
    draft.append_fragments([fragment(rows) for rows in num_rows])
    return _sealed(draft)


def test_fragment_ids_start_at_zero_in_a_new_table() -> None:
    made = _appended(_previous(), 1, 2)
    assert [each.id for each in made.fragments] == [0, 1]
    assert made.message.max_fragment_id == 1


def test_fragment_ids_continue_after_the_highest_ever_used() -> None:
    made = _appended(_previous(max_fragment_id=7), 1)
    assert [each.id for each in made.fragments] == [8]


def test_fragment_ids_continue_after_every_fragment_was_removed() -> None:
    draft = ManifestDraft(_previous(max_fragment_id=3, fragments=[{"id": 3, "physical_rows": 1}]))
    draft.drop_fragments()
    emptied = _sealed(draft)
    assert emptied.message.max_fragment_id == 3
    assert [each.id for each in _appended(emptied, 1).fragments] == [4]


def test_fragment_ids_are_not_reused_despite_a_low_counter() -> None:
    made = _appended(_previous(max_fragment_id=1, fragments=[{"id": 5, "physical_rows": 1}]), 1)
    assert [each.id for each in made.fragments] == [5, 6]


def test_table_without_fragments_has_no_highest_fragment_id() -> None:
    assert not _sealed(ManifestDraft(_previous())).message.HasField("max_fragment_id")


def test_fragments_are_sorted_and_duplicate_ids_are_refused() -> None:
    unsorted = _previous(fragments=[{"id": 5, "physical_rows": 1}, {"id": 2, "physical_rows": 1}])
    assert [each.id for each in _appended(unsorted, 1).fragments] == [2, 5, 6]
    with pytest.raises(CorruptDataError, match="two fragments with id"):
        ManifestDraft(_previous(fragments=[{"id": 5}, {"id": 5}]))


def test_fragment_ids_do_not_exceed_the_largest_32_bit_number() -> None:
    draft = ManifestDraft(_previous(max_fragment_id=2**32 - 2))
    draft.append_fragments([fragment()])
    with pytest.raises(InvalidInputError, match="32 bits"):
        draft.append_fragments([fragment()])


def test_manifest_draft_copies_every_setting_of_the_previous_version() -> None:
    values = {
        "schema_metadata": {"k": b"v"},
        "config": {"lance.auto_cleanup.interval": "20"},
        "table_metadata": {"owner": "me"},
        "base_paths": [{"id": 0, "path": "/elsewhere", "is_dataset_root": True}],
        "branch": "experiment",
        "next_row_id": 17,
        "fragments": [
            {
                "id": 1,
                "physical_rows": 3,
                "files": [{"path": "x.lance", "fields": [0, -2], "column_indices": [0, 1], "base_id": 0}],
                "metadata": {"a": "b"},
                "clustering_id": 2,
            }
        ],
    }
    previous = _previous(index_section=b"\x0a\x00", **values)
    made = _appended(previous, 1)
    for name in ("schema_metadata", "config", "table_metadata", "base_paths", "branch", "next_row_id", "fields"):
        assert getattr(made.message, name) == getattr(previous.message, name), name
    assert made.message.fragments[0] == previous.message.fragments[0]
    assert made.index_section == b"\x0a\x00"
    assert made.message.data_format == previous.message.data_format


def test_manifest_draft_does_not_copy_the_version_the_tag_or_the_transaction() -> None:
    previous = _previous(
        tag="old",
        version_aux_data=9,
        transaction_file="3-old.txn",
        writer_version={"library": "lance", "version": "1", "prerelease": "beta"},
        timestamp={"seconds": 1},
        reader_feature_flags=4,
        writer_feature_flags=4 | 32,
    )
    made = _sealed(ManifestDraft(previous), transaction=b"bytes").message
    assert (made.version, made.tag, made.version_aux_data, made.transaction_file) == (5, "", 0, "4-x.txn")
    assert (made.timestamp.seconds, made.timestamp.nanos) == (1_700_000_000, 123_456_789)
    assert made.writer_version.library == "lance-pipelines"
    assert not made.writer_version.HasField("prerelease")
    assert (made.reader_feature_flags, made.writer_feature_flags) == (0, 0)


def test_manifest_draft_never_changes_the_previous_version() -> None:
    previous = _previous(config={"a": "1"})
    before = previous.message.SerializeToString(deterministic=True)
    draft = ManifestDraft(previous)
    draft.append_fragments([fragment()])
    draft.update_config({"a": "2"})
    draft.replace_schema([], {})
    _sealed(draft)
    assert previous.message.SerializeToString(deterministic=True) == before


def test_long_transactions_are_not_stored_inline() -> None:
    transaction = bytes(20 * 1024 * 1024 + 1)
    assert _sealed(ManifestDraft(_previous()), transaction).transaction is None
    assert _sealed(ManifestDraft(_previous()), transaction[:-1]).transaction == transaction[:-1]


def test_appended_rows_get_stable_row_ids_in_a_table_that_uses_them() -> None:
    made = _appended(_previous(reader_feature_flags=2, writer_feature_flags=2, next_row_id=10), 10, 5)
    first, second = made.message.fragments
    # The bytes that pylance 14.0.2 writes for rows 10 to 19 of version 2, with our version number.
    assert first.inline_row_ids == bytes([10, 6, 10, 4, 8, 10, 16, 20])
    assert first.inline_created_at_versions == bytes([10, 8, 10, 4, 10, 2, 16, 10, 16, 5])
    assert first.inline_last_updated_at_versions == first.inline_created_at_versions
    ids = pb_rowids.RowIdSequence.FromString(second.inline_row_ids).segments[0].range
    assert (ids.start, ids.end) == (20, 25)
    assert made.message.next_row_id == 25
    assert (made.message.reader_feature_flags, made.message.writer_feature_flags) == (2, 2)


def _rewritten(fragment_id: int, num_rows: int = 1) -> Fragment:
    return Fragment.of([data_file()], physical_rows=num_rows, fragment_id=fragment_id)


def _with_fragments(*ids: int, **values: object) -> Manifest:
    return _previous(fragments=[{"id": each, "physical_rows": 10} for each in ids], **values)


@pytest.mark.parametrize(
    ("highest", "reserved", "expected"),
    [(None, 3, 2), (0, 1, 1), (7, 5, 12)],
    ids=["never a fragment", "one", "several"],
)
def test_reserving_fragment_ids_only_advances_the_counter(highest: int | None, reserved: int, expected: int) -> None:
    draft = ManifestDraft(_previous() if highest is None else _previous(max_fragment_id=highest))
    draft.reserve_fragment_ids(reserved)
    made = _sealed(draft)
    assert (made.message.max_fragment_id, made.fragments) == (expected, ())
    assert [each.id for each in _appended(made, 1).fragments] == [expected + 1]


def test_fragment_ids_beyond_32_bits_cannot_be_reserved() -> None:
    draft = ManifestDraft(_previous(max_fragment_id=2**32 - 3))
    draft.reserve_fragment_ids(2)
    with pytest.raises(InvalidInputError, match="32 bits"):
        draft.reserve_fragment_ids(1)


def test_rewritten_fragments_keep_reserved_ids_or_get_new_ones() -> None:
    draft = ManifestDraft(_with_fragments(0, 1, 4, max_fragment_id=9))
    draft.remove_fragments([1])
    draft.add_rewritten_fragments([_rewritten(0), _rewritten(2), _rewritten(0)])
    made = _sealed(draft)
    assert [each.id for each in made.fragments] == [0, 2, 4, 10, 11]
    assert made.message.max_fragment_id == 11


def test_rewritten_fragment_may_advance_the_fragment_id_counter() -> None:
    draft = ManifestDraft(_with_fragments(0, max_fragment_id=0))
    draft.add_rewritten_fragments([_rewritten(7), _rewritten(0)])
    made = _sealed(draft)
    assert ([each.id for each in made.fragments], made.message.max_fragment_id) == ([0, 7, 8], 8)


@pytest.mark.parametrize("ids", [[4], [5, 5]], ids=["in use", "twice"])
def test_rewritten_fragments_with_ids_in_use_are_refused(ids: list[int]) -> None:
    draft = ManifestDraft(_with_fragments(0, 4, max_fragment_id=9))
    with pytest.raises(InvalidInputError, match="must be unused and unique"):
        draft.add_rewritten_fragments([_rewritten(each) for each in ids])


def test_rewritten_fragments_keep_their_row_ids() -> None:
    previous = _previous(reader_feature_flags=2, writer_feature_flags=2, next_row_id=10)
    draft = ManifestDraft(previous)
    fragment = _rewritten(0)
    fragment.message.inline_row_ids = b"ids"
    draft.add_rewritten_fragments([fragment])
    made = _sealed(draft)
    assert (made.message.fragments[0].inline_row_ids, made.message.next_row_id) == (b"ids", 10)


def test_ids_of_removed_fragments_are_not_reused() -> None:
    draft = ManifestDraft(_with_fragments(0, 1, 2))
    draft.remove_fragments([0, 2])
    made = _sealed(draft)
    assert ([each.id for each in made.fragments], made.message.max_fragment_id) == ([1], 2)
    with pytest.raises(InvalidInputError, match="fragment 5 is not in version 4"):
        ManifestDraft(_with_fragments(0, 1)).remove_fragments([0, 5])


def _deleted(num_rows: int, physical_rows: int = 10) -> pb_table.DataFragment:
    return pb_table.DataFragment(physical_rows=physical_rows, deletion_file={"id": 3, "num_deleted_rows": num_rows})


def test_set_deletions_changes_only_deletion_files() -> None:
    previous = _with_fragments(0, 1, 2)
    previous.message.fragments[1].metadata["kept"] = "yes"
    draft = ManifestDraft(previous)
    draft.set_deletions({1: _deleted(4)})
    made = _sealed(draft)
    assert [each.num_live_rows for each in made.fragments] == [10, 6, 10]
    assert made.message.fragments[1].metadata == {"kept": "yes"}
    assert (made.message.reader_feature_flags, made.message.writer_feature_flags) == (1, 1)


def test_fragment_without_live_rows_is_removed() -> None:
    draft = ManifestDraft(_with_fragments(0, 1))
    draft.set_deletions({0: _deleted(10)})
    made = _sealed(draft)
    assert ([each.id for each in made.fragments], made.message.reader_feature_flags) == ([1], 0)


def test_fragments_without_live_rows_are_removed_by_any_commit() -> None:
    previous = _with_fragments(0, 1, 2)
    previous.message.fragments[1].deletion_file.CopyFrom(_deleted(10).deletion_file)
    # Fragments of early releases do not record the number of rows.
    previous.message.fragments[2].physical_rows = 0
    made = _sealed(ManifestDraft(previous))
    assert ([each.id for each in made.fragments], made.message.max_fragment_id) == ([0, 2], 2)


def test_deletion_files_of_other_fragments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="fragment 3 is not in version 4"):
        ManifestDraft(_with_fragments(0)).set_deletions({3: _deleted(1)})
    with pytest.raises(InvalidInputError, match="has 10 rows in version 4, but the operation records 11"):
        ManifestDraft(_with_fragments(0)).set_deletions({0: _deleted(1, physical_rows=11)})


def test_deletion_file_flag_is_cleared_with_the_last_deletion_file() -> None:
    draft = ManifestDraft(_with_fragments(0, 1))
    draft.set_deletions({0: _deleted(1), 1: _deleted(1)})
    deleted = _sealed(draft)
    draft = ManifestDraft(deleted)
    draft.remove_fragments([0])
    one_left = _sealed(draft)
    assert (one_left.message.reader_feature_flags, one_left.message.writer_feature_flags) == (1, 1)
    draft = ManifestDraft(one_left)
    draft.remove_fragments([1])
    draft.add_rewritten_fragments([_rewritten(0, 9)])
    none_left = _sealed(draft)
    assert (none_left.message.reader_feature_flags, none_left.message.writer_feature_flags) == (0, 0)


def test_restored_content_keeps_the_newer_counters() -> None:
    older = _with_fragments(
        0, 1, version=2, max_fragment_id=1, config={"k": "old"}, index_section=b"\x0a\x00", next_row_id=5
    )
    newer = _with_fragments(
        7,
        version=6,
        max_fragment_id=9,
        next_row_id=50,
        table_metadata={"new": "1"},
        reader_feature_flags=256,
        writer_feature_flags=256,
    )
    made = _sealed(ManifestDraft(newer, content=older))
    assert made.version == 7
    assert [each.id for each in made.fragments] == [0, 1]
    assert (dict(made.message.config), dict(made.message.table_metadata)) == ({"k": "old"}, {})
    assert made.index_section == b"\x0a\x00"
    assert (made.message.max_fragment_id, made.message.next_row_id) == (9, 50)
    assert (made.message.reader_feature_flags, made.message.writer_feature_flags) == (256, 256 | 8)
    assert [each.id for each in _appended(made, 1).fragments] == [0, 1, 10]


def test_restored_content_with_higher_counters_raises_the_counters() -> None:
    older = _with_fragments(5, version=2, max_allocated_field_id=3, writer_feature_flags=32768)
    made = _sealed(ManifestDraft(_with_fragments(0, version=3), content=older))
    assert (made.message.max_fragment_id, made.message.max_allocated_field_id) == (5, 3)
    assert made.message.writer_feature_flags == 32768


def test_metadata_of_unknown_fields_is_refused() -> None:
    draft = ManifestDraft(_previous())
    draft.set_field_metadata(1, {"a": b"1"})
    assert draft.field_metadata(1) == {"a": b"1"}
    with pytest.raises(InvalidInputError, match="no field with id 9"):
        draft.field_metadata(9)
