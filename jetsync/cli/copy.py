"""``jetsync copy``: a stream into a file, or a file into a stream."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jetsync.cli import rows, values
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import document, json_text
from jetsync.cli.registry import Command, argument
from jetsync.cli.stream_data import progress

__all__ = ["COMMANDS", "publish_file"]

_BATCH = 1000
_WAIT = 5.0
_BATCH_BYTES = 16 * 2**20
_COLUMNS = ("subject", "data", "headers", "timestamp", "stream_seq")


def run(invocation: Invocation) -> int:
    """Carry out the command."""
    told = invocation.arguments
    out = Path(told.destination).suffix.lower() in (".jsonl", ".ndjson", ".parquet", ".csv")
    if out == (Path(told.origin).suffix.lower() in (".jsonl", ".ndjson", ".parquet", ".csv")):
        raise UsageError("one of both must be a stream, the other one a .jsonl or .parquet file.")
    if out and told.subject_column is not None:
        raise UsageError("--subject-column goes with a file that is published.")
    if not out and (told.subject is not None or told.force):
        raise UsageError("--subject and --force go with a stream that is written into a file.")
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
        _parquet(path, consumer) if kind == "parquet" else _lines(path) as write,
    ):
        last = state.last_seq if state.messages else 0
        most = _BATCH_BYTES + 2 * invocation.connect().max_payload
        begun = False
        while consumer.last_seq < last:
            # The first message tells whether there are more: then a limit of bytes can be waited
            # for, so that large messages do not fill the memory.
            batch = (
                consumer.fetch(_BATCH, max_bytes=most, eager=True, timeout=_WAIT)
                if begun
                else consumer.fetch_no_wait(1, timeout=_WAIT)
            )
            begun = begun or len(batch) > 0
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
    folder, name = os.path.split(path)
    try:
        # Only its owner reads it, and no other file or link has this name.
        descriptor, part = tempfile.mkstemp(".part", f".{name}.", folder or ".")
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}.") from None
    os.close(descriptor)
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
                file.write(json_text(document(values.message(msg, **about))) + "\n")

        yield write


@contextmanager
def _parquet(path: str, consumer: Any) -> Iterator[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError('Parquet needs pyarrow: pip install "jetsync[arrow]".') from None
    with _part(path) as part:
        writer: Any = None

        def put(table: Any) -> None:
            nonlocal writer
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(part, table.schema, compression="zstd")
            writer.write_batch(table)

        def write(batch: Any, kept: list[Any]) -> None:
            put(batch.to_arrow(columns=list(_COLUMNS)).slice(0, len(kept)))

        try:
            yield write
            if writer is None:  # no message: the columns all the same
                write(consumer.fetch_no_wait(1, timeout=_WAIT), [])
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
    done = duplicates = 0
    failed: list[str] = []
    wrong: list[UsageError] = []

    def readable(found: Iterator[Any]) -> Iterator[Any]:
        """Give what comes before the first row that cannot be read."""
        try:
            yield from found
        except UsageError as error:
            wrong.append(error)

    if rows.kind_of(path) == "parquet":
        if not stored:
            raise UsageError("a .parquet file is published with --js.")
        for batch, chosen in readable(_batches(path, subject, column)):
            report = invocation.jetstream().publish_arrow(
                batch,
                subject=chosen,
                headers="headers" if "headers" in batch.schema.names else None,
                expected_stream=stream,
            )
            done, duplicates = done + report.stored, duplicates + report.duplicates
            failed += [str(error) for _, error in report.failed]
    elif stored:
        report = invocation.jetstream().publish_many(
            readable(rows.read(path, subject, column)), expected_stream=stream
        )
        done, duplicates = report.stored, report.duplicates
        failed = [str(error) for _, error in report.failed]
    else:
        nc = invocation.connect()
        for one, data, headers in readable(rows.read(path, subject, column)):
            nc.publish(one, data, headers=headers or None)
            done += 1
        nc.flush()
    if wrong and not done and not failed:
        raise wrong[0]
    new = done - duplicates
    about = {"file": path, "published": new, "duplicates": duplicates, "failed": len(failed)}
    what = f"published {values.plural(new, 'message')} of {path}"
    if duplicates:
        what += f"; {values.plural(duplicates, 'message')} the stream had before (duplicates)"
    invocation.out.show(about, what)
    if wrong:
        number = values.plural(new, "message")
        raise CommandError(f"{wrong[0]} {number} before it had been published.")
    if failed:
        number = values.plural(len(failed), "message")
        raise CommandError(f"{number} failed; the first: {failed[0]}")
    return 0


def _batches(path: str, subject: str | None, column: str | None) -> Iterator[tuple[Any, str]]:
    """Iterate over the record batches of a Parquet file, with what gives their subjects."""
    for batch in rows.columns(path):
        if "data" not in batch.schema.names:
            raise UsageError(f"{path!r} has no column 'data'.")
        chosen = column or (None if subject else "subject")
        if chosen is not None and chosen not in batch.schema.names:
            raise UsageError(f"{path!r} has no column {chosen!r}; give --subject-column.")
        yield rows.without_orders(batch), chosen or subject or ""


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
        "of such a file, or of a .csv file, into a stream. Headers that were orders for the stream "
        "that stored a message (Nats-Rollup, Nats-Expected-*, Nats-Schedule*, Nats-Batch-*, "
        "Nats-Incr) are not published again; its id and its life are.",
    ),
)
