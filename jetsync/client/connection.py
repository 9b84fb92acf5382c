"""Connection: the user's object. It checks arguments and delegates to the other files here."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._core.handles import Publishing
from jetsync._core.ids import next_nuid
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg
from jetsync._core.outbound import Outbound
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._numbers import check_whole
from jetsync._threads import Threads
from jetsync.client.asking import Asking
from jetsync.client.callbacks import check_callback
from jetsync.client.dispatch import RECOVERING, Dispatcher
from jetsync.client.futures import RequestFuture
from jetsync.client.lifecycle import Lifecycle
from jetsync.client.members import Members
from jetsync.client.options import ConnectOptions
from jetsync.client.pongs import Pong, PongCall
from jetsync.client.port import Port
from jetsync.client.repeats import Repeats
from jetsync.client.reports import Reports
from jetsync.client.requests import Requests
from jetsync.client.routes import Routes
from jetsync.client.session import Session
from jetsync.client.stats import ConnectionStats
from jetsync.client.subscription import Subscription
from jetsync.client.timer import Timer
from jetsync.errors import ConfigError, DisconnectedError
from jetsync.headers import HeaderInput
from jetsync.protocol.info import ServerInfo
from jetsync.protocol.serverpool import ServerState
from jetsync.protocol.states import Life, Status

if TYPE_CHECKING:
    from jetsync._measurement import Measurement
    from jetsync.client.message_trace import MessageTrace
    from jetsync.jetstream import JetStream
    from jetsync.services import EndpointInfo, Service, ServiceRequest

__all__ = ["Connection"]

_numbers = itertools.count(1)


class Connection(Publishing):
    """A connection to a NATS system: one server at a time, the next one when it fails.

    Made by :func:`jetsync.connect`. Thread-safe: share one between threads. Not between processes:
    after a fork the child gets ``ForkedError`` at once, and pickling raises; share ``options`` and
    connect in each process. As a context manager it drains on success and closes on an exception.
    """

    def __init__(self, options: ConnectOptions) -> None:
        super().__init__(
            Outbound(
                offline_limit=options.reconnect_buffer_size,
                write_timeout=to_seconds(options.write_timeout),
                max_control_line=options.max_control_line,
            )
        )
        self.options = options
        self._label = str(next(_numbers))
        self._forked = False
        self._life = Life()
        self._inbound = Inbound(self._outbound)
        self._timer = Timer(self._label)
        self._reports = Reports(self)
        self._members = Members()
        self._threads = Threads(self._label)
        self._dispatcher = Dispatcher(self._inbound, self._threads, options.dispatch_threads)
        self._recoverer = Dispatcher(self._inbound, self._threads, RECOVERING, "recover")
        self._routes = Routes(self._inbound, self._outbound, self._timer.guard)
        self._requests = Requests(self)
        self._asking = Asking(self)
        self._port = Port(self, self._label, self._outbound)
        self._life.link(Status.CONNECTING)
        self._lifecycle = Lifecycle(self)
        self._session = Session(self)
        self._outbound.on_resend = Repeats(self._outbound, self._timer).find_out
        try:
            self._timer.start()
            self._session.start()
        except BaseException:  # Ctrl-C during a thread's start: the caller has no object
            self.close()
            raise

    # -- publish and request ---------------------------------------------------------------------

    def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: Seconds | None = None,
        headers: HeaderInput | None = None,
    ) -> Msg:
        """Send a message and return the reply. A late reply never reaches another caller.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises NoRespondersError at
        once when the subject has no subscriber, TimeoutError, DisconnectedError when the link broke
        meanwhile (the request may have been carried out), PermissionsError; ConfigError and
        MaxPayloadError before anything is sent; OutboundFullError when it could not be sent in
        time; ConnectionClosedError.
        """
        self._check()
        return self._requests.request(subject, data, self._seconds(timeout), headers)

    def request_many(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: Seconds | None = None,
        headers: HeaderInput | None = None,
        max_messages: int | None = None,
        stall: Seconds | None = None,
        sentinel: object = None,
    ) -> Iterator[Msg]:
        """Send a message and return an iterator over every reply (ADR-47).

        The call sends it and does not wait; the iterator blocks until the next reply. It ends
        ``timeout`` seconds after the call (default: the connection's), after ``max_messages``, when
        no further reply came for ``stall`` seconds, or at the sentinel: ``sentinel=True`` is an
        empty reply, a function is asked for each message.

        The call raises ConfigError and MaxPayloadError before anything is sent, OutboundFullError,
        ConnectionClosedError; the iterator raises NoRespondersError, DisconnectedError when the
        link broke (the request may have been carried out), PermissionsError, ConnectionClosedError.
        A timeout just ends it.
        """
        self._check()
        if max_messages is not None:
            check_whole("max_messages", max_messages, least=0)
        return self._requests.request_many(
            subject,
            data,
            self._seconds(timeout),
            headers,
            max_messages,
            None if stall is None else to_seconds(stall, "stall"),
            sentinel,
        )

    def request_async(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput | None = None,
        timeout: Seconds | None = None,
    ) -> RequestFuture:
        """Send a message and return a future for the reply. Does not wait for it.

        The future is settled within ``timeout`` seconds (default: the connection's), by the reply
        or by what :meth:`request` raises. Blocks only while the outbound buffer is full. Raises
        ConfigError and MaxPayloadError before anything is sent, OutboundFullError when the buffer
        stayed full, ConnectionClosedError. Thread-safe; may be called from callbacks.
        """
        self._check()
        return self._asking.ask(subject, data, self._seconds(timeout), headers)

    # -- subscribe -------------------------------------------------------------------------------

    def subscribe(
        self,
        subject: str,
        *,
        queue: str | None = None,
        callback: Callable[[Msg], Any] | None = None,
        pending_messages_limit: int | None = None,
        pending_bytes_limit: int | None = None,
    ) -> Subscription:
        """Receive the messages of a subject (wildcards ``*`` and ``>`` allowed).

        Does not wait for the server. Members of one ``queue`` share the messages. With a
        ``callback`` each message goes to it, one by one and in order; its exceptions go to
        ``on_error``. Up to ``dispatch_threads`` callbacks (an option of ``connect``) have a thread
        each; more callbacks share these threads. A callback that blocks occupies one thread; the
        others wait only when every thread is occupied. Beyond ``pending_messages_limit`` or
        ``pending_bytes_limit`` (default: the connection's; 0: none) new messages are dropped and
        counted. Raises ConfigError, ConnectionClosedError.
        """
        if callback is not None:
            check_callback(callback)
        options = self.options
        if pending_messages_limit is None:
            pending_messages_limit = options.pending_messages_limit
        if pending_bytes_limit is None:
            pending_bytes_limit = options.pending_bytes_limit
        mailbox = Mailbox(
            limit_messages=check_whole("pending_messages_limit", pending_messages_limit, least=0),
            limit_bytes=check_whole("pending_bytes_limit", pending_bytes_limit, least=0),
            owner=self,
        )
        self._check()
        self._lifecycle.check_not_draining()
        subscription = Subscription(self, subject, queue, mailbox, callback)
        subscription._open()
        return subscription

    # -- flush, drain, close ---------------------------------------------------------------------

    def flush(self, timeout: Seconds | None = None) -> None:
        """Wait until the server has taken everything published before.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises TimeoutError,
        DisconnectedError when there is no link or it broke, ConnectionClosedError.
        """
        self._check()
        self._flush(Deadline(self._seconds(timeout)))

    def _flush(self, deadline: Deadline) -> None:
        pong = Pong()
        self._session.ping(pong)
        pong.check(deadline.remaining())

    def rtt(self, timeout: Seconds | None = None) -> float:
        """Measure the round trip to the server, in seconds.

        Blocks up to ``timeout`` seconds (default: the connection's). Raises TimeoutError,
        DisconnectedError when there is no link or it broke, ConnectionClosedError.
        """
        start = time.monotonic()
        self.flush(timeout)
        return time.monotonic() - start

    def drain(self, timeout: Seconds | None = None) -> None:
        """End in good order: no new messages, callbacks finish, everything published is sent. Safe
        to repeat.

        Blocks up to ``timeout`` seconds (default: the connection's), then closes in any case and
        raises TimeoutError when something was cut short. Raises ForkedError in a forked child.
        """
        if self._forked:
            self._check()
        self._lifecycle.drain(self._seconds(timeout))

    def close(self) -> None:
        """Close now: waiting calls end, threads are joined. Blocks one second at most.

        What was published is still sent when the server takes it at once. Idempotent, thread-safe,
        may be called from any callback; never raises.
        """
        if not self._forked:
            self._lifecycle.close()

    def force_reconnect(self) -> None:
        """Leave the current server and connect again. Does not wait for it. Raises
        ConnectionClosedError.
        """
        self._check()
        self._session.suspect(DisconnectedError("force_reconnect() was called"))

    # -- the rest --------------------------------------------------------------------------------

    def trace(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput | None = None,
        deliver: bool = False,
        timeout: Seconds = 2.0,
    ) -> MessageTrace:
        """Send a message and return its way through the servers: which ones it reaches, whom each
        delivers it to, and what stops it (ADR-41).

        Nothing is delivered or stored unless ``deliver``. Blocks up to ``timeout`` seconds until
        the reports of all servers are there; some may be missing then (``complete`` is False).
        Raises ConfigError for a server before 2.11, TimeoutError when no report came,
        DisconnectedError at once when there is no link (nothing is sent) and when the link breaks
        meanwhile (the message may have been delivered or not).
        """
        from jetsync.client.message_trace import trace_message

        return trace_message(self, subject, data, headers, deliver, Deadline(timeout))

    def new_inbox(self) -> str:
        """Return a new unique subject for replies. Does not block."""
        return f"{self.options.inbox_prefix}.{next_nuid()}"

    def jetstream(
        self,
        *,
        domain: str | None = None,
        api_prefix: str | None = None,
        timeout: Seconds | None = None,
        max_pending: int | None = None,
        auto_msg_id: bool = True,
    ) -> JetStream:
        """Return the entry to streams and consumers. Does not block and asks no server.

        ``domain`` or ``api_prefix`` (not both) select another JetStream (None: that of the
        connection's options); ``timeout`` is the default budget of its calls in seconds (None: the
        connection's), ``max_pending`` how many publishes may be unconfirmed (None: 4,096, and up to
        32,768 or 16 MiB where the link holds more; a number is a hard bound), ``auto_msg_id``
        whether publishes get a message id so that retries are never stored twice. Raises
        ConfigError for arguments that cannot be.
        """
        from jetsync.jetstream import JetStream

        if domain is None and api_prefix is None:
            domain = self.options.jetstream_domain
            api_prefix = self.options.jetstream_api_prefix
        return JetStream(
            self,
            domain=domain,
            api_prefix=api_prefix,
            timeout=self._seconds(timeout),
            max_pending=max_pending,
            auto_msg_id=auto_msg_id,
        )

    def add_service(
        self,
        name: str,
        version: str,
        *,
        description: str = "",
        metadata: Mapping[str, str] | None = None,
        queue_group: str | None = "q",
        threads: int = 1,
        max_pending: int = 1000,
        stats_handler: Callable[[EndpointInfo], Any] | None = None,
        on_error: Callable[[BaseException, ServiceRequest | None], Any] | None = None,
        on_done: Callable[[Service], Any] | None = None,
        prefix: str = "$SRV",
        expose_errors: bool = False,
    ) -> Service:
        """Offer a service (ADR-32) and return it, for endpoints to be added. Does not wait.

        ``name`` has letters, digits, ``-`` and ``_``, ``version`` is semantic ("1.0.0"). Instances
        with one name share the requests of a ``queue_group`` (None: each gets all of them).
        ``threads`` is how many handlers of an endpoint run at once; at most ``max_pending``
        requests wait for a handler, further ones are answered with the error 503. Errors of
        handlers go to ``on_error(error, request)``, by default to the connection's, and to the
        other side as "internal error", with their text if ``expose_errors``.
        ``stats_handler(endpoint_info)`` adds a value of its own to the statistics; ``metadata`` is
        shown to clients that ask for the service.
        ``on_done(service)`` is told of the end. ``prefix`` is where services are found. Raises
        ConfigError, ConnectionClosedError, DrainingError.
        """
        from jetsync.services import Service

        return Service(
            self,
            name,
            version,
            description=description,
            metadata=metadata,
            queue_group=queue_group,
            threads=threads,
            max_pending=max_pending,
            stats_handler=stats_handler,
            on_error=on_error,
            on_done=on_done,
            prefix=prefix,
            expose_errors=expose_errors,
        )

    @property
    def status(self) -> Status:
        """The state of the connection right now; in a forked child it is closed."""
        return Status.CLOSED if self._forked else self._life.status

    @property
    def is_connected(self) -> bool:
        """Whether there is a link to a server right now."""
        return self._session.linked and not self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended for good (or belongs to another process)."""
        return self._life.closed or self._forked

    @property
    def connected_url(self) -> str | None:
        """The address of the current server, or None."""
        return None if self._forked else self._port.url

    @property
    def servers(self) -> tuple[ServerState, ...]:
        """The state of every known server, in the order in which they would be tried."""
        return self._session.pool.states()

    def set_servers(self, servers: str | Sequence[str]) -> None:
        """Replace the servers that this connection was given. Does not block or reconnect.

        The link stays as it is; the next reconnect goes to these and to discovered ones. Takes what
        ``connect`` takes; raises ConfigError, ConnectionClosedError. Thread-safe.
        """
        self._check()
        self._session.pool.replace_own(self.options._parse_servers(servers))

    @property
    def server_info(self) -> ServerInfo | None:
        """The last INFO of the server; None before the first connection."""
        return self._session.info

    @property
    def max_payload(self) -> int:
        """The largest message (headers and payload, bytes) that the server takes."""
        return self._outbound.max_payload

    @property
    def client_id(self) -> int | None:
        """The number that the server gave this connection."""
        info = self._session.info
        return info.client_id if info is not None else None

    @property
    def stats(self) -> ConnectionStats:
        """A snapshot of the counters."""
        return ConnectionStats(
            in_messages=self._inbound.messages,
            in_bytes=self._inbound.bytes,
            out_messages=self._outbound.messages,
            out_bytes=self._outbound.bytes,
            reconnects=self._session.reconnects,
            dropped=self._routes.dropped,
            unmatched=self._inbound.unmatched,
        )

    def measurements(self) -> list[Measurement]:
        """Return the measurements of this connection, for a collector such as
        ``jetsync.prometheus``. Does not block, and costs nothing until it is called."""
        from jetsync.client.measuring import measure

        buffered, rtt = self._outbound.pending_bytes, self._session.rtt
        found = measure(self, self._label, buffered, rtt, self._routes.mailboxes())
        return found + self._port.measurements(self.options.name or self._label)

    @property
    def last_error(self) -> BaseException | None:
        """The last error of any kind since the current link was made, or None. It is a copy without
        its traceback, which would keep alive the variables of every function that it passed."""
        return self._reports.last_error

    # -- for the other files of this room; upper rooms use the port --------------------------------

    def _check(self) -> None:
        """Refuse work when the connection has ended."""
        if self._refusal is not None:
            raise self._refusal()

    def _seconds(self, timeout: Seconds | None) -> float:
        """A timeout in seconds; None is the connection's default."""
        return to_seconds(self.options.timeout if timeout is None else timeout)

    def _after_pong(self, function: Callable[[], object]) -> None:
        """See ``Port.after_pong``."""
        self._session.ping(PongCall(lambda: self._timer.call_later(0, function)))

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None and not self.is_closed:
            self.drain()
        else:
            self.close()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)  # None: the constructor raised
        if session is None or self.is_closed:
            return
        try:
            warnings.warn(f"not closed: {self!r}", ResourceWarning, stacklevel=2, source=self)
        finally:
            # Takes no lock: the garbage collector may run this while any lock is held. The reader
            # sees the end of the socket, finds the connection gone, and ends the other threads.
            session.sockets.cut()

    def __reduce__(self) -> Any:
        raise ConfigError(
            "a connection cannot be pickled; pickle its `options` and call "
            "jetsync.connect(options=...) where it is used"
        )

    def __repr__(self) -> str:
        server = None if self._forked else self._session.server
        return f"Connection({server or 'not connected'}, {self.status.name})"
