"""SqlManifests: an external manifest store in a table of a relational database, accessed through SQLAlchemy.

=============  ========================================================================================================
``base_uri``    text, first part of the primary key: path of the dataset with a canonical scheme (s3, gs, az, file)
``version``     integer, second part of the primary key
``path``        text: path of the manifest, below the dataset's root
``size``        integer: size of the manifest in bytes
``committer``   text: ``lance-core``
=============  ========================================================================================================

The primary key ensures that exactly one writer inserts a version. The database table is created if it is missing.
This module is tested with PostgreSQL and SQLite.

Source: the external manifest store in the Lance documentation; this implementation is specific to this library.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import (
    AccessDeniedError,
    CorruptDataError,
    InvalidInputError,
    LanceError,
    NotSupportedError,
    StorageError,
)
from lance_core.table.manifest_stores.api import ManifestRow

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEFAULT_TABLE", "SqlManifests"]

DEFAULT_TABLE: Final = "lance_manifests"
_COMMITTER: Final = "lance-core"
_TABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SQLITE_WAIT_SECONDS: Final = 30
_lock: Final = fork_lock()
_engines: dict[tuple[int, str], Any] = {}
_created: set[tuple[str, str]] = set()


class SqlManifests:
    """An external manifest store in a table of a relational database.

    Args:
        url: the SQLAlchemy URL of the database; never included in messages.
        table: the name of the table.
        scheme: the canonical scheme of the datasets' URIs.

    Raises:
        InvalidInputError: the table name or the URL is invalid.
        NotSupportedError: SQLAlchemy or the database's driver is not installed.
    """

    def __init__(self, url: str, table: str, scheme: str) -> None:
        """Initialize without connecting."""
        if not _TABLE_NAME.fullmatch(table):
            raise InvalidInputError(
                f"invalid sqlTableName {table!r:.100}: expected at most 63 letters, digits, and underscores, not "
                "starting with a digit",
                table=table,
            )
        self._url = url
        self._name = table
        self._scheme = scheme
        self._sql = _sqlalchemy()
        self._table = self._define()
        self._place = f"table {table} of {_shown(url)}"

    def __repr__(self) -> str:
        """Return a representation with the table name, and with the database URL without user and password."""
        return f"SqlManifests({self._place!r})"

    def latest(self, root: str) -> ManifestRow | None:
        """Return the row of a table's highest version."""
        table = self._table
        query = self._rows().where(table.c.base_uri == self._base(root)).order_by(table.c.version.desc()).limit(1)
        return self._one(query)

    def find(self, root: str, version: int) -> ManifestRow | None:
        """Return the row of a version."""
        table = self._table
        return self._one(self._rows().where(table.c.base_uri == self._base(root), table.c.version == version))

    def reserve(self, root: str, row: ManifestRow) -> bool:
        """Insert a row unless the version has one."""
        statement = self._sql.insert(self._table).values(
            base_uri=self._base(root), version=row.version, path=row.path, size=row.num_bytes, committer=_COMMITTER
        )
        try:
            self._run("insert into", lambda connection: connection.execute(statement))
        except _LostError:
            return False
        return True

    def finish(self, root: str, row: ManifestRow) -> None:
        """Replace the existing row of a version."""
        table = self._table
        statement = (
            self._sql.update(table)
            .where(table.c.base_uri == self._base(root), table.c.version == row.version)
            .values(path=row.path, size=row.num_bytes)
        )
        self._run("update", lambda connection: connection.execute(statement))

    def withdraw(self, root: str, row: ManifestRow) -> None:
        """Remove the row of a version if the stored path still equals ``row.path``."""
        table = self._table
        statement = self._sql.delete(table).where(
            table.c.base_uri == self._base(root), table.c.version == row.version, table.c.path == row.path
        )
        self._run("delete from", lambda connection: connection.execute(statement))

    def forget(self, root: str) -> None:
        """Remove all rows that the store has for a Lance table."""
        statement = self._sql.delete(self._table).where(self._table.c.base_uri == self._base(root))
        self._run("delete from", lambda connection: connection.execute(statement))

    def _base(self, root: str) -> str:
        # Different paths to the same directory must not lead to two rows.
        return f"{self._scheme}://{os.path.realpath(root) if self._scheme == 'file' else root}"

    def _rows(self) -> Any:
        table = self._table
        return self._sql.select(table.c.version, table.c.path, table.c.size)

    def _one(self, query: Any) -> ManifestRow | None:
        found = self._run("read", lambda connection: connection.execute(query).first())
        try:
            return None if found is None else ManifestRow(int(found[0]), str(found[1]), int(found[2] or 0))
        except ValueError as error:
            raise CorruptDataError(f"{self._place} has a row with a malformed number: {error}") from error

    def _define(self) -> Any:
        sql = self._sql
        return sql.Table(
            self._name,
            sql.MetaData(),
            sql.Column("base_uri", sql.String(1024), primary_key=True),
            sql.Column("version", sql.BigInteger, primary_key=True, autoincrement=False),
            sql.Column("path", sql.String(1024), nullable=False),
            sql.Column("size", sql.BigInteger, nullable=False),
            sql.Column("committer", sql.String(64), nullable=False),
        )

    def _run(self, verb: str, work: Callable[[Any], Any]) -> Any:
        begun = False
        try:
            engine = _engine(self._sql, self._url)
            self._create_table(engine)
            with engine.begin() as connection:
                begun = True
                return work(connection)
        except LanceError:
            raise
        except self._sql.exc.IntegrityError as error:
            raise _LostError(f"cannot {verb} {self._place}: the version already exists") from error
        except Exception as error:  # noqa: BLE001  # drivers raise what they like
            # Not chained: the text of the error may contain the statement, its parameters and the URL.
            raise self._failure(error, verb, begun=begun) from None

    def _failure(self, error: Exception, verb: str, *, begun: bool) -> LanceError:
        cause = getattr(error, "orig", None) or error
        text = _without_password(str(cause).strip().partition("\n")[0], self._url)
        message = f"cannot {verb} {self._place}: {type(error).__name__}: {text}"
        if "authentication failed" in text or str(getattr(cause, "sqlstate", None) or "").startswith("28"):
            return AccessDeniedError(message, path=self._place)
        database = isinstance(error, self._sql.exc.DBAPIError)
        # The error of a COMMIT without a response has no statement: the database may still execute the commit.
        return StorageError(message, path=self._place, retryable=database, in_flight=begun)

    def _create_table(self, engine: Any) -> None:
        known = (self._url, self._name)
        if known in _created:
            return
        try:
            self._table.metadata.create_all(engine)
        except self._sql.exc.DBAPIError:
            # Another process may have created the table first.
            if not self._sql.inspect(engine).has_table(self._name):
                raise
        _created.add(known)


