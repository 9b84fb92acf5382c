"""The columns of the sink: which may be there, and how they become what is published.

Every step works on whole columns: no Python object per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetsync._counted import counted
from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.header_columns import AS_HEADERS, header_map
from jetsync.spark.key_values import DELETIONS, KEY_PATTERN, subject_prefix
from jetsync.spark.write_options import INVALID_SUBJECT, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["SINK_COLUMNS", "SOURCE_COLUMNS", "SinkColumns", "as_messages", "without_source"]

_TEXT = ("string",)
_INTEGER = ("bigint", "int")
SINK_COLUMNS: dict[str, tuple[str, ...]] = {
    "subject": _TEXT,
    "data": ("binary", "string"),
    "headers": (
        "map<string,array<string>>",
        "map<string,array<binary>>",
        "map<string,string>",
        "map<string,binary>",
        "array<struct<key:string,value:string>>",
        "array<struct<key:string,value:binary>>",
    ),
    "msg_id": _TEXT,
    "expected_last_sequence": _INTEGER,
    "expected_last_subject_sequence": _INTEGER,
    "ttl": ("string", *_INTEGER),
    "schedule": _TEXT,
    "schedule_target": _TEXT,
}
"""Every column of the sink and the Spark types it may have."""

SOURCE_COLUMNS: dict[str, tuple[str, ...]] = {
    "stream": _TEXT,
    "seq": _INTEGER,
    "timestamp": ("timestamp",),
}
"""Columns of the source that are allowed beside with ``dedup=source``: where a row comes from."""


BUCKET_COLUMNS: dict[str, tuple[str, ...]] = {
    "key": _TEXT,
    "value": ("binary", "string"),
    "operation": _TEXT,
    "revision": _INTEGER,
    "timestamp": ("timestamp",),
    "msg_id": _TEXT,
    "expected_last_subject_sequence": _INTEGER,
    "ttl": ("string", *_INTEGER),
}
"""Every column of the sink with option ``bucket``; revision and timestamp are not used."""


@dataclass(frozen=True)
class SinkColumns:
    """Which columns one write uses. Picklable."""

    names: frozenset[str]
    subject: str | None = None
    bucket: str | None = None

    @classmethod
    def check(cls, schema: StructType, options: WriteOptions) -> SinkColumns:
        """Check the columns of the data against the options; raises ``SparkOptionError``."""
        names = schema.fieldNames()
        by_source = options.dedup == "source"
        to_bucket = options.bucket is not None
        known = {**SINK_COLUMNS, **(SOURCE_COLUMNS if by_source else {})}
        if to_bucket:
            known = BUCKET_COLUMNS
        strange = [name for name in names if name not in known]
        if strange:
            hint = "Drop them, or put them into data or headers"
            if not set(strange) - set(SOURCE_COLUMNS):
                hint = (
                    'To copy messages give option dedup=source, or select("subject", "data", '
                    '"headers")'
                )
            elif "value" in strange and "data" not in names:
                hint = "The content of a message is column data: rename value"
            elif "topic" in strange and "subject" not in names:
                hint = "The place of a message is column subject: rename topic"
            elif lower := [name for name in strange if name.lower() in known]:
                hint = f"Their names are in lower case: rename {lower[0]} to {lower[0].lower()}"
            raise SparkOptionError(
                f"the sink does not know column(s) {', '.join(strange)}; it takes "
                f"{', '.join(known)}. {hint}",
                code="JETSYNC_UNKNOWN_COLUMN",
            )
        for item in schema.fields:
            kind = item.dataType.simpleString()
            if kind not in known[item.name]:
                raise SparkOptionError(
                    f"column {item.name} must be {' or '.join(known[item.name])}, not "
                    f"{kind}; cast it first (to_json makes text of a struct)",
                    code="JETSYNC_COLUMN_TYPE",
                )
        for name, wanted, hint in (
            ("key", to_bucket, " with option 'bucket'"),
            ("value", to_bucket, " with option 'bucket'"),
            ("data", not to_bucket, ""),
            ("subject", not to_bucket and options.subject is None, ", or option 'subject'"),
            ("msg_id", options.dedup == "column", " with dedup=column"),
            ("stream", by_source, " with dedup=source"),
            ("seq", by_source, " with dedup=source"),
            ("schedule_target", "schedule" in names, " beside schedule"),
            ("schedule", "schedule_target" in names, " beside schedule_target"),
        ):
            if wanted and name not in names:
                raise SparkOptionError(
                    f"the sink needs a column {name}{hint}", code="JETSYNC_MISSING_COLUMN"
                )
        if options.dedup != "column" and "msg_id" in names:
            raise SparkOptionError(
                f"there is a column msg_id, but dedup={options.dedup} does not use it; set "
                "dedup=column or drop the column",
                code="JETSYNC_OPTION_CONFLICT",
            )
        return cls(frozenset(names), options.subject, options.bucket)

    @property
    def headers(self) -> bool:
        """Whether messages get headers besides the id."""
        return "headers" in self.names or not self.names.isdisjoint({*AS_HEADERS, "operation"})

    def normalise(self, batch: pa.RecordBatch, *, makes_ids: bool = False) -> pa.RecordBatch:
        """Return what is published: subject (unless fixed), data, headers and msg_id if any.

        Ids in column headers stay only where the row gets none of its own: with dedup=none.
        Raises ``SparkSourceError`` for a row without subject or id, and for a bad subject.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        columns: dict[str, Any] = {}
        if self.bucket is not None:
            batch = as_messages(batch, self.bucket)
        if self.subject is None:
            columns["subject"] = _subjects(_without_nulls(batch.column("subject"), "subject"))
        data = batch.column("data").cast(pa.binary())
        # A null has no place in a message: it becomes an empty payload.
        columns["data"] = pc.fill_null(data, b"") if data.null_count else data
        if self.headers:
            has_id = makes_ids or "msg_id" in self.names
            columns["headers"] = header_map(batch, with_ids=not has_id)
        for name in ("stream", "seq"):
            if name in self.names:
                columns[name] = _without_nulls(batch.column(name), name)
        if "msg_id" in self.names:
            columns["msg_id"] = _without_nulls(batch.column("msg_id"), "msg_id")
        return pa.RecordBatch.from_pydict(columns)

    def subject_of(self, rows: pa.RecordBatch, index: int) -> str:
        """Return where a row of a normalised batch goes to."""
        if self.subject is not None:
            return self.subject
        return str(rows.column("subject")[index].as_py())

    def check_sizes(self, rows: pa.RecordBatch, limit: int) -> None:
        """Raise ``SparkSourceError`` if a payload alone is larger than a message may be."""
        import pyarrow.compute as pc

        sizes = pc.binary_length(rows.column("data"))
        largest = pc.max(sizes).as_py()
        if largest is not None and largest > limit:
            at = pc.index(sizes, largest).as_py()
            raise SparkSourceError(
                f"a row for subject {self.subject_of(rows, at)!r} has "
                f"{counted(largest, 'byte')} of data; the server takes messages of up to "
                f"{counted(limit, 'byte')} (max_payload)",
                code="JETSYNC_TOO_LARGE",
            )


