"""Transport: a kombu connection over the NATS connection of its process."""

from __future__ import annotations

import time
from _queue import Empty as NothingQueued
from _queue import SimpleQueue
from builtins import TimeoutError as TimedOut
from typing import Any
from urllib.parse import quote

from kombu.transport import virtual
from kombu.utils.url import as_url

from jetsync import (
    BucketNotFoundError,
    ConnectError,
    Connection,
    ConnectionClosedError,
    DisconnectedError,
    Error,
    JetStreamUnavailableError,
    NoRespondersError,
    NotStoredError,
    StreamNotFoundError,
    TimeoutError,
    __version__,
    shared_connection,
)
from jetsync.contrib.gevent import call
from jetsync.contrib.kombu.broker import Broker, broker_of
from jetsync.contrib.kombu.channel import Channel
from jetsync.contrib.options import Address, read_options

__all__ = ["Transport"]

_CHECK_EVERY = 5.0
"""Seconds after which a wait without end checks that its queue still exists."""
_FLUSH = 2.0


class Transport(virtual.Transport):
    """kombu on NATS JetStream.

    Connections of a process with the same options share one NATS connection, which reconnects by
    itself. A forked child gets its own.
    """

    Channel = Channel
    default_port = 4222
    driver_type = "nats"
    driver_name = "jetsync"
    can_parse_url = True  # kombu would lose the scheme, which says whether TLS is asked for

    implements = virtual.Transport.implements.extend(
        asynchronous=False,
        exchange_type=frozenset(["direct", "topic", "fanout"]),
        heartbeats=False,
    )

    recoverable_connection_errors = (
        ConnectError,
        ConnectionClosedError,
        DisconnectedError,
        TimeoutError,
        NotStoredError,
        NoRespondersError,
        JetStreamUnavailableError,
        StreamNotFoundError,  # connecting makes what is missing
        BucketNotFoundError,
    )
    connection_errors = (*virtual.Transport.connection_errors, *recoverable_connection_errors)
    recoverable_channel_errors = ()

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        _take_url_apart(client)
        self._connection: Connection | None = None
        self._broker: Broker | None = None
        self._wakeups: SimpleQueue[None] = SimpleQueue()
        self._turn = 0

    def driver_version(self) -> str:
        """The version of jetsync."""
        return __version__

    @property
    def broker(self) -> Broker:
        """The streams and bindings of the virtual host."""
        if self._broker is None:
            raise ConnectionClosedError("the connection is not established")
        return self._broker

    # -- the connection ----------------------------------------------------------------------------

    def establish_connection(self) -> Any:
        """Connect, and make the streams of the virtual host. Blocks."""
        client = self.client
        address = Address(
            host=client.hostname,
            port=client.port,
            user=client.userid,
            password=client.password,
            path=client.virtual_host,
            tls=client.ssl or client.transport_cls == "tls",  # the latter: another URL of a list
        )
        fields, store = read_options(address, client.transport_options, default="default")
        if client.connect_timeout:
            fields.setdefault("connect_timeout", client.connect_timeout)
        fields.setdefault("name", "kombu")
        self._connection = call(shared_connection, **fields)
        self._broker = call(broker_of, self._connection, store)
        return super().establish_connection()

    def verify_connection(self, connection: Any) -> bool:
        """Whether the connection can be used. Does not block."""
        return self._connection is not None and not self._connection.is_closed

    def close_connection(self, connection: Any) -> None:
        """Close the channels; what they have acknowledged is on its way. Blocks."""
        super().close_connection(connection)
        if self._connection is not None and self._connection.is_connected:
            try:
                call(self._connection.flush, timeout=_FLUSH)
            except Error:
                pass  # acknowledgements are repeated when there is a link again

    @property
    def default_connection_params(self) -> dict[str, Any]:
        """The parts that a URL may leave out."""
        return {"port": self.default_port, "hostname": "localhost"}

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """The URL of the connection, its password hidden."""
        client = self.client
        scheme = "tls" if client.ssl or client.transport_cls == "tls" else "nats"
        text: str = as_url(
            scheme,
            client.hostname or "localhost",
            client.port or self.default_port,
            client.userid,
            client.password,
            quote((client.virtual_host or "").strip("/")),
            sanitize=not include_password,
            mask=mask,
        )
        return text

    # -- events ------------------------------------------------------------------------------------

    def wake(self) -> None:
        """End the wait of ``drain_events``. Any thread; does not block."""
        self._wakeups.put(None)

    def drain_events(self, connection: Any, timeout: float | None = None, **_: Any) -> None:
        """Give one message to its callback; wait for it up to ``timeout`` seconds (None: no
        limit). The channels take turns. Raises TimeoutError when nothing came."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        while True:
            if not self.verify_connection(connection):
                raise ConnectionClosedError("the connection is closed")
            while not self._wakeups.empty():
                self._wakeups.get()
            self._turn += 1
            begin = self._turn % max(1, len(self.channels))
            if any(channel.deliver() for channel in self.channels[begin:] + self.channels[:begin]):
                return
            left = (
                _CHECK_EVERY if ends_at is None else min(_CHECK_EVERY, ends_at - time.monotonic())
            )
            if left > 0:
                call(self._wait, left)
            elif ends_at is not None and time.monotonic() >= ends_at and self._wakeups.empty():
                raise TimedOut("no event in time")

    def _wait(self, seconds: float) -> None:
        try:
            self._wakeups.get(timeout=seconds)
        except NothingQueued:
            pass
        else:
            self._wakeups.put(None)


def _take_url_apart(client: Any) -> None:
    """Give a kombu connection the parts of its URL, as kombu does for most transports; so its
    password is in no ``info()``. What the URL leaves out stays as it was given otherwise."""
    if "://" not in (client.hostname or ""):
        return
    address = Address.of_url(client.hostname, client.ssl)
    client.hostname = address.host or "localhost"
    client.port = address.port or client.port
    client.userid = address.user or client.userid
    client.password = address.password or client.password
    client.virtual_host = (address.path or "").strip("/") or client.virtual_host
    client.ssl = address.tls
    client.uri_prefix = None
