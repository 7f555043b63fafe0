"""Random nested tables through files and tables of every format version, between this library and pylance 14.0.2.

Every seed makes one table (three levels deep, nulls and garbage under nulls, sliced children, one to four pages per
column, fields with encoding keys) and checks

* what we write, read by us and by the reference;
* what the reference writes, read by us;

each time in full, by projection (members of structs too), by a range of rows, and by scattered rows. Even seeds use one
data file, odd ones a table of several files; 0.1 is read and written by the reference through tables only.

Results are compared with the input, or with what the version keeps of it, never between two readers: pylance 14.0.2
misreads some files. Its known defects are recognised by rule (``known_defect``) and concern what it does alone.

One seed: ``pytest tests/property/test_files.py -k "2.1-137"``; 500 seeds per version: ``-m soak``.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import lance_core
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
from tests.support.hidden_garbage import with_hidden_garbage
from tests.support.random_tables import (
    RandomTable,
    as_kept_by_0_1,
    column_difference,
    has_any,
    whole,
    without_hidden_values,
)

lance = pytest.importorskip("lance", reason="pylance is the other implementation")
reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
NUM_SEEDS = 40
NUM_SOAK_SEEDS = 500

CASES = [
    pytest.param(version, seed, id=f"{version}-{seed}", marks=[] if seed < NUM_SEEDS else pytest.mark.soak)
    for version in VERSIONS
    for seed in range(NUM_SOAK_SEEDS)
]


class OneFile:
    """A single data file."""

    def __init__(self, path, case, *, ours):
        self.path, self.case, self.ours = str(path), case, ours

    def write(self):
        case = self.case
        writer_class = LanceFileWriter if self.ours else reference.LanceFileWriter
        sizes = {"data_cache_bytes": case.cache_bytes, "max_page_bytes": case.page_bytes}
        arguments = {name: size for name, size in sizes.items() if size is not None}
        with writer_class(self.path, case.schema, version=case.version, **arguments) as writer:
            for batch in case.written if self.ours else map(copied, case.batches):
                writer.write_batch(batch)

    def read(self, *, ours, columns=None, rows=None, indices=None):
        make = LanceFileReader if ours else reference.LanceFileReader
        reader = make(self.path, columns=columns)
        if indices is not None:
            return reader.take_rows(indices).to_table()
        if rows is not None:
            return reader.read_range(rows[0], rows[1] - rows[0]).to_table()
        return reader.read_all(batch_size=self.case.batch_size).to_table()


class SeveralFiles:
    """A table whose rows are in several data files."""

    def __init__(self, path, case, *, ours):
        self.path, self.case, self.ours = str(path), case, ours

    def write(self):
        case, library = self.case, lance_core if self.ours else lance
        batches = case.written if self.ours else [copied(batch) for batch in case.batches]
        library.write_dataset(
            pa.RecordBatchReader.from_batches(case.schema, batches),
            self.path,
            data_storage_version=case.version,
            max_rows_per_file=case.rows_per_file,
            max_rows_per_group=case.rows_per_group,
        )

    def read(self, *, ours, columns=None, rows=None, indices=None):
        dataset = (lance_core if ours else lance).dataset(self.path)
        if indices is not None:
            return dataset.take(indices)
        if rows is not None:
            return dataset.to_table(offset=rows[0], limit=rows[1] - rows[0])
        return dataset.to_table(columns=columns, batch_size=self.case.batch_size)


class Case(RandomTable):
    """A random table and how it is written and read."""

    def __init__(self, version, seed):
        super().__init__(seed, version, is_lossless=version != "0.1" or seed % 4 < 2)
        choose = self.choose
        self.is_file = seed % 2 == 0
        self.cache_bytes = choose.choice([1, 1, 1, None, 20_000])
        self.page_bytes = choose.choice([None, None, 300, 5000])
        self.batch_size = choose.choice([7, 100, 1024])
        self.num_rows = sum(batch.num_rows for batch in self.batches)
        self.rows_per_file = max(1, self.num_rows // choose.choice([1, 2, 3]))
        self.rows_per_group = choose.choice([5, 100, 1024])
        # Values hidden by nulls may violate every rule except those for offsets.
        self.written = [spoiled(batch) if seed % 3 else batch for batch in self.batches]
        self.expected = self.kept(whole(column) for column in self.table.columns)
        start = choose.randrange(self.num_rows)
        self.rows = (start, choose.randint(start + 1, self.num_rows))
        self.indices = sorted(choose.sample(range(self.num_rows), min(self.num_rows, choose.choice([1, 5, 60]))))
        self.column = choose.choice(self.schema.names)

    def kept(self, arrays):
        """Return the columns as the version preserves them, regardless of the division into batches."""
        if self.version != "0.1":
            return list(arrays)
        pairs = zip(arrays, self.schema, strict=True)
        return [as_kept_by_0_1(array, nullable=field.nullable) for array, field in pairs]

    def expect_what_we_write(self):
        """Expect the data that this library writes, without the values hidden by nulls, which the reference stores."""
        if self.version == "0.1":
            self.expected = self.kept(without_hidden_values(whole(column)) for column in self.table.columns)

    def place(self, path, *, ours):
        if self.is_file and (ours or self.version != "0.1"):
            return OneFile(path, self, ours=ours)
        return SeveralFiles(path, self, ours=ours)

    def check(self, place, *, ours):
        """Check that every kind of read returns the expected values."""
        names = self.schema.names
        self.compare("all rows", place.read(ours=ours), names, lambda array: array)
        start, stop = self.rows
        part = place.read(ours=ours, rows=self.rows)
        self.compare(f"rows {self.rows}", part, names, lambda array: array[start:stop])
        indices = pa.array(self.indices)
        taken = place.read(ours=ours, indices=self.indices)
        self.compare(f"rows {self.indices}", taken, names, lambda array: array.take(indices))
        one = place.read(ours=ours, columns=[self.column])
        self.compare(f"column {self.column}", one, [self.column], lambda array: array)
        if ours and isinstance(place, OneFile):
            self.check_members(place)

    def compare(self, what, found, names, select):
        found.validate(full=True)
        assert found.column_names == names, f"{what}: columns {found.column_names}"
        for name in names:
            wanted = select(self.expected[self.schema.get_field_index(name)])
            text = column_difference(found.column(name), wanted, name)
            assert text is None, f"{what}: {text}"

    def check_members(self, place):
        for field, array in zip(self.schema, self.expected, strict=True):
            if not pa.types.is_struct(field.type):
                continue
            member = self.choose.choice(list(field.type))
            found = place.read(ours=True, columns=[f"{field.name}.{member.name}"])
            [column] = found.columns
            assert column.type == pa.struct([member]), f"{member.name}: {column.type}"
            text = column_difference(column, only_member(array, member))
            assert text is None, f"member {field.name}.{member.name}: {text}"


def only_member(array, member):
    child = array.field(array.type.get_field_index(member.name))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([child], fields=[member], mask=mask)


def spoiled(batch):
    return pa.record_batch([with_hidden_garbage(array) for array in batch.columns], schema=batch.schema)


def copied(batch):
    """Return the batch without offsets, because pylance 14.0.2 panics on some slices of nested arrays."""
    return pa.record_batch([pa.concat_arrays([array[:0], array]) for array in batch.columns], schema=batch.schema)


def is_list(dtype):
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_map(dtype)


def is_structural_fixed_list(dtype):
    return pa.types.is_fixed_size_list(dtype) and pa.types.is_struct(dtype.value_type)


def is_flag_list(dtype):
    return pa.types.is_fixed_size_list(dtype) and pa.types.is_boolean(dtype.value_type)


def may_fail_to_write(case):
    """Return whether pylance 14.0.2 panics on some arrays of the table's types."""

    def is_fragile(dtype):
        is_nested_struct = pa.types.is_struct(dtype) and any(pa.types.is_struct(field.type) for field in dtype)
        return is_flag_list(dtype) or is_structural_fixed_list(dtype) or is_nested_struct

    return any(has_any(field.type, is_fragile) for field in case.schema)


