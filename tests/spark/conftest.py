"""One Spark session for all tests in this directory, and a token for each write."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lance_pipelines.spark.session import start_session, stop_session

FAST_START = "-XX:TieredStopAtLevel=1"


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """Two cores, three attempts a task, few shuffle partitions, a JVM that compiles for a fast start."""
    settings = {
        "spark.master": "local[2,3]",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": FAST_START,
    }
    with warnings.catch_warnings():
        # The reference implementation, where a test has imported it, warns of the fork that starts the JVM.
        warnings.simplefilter("ignore", UserWarning)
        session = start_session(settings)
    yield session
    stop_session(session)


@pytest.fixture
def token() -> str:
    """What the names of the files of one write have in common."""
    return secrets.token_hex(8)
