"""``jetsync bench``: how many messages a second this client and this server move.

Clients are threads of this process with a connection each. Streams and buckets are made for the
run and deleted after it; one that exists already is never touched: a subject that a stream takes is
refused, unless the user may not look that up.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from jetsync.cli import bench_flags as flags
from jetsync.cli.bench_peer import bench_peer, publish_to
from jetsync.cli.bench_run import PATIENCE, Part, measure
from jetsync.cli.failure import CommandError, UsageError
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_FETCH = 500
_KEYS = 1000


def _given(args: argparse.Namespace) -> str | None:
    """The subject of a stream for the run; only what publishes takes one."""
    subject: str | None = vars(args).get("subject")
    return subject


def _name(given: str | None, exists: Callable[[str], object]) -> str:
    """The name of what is made for the run. One that the user gives must be free: a stream or
    bucket that is there already would be filled and deleted."""
    from jetsync.errors import BucketNotFoundError, StreamNotFoundError

    if given is None:
        return f"JETSYNC_BENCH_{uuid.uuid4().hex[:12]}"
    try:
        exists(given)
    except (BucketNotFoundError, StreamNotFoundError):
        return given
    raise CommandError(f"{given!r} exists: a run makes and deletes its own, so give another name.")


@contextmanager
def _stream(invocation: Invocation) -> Iterator[tuple[Any, str]]:
    """A stream for the run, and its subject."""
    args, js = invocation.args, invocation.jetstream()
    name, given = _name(args.stream, js.stream), _given(args)
    stream = js.create_stream(
        name=name,
        subjects=[(f"{given}.>" if args.multisubject else given) if given else f"{name}.>"],
        storage=args.storage,
        num_replicas=args.replicas,
        max_bytes=-1 if args.maxbytes is None else args.maxbytes,
        duplicate_window=10.0,
    )
    try:
        yield stream, given or f"{name}.x"
    finally:
        stream.delete()


def _subjects(args: argparse.Namespace, subject: str) -> Callable[[int], str]:
    """Return the function that gives a message its subject by its number: one for all, or many."""
    if not args.multisubject:
        return lambda number: subject
    most = args.multisubjectmax
    return lambda number: f"{subject}.{number % most}"


def _subject(invocation: Invocation) -> str | None:
    """The subject that the user gives, which no stream may store messages of."""
    from jetsync.errors import APIError, NoRespondersError, PermissionsError, StreamNotFoundError

    subject: str | None = invocation.args.subject
    if subject is None:
        return None
    taken = f"{subject}.>" if vars(invocation.args).get("multisubject") else subject
    try:
        stream = invocation.jetstream().stream_name_by_subject(taken)
    except (APIError, NoRespondersError, PermissionsError, StreamNotFoundError):
        return subject  # no stream, no JetStream, or it is not for this user to know
    raise CommandError(
        f"stream {stream} takes what is published on {taken!r}: give another subject."
    )


def _pub(invocation: Invocation) -> None:
    subject = _subject(invocation) or f"jetsync.bench.{uuid.uuid4().hex[:12]}"

    subjects = _subjects(invocation.args, subject)

    def work(part: Part) -> int:
        publish, data = part.nc.publish, part.data
        if invocation.args.multisubject:
            for number in part.turns():
                publish(subjects(number), data)
        else:
            for _ in part.turns():
                publish(subject, data)
        invocation.flush(part.nc, PATIENCE)
        return part.messages

    measure(invocation, "pub", work)


def _sub(invocation: Invocation) -> None:
    """Each client receives its share, which another process publishes as fast as it can; from a
    subject of the user each receives all that others publish. The time of a client begins with its
    first message."""
    given = invocation.args.subject
    if invocation.args.multisubject:
        if given is None:
            raise UsageError("--multisubject goes with a SUBJECT: its tokens follow it.")
        given = f"{given}.>"
    if given is not None:

        def receive(part: Part) -> int:
            with _unlimited(part, given) as subscription:
                _take(part, subscription, invocation.args.msgs)
            return int(invocation.args.msgs)

        measure(invocation, "sub", receive, invocation.args.msgs * invocation.args.clients)
        return
    prefix = f"jetsync.bench.{uuid.uuid4().hex[:12]}"

    def work(part: Part) -> int:
        subject = f"{prefix}.{part.number}"
        with _unlimited(part, subject) as subscription:
            part.nc.publish(f"{prefix}.publish", publish_to(subject, part.messages, len(part.data)))
            _take(part, subscription, part.messages)
        return part.messages

    with bench_peer(invocation.options(), prefix):
        measure(invocation, "sub", work)


def _unlimited(part: Part, subject: str) -> Any:
    return part.nc.subscribe(subject, pending_messages_limit=0, pending_bytes_limit=0)


def _take(part: Part, subscription: Any, messages: int) -> None:
    for number in range(messages):
        subscription.next(PATIENCE)
        if not number:
            part.begun = time.perf_counter()


def _req(invocation: Invocation) -> None:
    """Requests one after the other in each client; another process answers, or what the user has
    on a subject."""
    prefix = f"jetsync.bench.{uuid.uuid4().hex[:12]}"
    given = _subject(invocation)
    subject = given or f"{prefix}.echo"

    def work(part: Part) -> int:
        for _ in part.turns():
            part.nc.request(subject, part.data)
        return part.messages

    with nullcontext() if given else bench_peer(invocation.options(), prefix):
        measure(invocation, "req", work)


def _js_pub(invocation: Invocation) -> None:
    with _stream(invocation) as (_, subject):
        subjects = _subjects(invocation.args, subject)

        def one_by_one(part: Part) -> int:
            js = part.nc.jetstream()
            for number in part.turns():
                js.publish(subjects(number), part.data)
            return part.messages

        def many(part: Part) -> int:
            messages = ((subjects(number), part.data) for number in part.turns())
            report = part.nc.jetstream().publish_many(
                messages, timeout=PATIENCE, max_pending=invocation.args.batch
            )
            report.raise_for_failed()
            return int(report.stored)

        measure(invocation, "js-pub", one_by_one if invocation.args.sync else many)


def _filled(invocation: Invocation, stream: Any, subject: str) -> None:
    args = invocation.args
    data = b"x" * args.size
    subjects = _subjects(args, subject)
    messages = ((subjects(number), data) for number in range(args.msgs))
    report = invocation.jetstream().publish_many(messages, timeout=PATIENCE, msg_id=None)
    report.raise_for_failed()


def _js_fetch(invocation: Invocation) -> None:
    with _stream(invocation) as (stream, subject):
        _filled(invocation, stream, subject)
        stream.create_consumer(durable_name=invocation.args.consumer, max_ack_pending=-1)

        def work(part: Part) -> int:
            consumer = part.nc.jetstream().consumer(stream.name, invocation.args.consumer)
            done, most = 0, invocation.args.batch
            while done < part.messages:
                batch = consumer.fetch(min(most, part.messages - done), timeout=5.0)
                batch.ack()
                done += len(batch)
                if not batch:
                    break
            part.nc.flush()
            return done

        measure(invocation, "js-fetch", work)


def _js_consume(invocation: Invocation) -> None:
    with _stream(invocation) as (stream, subject):
        _filled(invocation, stream, subject)
        stream.create_consumer(durable_name=invocation.args.consumer, max_ack_pending=-1)

        def work(part: Part) -> int:
            done = 0
            consumer = part.nc.jetstream().consumer(stream.name, invocation.args.consumer)
            most = invocation.args.batch
            with consumer.messages(stop_after=part.messages, max_messages=most) as messages:
                for msg in messages:
                    msg.ack()
                    done += 1
            part.nc.flush()
            return done

        measure(invocation, "js-consume", work)


@contextmanager
def _bucket(invocation: Invocation) -> Iterator[str]:
    """A bucket for the run."""
    args, js = invocation.args, invocation.jetstream()
    bucket = _name(args.bucket, js.key_value)
    js.create_key_value(
        bucket=bucket,
        storage=args.storage,
        replicas=args.replicas,
        history=args.history,
        max_bytes=-1 if args.maxbytes is None else args.maxbytes,
    )
    try:
        yield bucket
    finally:
        js.delete_key_value(bucket)


def _key(part: Part, number: int) -> str:
    return f"{part.number}.{number % _KEYS}"


def _kv_work(invocation: Invocation, name: str, turn: Callable[[Any, str, bytes], Any]) -> None:
    """Each message is what a turn does with a key; there are values before where it only reads."""
    with _bucket(invocation) as bucket:

        def work(part: Part) -> int:
            kv = part.nc.jetstream().key_value(bucket)
            if name == "kv-get":
                for number in range(min(_KEYS, part.messages)):
                    kv.put(_key(part, number), part.data)
                part.begun = time.perf_counter()
            for number in part.turns():
                turn(kv, _key(part, number), part.data)
            return part.messages

        measure(invocation, name, work)


def _kv(invocation: Invocation) -> None:
    _kv_work(invocation, "kv", lambda kv, key, data: (kv.put(key, data), kv.get(key)))


def _kv_put(invocation: Invocation) -> None:
    _kv_work(invocation, "kv-put", lambda kv, key, data: kv.put(key, data))


def _kv_get(invocation: Invocation) -> None:
    _kv_work(invocation, "kv-get", lambda kv, key, data: kv.get(key))


COMMANDS = (
    Command(
        "pub",
        "publish without confirmation",
        _pub,
        (flags.SUBJECT, *flags.sizes(100_000), *flags.MANY, flags.SLEEP),
        example="jetsync bench pub --clients 2 --msgs 1000000",
    ),
    Command(
        "sub",
        "receive what another process publishes",
        _sub,
        (flags.SUBJECT, *flags.sizes(100_000), flags.MULTI),
        example="jetsync bench sub --size 1KiB",
    ),
    Command(
        "req",
        "send requests and wait for each answer",
        _req,
        (flags.SUBJECT, *flags.sizes(10_000), flags.SLEEP),
        example="jetsync bench req --clients 4",
        other=("service request",),
    ),
    Command(
        "js-pub",
        "publish to a stream, confirmed",
        _js_pub,
        (
            flags.SUBJECT,
            *flags.sizes(100_000),
            flags.SLEEP,
            *flags.STREAM,
            flags.batch("unconfirmed at a time", None),
            argument("--sync", action="store_true", help="wait for each confirmation"),
        ),
        example="jetsync bench js-pub --replicas 3",
        other=("js pub async", "js pub sync --sync"),
    ),
    Command(
        "js-fetch",
        "fetch from a stream in batches, and acknowledge",
        _js_fetch,
        (
            *flags.sizes(100_000),
            *flags.STREAM,
            flags.CONSUMER,
            flags.batch("fetched at a time", _FETCH),
        ),
        example="jetsync bench js-fetch --size 1KiB",
        other=("js fetch",),
    ),
    Command(
        "js-consume",
        "read a stream message by message, and acknowledge",
        _js_consume,
        (
            *flags.sizes(100_000),
            *flags.STREAM,
            flags.CONSUMER,
            flags.batch("asked for ahead", None),
        ),
        example="jetsync bench js-consume --storage memory",
        other=("js consume",),
    ),
    Command(
        "kv",
        "write values and read them again",
        _kv,
        (*flags.sizes(10_000), *flags.BUCKET, flags.SLEEP),
        example="jetsync bench kv --clients 4",
    ),
    Command(
        "kv-put",
        "write values",
        _kv_put,
        (*flags.sizes(10_000), *flags.BUCKET, flags.SLEEP),
        example="jetsync bench kv-put --size 1KiB",
        other=("kv put",),
    ),
    Command(
        "kv-get",
        "read values that are there",
        _kv_get,
        (*flags.sizes(10_000), *flags.BUCKET, flags.SLEEP),
        example="jetsync bench kv-get --clients 4",
        other=("kv get",),
    ),
)
