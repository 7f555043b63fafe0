"""The exception tree: its base classes, its error codes, the built-in exceptions that catch it, and pickling."""

import builtins
import pickle

import pytest

import lance_core
from lance_core import errors
from lance_core.errors import ErrorKind, LanceError

TREE = {
    "AccessDeniedError": ("StorageError", "PermissionError"),
    "AlreadyExistsError": ("LanceError", "FileExistsError"),
    "CommitConflictError": ("LanceError", "OSError"),
    "CommitOutcomeUnknownError": ("LanceError", "OSError"),
    "CorruptDataError": ("LanceError", "ValueError"),
    "DatasetNotFoundError": ("NotFoundError", "ValueError"),
    "IncompatibleTransactionError": ("CommitConflictError",),
    "IndexNotFoundError": ("NotFoundError", "RuntimeError"),
    "InternalError": ("LanceError",),
    "InvalidCleanupError": ("InvalidInputError", "OSError"),
    "InvalidInputError": ("LanceError", "ValueError"),
    "InvalidMergeError": ("InvalidInputError", "OSError"),
    "InvalidRefError": ("InvalidInputError", "OSError"),
    "InvalidSchemaError": ("InvalidInputError", "OSError"),
    "InvalidTypeError": ("InvalidInputError", "TypeError"),
    "LanceError": ("Exception",),
    "NotFoundError": ("LanceError", "FileNotFoundError"),
    "NotSupportedError": ("LanceError", "NotImplementedError", "OSError"),
    "OutOfMemoryError": ("LanceError", "MemoryError"),
    "RefAlreadyExistsError": ("AlreadyExistsError", "ValueError"),
    "RefConflictError": ("InvalidInputError", "OSError"),
    "RefNotFoundError": ("NotFoundError", "ValueError"),
    "RetryableCommitConflictError": ("CommitConflictError",),
    "CommitOvertakenError": ("RetryableCommitConflictError",),
    "RowOutOfRangeError": ("InvalidInputError", "OSError"),
    "SchemaMismatchError": ("InvalidInputError", "OSError"),
    "StorageError": ("LanceError", "OSError"),
    "TooMuchWriteContentionError": ("CommitConflictError",),
    "UnsafeStoreError": ("NotSupportedError",),
    "UnsupportedEncodingError": ("NotSupportedError",),
    "UnsupportedFeatureFlagError": ("NotSupportedError",),
    "UnsupportedSchemeError": ("NotSupportedError", "ValueError"),
    "UnsupportedVersionError": ("NotSupportedError",),
    "VersionNotFoundError": ("NotFoundError", "ValueError"),
}
"""Class -> bases, in order. Names in the tree are ours, the others are builtins."""

CLASSES = [getattr(errors, name) for name in TREE]


def test_error_classes_have_the_declared_bases() -> None:
    defined = {
        name: tuple(base.__name__ for base in value.__bases__)
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined == TREE


def test_every_error_class_is_public() -> None:
    assert set(errors.__all__) == {*TREE, "ErrorKind"}
    assert set(errors.__all__) <= set(lance_core.__all__)


def test_every_error_class_has_its_own_code() -> None:
    kinds = {each: each.kind for each in CLASSES if each is not LanceError}
    assert len(set(kinds.values())) == len(kinds)
    assert set(kinds.values()) == set(ErrorKind)
    assert all(each.__name__ == _class_name(kind) for each, kind in kinds.items())


def _class_name(kind: ErrorKind) -> str:
    return "".join(word.capitalize() for word in kind.value.split("_")) + "Error"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda each: each.__name__)
def test_an_error_is_caught_as_each_of_its_builtin_bases(cls: type[LanceError]) -> None:
    for base in TREE[cls.__name__]:
        with pytest.raises(getattr(errors, base, None) or getattr(builtins, base)):
            raise cls("what happened", path="a/b")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("cls", CLASSES, ids=lambda each: each.__name__)
def test_an_error_survives_pickling(cls: type[LanceError], protocol: int) -> None:
    error = cls("what happened", path="a/b", version=3)
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert type(copy) is cls
    assert (str(copy), copy.message, copy.args) == ("what happened", "what happened", error.args)
    assert dict(copy.context) == {"path": "a/b", "version": 3}
    assert copy.kind is cls.kind


def test_an_error_without_a_message_converts_to_an_empty_string() -> None:
    assert all(str(each()) == "" and not each().context for each in CLASSES)
