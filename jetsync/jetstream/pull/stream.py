"""PullStream: an endless iterator with a buffer that refills itself. The loop of messages and
consume, of plain consumers and of ordered ones.

Messages wait in the mailbox of an inbox. A taker moves all of them into its prefetch buffer, which
hands them out one by one without a Python frame until a pull is due (``_core/prefetch.pyx``).
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from jetsync._core.message import message_jsack
from jetsync._core.prefetch import PrefetchBuffer
from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    ConnectionClosedError,
    DrainingError,
    Error,
    NotJetStreamMessageError,
    PullTerminatedError,
    TimeoutError,
)
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull.options import HUGE_BATCH, PullOptions, check_count
from jetsync.jetstream.pull.statuses import Fate

if TYPE_CHECKING:
    from jetsync.client.port import Port
    from jetsync.jetstream.pull.inbox import PullInbox
    from jetsync.jetstream.pull.source import Source
    from jetsync.jetstream.pull.state import Ended
    from jetsync.jetstream.pull.window import Window

__all__ = ["PullStream"]

Self = TypeVar("Self", bound="PullStream")
_A = TypeVar("_A")
_R = TypeVar("_R")


class PullStream(PrefetchBuffer):
    """The messages of a consumer, one after another or in batches.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` and :meth:`drain` may be
    called by any. The buffer is bounded by construction: nothing is asked for that would not fit.
    As a context manager it stops at the end.
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
        self._port = port
        self._source = source
        self._window = window
        self._expires = expires
        self._heartbeat = heartbeat
        self._group = group
        self._is_lasting = source.is_lasting
        self._is_settled = False  # nothing has changed that a pull could be due for
        self._left = stop_after  # messages that may still come into the prefetch buffer
        self._on_warning = on_warning
        self._inbox: PullInbox | None = None
        self._stopped = False
        self._draining = False
        self._is_open = True
        self._error: Exception | None = None
        self._came = False  # whether a message came since the last pull was sent
        self._has_more = False  # the server had more ready when it sent the last message
        self._each = 1  # bytes of a message, about
        self._given = (0, 0.0)  # how many messages were handed out together, and when

    # -- taking ------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __iter__(self: Self) -> Self: ...
        def __next__(self) -> JetStreamMsg: ...

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
            raise self._reason or ConnectionClosedError("the message stream has ended")
        raise TimeoutError(f"no message from {self._source!r} in time", operation="next")

    def _slow_next(self) -> JetStreamMsg:
        """The next message when none is prefetched, a pull is due, or the stream was stopped."""
        msg = self._take(Deadline(None))
        if msg is not None:
            return msg
        if self._reason is not None:
            raise self._reason
        raise StopIteration

    def batches(
        self, max_messages: int | None = None, timeout: Seconds | None = None
    ) -> Iterator[MsgBatch]:
        """Iterate over whole batches of what is ready: one message or more, up to ``max_messages``.

        Each waits up to ``timeout`` seconds (None: no limit) for its first message; an empty batch
        says that none came. Ends like the iteration over messages.
        """
        check_count("max_messages", max_messages)
        while True:
            limit = self._window.max_messages if max_messages is None else max_messages
            batch = self._in_turn(self._batch_inside, (limit, Deadline(timeout)))
            if not len(batch) and self._is_over():
                if self._reason is not None:
                    raise self._reason
                return
            yield batch

    def _take(self, deadline: Deadline) -> JetStreamMsg | None:
        return self._in_turn(self._take_inside, deadline)

    def _in_turn(self, step: Callable[[_A], _R], argument: _A) -> _R:
        self._port.check()
        result = self._run(step, argument)
        if self._stopped and self._is_open:
            self.stop()  # asked for while this thread was inside
        return result

    def _take_inside(self, deadline: Deadline) -> JetStreamMsg | None:
        if not self._buffered:
            self._load(self._window.max_messages, deadline)
        msg: JetStreamMsg | None = None if self._stopped else self._pop()
        if msg is not None:
            self._refill(0.0)
        return msg

    def _batch_inside(self, wanted: tuple[int, Deadline]) -> MsgBatch:
        limit, deadline = wanted
        batch = self._empty_batch()
        if not self._buffered and not self._stopped:
            self._load(limit, deadline)
        if self._buffered and not self._stopped:
            self._move_into(batch, limit)
        # What was just taken makes room: ask before the caller starts its work.
        self._refill(0.0)
        return batch

    def _empty_batch(self) -> MsgBatch:
        inbox = self._inbox
        return MsgBatch() if inbox is None else inbox.new_batch()

    def _load(self, limit: int, deadline: Deadline) -> None:
        """Fill the prefetch buffer with what came; wait for the first message. It stays empty when
        time is up or the stream is over."""
        if self._left is not None:
            limit = min(limit, self._left)
        begun = self._tell_window() if self._given[0] else time.monotonic()
        while True:
            ending = self._stopped or self._draining or self._error is not None or not self._is_open
            if (ending or limit <= 0) and self._is_over():
                return
            inbox = self._inbox if self._is_lasting else self._open(deadline)
            if inbox is None:
                return
            if not self._is_settled or inbox.has_link_news:
                self._refill(deadline.remaining())
            most = 1 if self._source.takes_singly else limit
            now = time.monotonic()
            wait = inbox.state.next_look(now, inbox.mailbox.last_put)
            ends = inbox.take(most, 0.0 if self._draining else deadline.within(wait))
            count = len(inbox.batch)
            self._came = self._came or count > 0
            if not self._is_lasting and not self._source.accept(inbox, 0):
                inbox.release()
                count = 0
            for ended in ends:
                self._on_end(inbox, ended)
            if count:
                self._receive(inbox, count, begun)
                return
            self._is_settled = False
            if not ends:
                self._look(inbox)
            if deadline.expired:
                return

    def _open(self, deadline: Deadline) -> PullInbox | None:
        """The inbox to take from; None when there is none in time."""
        inbox = self._source.open(deadline, self._is_over)
        if inbox is not self._inbox and inbox is not None:
            self._inbox = inbox
            inbox.stream = weakref.ref(self)
        return inbox

    def _receive(self, inbox: PullInbox, count: int, begun: float) -> None:
        """Move the batch of the inbox into the prefetch buffer."""
        batch = inbox.batch
        self._window.is_whole = False
        if self._window.may_grow:
            now = time.monotonic()
            self._given = (count, now)
            self._window.took(count, now - begun)
            try:
                self._has_more = message_jsack(batch._last())[8] > 0  # num_pending
            except NotJetStreamMessageError:
                self._has_more = False
            self._each = batch.nbytes // count
        # From here on an interrupt finds them in the prefetch buffer.
        self._take_over(batch)

    def _tell_window(self) -> float:
        """All messages were handed out: let the window follow how fast its user is. Returns since
        when the user waits."""
        now, window, inbox = time.monotonic(), self._window, self._inbox
        count, given_at = self._given
        if not count or inbox is None:
            return now
        window.slowed(count, now - given_at)
        if self._has_more and not inbox.mailbox.pending_messages:
            window.starved(inbox.least_rtt, self._each)
        return given_at

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

    @property
    def _reason(self) -> Exception | None:
        """Why it ended, when that was not asked for."""
        return self._error

    # -- pulling -----------------------------------------------------------------------------------

    def _refill(self, seconds: float | None) -> None:
        """Send a pull when the buffer and what is on its way have sunk to the threshold; else see
        to it that the stream looks again when they have. Waits up to ``seconds`` for room in the
        outbound buffer; without room it is tried again when no message is prefetched."""
        self._set_threshold(0)
        self._is_settled = False
        inbox = self._inbox
        if self._draining or self._stopped or self._error is not None or inbox is None:
            return
        now = time.monotonic()
        if inbox.closed or now < inbox.state.not_before:
            return
        if inbox.has_link_news and inbox.lost_link():
            self._source.on_new_link(inbox)
        if not inbox.is_linked or inbox.closed:
            return
        mailbox, state, window = inbox.mailbox, inbox.state, self._window
        pending, buffered = mailbox.pending_messages, self._buffered
        buffered_bytes = waiting_bytes = 0
        left = self._left
        if window.max_bytes is not None:
            buffered_bytes, waiting_bytes = (
                self._buffered_bytes,
                state.waiting_bytes(mailbox.pending_bytes),
            )
            left = None if left is None else left - pending
        count, pause = window.plan(
            waiting=state.waiting(pending),
            buffered=buffered,
            waiting_bytes=waiting_bytes,
            buffered_bytes=buffered_bytes,
            left=left,
        )
        self._is_settled = True
        if not count:
            self._set_threshold(pause)
            return
        expires = state.pull_length(self._expires, now)
        self._came = False
        number = inbox.pull(
            PullOptions(
                batch=count,
                expires=expires,
                max_bytes=window.bytes_for(count, waiting_bytes + buffered_bytes),
                heartbeat=state.heartbeat(self._heartbeat, expires, now),
                **self._group,  # type: ignore[arg-type]
            ),
            seconds=seconds,
        )
        self._is_settled = number > 0

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
        # Not even then: pulling again at once would do the same for ever.
        inbox.state.pause(Fate.LIMIT, time.monotonic())
        self._warn(
            PullTerminatedError(
                f"the next message of {inbox.consumer!r} is larger than max_bytes "
                f"({window.max_bytes}); raise it",
                status=ended.status,
            )
        )

    def _look(self, inbox: PullInbox) -> None:
        """Nothing came: have the link, the server or the inbox gone?"""
        self._port.check()
        if inbox.lost_link():
            self._source.on_new_link(inbox)
        elif inbox.went_silent():
            self._source.on_silence(inbox)
            self._on_silence(inbox)
        if inbox.mailbox.ended:
            error = self._source.on_finished(inbox)
            if isinstance(error, DrainingError):
                self._draining = True
            elif error is not None:
                self._error = error

    def _on_silence(self, inbox: PullInbox) -> None:
        """The server has stopped answering, and the pulls are sent again."""

    def _warn(self, error: Error) -> None:
        """Tell the user what is not right and is being dealt with."""
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
        self._wake()
        if self._try_enter():
            try:
                self._close()
            finally:
                self._leave()
        elif (inbox := self._inbox) is not None:
            inbox.wake()

    def _close(self) -> None:
        """Give back what will not be handed out, once. Only inside."""
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
        """Ask for nothing more; the iteration ends when what is buffered was taken. Any thread."""
        self._draining = True
        if (inbox := self._inbox) is not None:
            inbox.wake()

    @property
    def pending(self) -> int:
        """Messages that are buffered, the prefetched ones included."""
        inbox = self._inbox
        if inbox is None:
            return int(self._buffered)
        return int(inbox.mailbox.pending_messages + self._buffered + len(inbox.batch))

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()