def as_messages(batch: pa.RecordBatch, bucket: str) -> pa.RecordBatch:
    """Return changes of keys as the messages that they are: a value put, or a deletion.

    Raises ``SparkSourceError`` for a row whose key or operation cannot be one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = _without_nulls(batch.column("key"), "key")
    _check_all(pc.match_substring_regex(keys, KEY_PATTERN), keys, "the key of a bucket")
    columns: dict[str, Any] = {
        "subject": pc.binary_join_element_wise(subject_prefix(bucket), keys, ""),
        "data": batch.column("value"),
    }
    for name in ("msg_id", "expected_last_subject_sequence", "ttl"):
        if name in batch.schema.names:
            columns[name] = batch.column(name)
    if "operation" in batch.schema.names:
        done = pc.fill_null(batch.column("operation").cast(pa.string()), "PUT")
        known = pc.is_in(done, pa.array(["PUT", *DELETIONS]))
        _check_all(known, done, "an operation (PUT, DEL or PURGE)")
        nothing = pa.scalar(None, pa.string())
        columns["kv_operation"] = pc.if_else(pc.equal(done, "PUT"), nothing, done)
        columns["kv_rollup"] = pc.if_else(pc.equal(done, "PURGE"), "sub", nothing)
    return pa.RecordBatch.from_pydict(columns)


def _check_all(is_right: Any, column: Any, what: str) -> None:
    import pyarrow.compute as pc

    at = pc.index(is_right, False).as_py()
    if at >= 0:
        raise SparkSourceError(
            f"{column[at].as_py()!r} is not {what}", code="JETSYNC_INVALID_SUBJECT"
        )


def without_source(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that are published: where a row comes from is only in its id."""
    return rows.select([name for name in rows.schema.names if name not in SOURCE_COLUMNS])


def _without_nulls(column: Any, name: str) -> Any:
    import pyarrow as pa

    if column.null_count:
        raise SparkSourceError(
            f"{column.null_count} row(s) have null in column {name}", code="JETSYNC_NULL_VALUE"
        )
    return column.cast(pa.string())


def _subjects(column: Any) -> Any:
    import pyarrow.compute as pc

    bad = pc.match_substring_regex(column, INVALID_SUBJECT)
    at = pc.index(bad, True).as_py()
    if at >= 0:
        raise SparkSourceError(
            f"{column[at].as_py()!r} is not a subject to publish to: it must have no white space, "
            "no wildcard and no empty part between dots, and what begins with $JS. or $SYS. is a "
            "request to the servers",
            code="JETSYNC_INVALID_SUBJECT",
        )
    return column
