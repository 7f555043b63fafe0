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
    """A session with two cores, three attempts per task, few shuffle partitions, and a JVM tuned for a fast start."""
    settings = {
        "spark.master": "local[2,3]",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": FAST_START,
    }
    with warnings.catch_warnings():
        # If a test has imported the reference implementation, it warns about the fork that starts the JVM.
        warnings.simplefilter("ignore", UserWarning)
        session = start_session(settings)
    yield session
    stop_session(session)


@pytest.fixture
def token() -> str:
    """The token in the names of all files of one write."""
    return secrets.token_hex(8)
