"""PullStream: an endless iterator with a buffer that refills itself. The loop of messages and
consume, of plain consumers and of ordered ones.

Messages wait in the mailbox of an inbox. A taker moves all of them into its prefetch buffer, which
hands them out one by one until a pull is due. All of that is compiled
(``_core/pull_stream.pyx``); this module handles a pull that ends early, silence, and the end of the
stream.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._core.prefetch import wake_buffer
from jetsync._core.pull_stream import PullLoop
from jetsync._deadline import Deadline, Seconds
from jetsync._handles import Handle
from jetsync.errors import (
    ConnectionClosedError,
    DrainingError,
    Error,
    PullTerminatedError,
    TimeoutError,
)
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull.options import HUGE_BATCH, check_count
from jetsync.jetstream.pull.statuses import Fate

if TYPE_CHECKING:
    from jetsync.client.port import Port
    from jetsync.jetstream.pull.inbox import PullInbox
    from jetsync.jetstream.pull.options import Window
    from jetsync.jetstream.pull.source import Source
    from jetsync.jetstream.pull.state import Ended

__all__ = ["PullStream", "Steps"]

_Deliver = Callable[
    [Callable[[JetStreamMsg], Any], Callable[[BaseException, JetStreamMsg], Any], int], int
]

Self = TypeVar("Self", bound="PullStream")


class PullStream(Handle, PullLoop):
    """The messages of a consumer, one after another or in batches.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` and :meth:`drain` may be
    called by any. A pull never asks for more than fits into the buffer. As a context manager it
    stops at the end.
    """

    def __init__(
        self,
        port: Port,
        source: Source,
        window: Window,
        *,
        expires: float,
        heartbeat: float,
        group: dict[str, object],
        stop_after: int | None,
        on_warning: Callable[[Exception], Any] | None,
    ) -> None:
        super().__init__(
            port,
            source,
            window,
            expires=expires,
            heartbeat=heartbeat,
            group=group,
            stop_after=stop_after,
        )
        self._on_warning = on_warning
        self._consumer: Callable[[], object] | None = None  # wakes what consumes it

    # -- taking ------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __iter__(self: Self) -> Self: ...
        def __next__(self) -> JetStreamMsg: ...
        def _deliver(
            self,
            callback: Callable[[JetStreamMsg], Any],
            report: Callable[[BaseException, JetStreamMsg], Any],
            most: int,
        ) -> int: ...

    def next(self, timeout: Seconds | None = None) -> JetStreamMsg:
        """Return the next message. Blocks up to ``timeout`` seconds (None: no limit).

        Raises TimeoutError when none came, ConsumerDeletedError or PullTerminatedError when the
        consumer cannot be used any more, JetStreamError when reading cannot go on,
        ConnectionClosedError after the end.
        """
        msg: JetStreamMsg | None = self._quick()
        if msg is None:
            msg = self._take(Deadline(timeout))
        if msg is not None:
            return msg
        if self._is_over():
            raise self._error or ConnectionClosedError("the message stream has ended")
        raise TimeoutError(f"no message from {self._source!r} in time", operation="next")

    def batches(
        self, max_messages: int | None = None, timeout: Seconds | None = None
    ) -> Iterator[MsgBatch]:
        """Iterate over whole batches of what is ready: one message or more, up to ``max_messages``
        (None: the size of the buffer).

        Blocks while it is iterated, up to ``timeout`` seconds (None: no limit) for the first
        message of each batch; an empty batch says that none came. Ends like the iteration over
        messages. Raises ConsumerDeletedError or PullTerminatedError when the consumer cannot be
        used any more, JetStreamError when reading cannot go on, ConfigError for a wrong
        ``max_messages`` and when two threads take at once.
        """
        check_count("max_messages", max_messages)
        while True:
            limit = self._window.max_messages if max_messages is None else max_messages
            batch = self._in_turn(self._batch_inside, (limit, Deadline(timeout)))
            if not len(batch) and self._is_over():
                if self._error is not None:
                    raise self._error
                return
            yield batch

    def _empty_batch(self) -> MsgBatch:
        inbox = self._inbox
        return MsgBatch() if inbox is None else inbox.new_batch()

    def _open(self, deadline: Deadline) -> PullInbox | None:
        """The inbox to take from; None when there is none in time."""
        source: Source = self._source
        inbox = source.open(deadline, self._is_over)
        if inbox is not self._inbox and inbox is not None:
            self._inbox = inbox
            inbox.stream = weakref.ref(self)
        return inbox

    def _is_over(self) -> bool:
        """Whether nothing more will be handed out."""
        if self._stopped or not self._is_open:
            return True
        inbox = self._inbox
        if self._buffered or (inbox is not None and len(inbox.batch)):
            return False
        if self._left is not None and self._left <= 0:
            return True
        if self._error is not None or self._draining:
            return inbox is None or inbox.mailbox.pending_messages == 0
        return False

    # -- for consume() -----------------------------------------------------------------------------

    def _current(self) -> PullInbox | None:
        """The inbox in which the next message comes; None when `_recover` has to make it."""
        inbox: PullInbox | None = self._inbox
        return inbox

    @property
    def _planner(self) -> Callable[[], tuple[float, float, float]]:
        """Returns when to check that inbox although nothing came, as ``Alarm.set`` takes it."""
        return self._next_check

    def _recovers_at(self) -> float | None:
        """When `_recover` may be called (monotonic); None: when there is a link again."""
        return None

    def _recover(self) -> None:
        """Try once to make the missing inbox. Blocks; raises when reading cannot go on."""
        raise NotImplementedError

    # -- exceptional events ------------------------------------------------------------------------

    def _on_end(self, inbox: PullInbox, ended: Ended) -> None:
        self._is_settled = False
        error = self._source.on_end(inbox, ended)
        if error is not None:
            if ended.fate is Fate.WARN:
                self._warn(error)
            else:
                self._error = error
        elif ended.fate is Fate.LIMIT:
            self._on_limit(inbox, ended)

    def _on_limit(self, inbox: PullInbox, ended: Ended) -> None:
        """The next message did not fit into what was left of the buffer."""
        window = self._window
        if window.shrink() or self._came:
            return
        if not window.is_whole:
            window.is_whole = True  # try again when the buffer is empty
            return
        # It does not fit into an empty buffer either: pulling again would fail for ever.
        inbox.state.back_off_for(Fate.LIMIT, time.monotonic())
        self._warn(
            PullTerminatedError(
                f"the next message of {inbox.consumer!r} is larger than max_bytes "
                f"({window.max_bytes}); raise it",
                status=ended.status,
            )
        )

    def _check(self, inbox: PullInbox) -> None:
        """Nothing came: check the link, the server and the inbox."""
        self._port.check()
        if inbox.lost_link():
            self._source.on_new_link(inbox)
        elif inbox.went_silent():
            error = self._source.on_silence(inbox)
            if error is None:
                self._on_silence(inbox)
            elif self._error is None:
                self._error = error
        if inbox.mailbox.ended:
            error = self._source.on_finished(inbox)
            if isinstance(error, DrainingError):
                self._draining = True
            elif error is not None:
                self._error = error

    def _on_silence(self, inbox: PullInbox) -> None:
        """The server has stopped answering, and the pulls are sent again."""

    def _warn(self, error: Error) -> None:
        """Report a trouble that the stream is recovering from."""
        if self._on_warning is not None:
            self._guard(self._on_warning)(error)
        self._port.report(error)

    def _guard(self, function: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        """A function of the user must not end the stream by raising."""

        def call(value: Any) -> None:
            try:
                if function is not None:
                    function(value)
            except Exception as error:  # noqa: BLE001 - user code may raise anything
                self._port.report(error)

        return call

    # -- ending ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End now. Safe to repeat, any thread.

        While another thread is taking, that thread ends it.
        """
        self._stopped = True
        wake_buffer(self)
        if self._try_enter():
            try:
                self._close()
            finally:
                self._leave()
                self._wake()
        else:
            self._wake()

    def _close(self) -> None:
        """Hand back the remaining messages, once. The caller holds the turn."""
        raise NotImplementedError

    def _rest(self) -> MsgBatch:
        """Take everything that the user has not seen."""
        inbox = self._inbox
        if inbox is not None:
            self._take_over(inbox.release())
        batch = self._empty_batch()
        if self._buffered:
            self._move_into(batch, HUGE_BATCH)
        return batch

    def drain(self) -> None:
        """Send no more pulls; the iteration ends after the buffered messages. Any thread."""
        self._draining = True
        self._wake()

    def _wake(self) -> None:
        """Wake the thread that takes, to check the stream. Any thread."""
        if (inbox := self._inbox) is not None:
            inbox.wake()
        if (consumer := self._consumer) is not None:
            consumer()

    @property
    def pending(self) -> int:
        """Messages that are buffered, the prefetched ones included."""
        inbox = self._inbox
        if inbox is None:
            return int(self._buffered)
        return int(inbox.mailbox.pending_messages + self._buffered + len(inbox.batch))

    def __repr__(self) -> str:
        state = "ended" if self._stopped else f"{self.pending} buffered"
        return f"{type(self).__name__}({self._source!r}, {state})"

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()


class Steps:
    """The calls of ``consume()`` on a stream: a dispatcher takes from it, no thread waits in it.

    ``wake`` is called when a step has to be taken. One thread at a time takes steps.
    """

    def __init__(self, stream: PullStream, wake: Callable[[], object]) -> None:
        self._stream = stream
        stream._consumer = wake
        self.deliver: _Deliver = stream._deliver
        """Calls the callback with at most so many messages; returns ``SETTLED``, ``MORE``,
        ``RESTS`` or ``CHECK``."""
        self.current: Callable[[], PullInbox | None] = stream._current
        """Returns the inbox that messages come to; None when the stream has to recover first."""
        self.next_check: Callable[[], tuple[float, float, float]] = stream._planner
        """Returns when to check that inbox although nothing came, as ``Alarm.set`` takes it."""

    def is_over(self) -> bool:
        """Whether nothing will come any more; raises the error that ended the stream."""
        if not self._stream._is_over():
            return False
        if self._stream._error is not None:
            raise self._stream._error
        return True

    def recovers_at(self) -> float | None:
        """When to recover; None: when the link comes."""
        return self._stream._recovers_at()

    def recover(self) -> None:
        """Make the next inbox. Blocks while it asks the server."""
        self._stream._recover()

    def warn(self, error: Error) -> None:
        """Report a trouble that the stream is recovering from."""
        self._stream._warn(error)
