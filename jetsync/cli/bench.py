"""``jetsync bench``: how many messages a second this client and this server move.

Clients are threads of this process with a connection each. Streams and buckets are made for the
run and deleted after it; one that exists already is never touched, as far as the user may know of
it.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from jetsync._counted import counted
from jetsync._threads import start_thread
from jetsync.cli import values
from jetsync.cli.bench_peer import bench_peer, publish_to
from jetsync.cli.failure import CommandError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_PATIENCE = 600.0
_FETCH = 500


@dataclass
class Part:
    """The work of one client: a number of messages over a connection of its own."""

    nc: Any
    number: int
    messages: int
    data: bytes
    begun: float = 0.0
    """When the time of this client begins: with its work, unless the work says otherwise."""
    ended: float = 0.0


def _measure(
    invocation: Invocation, name: str, work: Callable[[Part], int], messages: int | None = None
) -> None:
    """Run ``work`` in every client at once, and print the total rate: all messages (None: as many
    as there are to be) by the time from the first client's beginning to the last one's end."""
    from jetsync.client import connect

    args = invocation.args
    share, rest = divmod(args.msgs, args.clients)
    sizes = [share + (number < rest) for number in range(args.clients)]
    data = b"x" * args.size
    connections = [connect(options=invocation.options()) for _ in sizes]
    done: list[int] = []
    failed: list[BaseException] = []

    def client(part: Part) -> None:
        try:
            part.begun = time.perf_counter()
            done.append(work(part))
            part.ended = time.perf_counter()
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            failed.append(error)

    parts = [
        Part(nc, number, size, data)
        for number, (nc, size) in enumerate(zip(connections, sizes, strict=True))
    ]
    try:
        threads = [
            start_thread("bench", lambda part=part: client(part))  # type: ignore[misc]
            for part in parts
        ]
        for thread in threads:
            thread.join(_PATIENCE)
    finally:
        for nc in connections:
            nc.close()
    if failed:
        raise failed[0]
    total = sum(done)
    if total != (messages or args.msgs):
        sent = counted(messages or args.msgs, "message", form=",")
        raise CommandError(f"{total:,} of {sent} in {_PATIENCE:.0f} seconds.")
    busy = [part for part in parts if part.messages]
    seconds = max(part.ended for part in busy) - min(part.begun for part in busy)
    _show(invocation, name, total, seconds)


def _show(invocation: Invocation, name: str, messages: int, seconds: float) -> None:
    args = invocation.args
    rate = messages / seconds
    data = {
        "bench": name,
        "messages": messages,
        "size": args.size,
        "clients": args.clients,
        "duration": round(seconds * 1e9),
        "msgs_per_second": round(rate, 1),
        "bytes_per_second": round(rate * args.size, 1),
    }
    invocation.out.show(
        data,
        Fields(
            f"bench {name}",
            {
                "": {
                    "Messages": f"{messages:,} of {values.format_size(args.size)}",
                    "Clients": args.clients,
                    "Time": values.format_duration(seconds),
                    "Rate": f"{rate:,.0f} messages/s",
                    "Bytes": f"{values.format_size(int(rate * args.size))}/s",
                    "Each": values.format_duration(seconds * args.clients / messages),
                }
            },
        ),
    )


def _given(args: argparse.Namespace) -> str | None:
    """The subject of a stream for the run; only what publishes takes one."""
    subject: str | None = vars(args).get("subject")
    return subject


@contextmanager
def _stream(invocation: Invocation) -> Iterator[tuple[Any, str]]:
    """A stream for the run, and its subject."""
    args, js = invocation.args, invocation.jetstream()
    name = f"JETSYNC_BENCH_{uuid.uuid4().hex[:12]}"
    stream = js.create_stream(
        name=name,
        subjects=[_given(args) or f"{name}.>"],
        storage=args.storage,
        num_replicas=args.replicas,
        duplicate_window=10.0,
    )
    try:
        yield stream, _given(args) or f"{name}.x"
    finally:
        stream.delete()


def _subject(invocation: Invocation) -> str | None:
    """The subject that the user gives, which no stream may store messages of."""
    from jetsync.errors import APIError, NoRespondersError, PermissionsError, StreamNotFoundError

    subject: str | None = invocation.args.subject
    if subject is None:
        return None
    try:
        stream = invocation.jetstream().stream_name_by_subject(subject)
    except (APIError, NoRespondersError, PermissionsError, StreamNotFoundError):
        return subject  # no stream, no JetStream, or it is not for this user to know
    raise CommandError(
        f"stream {stream} takes what is published on {subject!r}: give another subject."
    )


def _pub(invocation: Invocation) -> None:
    subject = _subject(invocation) or f"jetsync.bench.{uuid.uuid4().hex[:12]}"

    def work(part: Part) -> int:
        publish, data = part.nc.publish, part.data
        for _ in range(part.messages):
            publish(subject, data)
        invocation.flush(part.nc, _PATIENCE)
        return part.messages

    _measure(invocation, "pub", work)


def _sub(invocation: Invocation) -> None:
    """Each client receives its share, which another process publishes as fast as it can; from a
    subject of the user each receives all that others publish. The time of a client begins with its
    first message."""
    given = invocation.args.subject
    if given is not None:

        def receive(part: Part) -> int:
            with _unlimited(part, given) as subscription:
                _take(part, subscription, invocation.args.msgs)
            return int(invocation.args.msgs)

        _measure(invocation, "sub", receive, invocation.args.msgs * invocation.args.clients)
        return
    prefix = f"jetsync.bench.{uuid.uuid4().hex[:12]}"

    def work(part: Part) -> int:
        subject = f"{prefix}.{part.number}"
        with _unlimited(part, subject) as subscription:
            part.nc.publish(f"{prefix}.publish", publish_to(subject, part.messages, len(part.data)))
            _take(part, subscription, part.messages)
        return part.messages

    with bench_peer(invocation.options(), prefix):
        _measure(invocation, "sub", work)


def _unlimited(part: Part, subject: str) -> Any:
    return part.nc.subscribe(subject, pending_messages_limit=0, pending_bytes_limit=0)


def _take(part: Part, subscription: Any, messages: int) -> None:
    for number in range(messages):
        subscription.next(_PATIENCE)
        if not number:
            part.begun = time.perf_counter()


def _req(invocation: Invocation) -> None:
    """Requests one after the other in each client; another process answers, or what the user has
    on a subject."""
    prefix = f"jetsync.bench.{uuid.uuid4().hex[:12]}"
    given = _subject(invocation)
    subject = given or f"{prefix}.echo"

    def work(part: Part) -> int:
        for _ in range(part.messages):
            part.nc.request(subject, part.data)
        return part.messages

    with nullcontext() if given else bench_peer(invocation.options(), prefix):
        _measure(invocation, "req", work)


def _js_pub(invocation: Invocation) -> None:
    with _stream(invocation) as (_, subject):

        def one_by_one(part: Part) -> int:
            js = part.nc.jetstream()
            for _ in range(part.messages):
                js.publish(subject, part.data)
            return part.messages

        def many(part: Part) -> int:
            messages = ((subject, part.data) for _ in range(part.messages))
            report = part.nc.jetstream().publish_many(messages, timeout=_PATIENCE)
            return int(report.stored)

        _measure(invocation, "js-pub", one_by_one if invocation.args.sync else many)


def _filled(invocation: Invocation, stream: Any, subject: str) -> None:
    args = invocation.args
    data = b"x" * args.size
    messages = ((subject, data) for _ in range(args.msgs))
    invocation.jetstream().publish_many(messages, timeout=_PATIENCE, msg_id=None)


def _js_fetch(invocation: Invocation) -> None:
    with _stream(invocation) as (stream, subject):
        _filled(invocation, stream, subject)
        stream.create_consumer(durable_name="bench", name="bench", max_ack_pending=-1)

        def work(part: Part) -> int:
            consumer = part.nc.jetstream().consumer(stream.name, "bench")
            done = 0
            while done < part.messages:
                batch = consumer.fetch(min(_FETCH, part.messages - done), timeout=5.0)
                batch.ack()
                done += len(batch)
                if not batch:
                    break
            part.nc.flush()
            return done

        _measure(invocation, "js-fetch", work)


def _js_consume(invocation: Invocation) -> None:
    with _stream(invocation) as (stream, subject):
        _filled(invocation, stream, subject)
        stream.create_consumer(durable_name="bench", name="bench", max_ack_pending=-1)

        def work(part: Part) -> int:
            done = 0
            consumer = part.nc.jetstream().consumer(stream.name, "bench")
            with consumer.messages(stop_after=part.messages) as messages:
                for msg in messages:
                    msg.ack()
                    done += 1
            part.nc.flush()
            return done

        _measure(invocation, "js-consume", work)


def _kv(invocation: Invocation) -> None:
    """Each message is a value that is written and read again."""
    args, js = invocation.args, invocation.jetstream()
    bucket = f"JETSYNC_BENCH_{uuid.uuid4().hex[:12]}"
    js.create_key_value(bucket=bucket, storage=args.storage, replicas=args.replicas)

    def work(part: Part) -> int:
        kv = part.nc.jetstream().key_value(bucket)
        for number in range(part.messages):
            key = f"{part.number}.{number % 1000}"
            kv.put(key, part.data)
            kv.get(key)
        return part.messages

    try:
        _measure(invocation, "kv", work)
    finally:
        js.delete_key_value(bucket)


def _sizes(messages: int) -> tuple[Any, ...]:
    return (
        argument("--clients", type=values.count, default=1, help="connections (default: 1)"),
        argument(
            "--msgs",
            type=values.count,
            default=messages,
            help="messages in all (default: %(default)s)",
        ),
        argument("--size", type=values.size, default=128, help="of a message (default: 128)"),
        *_TAKEN,
    )


_SUBJECT = argument("SUBJECT", nargs="?", help="default: one of its own")
_TAKEN = (
    # Of the nats command: nothing is drawn here, and the stream is always a new one.
    argument("--no-progress", action="store_true", help=argparse.SUPPRESS),
    argument("--create", action="store_true", help=argparse.SUPPRESS),
    argument("--purge", action="store_true", help=argparse.SUPPRESS),
)
_STORAGE = (
    argument("--storage", choices=("file", "memory"), default="file", help="(default: file)"),
    argument("--replicas", type=values.count, default=1, metavar="N", help="(default: 1)"),
)

COMMANDS = (
    Command(
        "pub",
        "publish without confirmation",
        _pub,
        (_SUBJECT, *_sizes(100_000)),
        example="jetsync bench pub --clients 2 --msgs 1000000",
    ),
    Command(
        "sub",
        "receive what another process publishes",
        _sub,
        (_SUBJECT, *_sizes(100_000)),
        example="jetsync bench sub --size 1KiB",
    ),
    Command(
        "req",
        "send requests and wait for each answer",
        _req,
        (_SUBJECT, *_sizes(10_000)),
        example="jetsync bench req --clients 4",
        other=("service request",),
    ),
    Command(
        "js-pub",
        "publish to a stream, confirmed",
        _js_pub,
        (
            _SUBJECT,
            *_sizes(100_000),
            *_STORAGE,
            argument("--sync", action="store_true", help="wait for each confirmation"),
        ),
        example="jetsync bench js-pub --replicas 3",
        other=("js pub async", "js pub sync --sync"),
    ),
    Command(
        "js-fetch",
        "fetch from a stream in batches, and acknowledge",
        _js_fetch,
        (*_sizes(100_000), *_STORAGE),
        example="jetsync bench js-fetch --size 1KiB",
        other=("js fetch",),
    ),
    Command(
        "js-consume",
        "read a stream message by message, and acknowledge",
        _js_consume,
        (*_sizes(100_000), *_STORAGE),
        example="jetsync bench js-consume --storage memory",
        other=("js consume",),
    ),
    Command(
        "kv",
        "write values and read them again",
        _kv,
        (*_sizes(10_000), *_STORAGE),
        example="jetsync bench kv --clients 4",
    ),
)
