"""A private PostgreSQL cluster for tests."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.s3_servers import free_port

PASSWORD = "s3cr3t-of-tests"
_DATABASE_USER = "lance"


@contextmanager
def postgres_server() -> Iterator[str]:
    """A cluster in a directory of its own; yields the SQLAlchemy URL of its database. Skips where it is not installed.

    The server refuses to run as root: it runs as the user ``postgres`` then, who cannot enter pytest's directories.
    """
    programs = _programs()
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    account = _account()
    port = free_port()
    with TemporaryDirectory(prefix="lance-postgres-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        data, password = directory / "data", directory / "password"
        password.write_text(PASSWORD)
        if account is not None:
            shutil.chown(directory, account)
            shutil.chown(password, account)
        settings = ["-U", _DATABASE_USER, "--auth=scram-sha-256", "--no-sync", f"--pwfile={password}"]
        _run(account, directory, [str(programs / "initdb"), "-D", str(data), *settings])
        control = [str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(directory / "server.log")]
        options = f"-p {port} -k {directory} -c listen_addresses=127.0.0.1 -c fsync=off"
        _run(account, directory, [*control, "-o", options, "start"])
        try:
            yield f"postgresql+psycopg://{_DATABASE_USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _run(account, directory, [*control, "-m", "immediate", "stop"])


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if found:
        return found[-1].parent
    on_path = shutil.which("pg_ctl")
    if on_path is None or shutil.which("initdb") is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    return Path(on_path).parent


def _account() -> str | None:
    """Return the account that owns the server, or None for the user who runs the tests."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres'")
    return "postgres"


def _run(account: str | None, directory: Path, command: list[str]) -> None:
    # The output goes to a file, because a started server keeps its streams open.
    output = directory / "output"
    with output.open("ab") as stream:
        done = subprocess.run(command, user=account, cwd=directory, stdout=stream, stderr=stream, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {output.read_text()}")
