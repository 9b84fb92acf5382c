"""``jetsync copy``: a stream into a file, or a file into a stream."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jetsync._counted import counted
from jetsync._files import whole_file
from jetsync.cli import rows, values
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import document, json_text
from jetsync.cli.progress import progress
from jetsync.cli.registry import Command, argument
from jetsync.errors import PullUnansweredError

if TYPE_CHECKING:
    from jetsync.jetstream import JetStreamMsg, MsgMetadata, OrderedConsumer
    from jetsync.jetstream.config.consumer_info import ConsumerInfo

__all__ = ["COMMANDS", "publish_file"]

_BATCH = 1000
_WAIT = 5.0
_BATCH_BYTES = 16 * 2**20
_COLUMNS = ("subject", "data", "headers", "timestamp", "stream_seq")


def run(invocation: Invocation) -> int:
    """Carry out the command."""
    args = invocation.args
    out = Path(args.destination).suffix.lower() in (".jsonl", ".ndjson", ".parquet", ".csv")
    if out == (Path(args.origin).suffix.lower() in (".jsonl", ".ndjson", ".parquet", ".csv")):
        raise UsageError("one of both must be a stream, the other one a .jsonl or .parquet file.")
    if out and args.subject_column is not None:
        raise UsageError("--subject-column goes with a file that is published.")
    if not out and (args.subject is not None or args.force):
        raise UsageError("--subject and --force go with a stream that is written into a file.")
    if out:
        return _to_file(invocation, args.origin, args.destination)
    invocation.jetstream().stream(args.destination)
    return publish_file(
        invocation, args.origin, None, args.subject_column, stored=True, stream=args.destination
    )


def _to_file(invocation: Invocation, name: str, path: str) -> int:
    kind = rows.kind_of(path)
    if kind == "csv":
        raise UsageError("messages are written as .jsonl or .parquet.")
    if os.path.exists(path) and not invocation.args.force:
        raise UsageError(f"{path!r} exists already: give --force to replace it.")
    js = invocation.jetstream()
    state = js.stream(name).cached_info.state
    number = 0
    with (
        js.ordered_consumer(name, filter_subjects=invocation.args.subject) as consumer,
        progress(invocation, f"copy of {name}") as tell,
        _parquet(path, consumer) if kind == "parquet" else _lines(path) as write,
    ):
        last = state.last_seq if state.messages else 0
        most = _BATCH_BYTES + 2 * invocation.connect().max_payload
        latest: MsgMetadata | None = None
        while consumer.last_seq < last:
            batch = _some(consumer, None if latest is None else most)
            if not len(batch):
                if _has_all(consumer.info(), latest):
                    break
                continue  # messages are on their way, over a slow link
            latest = batch[-1].metadata
            messages = [msg for msg in batch if msg.seq <= last]
            write(batch, messages)
            number += len(messages)
            if tell is not None:
                tell(number, state.messages)
            if len(messages) < len(batch) or not latest.num_pending:
                break
    outcome = {"stream": name, "file": path, "messages": number}
    invocation.out.show(
        outcome, f"wrote {counted(number, 'message', form=',')} of {name} to {path}"
    )
    return 0


def _some(consumer: OrderedConsumer, most: int | None) -> Sequence[JetStreamMsg]:
    """Return the next messages, of up to ``most`` bytes; an empty sequence when none came in time.

    None: the first one alone, which tells whether there are more. Only then a limit of bytes can be
    waited for, so that large messages do not fill the memory.
    """
    try:
        if most is None:
            return consumer.fetch_no_wait(1, timeout=_WAIT)
        return consumer.fetch(_BATCH, max_bytes=most, eager=True, timeout=_WAIT)
    except PullUnansweredError:
        return ()


def _has_all(info: ConsumerInfo, latest: MsgMetadata | None) -> bool:
    """Whether all that the server consumer had to deliver was taken.

    Its own numbers say so: those of the stream also pass over messages that were removed meanwhile
    and over other subjects.
    """
    taken = 0
    if latest is not None and latest.consumer == info.name:
        taken = latest.consumer_seq
    return not info.num_pending and info.delivered.consumer_seq <= taken


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a file that gets its name when all of it is there."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(whole_file(Path(path)))
        except OSError as error:
            raise UsageError(f"{path!r} cannot be written: {error.strerror}.") from None
        yield file


@contextmanager
def _lines(path: str) -> Iterator[Any]:
    with _opened(path) as file:

        def write(batch: Any, messages: list[Any]) -> None:
            for msg in messages:
                about = {"stream_seq": msg.seq, "timestamp": msg.metadata.timestamp}
                file.write(json_text(document(values.message(msg, **about))).encode() + b"\n")

        yield write


@contextmanager
def _parquet(path: str, consumer: OrderedConsumer) -> Iterator[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError('Parquet needs pyarrow: pip install "jetsync[arrow]".') from None
    with _opened(path) as file:
        writer: Any = None

        def put(table: Any) -> None:
            nonlocal writer
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_batch(table)

        def write(batch: Any, messages: list[Any]) -> None:
            put(batch.to_arrow(columns=list(_COLUMNS)).slice(0, len(messages)))

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
    what = f"published {counted(new, 'message', form=',')} of {path}"
    if duplicates:
        what += f"; {counted(duplicates, 'message', form=',')} the stream had before (duplicates)"
    invocation.out.show(about, what)
    if wrong:
        number = counted(new, "message", form=",")
        raise CommandError(f"{wrong[0]} {number} before it had been published.")
    if failed:
        number = counted(len(failed), "message", form=",")
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