class _LostError(LanceError):
    """The version already has a row; never raised outside this module."""


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
        import sqlalchemy.exc
    except ImportError as error:
        raise NotSupportedError(
            "a +sql:// URI needs the package SQLAlchemy: install 'lance-pipelines[sql]'", package="sqlalchemy"
        ) from error
    return sqlalchemy


def _engine(sql: Any, url: str) -> Any:
    """Return the engine of this process, never one created before a fork, whose connections belong to the parent."""
    known = (os.getpid(), url)
    with _lock:
        engine = _engines.get(known)
        if engine is None:
            engine = _engines[known] = _connect(sql, url)
    return engine


def _connect(sql: Any, text: str) -> Any:
    try:
        url = sql.make_url(text)
        sqlite = url.get_backend_name() == "sqlite"
        if sqlite and _in_memory(url):
            raise InvalidInputError("sql_url is an in-memory database, which other processes cannot access")
        options = {"connect_args": {"timeout": _SQLITE_WAIT_SECONDS}} if sqlite else {"pool_pre_ping": True}
        return sql.create_engine(url, hide_parameters=True, **options)
    except sql.exc.NoSuchModuleError as error:
        raise NotSupportedError(f"SQLAlchemy does not support the database: {error}") from error
    except sql.exc.ArgumentError:
        # The original message would show the URL, including the password.
        raise InvalidInputError("sql_url is not a valid SQLAlchemy URL") from None
    except ImportError as error:
        raise NotSupportedError(f"the database's driver is not installed: {error}") from error


def _in_memory(url: Any) -> bool:
    name = unquote(url.database or "").removeprefix("file:")
    return name in ("", ":memory:") or url.query.get("mode") == "memory" or url.query.get("vfs") == "memdb"


def _shown(text: str) -> str:
    """Return the URL of a database without user, password and options."""
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def _without_password(text: str, url: str) -> str:
    password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    return text.replace(password, "***") if password else text
