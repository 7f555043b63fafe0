"""``LanceDataSource``: the entry point that Spark calls to read and to write.

Spark creates one object for each DataFrame, in a process on the driver's machine, and passes copies of it to other
processes. The version is therefore chosen once, when Spark asks for the schema: all actions on the DataFrame read the
same version. If the user specifies the schema, Spark does not ask for it, and each query reads the version that is the
latest when it is planned.

Source: ``DataSource`` of PySpark 4.3.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource

from lance_pipelines.spark.data_source import options as uses
from lance_pipelines.spark.data_source.location import Location, pin_version
from lance_pipelines.spark.data_source.options import parse_options
from lance_pipelines.spark.data_source.reader import LanceReader, read_schema
from lance_pipelines.spark.data_source.stream_reader import LanceStreamReader
from lance_pipelines.spark.data_source.stream_writer import LanceStreamWriter
from lance_pipelines.spark.data_source.writer import LanceWriter
from lance_pipelines.spark.failures import stated_plainly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

__all__ = ["LanceDataSource"]


class LanceDataSource(DataSource):
    """The data source ``lance``; ``register`` registers a subclass that has the values of one session."""

    session_storage_options: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Storage options for all tables; the options of a table override them."""

    parallelism: ClassVar[int] = 1
    """The number of tasks that the cluster executes at a time, as it was when the data source was registered."""

    _version: int | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lance"

    def schema(self) -> StructType:
        """Choose the version, and return the schema in which Spark reads it."""
        with stated_plainly():
            # Also used by streams, whose options are a superset.
            use = uses.STREAM_READ if self._has_stream_options() else uses.READ
            parsed = parse_options(self.options, use)
            dataset = pin_version(self._location(parsed), parsed)
            self._version = dataset.version
            return read_schema(dataset, parsed)

    def reader(self, schema: StructType) -> LanceReader:
        """Return a reader of the version."""
        with stated_plainly():
            parsed = parse_options(self.options, uses.READ)
            location = self._location(parsed)
            dataset = pin_version(location, parsed) if self._version is None else location.open(self._version)
            return LanceReader(location, dataset, schema, parsed, self.parallelism)

    def writer(self, schema: StructType, overwrite: bool) -> LanceWriter:  # Spark's signature
        """Return a writer that appends rows to the table, or replaces them."""
        with stated_plainly():
            parsed = parse_options(self.options, uses.WRITE)
            return LanceWriter.plan(self._location(parsed), schema, parsed, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> LanceStreamReader:  # noqa: N802  # Spark's name
        """Return a reader of the rows that each version appends."""
        with stated_plainly():
            parsed = parse_options(self.options, uses.STREAM_READ)
            return LanceStreamReader(self._location(parsed), schema, parsed)

    def streamWriter(  # noqa: N802  # Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # Spark's signature
    ) -> LanceStreamWriter:
        """Return a writer of one micro-batch."""
        with stated_plainly():
            parsed = parse_options(self.options, uses.STREAM_WRITE)
            return LanceStreamWriter.plan(self._location(parsed), schema, parsed, overwrite=overwrite)

    def _location(self, parsed: Mapping[str, Any]) -> Location:
        return Location.of(parsed, self.session_storage_options)

    def _has_stream_options(self) -> bool:
        of_streams = {option.name.lower() for option in uses.OPTIONS if option.uses == {uses.STREAM_READ}}
        return any(name.lower() in of_streams for name in self.options)