def known_defect(case, *, written_by_us):
    """Return the name of the defect that keeps pylance 14.0.2 from reading a file, or None."""
    types = [field.type for field in case.schema]
    if case.version == "0.1" and any(has_any(dtype, is_flag_list) for dtype in types):
        return "0.1: take of fixed-size lists of bool panics"
    if len(types) > 1 and any(has_any(dtype, is_structural_fixed_list) for dtype in types):
        return "columns beside a fixed-size list of structs"
    mixes = any(has_any(d, lambda t: pa.types.is_struct(t) and has_any(t, is_list)) for d in types)
    mixes = mixes or any(has_any(dtype, is_structural_fixed_list) for dtype in types)
    if case.version >= "2.1" and mixes and not written_by_us:
        return "pages of a struct with lists that differ in their layers"
    return None


@pytest.mark.parametrize(("version", "seed"), CASES)
@pytest.mark.sampled(14)
def test_files_of_lance_core_are_read_by_lance_core_and_pylance(version, seed, tmp_path):
    case = Case(version, seed)
    case.expect_what_we_write()
    place = case.place(tmp_path / "ours.lance", ours=True)
    try:
        place.write()
        case.check(place, ours=True)
        if version != "0.1" or isinstance(place, SeveralFiles):
            check_by_reference(case, place)
    except BaseException as error:
        raise AssertionError(f"{describe(case)}\n{type(error).__name__}: {error}") from error


def check_by_reference(case, place):
    try:
        case.check(place, ours=False)
    except BaseException:  # PanicException is no Exception
        if known_defect(case, written_by_us=True) is None:
            raise


@pytest.mark.parametrize(("version", "seed"), CASES)
@pytest.mark.sampled(14)
def test_files_of_pylance_are_read_by_lance_core(version, seed, tmp_path):
    case = Case(version, seed)
    place = case.place(tmp_path / "theirs.lance", ours=False)
    try:
        place.write()
    except BaseException:  # PanicException is no Exception
        if not may_fail_to_write(case):
            raise
        pytest.skip("pylance 14.0.2 fails to write some structs in structs or fixed-size lists, and some lists of bool")
    try:
        case.check(place, ours=True)
    except BaseException as error:
        raise AssertionError(f"{describe(case)}\n{type(error).__name__}: {error}") from error


def describe(case):
    counts = [batch.num_rows for batch in case.batches]
    return f"version {case.version}, batches of {counts}, {case.cache_bytes=} {case.page_bytes=}\n{case.schema}"
