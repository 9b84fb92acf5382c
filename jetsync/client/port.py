"""Port: what the rooms above ``client/`` may use of a connection, and nothing else.

`port_of(connection)` returns the one port of a connection. What is not declared here is private to
``client/``; tests/package/test_privacy.py holds that. All of it is thread-safe, and may be used in
callbacks and signal handlers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jetsync._core.encoding import encode_headers
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync._deadline import Deadline, Seconds, to_seconds
from jetsync._measurement import Measurement
from jetsync.client.dispatch import Task
from jetsync.client.members import Member
from jetsync.client.pongs import RoundTrip
from jetsync.client.requests import Exchange, Reply
from jetsync.client.routes import Inbox
from jetsync.client.subscription import Subscription, drain_all
from jetsync.client.timer import TimerHandle
from jetsync.errors import ConnectionClosedError, Error
from jetsync.headers import HeaderInput
from jetsync.protocol.states import Status

if TYPE_CHECKING:
    from jetsync._core.handles import Publishing
    from jetsync._core.message import Msg
    from jetsync.client.connection import Connection
    from jetsync.client.events import Event

__all__ = ["Exchange", "Inbox", "Member", "Port", "Reply", "Task", "TimerHandle", "port_of"]


class Counts(Protocol):
    """The numbers that a room above keeps of a connection."""

    def measurements(self, connection: str) -> list[Measurement]:
        """Return the present numbers, with this label of the connection. Does not block."""


C = TypeVar("C", bound=Counts)


def port_of(connection: Publishing) -> Port:
    """Return the port of a connection. Does not block."""
    port: Port = connection._port  # type: ignore[attr-defined]  # a Connection, in all cases
    return port


def _plain(handler: Any, queue: str | None) -> Any:
    """Without observers a handler stays as it is."""
    return handler


_UNOBSERVED = contextlib.nullcontext()


def _unobserved(kind: str, name: str, **about: Any) -> contextlib.AbstractContextManager[Any]:
    """Without observers an operation is its block and nothing else."""
    return _UNOBSERVED


class Port:
    """The interface of one connection for the rooms above."""

    __slots__ = ("_counts", "_nc", "label", "observed", "operation", "outbound", "url")

    def __init__(self, nc: Connection, label: str, outbound: Outbound) -> None:
        self._nc = nc
        self.label: str = label
        """Names the connection in the names of threads."""
        self.outbound: Outbound = outbound
        """The bytes waiting to leave, for compiled code that fills it."""
        self.url: str | None = None
        """The address of the current server."""
        self._counts: dict[type[Counts], Counts] = {}
        self.observed: Callable[[Any, str | None], Any] = _plain
        """Returns the handler of messages, given with its queue, as observers of the connection see
        it."""
        self.operation: Callable[..., contextlib.AbstractContextManager[Any]] = _unobserved
        """Returns a context manager that encloses an operation: its kind, its name, and by keyword
        what observers of the connection are told (``subject``, ``stream``, ``consumer``,
        ``count``). For calls that wait for an answer, so that it costs nothing that counts."""

    @property
    def connection(self) -> Connection:
        """The object that the user holds."""
        return self._nc

    def counted(self, kind: type[C]) -> C:
        """Return the counts that a room above keeps of this connection; the first call makes them.
        ``Connection.measurements()`` contains their numbers."""
        found: Any = self._counts.get(kind)
        return self._counts.setdefault(kind, kind()) if found is None else found  # type: ignore[return-value]

    def measurements(self, connection: str) -> list[Measurement]:
        """Return the numbers that rooms above keep of this connection. Does not block."""
        return [
            one for counts in list(self._counts.values()) for one in counts.measurements(connection)
        ]

    # -- budget ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise when the connection takes no work: ConnectionClosedError, ForkedError, or
        DrainingError once a drain has settled what was under way."""
        if self._nc._refusal is not None:
            raise self._nc._refusal()

    def refusal(self) -> Error | None:
        """Return what :meth:`check` would raise, or None."""
        refusal = self._nc._refusal
        return None if refusal is None else refusal()

    def seconds(self, timeout: Seconds | None) -> float:
        """Return a timeout in seconds; None is the connection's default."""
        seconds = self._nc.options.timeout if timeout is None else timeout
        return seconds if isinstance(seconds, float) and seconds >= 0 else to_seconds(seconds)

    def sleep(self, seconds: float) -> None:
        """Wait; ends early when the connection closes."""
        self._nc._lifecycle.wait_closed(seconds)

    # -- state -----------------------------------------------------------------------------------

    @property
    def linked(self) -> bool:
        """Whether there is a link to a server right now, as :attr:`Outbound.is_linked` says
        it; the port only passes that on."""
        return self.outbound.is_linked and not self._nc.is_closed

    @property
    def epoch(self) -> int:
        """How many links there have been. Requests sent under another number may be lost, with
        their answers. It changes before :attr:`linked` is true again."""
        return self._nc._session.epoch

    @property
    def reads(self) -> int:
        """How many times bytes were received; the parts of a large message count too."""
        return self._nc._inbound.reads

    def has_unread(self) -> bool:
        """Whether bytes of the server wait in the system for the reader thread. Does not block."""
        return self._nc._session.sockets.has_unread()

    @property
    def round_trip(self) -> RoundTrip:
        """The measurement of the round trip to the server; :attr:`rtt` is its ``seconds``."""
        return self._nc._session.round_trip

    @property
    def rtt(self) -> float:
        """The round trip to the server in seconds, smoothed, with four times its spread on top;
        0.0 before it was measured. Measured at connecting and with each PING."""
        return self._nc._session.rtt

    @property
    def ends(self) -> tuple[int | None, tuple[str, int] | None]:
        """The number that the server gave this connection; address and port of the other end of
        the socket: the server, or a proxy."""
        session = self._nc._session
        info, link = session.info, session._link
        return (None if info is None else info.client_id), (None if link is None else link.peer)

    @property
    def draining(self) -> bool:
        """Whether the connection drains: ask for no more messages, finish what is there."""
        return self._nc.status in (Status.DRAINING_SUBS, Status.DRAINING_PUBS)

    @property
    def drained(self) -> bool:
        """Whether a drain got everything done before the connection closed."""
        return self._nc._lifecycle.drained

    @property
    def closed(self) -> bool:
        """Whether the connection has ended for good (or belongs to another process)."""
        return self._nc.is_closed

    @property
    def forked(self) -> bool:
        """Whether this is a forked child, in which no thread of the connection exists."""
        return self._nc._forked

    # -- telling ---------------------------------------------------------------------------------

    def report(self, error: BaseException) -> None:
        """Tell the user of an error that no call can raise: ``on_error``, ``last_error``, the log.

        Never blocks, never raises. A ConnectionClosedError of a connection that has closed is an
        effect of the end and not reported.
        """
        if not (self._nc.is_closed and isinstance(error, ConnectionClosedError)):
            self._nc._reports.error(error)

    def tell(self, event: Event) -> None:
        """Give an event to the log and the user's handlers. Never blocks, never raises."""
        self._nc._reports.events.post(event)

    def comes_of_exit(self, error: BaseException) -> bool:
        """Whether code that still runs when the interpreter ends found the connection closed: the
        program did not ask for that, and nothing is told. Does not block."""
        return self._nc._lifecycle.ends_at_exit and isinstance(error, ConnectionClosedError)

    def callback_failed(
        self,
        error: BaseException,
        msg: Any,
        *,
        stream: str | None = None,
        consumer: str | None = None,
    ) -> None:
        """Tell that a callback raised on this message, or request. Never blocks, never raises."""
        if self.comes_of_exit(error):
            return
        self._nc._reports.post(
            "callback_error",
            error,
            subject=getattr(msg, "subject", None),
            stream=stream,
            consumer=consumer,
            seq=None if stream is None else msg.metadata.stream_seq,
        )

    def future_failed(self, error: BaseException, future: Any) -> None:
        """Tell that a callback of a future raised; of None: that its thread cannot start. Never
        blocks, never raises."""
        self._nc._reports.future_failed(error, future)

    # -- sending ---------------------------------------------------------------------------------

    def send(
        self,
        subject: str,
        data: bytes = b"",
        reply: str | None = None,
        header: bytes = b"",
        seconds: float | None = None,
        link: int = 0,
    ) -> None:
        """Publish, and send from this thread what the socket takes. Blocks only while the outbound
        buffer is full, up to ``seconds`` (None: ``write_timeout``). Raises like
        ``Connection.publish``. With ``link`` it is put in for the link of that number only, else
        OutboundFullError is raised."""
        self.outbound.publish(subject, data, reply, header, False, seconds, link)
        self.outbound.send_now()

    # -- receiving -------------------------------------------------------------------------------

    def open_inbox(
        self,
        subject: str,
        mailbox: Mailbox,
        *,
        queue: str | None = None,
        answers: bool = False,
        asks: str | None = None,
    ) -> Inbox:
        """Subscribe with a mailbox. Does not wait for the server. Drop or close the inbox to end.

        ``answers``: it gets answers to what this connection publishes, so a drain leaves it open.
        ``asks``: the subject on which its messages are asked for. When the server refuses the
        subscription, or publishing on that subject, the mailbox ends with the PermissionsError.
        Raises ConfigError, ConnectionClosedError, DrainingError.
        """
        self._nc._check()
        if not answers:
            self._nc._lifecycle.check_not_draining()
        return self._nc._routes.open(subject, queue, mailbox, answers=answers, asks=asks)

    def new_inbox(self) -> str:
        """Return a new unique subject. Does not block."""
        return self._nc.new_inbox()

    def drain(self, subscriptions: Sequence[Subscription], deadline: Deadline) -> None:
        """Drain several subscriptions together; see ``Subscription.drain``."""
        drain_all(self, subscriptions, deadline)

    # -- requests --------------------------------------------------------------------------------

    def request(
        self,
        subject: str,
        data: bytes,
        timeout: float,
        headers: HeaderInput | None = None,
        *,
        wild: bool = False,
    ) -> Msg:
        """Ask once; see ``Connection.request``, and :meth:`exchange` for ``wild``."""
        return self._nc._requests.request(subject, data, timeout, headers, wild=wild)

    def exchange(
        self, subject: str, data: bytes, headers: HeaderInput | None = None, *, wild: bool = False
    ) -> Exchange:
        """Return a question to be asked as often as needed with one reply subject.

        ``wild``: the subject may hold wildcards, and no headers go with it; some subjects of the
        server's own API are so.
        """
        header = None if wild else encode_headers(headers)
        return Exchange(self._nc._requests, subject, data, header)

    def open_reply(self, subject: str) -> Reply:
        """Return a reply subject of its own with its mailbox, for a question on ``subject`` that
        the caller sends. Drop or close it to end."""
        return self._nc._requests.open(subject)

    def ask(
        self,
        subject: str,
        data: bytes = b"",
        headers: HeaderInput | None = None,
        *,
        seconds: float,
    ) -> Reply:
        """Send a question and return where the answer will be. Does not wait for it. Blocks while
        the buffer is full, up to ``seconds``, and raises like ``Connection.publish``; also
        DisconnectedError when the link was lost before the question could leave."""
        requests = self._nc._requests
        reply = requests.open(subject)
        requests.put(subject, data, reply, encode_headers(headers), Deadline(seconds))
        return reply

    def flush(self, deadline: Deadline) -> None:
        """Wait until the server has taken everything sent before. Raises like
        ``Connection.flush``."""
        self._nc._flush(deadline)

    # -- later -----------------------------------------------------------------------------------

    def later(self, seconds: float, function: Callable[[], object]) -> TimerHandle:
        """Run a short function on the timer thread after ``seconds``. Does not block; may be
        called in finalizers."""
        return self._nc._timer.call_later(seconds, function)

    def after_pong(self, function: Callable[[], object]) -> None:
        """Run a function on the timer thread when everything has arrived that the server had sent
        up to now, or when the link is gone."""
        self._nc._after_pong(function)

    def start_thread(self, purpose: str, function: Callable[[], object]) -> threading.Thread:
        """Start a daemon thread that takes no signals, named after its purpose and connection.

        The end of the connection waits for it. Raises ConnectionClosedError after that.
        """
        return self._nc._threads.start(purpose, function)

    def dispatch(
        self,
        mailbox: Mailbox,
        callback: Callable[[Any], Any] | None,
        ended: Callable[[BaseException | None], Any],
        step: Callable[[], Mailbox | None] | None = None,
    ) -> Task:
        """Give what comes into a mailbox to a callback, on a thread of the connection's dispatcher;
        exceptions of the callback are reported. See ``Task``. Does not block."""
        return self._nc._dispatcher.run(mailbox, callback, self.callback_failed, ended, step)

    @property
    def is_dispatching(self) -> bool:
        """Whether the caller is a thread of the dispatcher: inside some callback."""
        return self._nc._dispatcher.on_this_thread

    def recover(
        self, function: Callable[[], object], ended: Callable[[BaseException | None], Any]
    ) -> None:
        """Call a function that waits for the server, once, on one of a few threads that exist as
        long as there is such work; then ``ended`` with what it raised. Does not block."""

        def step() -> None:
            function()

        mailbox = Mailbox()
        mailbox.wake()
        self._nc._recoverer.run(mailbox, None, self.callback_failed, ended, step)

    # -- the life of the connection --------------------------------------------------------------

    def attach(self, member: Member, *, sends: bool = False, hold: bool = False) -> None:
        """Tell ``member`` what happens to the connection. See :class:`Member`.

        ``sends``: it has messages under way, also those that other members publish while they
        drain; it drains after them. The member is held weakly unless ``hold``: one that is
        dropped is no member any more.
        """
        self._nc._members.attach(member, sends=sends, hold=hold)

    def detach(self, member: Member) -> None:
        """Undo :meth:`attach`. Safe to repeat."""
        self._nc._members.detach(member)
