"""Messages in files: JSON lines, CSV and Parquet."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jetsync.cli.failure import UsageError

__all__ = ["Row", "columns", "copied", "kind_of", "read", "without_orders"]

Row = tuple[str, bytes, dict[str, list[str]]]
"""Subject, data and headers of a message."""

_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}


def kind_of(path: str) -> str:
    """Return "jsonl", "csv" or "parquet". Raises UsageError."""
    kind = _KINDS.get(Path(path).suffix.lower())
    if kind is None:
        raise UsageError(f"{path!r} is no file of .jsonl, .csv or .parquet.")
    return kind


def read(path: str, subject: str | None, column: str | None) -> Iterator[Row]:
    """Iterate over the messages of a file of JSON lines or CSV.

    A line that has ``data`` or ``data_b64``, as ``sub --json`` prints it, is a message with these
    fields; any other is the data of one itself. ``column`` names the field that has the subject.
    """
    lines = _json_lines(path) if kind_of(path) == "jsonl" else _csv_lines(path)
    for number, text, fields in lines:
        place = f"{path!r}, line {number}"
        chosen = fields.get(column or "subject") if isinstance(fields, dict) else None
        if column is not None and not isinstance(chosen, str):
            raise UsageError(f"{place}: there is no text in {column!r}.")
        named = chosen if isinstance(chosen, str) and (column or subject is None) else subject
        if named is None:
            raise UsageError(f"{place}: there is no subject; give --subject-column.")
        yield named, *_content(fields, text, place)


def copied(name: str) -> bool:
    """Return whether a message from a file keeps its header of this name: orders for the stream
    that stored it are left out, but for its id and its life."""
    from jetsync.jetstream.publish.orders import is_order

    return name.lower() in ("nats-msg-id", "nats-ttl") or not is_order(name)


def _content(fields: Any, text: str, place: str) -> tuple[bytes, dict[str, list[str]]]:
    if not isinstance(fields, dict) or not ("data" in fields or "data_b64" in fields):
        return text.encode("utf-8", "surrogateescape"), {}
    headers = fields.get("headers") or {}
    try:
        if "data_b64" in fields:
            data = base64.b64decode(fields["data_b64"], validate=True)
        elif isinstance(fields["data"], str):
            data = fields["data"].encode("utf-8", "surrogateescape")
        else:  # a line of the user's with a field of this name
            return text.encode(), {}
        if isinstance(headers, str):
            headers = json.loads(headers)
        return data, {
            str(name): [value] if isinstance(value, str) else [str(one) for one in value]
            for name, value in headers.items()
            if copied(str(name))
        }
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        raise UsageError(f"{place}: not a message: {error}.") from None


def _json_lines(path: str) -> Iterator[tuple[int, str, Any]]:
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            text = line.strip()
            if not text:
                continue
            try:
                yield number, text, json.loads(text)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{path!r}, line {number}: not JSON: {error}.") from None


def _csv_lines(path: str) -> Iterator[tuple[int, str, Any]]:
    with _opened(path) as file:
        rows = csv.DictReader(file)
        try:
            for row in rows:
                yield rows.line_num, json.dumps(row, ensure_ascii=False), row
        except csv.Error as error:
            raise UsageError(f"{path!r}, line {rows.line_num}: not CSV: {error}.") from None


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError:
        raise UsageError(f"{path!r} is not in UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}.") from None


def columns(path: str) -> Iterator[Any]:
    """Iterate over the record batches of a Parquet file. Raises UsageError."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError('Parquet needs pyarrow: pip install "jetsync[arrow]".') from None
    try:
        yield from pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=16_384)
    except (OSError, pyarrow.ArrowException) as error:
        raise UsageError(f"{path!r} cannot be read: {error}.") from None


def without_orders(batch: Any) -> Any:
    """Return a record batch whose column ``headers`` has only what :func:`copied` lets through."""
    import pyarrow

    place = batch.schema.get_field_index("headers")
    if place < 0 or not pyarrow.types.is_map(batch.schema.field(place).type):
        return batch
    column = batch.column(place)
    if all(name is None or copied(_text(name)) for name in column.keys.unique().to_pylist()):
        return batch
    rest = [
        None if pairs is None else [pair for pair in pairs if copied(_text(pair[0]))]
        for pairs in column.to_pylist()
    ]
    field = batch.schema.field(place)
    return batch.set_column(place, field, pyarrow.array(rest, type=field.type))


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "replace")
