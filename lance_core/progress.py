"""The progress of writes: which fragments are started and completed; the names follow ``lance.progress``.

This is a public module::

    from lance_core.progress import FragmentWriteProgress

    class PrintProgress(FragmentWriteProgress):
        def begin(self, fragment, **kwargs):
            print("started")

        def complete(self, fragment, **kwargs):
            print("wrote", fragment.physical_rows, "rows")

    lance_core.write_dataset(table, "/data/points", progress=PrintProgress())
"""

from __future__ import annotations

from lance_core.write.progress import (
    FileSystemFragmentWriteProgress,
    FragmentWriteProgress,
    NoopFragmentWriteProgress,
)

__all__ = ["FileSystemFragmentWriteProgress", "FragmentWriteProgress", "NoopFragmentWriteProgress"]
