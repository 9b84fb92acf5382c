"""Continuous consuming: MessageStream, an iterator with a buffer that refills itself."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._core.hand import Hand
from jetsync._deadline import Deadline, Seconds
from jetsync.errors import (
    ConfigError,
    ConnectionClosedError,
    JetStreamError,
    PullTerminatedError,
    TimeoutError,
)
from jetsync.jetstream.consumers.priority import longest_pull, new_pin
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull.buffering import Buffering, check_count
from jetsync.jetstream.pull.consume import ConsumeContext
from jetsync.jetstream.pull.engine import HUGE_BATCH, WARY_HEARTBEAT, Fate, PullEngine, PullOptions

if TYPE_CHECKING:
    from jetsync.client import Msg
    from jetsync.jetstream.consumers.consumer import Consumer

__all__ = ["ConsumeContext", "MessageStream"]

# Before what was refused is asked for again: the first wait, and the longest.
_VOID_WAIT = (0.01, 0.25)
_LOST_WAIT = (0.05, 0.25)
_REFUSED_WAIT = (0.1, 1.0)
_WARY_FOR = 1.0


class MessageStream(Hand):
    """An endless iterator over the messages of a consumer. Made by ``Consumer.messages``.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` and :meth:`drain` may be
    called by any. The buffer is bounded by construction: nothing is asked for that would not fit.
    As a context manager it stops at the end.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        max_messages: int | None,
        max_bytes: int | None,
        expires: float,
        heartbeat: float | None,
        threshold_messages: int | None,
        threshold_bytes: int | None,
        group: dict[str, object],
        on_missed_heartbeat: str,
        on_warning: Callable[[Exception], Any] | None,
        stop_after: int | None,
        on_pinned: Callable[[str], Any] | None = None,
        on_unpinned: Callable[[str], Any] | None = None,
    ) -> None:
        self._limits = Buffering.of(
            max_messages=max_messages,
            max_bytes=max_bytes,
            expires=expires,
            heartbeat=heartbeat,
            threshold_messages=threshold_messages,
            threshold_bytes=threshold_bytes,
        )
        check_count("stop_after", stop_after)
        if on_missed_heartbeat not in ("warn", "stop"):
            raise ConfigError("on_missed_heartbeat must be 'warn' or 'stop'")
        self._consumer = consumer
        self._port = consumer._js._port
        # What goes into a pull: a pinned client has to ask more often than others.
        self._expires = longest_pull(consumer, self._limits.expires)
        self._heartbeat = min(self._limits.heartbeat, self._expires / 2)
        self._group = group
        self._strict = on_missed_heartbeat == "stop"
        self._on_warning = on_warning
        self._left = stop_after  # messages that may still be taken out of the mailbox
        self._engine = PullEngine(consumer)
        self._open: PullEngine | None = self._engine  # until it is closed
        self._engine.pin = new_pin(
            consumer, group.get("group"), self._guard(on_pinned), self._guard(on_unpinned)
        )
        self._engine.hand = weakref.ref(self)
        self._loading = self._engine.new_batch()  # what an interrupt left in it comes first
        self._counted = (0, 0)  # how much of that is charged to the pulls
        self._stopped = False
        self._draining = False
        self._error: Exception | None = None
        self._pull_again_at = 0.0
        self._backoff = 0.0
        self._wary_until = 0.0
        self._came = False  # whether a message came since the last pull was sent
        self._whole = False  # the next message needs the whole buffer to itself

    # -- taking ------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __iter__(self) -> MessageStream: ...
        def __next__(self) -> JetStreamMsg: ...

    def next(self, timeout: Seconds | None = None) -> JetStreamMsg:
        """Return the next message. Blocks up to ``timeout`` seconds (None: no limit).

        Raises TimeoutError when none came, ConsumerDeletedError or PullTerminatedError when the
        consumer cannot be used any more, ConnectionClosedError after the end.
        """
        quick: JetStreamMsg | None = self._quick()
        if quick is not None:
            return quick
        msg = self._take(Deadline(timeout))
        if msg is not None:
            return msg
        if self._over():
            raise self._reason or ConnectionClosedError("the message stream has ended")
        raise TimeoutError(f"no message from {self._consumer!r} in time", operation="next")

    def _slow_next(self) -> JetStreamMsg:
        """What iteration does when the hand is empty, a pull is due, or the stream was stopped."""
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
        limit = self._limits.max_messages if max_messages is None else max_messages
        while True:
            batch = self._take_batch(limit, Deadline(timeout))
            if not len(batch) and self._over():
                if self._reason is not None:
                    raise self._reason
                return
            yield batch

    def _take(self, deadline: Deadline) -> JetStreamMsg | None:
        self._begin()
        try:
            if not self._held:
                self._load(self._limits.max_messages, deadline)
                self._hold(self._loading)
                self._counted = (0, 0)
            msg: JetStreamMsg | None = None if self._stopped else self._pop()
            if msg is not None:
                self._refill()
            return msg
        finally:
            self._end()

    def _take_batch(self, limit: int, deadline: Deadline) -> MsgBatch:
        self._begin()
        try:
            batch = self._engine.new_batch()
            if self._held:
                self._give(batch, limit)  # what is left of taking messages one by one
            elif not self._stopped:
                self._load(limit, deadline)
                self._hold(self._loading)
                self._counted = (0, 0)
                self._give(batch, limit)
            # What was just taken makes room: ask before the caller starts its work.
            self._refill()
            return batch
        finally:
            self._end()

    def _load(self, limit: int, deadline: Deadline) -> None:
        """Take what is ready into ``_loading``; wait for the first message. It stays empty when
        time is up or the stream is over."""
        batch = self._loading
        if self._left is not None:
            limit = min(limit, self._left)
        while not len(batch) and not self._over():
            self._refill()
            statuses = self._engine.mailbox.take_into(batch, limit, self._wait(deadline))
            self._charge(batch)
            for msg in statuses:
                self._on_status(msg)
            if not len(batch):
                if deadline.expired:
                    break
                self._look()
        self._charge(batch)
        if self._left is not None:
            self._left -= len(batch)

    def _charge(self, batch: MsgBatch) -> None:
        """Charge what came to the pulls, once."""
        count, size = len(batch) - self._counted[0], batch.nbytes - self._counted[1]
        if not count:
            return
        self._counted = (len(batch), batch.nbytes)
        self._came = True
        self._whole = False
        self._backoff = 0.0
        self._engine.delivered(count, size)
        self._engine.learn(batch)

    def _begin(self) -> None:
        self._port.check()
        self._enter()

    def _end(self) -> None:
        if self._stopped:
            self._close()
        self._leave()
        if self._stopped and self._open is not None:
            self.stop()  # asked for between the two lines above

    def _over(self) -> bool:
        """Whether nothing more will be handed out."""
        if self._stopped:
            return True
        if self._held or len(self._loading):
            return False
        if self._left is not None and self._left <= 0:
            return True
        ending = self._draining or self._error is not None or self._engine.mailbox.finished
        return ending and self._engine.mailbox.pending_messages == 0

    @property
    def _reason(self) -> Exception | None:
        """Why it ended, when nobody asked for that: the consumer is gone, the inbox refused."""
        return self._error or self._engine.mailbox.error

    def _wait(self, deadline: Deadline) -> float:
        """How long to wait for the mailbox before something has to be looked at."""
        if self._draining:
            return 0.0
        wait = self._engine.next_look()
        if self._pull_again_at:
            wait = min(wait, max(0.0, self._pull_again_at - time.monotonic()) + 0.001)
        return deadline.within(wait)

    # -- pulling -----------------------------------------------------------------------------------

    def _refill(self) -> None:
        """Send a pull when the buffer and what is on its way have sunk to the threshold; else see
        to it that the stream looks again when they have."""
        self._pause(0)
        if self._draining or self._stopped or self._error is not None:
            return
        if self._pull_again_at and time.monotonic() < self._pull_again_at:
            return
        self._engine.lost_link()
        if not self._engine.linked:
            return
        if self._limits.max_bytes is None:
            self._refill_messages()
        else:
            self._refill_bytes(self._limits.max_bytes)

    def _refill_messages(self) -> None:
        limits, engine = self._limits, self._engine
        waiting = engine.waiting
        have = waiting + self._held
        want = limits.max_messages - have
        if self._left is not None:
            want = min(want, self._left - waiting)
        if want <= 0:
            return
        if have > limits.threshold_messages:
            # The message after which no more than the threshold is there is taken the slow way.
            self._pause(max(0, limits.threshold_messages - waiting + 1))
            return
        self._send(want, None)

    def _refill_bytes(self, max_bytes: int) -> None:
        engine, held = self._engine, self._held
        waiting = engine.waiting_bytes
        have = waiting + self._held_bytes
        threshold = 0 if self._whole else self._limits.threshold_bytes
        want = HUGE_BATCH
        if self._left is not None:
            want = self._left - engine.mailbox.pending_messages
        if want <= 0:
            return
        if have > threshold:
            if held:
                # The messages in hand have about the same size.
                each = max(1, self._held_bytes // held)
                self._pause(min(held, max(0, threshold - waiting) // each + 1))
            return
        self._send(want, max(1, max_bytes - have))

    def _send(self, count: int, max_bytes: int | None) -> None:
        self._pull_again_at = 0.0
        self._came = False
        expires, heartbeat = self._expires, self._heartbeat
        if time.monotonic() < self._wary_until:
            heartbeat = min(heartbeat, WARY_HEARTBEAT)
            expires = min(expires, 8 * WARY_HEARTBEAT)
        self._engine.pull(
            PullOptions(
                batch=count,
                expires=expires,
                max_bytes=max_bytes,
                heartbeat=heartbeat,
                **self._group,  # type: ignore[arg-type]
            )
        )

    def _on_status(self, msg: Msg) -> None:
        ended = self._engine.on_status(msg)
        if ended is None:
            return
        if ended.fate is Fate.FATAL:
            self._error = ended.error
        elif ended.fate is Fate.LOST:
            self._error = self._engine.why_gone()
            self._later(_LOST_WAIT)
        elif ended.fate in (Fate.VOID, Fate.RETRY):
            self._wary_until = time.monotonic() + _WARY_FOR
            self._later(_VOID_WAIT)
        elif ended.fate is Fate.WARN and ended.error is not None:
            self._warn(ended.error)
            self._later(_REFUSED_WAIT)
        elif "maxbytes" in msg.description.lower():
            self._on_too_large(msg.status)

    def _on_too_large(self, status: int) -> None:
        """The next message did not fit into what was left of the buffer."""
        if self._came:
            return
        if not self._whole:
            self._whole = True  # try again when the buffer is empty
            return
        # Not even then: pulling again at once would do the same for ever.
        self._warn(
            PullTerminatedError(
                f"the next message of {self._consumer!r} is larger than max_bytes "
                f"({self._limits.max_bytes}); raise it",
                status=status,
            )
        )
        self._later(_REFUSED_WAIT)

    def _later(self, waits: tuple[float, float]) -> None:
        """Pull again, but not at once: what refuses now will refuse in a millisecond."""
        first, longest = waits
        self._backoff = min(max(first, self._backoff), longest)
        self._pull_again_at = time.monotonic() + self._backoff
        self._backoff *= 2

    def _look(self) -> None:
        """Nothing came: has the server gone silent?"""
        self._port.check()
        if self._engine.lost_link() or not self._engine.drop_silent():
            return
        if time.monotonic() - self._engine.mailbox.last_put < 2 * self._heartbeat:
            return  # a wary pull: sent again, and nothing to be told yet
        problem = PullTerminatedError(
            f"{self._consumer!r}: no heartbeat for {2 * self._heartbeat:g} s; pulling again"
        )
        if self._strict:
            self._error = problem
        else:
            self._warn(problem)

    def _warn(self, error: JetStreamError) -> None:
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
        """End now. What is buffered is handed back to the server. Safe to repeat, any thread."""
        self._stopped = True
        self._pause_now()
        # Somebody who is taking at this moment sees that and closes; else it is ours to do.
        if self._try_enter():
            try:
                self._close()
            finally:
                self._leave()
        else:
            self._engine.poke()

    def _rest(self) -> MsgBatch:
        """Take everything that the user has not seen."""
        self._hold(self._loading)
        batch = self._engine.new_batch()
        self._give(batch, HUGE_BATCH)
        return batch

    def _close(self) -> None:
        """Close the engine, once, and give back what nobody will take. Only inside."""
        engine, self._open = self._open, None
        if engine is not None:
            engine.close(self._rest())

    def drain(self) -> None:
        """Ask for nothing more; the iteration ends when what is buffered was taken. Any thread."""
        self._draining = True
        self._engine.poke()

    @property
    def pending(self) -> int:
        """Messages that are buffered."""
        return self._engine.mailbox.pending_messages + self._held + len(self._loading)

    def __enter__(self) -> MessageStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        # Left by `break` out of a for loop: what is buffered goes back to the server at once. On
        # another thread, because this one may hold any lock at this moment.
        engine = getattr(self, "_open", None)
        if engine is not None and not self._port.closed:
            rest = self._rest()
            self._port.later(0, lambda: engine.close(rest))
