"""Footer: the last 40 bytes of a data file in format 2.0 or later.

The footer of format 0.1 is read by ``v0_1/metadata_reader.py``.

If only the footer is damaged, the damage must be detectable from the footer alone. Every number is therefore checked
against its neighbors: the sections must be in order, and both tables must have exactly the size that their number of
entries implies. In format 2.0, sections may be in any order, so the only check is that they end before the footer.

**Source:** byte map in :mod:`lance_core.file.layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.errors import CorruptDataError
from lance_core.file.layout import FOOTER, FOOTER_BYTES, MAGIC, TABLE_ENTRY_BYTES
from lance_core.versions import LanceFileVersion
from lance_core.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Footer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """Locations of the sections of one file.

    Attributes:
        column_metadata_offset: start of the column metadata; everything before it is data and global buffers.
        column_table_offset: start of the column metadata table.
        global_buffer_table_offset: start of the global buffer table.
        num_global_buffers: number of entries in the global buffer table; at least 1.
        num_columns: number of entries in the column metadata table.
        version: the file's format version.
    """

    column_metadata_offset: int
    column_table_offset: int
    global_buffer_table_offset: int
    num_global_buffers: int
    num_columns: int
    version: LanceFileVersion

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, file_bytes: int, path: str) -> Self:
        """Read the footer from the last 40 bytes of a file.

        Args:
            data: exactly the last 40 bytes.
            file_bytes: size of the whole file in bytes.
            path: path of the file, for messages.

        Raises:
            CorruptDataError: the file is not a data file, or the recorded positions of its sections are invalid.
            UnsupportedVersionError: the version of the file is not supported.
        """
        if len(data) != FOOTER_BYTES or file_bytes < FOOTER_BYTES:
            raise _corrupt(
                path, f"the file has {counted(file_bytes, 'byte')}, but a data file has at least {FOOTER_BYTES}"
            )
        metadata, columns, buffers, num_buffers, num_columns, major, minor, magic = FOOTER.unpack(data)
        if magic != MAGIC:
            raise _corrupt(path, f"the last 4 bytes are {magic!r}, expected {MAGIC!r}")
        version = LanceFileVersion.from_pair(major, minor).require_readable()
        footer = cls(
            column_metadata_offset=metadata,
            column_table_offset=columns,
            global_buffer_table_offset=buffers,
            num_global_buffers=num_buffers,
            num_columns=num_columns,
            version=version,
        )
        footer._check(file_bytes, path)
        return footer

    def serialize(self) -> bytes:
        """Return the 40 bytes of the footer."""
        return FOOTER.pack(
            self.column_metadata_offset,
            self.column_table_offset,
            self.global_buffer_table_offset,
            self.num_global_buffers,
            self.num_columns,
            *self.version.footer_pair,
            MAGIC,
        )

    def _check(self, file_bytes: int, path: str) -> None:
        if self.num_global_buffers < 1:
            raise _corrupt(path, "the file has no global buffers, and therefore no schema")
        if not self.version.is_structural:
            self._check_inside(file_bytes - FOOTER_BYTES, path)
            return
        if self.column_metadata_offset > self.column_table_offset:
            raise _corrupt(
                path,
                f"the column metadata starts at {self.column_metadata_offset}, after the column metadata table "
                f"at {self.column_table_offset}",
            )
        self._check_table(
            "column metadata", self.column_table_offset, self.num_columns, self.global_buffer_table_offset, path
        )
        self._check_table(
            "global buffer",
            self.global_buffer_table_offset,
            self.num_global_buffers,
            file_bytes - FOOTER_BYTES,
            path,
        )

    def _check_inside(self, stop: int, path: str) -> None:
        """Check that the sections of a file in format 2.0 are inside the file."""
        if self.column_metadata_offset > stop:
            raise _corrupt(
                path,
                f"the column metadata section starts at {self.column_metadata_offset}, after the start of the footer "
                f"at {stop}",
            )
        for what, start, num_entries in (
            ("column metadata table", self.column_table_offset, self.num_columns),
            ("global buffer table", self.global_buffer_table_offset, self.num_global_buffers),
        ):
            end = start + num_entries * TABLE_ENTRY_BYTES
            if end > stop:
                raise _corrupt(
                    path, f"the {what} is at [{start}, {end}), which extends past the start of the footer at {stop}"
                )

    @staticmethod
    def _check_table(what: str, start: int, num_entries: int, stop: int, path: str) -> None:
        expected = num_entries * TABLE_ENTRY_BYTES
        if start + expected != stop:
            raise _corrupt(
                path,
                f"the {what} table of {counted(num_entries, 'entry', 'entries')} needs "
                f"{counted(expected, 'byte')}, but its range is [{start}, {stop})",
            )


def _corrupt(path: str, reason: str) -> CorruptDataError:
    return CorruptDataError(f"{path}: {reason}", path=path, section="footer")
