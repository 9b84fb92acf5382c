"""The columns of the source, and turning received columns into exactly what Spark expects.

Every step works on whole columns: no Python object per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jetsync.spark.errors import SparkOptionError
from jetsync.spark.key_values import ANY_PREFIX, KEY_COLUMNS, operations, subject_prefix

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["COLUMNS", "DEFAULT_COLUMNS", "Layout", "ddl"]

COLUMNS: dict[str, str] = {
    "subject": "string",
    "data": "binary",
    "headers": "map<string,array<string>>",
    "stream": "string",
    "seq": "bigint",
    "timestamp": "timestamp",
    "timestamp_ns": "bigint",
    "size": "int",
    "key": "string",
    "value": "binary",
    "operation": "string",
    "revision": "bigint",
}
"""Every column of the source and its Spark type."""

DEFAULT_COLUMNS = ("subject", "data", "headers", "stream", "seq", "timestamp")
"""The columns of a read without ``.schema(...)`` and option ``columns``."""

# Exact bytes instead of text with replacement characters, for readers that ask for it.
_ALSO = {"headers": ("map<string,array<binary>>",)}

# Which received columns each column is made of.
_NEEDS = {
    "subject": ("subject",),
    "data": ("data",),
    "headers": ("headers",),
    "timestamp": ("timestamp",),
    "timestamp_ns": ("timestamp",),
    "size": ("data",),
    "key": ("subject",),
    "value": ("data", "headers"),
    "operation": ("headers",),
}

# Columns that only a bucket has.
_OF_BUCKETS = frozenset({"key", "value", "operation", "revision"})


def _check_names(names: Sequence[str]) -> None:
    strange = [name for name in names if name not in COLUMNS]
    if strange:
        raise SparkOptionError(
            f"column(s) {', '.join(strange)} are not known; there are: {', '.join(COLUMNS)}",
            code="JETSYNC_UNKNOWN_COLUMN",
        )
    if len(set(names)) != len(names):
        raise SparkOptionError("a column is named twice", code="JETSYNC_UNKNOWN_COLUMN")


def ddl(columns: Sequence[str], *, bucket: bool = False) -> str:
    """Return the schema of a read as DDL text; no columns means the default ones."""
    names = tuple(columns) or (KEY_COLUMNS if bucket else DEFAULT_COLUMNS)
    _check_names(names)
    return ", ".join(f"{name} {COLUMNS[name]}" for name in names)


class Layout:
    """How to make Spark's batches out of received ones, for one schema. Not picklable; cheap."""

    def __init__(
        self, schema: StructType, *, include_headers: bool = True, bucket: str | None = None
    ) -> None:
        from jetsync.spark.versions import arrow_schema

        check_schema(schema, bucket=bucket is not None)
        self._prefix = "" if bucket is None else subject_prefix(bucket)
        self._names = schema.fieldNames()
        # The exact types, names and nullability that Spark compares the first batch with.
        self.target: Any = arrow_schema(schema)
        self._with_headers = include_headers and "headers" in self._names
        self.text_headers = (
            "headers" in self._names
            and schema["headers"].dataType.simpleString() == COLUMNS["headers"]
        )
        self.microseconds: bool = "timestamp_ns" not in self._names
        """Whether times are received in Spark's unit: JetStream counts nanoseconds."""
        needed = {part for name in self._names for part in _NEEDS.get(name, ())}
        if not self._with_headers and _OF_BUCKETS.isdisjoint(self._names):
            needed.discard("headers")
        self.received: tuple[str, ...] = ("stream_seq", *sorted(needed))
        self.wants_content: bool = not needed.isdisjoint(("data", "headers"))
        """Whether anything but subject, sequence and time is needed of a message."""

    def convert(self, batch: pa.RecordBatch, stream: str) -> pa.RecordBatch:
        """Return the same rows in Spark's schema."""
        import pyarrow as pa

        if not {"value", "operation"}.isdisjoint(self._names):
            done = pa.array(operations(batch.column("headers")), pa.string())
            batch = batch.append_column("operation", done)
        arrays = [
            self._column(name, field.type, batch, stream)
            for name, field in zip(self._names, self.target, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)

    def _column(self, name: str, kind: pa.DataType, batch: pa.RecordBatch, stream: str) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if name == "stream":
            return pa.repeat(pa.scalar(stream, kind), batch.num_rows)
        if name in ("seq", "revision"):
            return batch.column("stream_seq").view(kind)
        if name == "timestamp":
            # Spark counts microseconds: the rest of nanoseconds is cut off.
            return batch.column("timestamp").cast(kind, safe=False)
        if name == "timestamp_ns":
            return batch.column("timestamp").view(kind)
        if name == "size":
            return pc.binary_length(batch.column("data")).cast(kind)
        if name == "headers" and not self._with_headers:
            return pa.nulls(batch.num_rows, kind)
        if name == "key":
            return self._keys(batch.column("subject")).cast(kind)
        if name == "value":
            is_there = pc.equal(batch.column("operation"), "PUT")
            return pc.if_else(is_there, batch.column("data"), pa.scalar(None, kind)).cast(kind)
        column = batch.column(name)
        return column if column.type.equals(kind) else column.cast(kind)

    def _keys(self, subjects: Any) -> Any:
        import pyarrow.compute as pc

        if pc.all(pc.starts_with(subjects, self._prefix)).as_py():
            return pc.utf8_slice_codeunits(subjects, len(self._prefix))
        return pc.replace_substring_regex(subjects, ANY_PREFIX, "")


def check_schema(schema: StructType, *, bucket: bool = False) -> None:
    """Check the columns that a user asked for with ``.schema(...)``."""
    _check_names(schema.fieldNames())
    strange = [name for name in schema.fieldNames() if name in _OF_BUCKETS]
    if strange and not bucket:
        raise SparkOptionError(
            f"column(s) {', '.join(strange)} are those of a key-value bucket; name it in option "
            "'bucket' instead of 'stream'",
            code="JETSYNC_UNKNOWN_COLUMN",
        )
    for item in schema.fields:
        kind = item.dataType.simpleString()
        if kind != COLUMNS[item.name] and kind not in _ALSO.get(item.name, ()):
            raise SparkOptionError(
                f"column {item.name} is {COLUMNS[item.name]}, not {kind}; cast it after the read",
                code="JETSYNC_COLUMN_TYPE",
            )
        if item.name == "headers" and not item.nullable:
            raise SparkOptionError(
                "column headers must be nullable: messages without headers have null",
                code="JETSYNC_COLUMN_TYPE",
            )
