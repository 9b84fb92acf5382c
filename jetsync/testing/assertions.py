"""Assertions about streams and consumers that wait for messages under way."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jetsync._counted import counted
from jetsync.errors import ConfigError, MessageNotFoundError
from jetsync.testing.messages import make_message
from jetsync.testing.waiting import wait_until

if TYPE_CHECKING:
    from jetsync import Consumer, JetStream, JetStreamMsg, Stream

__all__ = ["assert_acked", "assert_published"]


def assert_published(
    js: JetStream,
    subject: str,
    *,
    count: int = 1,
    data: bytes | None = None,
    since: datetime.datetime | None = None,
    timeout: float = 2.0,
) -> list[JetStreamMsg]:
    """Assert that a stream has ``count`` messages on a subject (wildcards allowed); return them.

    ``data``: with this payload; ``since``: stored at this time or later. A stream that is a work
    queue has only messages that are not done. Blocks up to ``timeout``
    seconds for the last of them. Raises AssertionError, also when there are more; and
    StreamNotFoundError when no stream has the subject.
    """
    if since is not None and since.tzinfo is None:
        raise ConfigError("since must have a time zone")
    stream = js.stream(js.stream_name_by_subject(subject))

    def found() -> list[JetStreamMsg]:
        return [
            msg
            for msg in _stored(stream, subject)
            if (data is None or msg.data == data)
            and (since is None or msg.metadata.timestamp >= since)
        ]

    last: list[JetStreamMsg] = []

    def enough() -> bool:
        last[:] = found()
        return len(last) >= count

    try:
        wait_until(enough, timeout)
    except AssertionError:
        pass
    if len(last) != count:
        about = "" if data is None else f" with data {data[:80]!r}"
        raise AssertionError(
            f"{subject!r} has {counted(len(last), 'message')}{about} in stream "
            f"{stream.name!r}, not {count}: "
            f"{[(msg.subject, msg.data[:40]) for msg in last[:10]]}"
        )
    return last


def _stored(stream: Stream, subject: str) -> Iterator[JetStreamMsg]:
    """The messages that the stream has on a subject now. Blocks."""
    if stream.cached_info.config.retention == "workqueue":
        yield from _queued(stream, subject)
        return
    with stream.ordered_consumer(filter_subjects=[subject]) as consumer:
        while len(batch := consumer.fetch_no_wait(1000)):
            yield from batch


def _queued(stream: Stream, subject: str) -> Iterator[JetStreamMsg]:
    """The same for a work queue: a consumer would take the messages from its worker, and is refused
    while there is one."""
    seq = 1
    while True:
        try:
            stored = stream.get_msg(seq, next_by_subject=subject)
        except MessageNotFoundError:
            return
        seq = stored.seq + 1
        yield make_message(
            stored.data,
            subject=stored.subject,
            headers=stored.headers,
            stream=stored.stream,
            seq=stored.seq,
            timestamp_ns=stored.time_ns,
        )


def assert_acked(consumer: Consumer, timeout: float = 2.0) -> None:
    """Assert that a consumer has delivered everything, and that all of it is acknowledged.

    Blocks up to ``timeout`` seconds; raises AssertionError.
    """

    def settled() -> bool:
        info = consumer.info()
        return not info.num_ack_pending and not info.num_pending

    try:
        wait_until(settled, timeout)
    except AssertionError:
        info = consumer.info()
        raise AssertionError(
            f"{consumer!r} has {counted(info.num_ack_pending, 'message')} delivered and not "
            f"acknowledged, {info.num_pending} not delivered"
        ) from None
