"""Record batches of whatever gives Arrow data, with columns that the core reads."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from jetsync.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ArrowData", "record_batches"]


class _Array(Protocol):
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


ArrowData = _Array | _Stream
"""A pyarrow RecordBatch or Table, a frame of Polars or pandas, a RecordBatchReader, ..."""


def record_batches(data: ArrowData, columns: Collection[str | None]) -> list[Any]:
    """Return the record batches of Arrow data. Text in ``columns`` that the core does not read as
    it is, views and dictionaries, is made plain. Raises ConfigError for what is no Arrow data."""
    if hasattr(data, "to_batches"):
        batches: list[Any] = data.to_batches()
    elif hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
        batches = _read(data)
    else:
        batches = [data]
    return [_plain(batch, columns) if hasattr(batch, "schema") else batch for batch in batches]


def _read(data: Any) -> list[pyarrow.RecordBatch]:
    try:
        import pyarrow as pa
    except ImportError:
        raise ConfigError(
            f'reading a {type(data).__name__} needs pyarrow: pip install "jetsync[arrow]"'
        ) from None
    try:
        return list(pa.RecordBatchReader.from_stream(data))
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{type(data).__name__} is no Arrow table: {error}") from error


def _plain(batch: Any, columns: Collection[str | None]) -> Any:
    """Return a pyarrow record batch with plain text and binary in these columns."""
    for place, field in enumerate(batch.schema):
        kind = _plain_type(field.type) if field.name in columns else None
        if kind is not None:
            batch = batch.set_column(place, field.name, batch.column(place).cast(kind))
    return batch


def _plain_type(kind: Any) -> Any:
    """The type to cast text or binary to; None for what needs none, or cannot be text."""
    import pyarrow as pa

    is_odd = pa.types.is_dictionary(kind)
    if is_odd:
        kind = kind.value_type
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return kind if is_odd else None
