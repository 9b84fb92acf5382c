"""The columns of the sink: which may be there, and how they become what is published.

Every step works on whole columns: no Python object per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetsync.spark.errors import SparkOptionError, SparkSourceError
from jetsync.spark.write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["SINK_COLUMNS", "SinkColumns"]

_TEXT = ("string",)
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
}
"""Every column of the sink and the Spark types it may have."""

_LATER = ("expected_last_sequence", "expected_last_subject_sequence", "ttl")


@dataclass(frozen=True)
class SinkColumns:
    """Which columns one write uses. Picklable."""

    subject: str | None
    headers: bool
    msg_id: bool

    @classmethod
    def check(cls, schema: StructType, options: WriteOptions) -> SinkColumns:
        """Check the columns of the data against the options; raises ``SparkOptionError``."""
        names = schema.fieldNames()
        later = [name for name in names if name in _LATER]
        if later:
            raise SparkOptionError(
                f"column(s) {', '.join(later)} are not supported yet", code="JETSYNC_UNKNOWN_COLUMN"
            )
        strange = [name for name in names if name not in SINK_COLUMNS]
        if strange:
            raise SparkOptionError(
                f"the sink does not know column(s) {', '.join(strange)}; it takes "
                f"{', '.join(SINK_COLUMNS)}. Drop them, or put them into data or headers",
                code="JETSYNC_UNKNOWN_COLUMN",
            )
        for item in schema.fields:
            kind = item.dataType.simpleString()
            if kind not in SINK_COLUMNS[item.name]:
                raise SparkOptionError(
                    f"column {item.name} must be {' or '.join(SINK_COLUMNS[item.name])}, not "
                    f"{kind}; cast it first (to_json makes text of a struct)",
                    code="JETSYNC_COLUMN_TYPE",
                )
        if "data" not in names:
            raise SparkOptionError("the sink needs a column data", code="JETSYNC_MISSING_COLUMN")
        if "subject" not in names and options.subject is None:
            raise SparkOptionError(
                "the sink needs a column subject, or option 'subject'",
                code="JETSYNC_MISSING_COLUMN",
            )
        if options.dedup == "column" and "msg_id" not in names:
            raise SparkOptionError(
                "dedup=column needs a column msg_id", code="JETSYNC_MISSING_COLUMN"
            )
        if options.dedup != "column" and "msg_id" in names:
            raise SparkOptionError(
                f"there is a column msg_id, but dedup={options.dedup} does not use it; set "
                "dedup=column or drop the column",
                code="JETSYNC_OPTION_CONFLICT",
            )
        return cls(
            subject=options.subject, headers="headers" in names, msg_id=options.dedup == "column"
        )

    def normalise(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return subject (unless fixed), data, headers and msg_id as the publisher takes them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns: dict[str, Any] = {}
        if self.subject is None:
            columns["subject"] = _without_nulls(batch.column("subject"), "subject")
        data = batch.column("data").cast(pa.binary())
        # A null has no place in a message: it becomes an empty payload.
        columns["data"] = pc.fill_null(data, b"") if data.null_count else data
        if self.headers:
            columns["headers"] = _header_map(batch.column("headers"))
        if self.msg_id:
            columns["msg_id"] = _without_nulls(batch.column("msg_id"), "msg_id")
        return pa.RecordBatch.from_pydict(columns)


def _without_nulls(column: Any, name: str) -> Any:
    import pyarrow as pa

    if column.null_count:
        raise SparkSourceError(
            f"{column.null_count} row(s) have null in column {name}", code="JETSYNC_NULL_VALUE"
        )
    return column.cast(pa.string())


def _header_map(column: Any) -> Any:
    """Return any of the header types as map<string, list<binary>>, one entry per name and value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_map(column.type):
        keys, values = column.keys, column.items
    else:
        keys, values = column.values.field(0), column.values.field(1)
    if not pa.types.is_list(values.type) and not pa.types.is_large_list(values.type):
        one_each = pa.array(range(len(values) + 1), pa.int32())
        values = pa.ListArray.from_arrays(one_each, values)
    return pa.MapArray.from_arrays(
        # By way of another type: a slice's offsets must become an array of their own.
        column.offsets.cast(pa.int64()).cast(pa.int32()),
        keys.cast(pa.string()),
        values.cast(pa.list_(pa.binary())),
        mask=pc.invert(column.is_valid()) if column.null_count else None,
    )
