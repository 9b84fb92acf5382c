"""``jetsync copy``: a stream into a file, or a file into a stream."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jetsync.cli import rows, values
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import document
from jetsync.cli.registry import Command, argument
from jetsync.cli.stream_data import progress

__all__ = ["COMMANDS", "publish_file"]

_BATCH = 1000
_WAIT = 5.0
_COLUMNS = ("subject", "data", "headers", "timestamp", "stream_seq")


def run(invocation: Invocation) -> int:
    """Carry out the command."""
    told = invocation.arguments
    out = Path(told.destination).suffix.lower() in (".jsonl", ".ndjson", ".parquet", ".csv")
    if out == (Path(told.origin).suffix.lower() in (".jsonl", ".ndjson", ".parquet", ".csv")):
        raise UsageError("one of both must be a stream, the other one a .jsonl or .parquet file.")
    if out:
        return _to_file(invocation, told.origin, told.destination)
    invocation.jetstream().stream(told.destination)
    return publish_file(
        invocation, told.origin, None, told.subject_column, stored=True, stream=told.destination
    )


def _to_file(invocation: Invocation, name: str, path: str) -> int:
    kind = rows.kind_of(path)
    if kind == "csv":
        raise UsageError("messages are written as .jsonl or .parquet.")
    if os.path.exists(path) and not invocation.arguments.force:
        raise UsageError(f"{path!r} exists already: give --force to replace it.")
    js = invocation.jetstream()
    state = js.stream(name).cached_info.state
    consumer = js.ordered_consumer(name, filter_subjects=invocation.arguments.subject)
    number = 0
    with (
        progress(invocation, f"copy of {name}") as tell,
        _parquet(path) if kind == "parquet" else _lines(path) as write,
    ):
        last = state.last_seq if state.messages else 0
        while consumer.last_seq < last:
            batch = consumer.fetch_no_wait(_BATCH, timeout=_WAIT)
            if not len(batch):
                if not consumer.info().num_pending:
                    break  # what is left of the stream has other subjects
                continue
            kept = [msg for msg in batch if msg.seq <= last]
            write(batch, kept)
            number += len(kept)
            if tell is not None:
                tell(number, state.messages)
            if len(kept) < len(batch) or not batch[-1].metadata.num_pending:
                break
    told = {"stream": name, "file": path, "messages": number}
    invocation.out.show(told, f"wrote {values.plural(number, 'message')} of {name} to {path}")
    return 0


@contextmanager
def _part(path: str) -> Iterator[str]:
    """Give the file its name when all of it is there."""
    part = path + ".part"
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


@contextmanager
def _lines(path: str) -> Iterator[Any]:
    with _part(path) as part, open(part, "w", encoding="utf-8") as file:

        def write(batch: Any, kept: list[Any]) -> None:
            for msg in kept:
                about = {"stream_seq": msg.seq, "timestamp": msg.metadata.timestamp}
                line = document(values.message(msg, **about))
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

        yield write


@contextmanager
def _parquet(path: str) -> Iterator[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError('Parquet needs pyarrow: pip install "jetsync[arrow]".') from None
    with _part(path) as part:
        writer: Any = None
        try:

            def write(batch: Any, kept: list[Any]) -> None:
                nonlocal writer
                table = batch.to_arrow(columns=list(_COLUMNS)).slice(0, len(kept))
                if writer is None:
                    writer = pyarrow.parquet.ParquetWriter(part, table.schema, compression="zstd")
                writer.write_batch(table)

            yield write
            if writer is None:
                schema = pyarrow.schema([("subject", pyarrow.string()), ("data", pyarrow.binary())])
                writer = pyarrow.parquet.ParquetWriter(part, schema)
        finally:
            if writer is not None:
                writer.close()


def publish_file(
    invocation: Invocation,
    path: str,
    subject: str | None,
    column: str | None,
    *,
    stored: bool,
    stream: str | None = None,
) -> int:
    """Publish the messages of a file, and say how many there were."""
    if rows.kind_of(path) == "parquet":
        if not stored:
            raise UsageError("a .parquet file is published with --js.")
        done, failed = _publish_columns(invocation, path, subject, column, stream)
    elif stored:
        report = invocation.jetstream().publish_many(
            rows.read(path, subject, column), expected_stream=stream
        )
        done, failed = report.stored, [str(error) for _, error in report.failed]
    else:
        done, failed = 0, []
        nc = invocation.connect()
        for one, data, headers in rows.read(path, subject, column):
            nc.publish(one, data, headers=headers or None)
            done += 1
        nc.flush()
    about = {"file": path, "published": done, "failed": len(failed)}
    what = f"published {values.plural(done, 'message')} of {path}"
    invocation.out.show(about, what)
    if failed:
        number = values.plural(len(failed), "message")
        raise CommandError(f"{number} failed; the first: {failed[0]}")
    return 0


def _publish_columns(
    invocation: Invocation, path: str, subject: str | None, column: str | None, stream: str | None
) -> tuple[int, list[str]]:
    done, failed = 0, list[str]()
    for batch in rows.columns(path):
        if "data" not in batch.schema.names:
            raise UsageError(f"{path!r} has no column 'data'.")
        chosen = column or (None if subject else "subject")
        if chosen is not None and chosen not in batch.schema.names:
            raise UsageError(f"{path!r} has no column {chosen!r}; give --subject-column.")
        report = invocation.jetstream().publish_arrow(
            batch,
            subject=chosen or subject or "",
            headers="headers" if "headers" in batch.schema.names else None,
            expected_stream=stream,
        )
        done += report.stored
        failed += [str(error) for _, error in report.failed]
    return done, failed


COMMANDS = (
    Command(
        "copy",
        "copy a stream into a file, or a file into a stream",
        run,
        (
            argument("ORIGIN", metavar="FROM", completes="stream", help="a stream, or a file"),
            argument("DESTINATION", metavar="TO", completes="stream", help="a file, or a stream"),
            argument("--subject", metavar="FILTER", help="only messages of this subject"),
            argument(
                "--subject-column", metavar="NAME", help="field with the subject (default: subject)"
            ),
            argument("-f", "--force", action="store_true", help="replace the file"),
        ),
        example="jetsync copy ORDERS orders.parquet\njetsync copy orders.jsonl ORDERS",
        description="Copy a stream into a file (.jsonl, or .parquet with jetsync[arrow]) with "
        "subject, data, headers, timestamp and stream_seq of each message, or publish the messages "
        "of such a file, or of a .csv file, into a stream.",
    ),
)
