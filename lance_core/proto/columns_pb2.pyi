from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ManifestColumns(_message.Message):
    __slots__ = ("fragments",)
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    fragments: FragmentColumns
    def __init__(self, fragments: _Optional[_Union[FragmentColumns, _Mapping]] = ...) -> None: ...

class ManifestCounts(_message.Message):
    __slots__ = ("fragments",)
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    fragments: FragmentCounts
    def __init__(self, fragments: _Optional[_Union[FragmentCounts, _Mapping]] = ...) -> None: ...

class FragmentColumns(_message.Message):
    __slots__ = ("id", "files", "deletion_files", "physical_rows")
    ID_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DELETION_FILES_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_ROWS_FIELD_NUMBER: _ClassVar[int]
    id: _containers.RepeatedScalarFieldContainer[int]
    files: FileColumns
    deletion_files: DeletionColumns
    physical_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[_Iterable[int]] = ..., files: _Optional[_Union[FileColumns, _Mapping]] = ..., deletion_files: _Optional[_Union[DeletionColumns, _Mapping]] = ..., physical_rows: _Optional[_Iterable[int]] = ...) -> None: ...

class FragmentCounts(_message.Message):
    __slots__ = ("files", "deletion_files", "overlays", "column_row_ids", "column_last_updated_at_versions", "column_created_at_versions")
    FILES_FIELD_NUMBER: _ClassVar[int]
    DELETION_FILES_FIELD_NUMBER: _ClassVar[int]
    OVERLAYS_FIELD_NUMBER: _ClassVar[int]
    COLUMN_ROW_IDS_FIELD_NUMBER: _ClassVar[int]
    COLUMN_LAST_UPDATED_AT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    COLUMN_CREATED_AT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedScalarFieldContainer[bytes]
    deletion_files: _containers.RepeatedScalarFieldContainer[bytes]
    overlays: _containers.RepeatedScalarFieldContainer[bytes]
    column_row_ids: _containers.RepeatedScalarFieldContainer[bytes]
    column_last_updated_at_versions: _containers.RepeatedScalarFieldContainer[bytes]
    column_created_at_versions: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, files: _Optional[_Iterable[bytes]] = ..., deletion_files: _Optional[_Iterable[bytes]] = ..., overlays: _Optional[_Iterable[bytes]] = ..., column_row_ids: _Optional[_Iterable[bytes]] = ..., column_last_updated_at_versions: _Optional[_Iterable[bytes]] = ..., column_created_at_versions: _Optional[_Iterable[bytes]] = ...) -> None: ...

class FileColumns(_message.Message):
    __slots__ = ("file_major_version", "file_minor_version", "file_size_bytes")
    FILE_MAJOR_VERSION_FIELD_NUMBER: _ClassVar[int]
    FILE_MINOR_VERSION_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    file_major_version: _containers.RepeatedScalarFieldContainer[int]
    file_minor_version: _containers.RepeatedScalarFieldContainer[int]
    file_size_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, file_major_version: _Optional[_Iterable[int]] = ..., file_minor_version: _Optional[_Iterable[int]] = ..., file_size_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class DeletionColumns(_message.Message):
    __slots__ = ("num_deleted_rows",)
    NUM_DELETED_ROWS_FIELD_NUMBER: _ClassVar[int]
    num_deleted_rows: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, num_deleted_rows: _Optional[_Iterable[int]] = ...) -> None: ...
