"""ScanSource: the fragments to scan, and what is needed to read them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from lance_core.file.session import UNCACHED, Session
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.undeleted_rows import UndeletedReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment
    from lance_core.table.fragment_totals import FragmentTotals

__all__ = ["ScanSource"]


@dataclass(frozen=True)
class ScanSource:
    """The fragments to scan.

    Attributes:
        schema: schema of the table.
        fragments: the fragments in scan order.
        locator: locates the files of the fragments.
        version_fragments: all fragments of the version; None if ``fragments`` contains all of them.
        session: opens the files, and keeps them open for other readers.
        includes_deleted: whether deleted rows are read too.
        totals: the totals of the version if ``fragments`` contains all its fragments; examining thousands of fragments
            one by one takes milliseconds.
    """

    schema: Schema
    fragments: Sequence[Fragment]
    locator: FileLocator
    version_fragments: Sequence[Fragment] | None = None
    session: Session = UNCACHED
    includes_deleted: bool = False
    totals: FragmentTotals | None = None

    def reader(self, fragment: Fragment, first_row: int = 0) -> FragmentReader:
        """Return a reader for one of the fragments; see :class:`FragmentReader`."""
        kind = UndeletedReader if self.includes_deleted else FragmentReader
        return kind(fragment, self.locator, first_row, self.session)

    def first_rows(self) -> Mapping[int, int]:
        """Return the number of live rows that precede each fragment in the version, keyed by fragment id."""
        fragments = self.fragments if self.version_fragments is None else self.version_fragments
        counts = map(self._live_rows_of, fragments)
        return {each.id: before for each, before in zip(fragments, accumulate(counts, initial=0), strict=False)}

    @cached_property
    def live_stops(self) -> npt.NDArray[np.int64]:
        """Number of live rows up to the end of each fragment, in scan order, shape (num_fragments,)."""
        counts = None if self.totals is None else self.totals.live_counts
        if counts is None:
            counts = [self._live_rows_of(fragment) for fragment in self.fragments]
        return np.cumsum(counts, dtype=np.int64)

    @property
    def num_live_rows(self) -> int:
        """Number of live rows in all the fragments."""
        return int(self.live_stops[-1]) if len(self.live_stops) else 0

    def _live_rows_of(self, fragment: Fragment) -> int:
        if not fragment.has_deletion_file:
            return fragment.physical_rows
        return FragmentReader(fragment, self.locator, 0, self.session).num_live_rows
