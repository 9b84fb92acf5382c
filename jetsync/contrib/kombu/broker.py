"""Broker: the streams, the bucket and the consumers of one virtual host."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import threading
from datetime import datetime
from typing import Any

from kombu.log import get_logger

from jetsync import (
    BucketExistsError,
    BucketNotFoundError,
    Connection,
    Consumer,
    ConsumerNotFoundError,
    JetStream,
    KeyValue,
    KeyValueConfig,
    NotStoredError,
    Stream,
    StreamConfig,
    StreamNameInUseError,
    StreamNotFoundError,
)
from jetsync.contrib.kombu.queues import QueueRecord, consumer_name, record_of, subject_of
from jetsync.contrib.kombu.renewal import Renewals
from jetsync.contrib.kombu.routes import Routes
from jetsync.contrib.names import bucket_token, to_token
from jetsync.contrib.options import StoreOptions

__all__ = ["Broker", "broker_of", "open_bucket", "server_version"]

logger = get_logger("jetsync.contrib")

_MAX_WAITING = 4096
"""Pulls of a queue that may wait at once: a worker has one or two."""
_MARKER_TTL = 60.0
_PLAIN_QUEUE = QueueRecord()


def server_version(nc: Connection) -> tuple[int, int]:
    """Major and minor version of the server."""
    info = nc.server_info
    found = re.match(r"v?(\d+)\.(\d+)", info.version) if info is not None else None
    return (int(found[1]), int(found[2])) if found else (0, 0)


class Broker:
    """One virtual host on one connection. Every call blocks; thread-safe."""

    def __init__(self, nc: Connection, options: StoreOptions) -> None:
        self.nc = nc
        self.js: JetStream = nc.jetstream()
        self.options = options
        self.vhost: str = options.name
        version = server_version(nc)
        self._makes_ttl = version >= (2, 11)
        self._has_schedules = version >= (2, 12)
        self._preparing = threading.Lock()
        self._consumers: dict[str, tuple[QueueRecord, list[Consumer]]] = {}
        self._routes: Routes | None = None
        self.renewals: Renewals = Renewals(self)
        self._created: datetime | None = None  # when the bucket was, which tells it from a new one
        self.prepare()

    def prepare(self) -> None:
        """Look streams and bucket up and make those that are missing, now or after a loss. One
        thread does so at a time, so that there is one watch of the bindings."""
        with self._preparing:
            self._prepare()

    def _prepare(self) -> None:
        vhost = to_token(self.vhost)
        name = self.options.stream_name or f"KOMBU_{vhost}"
        self._lasting = self._stream(
            name,
            [f"kombu.{vhost}.q.>", f"kombu.{vhost}.s.>"],
            storage=self.options.storage,
            allow_msg_schedules=self._has_schedules,
        )
        self._transient = self._stream(
            f"{name}_TRANSIENT", [f"kombu.{vhost}.t.>"], storage="memory"
        )
        config = self._lasting.cached_info.config
        self.delays: bool = self.options.native_delay and bool(config.allow_msg_schedules)
        bucket = self._bucket(f"kombu-{bucket_token(self.vhost)}")
        status = bucket.status()
        self._marker_ttl = status.config.limit_marker_ttl or None
        created = status.stream_info.created
        if self._routes is None or self._created != created:
            self._routes = Routes(self.js, bucket, marker_ttl=self._marker_ttl)
            self._consumers.clear()
        self._created = created

    @property
    def routes(self) -> Routes:
        """The bindings of the virtual host."""
        assert self._routes is not None
        return self._routes

    # -- what there has to be ----------------------------------------------------------------------

    def _stream(self, name: str, subjects: list[str], **fields: Any) -> Stream:
        """Look a stream up; make it when there is none. What others have set up stays."""
        try:
            return self.js.stream(name)
        except StreamNotFoundError:
            if not self.options.create:
                raise
        config = StreamConfig(
            name=name,
            subjects=subjects,
            retention="workqueue",
            num_replicas=self.options.num_replicas,
            allow_direct=True,
            allow_msg_ttl=self._makes_ttl,
            **fields,
        )
        try:
            return self.js.create_stream(config)
        except StreamNameInUseError:  # another client made it with options of its own
            return self.js.stream(name)

    def _bucket(self, name: str) -> KeyValue:
        if not self.options.create:
            return self.js.key_value(name)
        return open_bucket(
            self.js,
            KeyValueConfig(
                bucket=name,
                replicas=self.options.num_replicas,
                storage=self.options.storage,
                limit_marker_ttl=_MARKER_TTL if self._makes_ttl else 0.0,
            ),
        )

    def stream_of(self, record: QueueRecord) -> Stream:
        """The stream that a queue lives in."""
        return self._transient if record.transient else self._lasting

    # -- queues ------------------------------------------------------------------------------------

    def declare(
        self,
        queue: str,
        *,
        auto_delete: bool = False,
        exclusive: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> QueueRecord:
        """Declare a queue, with priorities and times as AMQP's arguments say; return its record.

        The last declaration counts, but a queue keeps the priorities that it has.
        """
        record = record_of(auto_delete=auto_delete, exclusive=exclusive, arguments=arguments)
        known = self.routes.queue(queue)
        if known is not None and known != record:
            logger.warning("queue %r was declared as %s, is declared as %s", queue, known, record)
            record = dataclasses.replace(record, levels=max(record.levels, known.levels))
        if record.expires is not None or known != record:
            self.routes.declare(queue, record, ttl=self._age(record))
        return record

    def bind(self, exchange: str, type: str, queue: str, routing_key: str) -> None:
        """Bind a queue to an exchange; as long as the queue lasts."""
        record = self.record(queue)
        if record.expires is not None or (queue, routing_key) not in self.routes.bindings(exchange):
            self.routes.bind(exchange, type, queue, routing_key, ttl=self._age(record))

    def renew(self, queue: str, record: QueueRecord, bound: list[tuple[str, str, str]]) -> None:
        """Write the record of a queue, and its bindings, that would age out otherwise."""
        ttl = self._age(record)
        self.routes.declare(queue, record, ttl=ttl)
        for exchange, type, routing_key in bound:
            self.routes.bind(exchange, type, queue, routing_key, ttl=ttl)

    def _age(self, record: QueueRecord) -> float | None:
        """After how long the bucket forgets a queue, if it can: its watchers have to be told."""
        return None if self._marker_ttl is None else _whole_seconds(record.expires)

    def record(self, queue: str) -> QueueRecord:
        """The record of a queue; a plain one for a queue that is not declared."""
        found = self.routes.queue(queue)
        if found is None and self.routes.catch_up(seldom=True):
            found = self.routes.queue(queue)
        return found or _PLAIN_QUEUE

    def consumers(self, queue: str, *, anew: bool = False) -> tuple[QueueRecord, list[Consumer]]:
        """The consumers of a queue, highest level first; made when there are none."""
        record = self.record(queue)
        known = self._consumers.get(queue)
        if known is not None and known[0] == record and not anew:
            return known
        stream = self.stream_of(record)
        made = [
            stream.create_or_update_consumer(
                durable_name=consumer_name(queue, level),
                filter_subject=subject_of(self.vhost, queue, record, level),
                ack_policy="explicit",
                ack_wait=self.options.ack_wait,
                max_deliver=-1,
                max_ack_pending=-1,
                max_waiting=_MAX_WAITING,
                inactive_threshold=record.expires,
            )
            for level in reversed(range(record.levels))
        ]
        self._consumers[queue] = record, made
        return record, made

    def size(self, queue: str) -> int:
        """How many messages a queue has, those that are being handled included."""
        record = self.record(queue)
        every = subject_of(self.vhost, queue, record, "*")
        counts = self.stream_of(record).info(subjects_filter=every).state.subjects
        return sum((counts or {}).values())

    def purge(self, queue: str) -> int:
        """Remove the messages of a queue; return how many there were."""
        record = self.record(queue)
        return self.stream_of(record).purge(subject=subject_of(self.vhost, queue, record, "*"))

    def delete(self, queue: str) -> None:
        """Remove a queue with its messages, consumers and bindings."""
        record = self.record(queue)
        self._consumers.pop(queue, None)
        self.routes.forget(queue)
        stream = self.stream_of(record)
        for level in range(record.levels):
            try:
                stream.delete_consumer(consumer_name(queue, level))
            except ConsumerNotFoundError:
                pass
        stream.purge(subject=subject_of(self.vhost, queue, record, "*"))

    # -- messages ----------------------------------------------------------------------------------

    def put(
        self,
        queue: str,
        data: bytes,
        *,
        id: str,
        priority: int = 0,
        expiration: float | None = None,
        due: datetime | None = None,
    ) -> None:
        """Store a message, at once or, at ``due``, by the server's clock. Times in seconds."""
        record = self.record(queue)
        level = max(0, min(priority, record.levels - 1))
        subject = subject_of(self.vhost, queue, record, level)
        limits = [t for t in (expiration, record.message_ttl, record.expires) if t is not None]
        has_ttl = self.stream_of(record).cached_info.config.allow_msg_ttl
        ttl = _whole_seconds(min(limits, default=None)) if has_ttl else None
        try:
            if due is None or record.transient:
                self.js.publish(subject, data, msg_id=id, ttl=ttl)
                return
            self.js.publish(
                f"kombu.{to_token(self.vhost)}.s.{to_token(id)}",
                data,
                msg_id=id,
                schedule=due,
                schedule_target=subject,
                schedule_ttl=ttl,
            )
        except NotStoredError:
            self.js.stream(self.stream_of(record).name)  # StreamNotFoundError: kombu connects again
            raise


def _whole_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else float(max(1, math.ceil(seconds)))


def open_bucket(js: JetStream, config: KeyValueConfig) -> KeyValue:
    """Return a bucket, made when there is none; what others have set up stays. Blocks."""
    assert config.bucket is not None
    try:
        return js.key_value(config.bucket)
    except BucketNotFoundError:
        pass
    try:
        return js.create_key_value(config)
    except BucketExistsError:
        return js.key_value(config.bucket)


_brokers: dict[tuple[int, int, StoreOptions], Broker] = {}
_lock = threading.Lock()


def broker_of(nc: Connection, options: StoreOptions) -> Broker:
    """Return the broker of this process for a connection and a virtual host. Thread-safe."""
    key = (os.getpid(), id(nc), options)
    broker = _brokers.get(key)
    if broker is not None and broker.nc is nc:
        broker.prepare()
    else:
        broker = Broker(nc, options)
        with _lock:
            for stale in [k for k, b in _brokers.items() if b.nc.is_closed or k[0] != key[0]]:
                del _brokers[stale]
            broker = _brokers.setdefault(key, broker)
    return broker
