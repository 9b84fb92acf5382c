"""The ``jetstream`` format: what Spark calls first.

Constructors here never connect: Spark builds these objects in several processes and pickles them.
"""

# pyspark is optional, so its base classes are unknown where it is not installed.
# mypy: disallow-subclassing-any=False

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from jetsync.spark.connection import connect_options
from jetsync.spark.errors import SparkOptionError
from jetsync.spark.older import OlderStreamReader
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.reader import JetStreamReader
from jetsync.spark.schema import ddl
from jetsync.spark.sentences import sentence_first
from jetsync.spark.stream_reader import JetStreamStreamReader
from jetsync.spark.versions import HAS_FILTERS, HAS_READ_LIMITS
from jetsync.spark.write_options import WriteOptions
from jetsync.spark.writer import JetStreamStreamWriter, JetStreamWriter

__all__ = ["JetStreamDataSource"]


class JetStreamDataSource(DataSource):
    """Source and sink for NATS JetStream streams: ``format("jetstream")``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "jetstream"

    @sentence_first
    def schema(self) -> str:
        """Return the columns of a read. Does not connect."""
        columns = self.options.get("columns") or ""
        names = [part.strip() for part in columns.split(",") if part.strip()]
        return ddl(names, bucket=bool(self.options.get("bucket")))

    @sentence_first
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader; checks every option."""
        options = ReadOptions.parse(self.options, streaming=False)
        connect_options(options.link)
        if not options.push_filters:
            return JetStreamReader(options, schema)
        if not HAS_FILTERS:
            raise SparkOptionError(
                "option pushFilters needs PySpark 4.1: older ones push no filters to sources",
                code="JETSYNC_UNSUPPORTED_OPTION",
            )
        from jetsync.spark.pushdown import FilteringReader

        return FilteringReader(options, schema)

    @sentence_first
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the streaming reader; checks every option."""
        options = ReadOptions.parse(self.options, streaming=True)
        connect_options(options.link)
        return (JetStreamStreamReader if HAS_READ_LIMITS else OlderStreamReader)(options, schema)

    @sentence_first
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the batch writer; checks options, columns and the stream (blocks for that)."""
        options = WriteOptions.parse(self.options)
        connect_options(options.link)
        made = JetStreamWriter(options, schema, overwrite)
        made.look_at_target()
        return made

    @sentence_first
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the streaming writer; checks options, columns and the stream (blocks for that)."""
        options = WriteOptions.parse(self.options)
        connect_options(options.link)
        made = JetStreamStreamWriter(options, schema, overwrite)
        made.look_at_target()
        return made
