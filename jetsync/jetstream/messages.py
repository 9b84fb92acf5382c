"""Continuous consuming: MessageStream (an iterator) and ConsumeContext (a callback)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline, Seconds
from jetsync.client.runner import run_callbacks, start_thread
from jetsync.errors import (
    ConfigError,
    ConnectionClosedError,
    JetStreamError,
    PullTerminatedError,
    TimeoutError,
)
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.pull import HUGE_BATCH, Fate, PullEngine, PullOptions

if TYPE_CHECKING:
    from jetsync.client import Msg
    from jetsync.jetstream.consumer import Consumer

__all__ = ["ConsumeContext", "MessageStream"]

DEFAULT_MESSAGES = 1000


class MessageStream:
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
    ) -> None:
        if expires < 1:
            raise ConfigError("expires must be 1 second or more")
        for name, value in (
            ("max_messages", max_messages),
            ("max_bytes", max_bytes),
            ("stop_after", stop_after),
        ):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be 1 or more")
        if heartbeat is None:
            # ADR-37 says half of expires; a server that died in silence is noticed sooner so.
            heartbeat = min(expires / 2, 5.0)
        if not 0 < heartbeat * 2 <= expires:
            raise ConfigError("heartbeat must be above 0 and at most half of expires")
        if on_missed_heartbeat not in ("warn", "stop"):
            raise ConfigError("on_missed_heartbeat must be 'warn' or 'stop'")
        if max_messages is None:
            max_messages = HUGE_BATCH if max_bytes is not None else DEFAULT_MESSAGES
        self._consumer = consumer
        self._nc = consumer._js._nc
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._threshold = max_messages // 2 if threshold_messages is None else threshold_messages
        self._threshold_bytes = (
            (max_bytes or 0) // 2 if threshold_bytes is None else threshold_bytes
        )
        if not 0 <= self._threshold < max_messages:
            raise ConfigError("threshold_messages must be below max_messages")
        if max_bytes is not None and not 0 <= self._threshold_bytes < max_bytes:
            raise ConfigError("threshold_bytes must be below max_bytes")
        self._expires = expires
        self._heartbeat = heartbeat
        self._group = group
        self._strict = on_missed_heartbeat == "stop"
        self._on_warning = on_warning
        self._left = stop_after
        self._engine = PullEngine(consumer)
        self._open: PullEngine | None = self._engine  # until it is closed
        self._busy = threading.Lock()
        self._hand: list[JetStreamMsg] = []  # taken from the mailbox, last one first
        self._hand_bytes = 0  # of one of them, on average
        self._refill_at = -1  # how many are in hand when the next pull is due
        self._stopped = False
        self._draining = False
        self._error: Exception | None = None
        self._pull_again_at = 0.0
        self._backoff = 0.1
        self._came = 0  # messages since the last pull was sent

    # -- taking ------------------------------------------------------------------------------------

    def next(self, timeout: Seconds | None = None) -> JetStreamMsg:
        """Return the next message. Blocks up to ``timeout`` seconds (None: no limit).

        Raises TimeoutError when none came, ConsumerDeletedError or PullTerminatedError when the
        consumer cannot be used any more, ConnectionClosedError after the end.
        """
        msg = self._take(Deadline(timeout))
        if msg is not None:
            return msg
        if self._over():
            raise self._error or ConnectionClosedError("the message stream has ended")
        raise TimeoutError(f"no message from {self._consumer!r} in time", operation="next")

    def __iter__(self) -> MessageStream:
        return self

    def __next__(self) -> JetStreamMsg:
        msg = self._take(Deadline(None))
        if msg is not None:
            return msg
        if self._error is not None:
            raise self._error
        raise StopIteration

    def batches(
        self, max_messages: int | None = None, timeout: Seconds | None = None
    ) -> Iterator[MsgBatch]:
        """Iterate over whole batches of what is ready: one message or more, up to ``max_messages``.

        Each waits up to ``timeout`` seconds (None: no limit) for its first message; an empty batch
        says that none came. Ends like the iteration over messages.
        """
        limit = self._max_messages if max_messages is None else max_messages
        while True:
            batch = self._take_batch(limit, Deadline(timeout))
            if not len(batch) and self._over():
                if self._error is not None:
                    raise self._error
                return
            yield batch

    def _take(self, deadline: Deadline) -> JetStreamMsg | None:
        self._enter()
        try:
            hand = self._hand
            if not hand:
                batch = self._load(self._max_messages, deadline)
                hand.extend(batch)
                hand.reverse()
                self._hand_bytes = batch.nbytes // max(1, len(batch))
                self._refill()
            if self._stopped:
                self._close()
            if not hand:
                return None
            msg = hand.pop()
            if len(hand) == self._refill_at:
                self._refill()
            return msg
        finally:
            self._busy.release()

    def _take_batch(self, limit: int, deadline: Deadline) -> MsgBatch:
        self._enter()
        try:
            if self._hand:
                raise ConfigError("messages were taken one by one and are not used up yet")
            batch = self._load(limit, deadline)
            # What was just taken makes room: ask before the caller starts its work.
            self._refill()
            if self._stopped:
                self._close()
            return batch
        finally:
            self._busy.release()

    def _load(self, limit: int, deadline: Deadline) -> MsgBatch:
        """Take what is ready; wait for the first message. Empty when time is up or it is over."""
        batch: MsgBatch = self._engine.mailbox.new_batch(MsgBatch, self._nc._outbound)
        batch._ack_none = self._consumer._ack_none
        if self._left is not None:
            limit = min(limit, self._left)
        while not len(batch) and not self._over():
            self._refill()
            for msg in self._engine.mailbox.take_into(batch, limit, self._wait(deadline)):
                self._on_status(msg, len(batch))
            if len(batch):
                self._engine.delivered(len(batch), batch.nbytes)
                self._came += len(batch)
                self._backoff = 0.1
            elif deadline.expired:
                break
            else:
                self._look()
        if self._left is not None:
            self._left -= len(batch)
        return batch

    def _enter(self) -> None:
        self._nc._check()
        if not self._busy.acquire(blocking=False):
            raise ConfigError("a message stream belongs to one thread at a time")

    def _over(self) -> bool:
        """Whether nothing more will be handed out."""
        if self._stopped:
            return True
        if self._hand:
            return False
        if self._left is not None and self._left <= 0:
            return True
        ending = self._draining or self._error is not None or self._engine.mailbox.finished
        return ending and self._engine.mailbox.pending_messages == 0

    def _wait(self, deadline: Deadline) -> float:
        """How long to wait for the mailbox before something has to be looked at."""
        wait = self._heartbeat
        if self._pull_again_at:
            wait = min(wait, max(0.0, self._pull_again_at - time.monotonic()) + 0.001)
        return 0.0 if self._draining else deadline.within(wait)

    # -- pulling -----------------------------------------------------------------------------------

    def _refill(self) -> None:
        """Send a pull when the buffer and what is on its way have sunk to the threshold."""
        if self._draining or self._stopped or self._error is not None:
            return
        if self._pull_again_at and time.monotonic() < self._pull_again_at:
            return
        self._engine.lost_link()
        if not self._nc.is_connected:
            return
        engine, mailbox = self._engine, self._engine.mailbox
        waiting = engine.outstanding + mailbox.pending_messages
        have = waiting + len(self._hand)
        self._refill_at = self._threshold - waiting
        want = self._max_messages - have
        if self._left is not None:
            want = min(want, self._left - waiting)
        low = have <= self._threshold
        max_bytes = None
        if self._max_bytes is not None:
            have_bytes = engine.outstanding_bytes + mailbox.pending_bytes
            have_bytes += self._hand_bytes * len(self._hand)
            max_bytes = self._max_bytes - have_bytes
            low = low or have_bytes <= self._threshold_bytes
            if max_bytes <= 0 or (engine.outstanding and have_bytes > self._threshold_bytes):
                return
        if not low or want <= 0:
            return
        self._refill_at = -1
        self._pull_again_at = 0.0
        self._came = 0
        engine.pull(
            PullOptions(
                batch=want,
                expires=self._expires,
                max_bytes=max_bytes,
                heartbeat=self._heartbeat,
                **self._group,  # type: ignore[arg-type]
            )
        )

    def _on_status(self, msg: Msg, came: int) -> None:
        ended = self._engine.on_status(msg)
        if ended is None:
            return
        if msg.status == 409 and ended.fate is Fate.DONE and self._came + came == 0:
            # Not even one message fitted: pulling again at once would do the same for ever.
            self._warn(
                PullTerminatedError(
                    f"the next message of {self._consumer!r} is larger than max_bytes "
                    f"({self._max_bytes}); raise it",
                    status=msg.status,
                )
            )
            self._later()
        if ended.fate is Fate.FATAL:
            self._error = ended.error
        elif ended.fate is Fate.LOST:
            self._error = self._engine.exists()
            self._later()
        elif ended.fate is Fate.WARN and ended.error is not None:
            self._warn(ended.error)
            self._later()

    def _later(self) -> None:
        """Pull again, but not at once: what refuses now will refuse in a millisecond."""
        self._pull_again_at = time.monotonic() + self._backoff
        self._backoff = min(self._backoff * 2, 1.0)

    def _look(self) -> None:
        """Nothing came: has the server gone silent?"""
        self._nc._check()
        if self._engine.lost_link() or not self._engine.drop_silent():
            return
        problem = PullTerminatedError(
            f"{self._consumer!r}: no heartbeat for {2 * self._heartbeat:g} s; pulling again"
        )
        if self._strict:
            self._error = problem
        else:
            self._warn(problem)

    def _warn(self, error: JetStreamError) -> None:
        if self._on_warning is not None:
            self._on_warning(error)
        self._nc._post("error", error)

    # -- ending ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End now. What is buffered is handed back to the server. Safe to repeat, any thread."""
        self._stopped = True
        # Somebody who is taking at this moment sees that and closes; else it is ours to do.
        if self._busy.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._busy.release()
        else:
            self._engine.poke()

    def _close(self) -> None:
        """Close the engine, once, and give back what nobody will take. ``_busy`` is held."""
        engine, self._open = self._open, None
        if engine is not None:
            engine.close(reversed(self._hand))
            self._hand.clear()

    def drain(self) -> None:
        """Ask for nothing more; the iteration ends when what is buffered was taken. Any thread."""
        self._draining = True
        self._engine.poke()

    @property
    def pending(self) -> int:
        """Messages that are buffered."""
        return self._engine.mailbox.pending_messages + len(self._hand)

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
        if engine is not None and not self._nc.is_closed:
            unused = self._hand[::-1]
            self._nc._timer.call_later(0, lambda: engine.close(unused))


class ConsumeContext:
    """Messages of a consumer given to a callback on a thread. Made by ``Consumer.consume``.

    Thread-safe. As a context manager it drains on success and stops on an exception.
    """

    def __init__(self, stream: MessageStream, callback: Callable[[JetStreamMsg], Any]) -> None:
        self._stream = stream
        self._nc = stream._nc
        self._done = threading.Event()
        self._callback = callback
        self.error: Exception | None = None
        """Why consuming ended by itself, or None."""
        self._thread = start_thread(f"consume-{self._nc._label}", self._run)

    def _run(self) -> None:
        try:
            run_callbacks(
                self._stream, self._callback, lambda error: self._nc._post("error", error)
            )
        except Exception as error:  # noqa: BLE001 - kept for the user to look at
            self.error = error
            if not self._nc.is_closed:
                self._nc._post("error", error)
        finally:
            self._stream.stop()
            self._done.set()

    def stop(self) -> None:
        """End after the message in hand; the rest is handed back. Does not wait."""
        self._stream.stop()

    def drain(self, timeout: Seconds | None = None) -> None:
        """Ask for nothing more and wait until the callback had what is buffered.

        Blocks up to ``timeout`` seconds (default: the connection's); raises TimeoutError then.
        """
        self._stream.drain()
        if threading.current_thread() is not self._thread and not self.wait(
            self._nc._seconds(timeout)
        ):
            raise TimeoutError("the callback did not finish in time", operation="drain")

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until consuming has ended; returns whether it has. None: no limit."""
        return self._done.wait(Deadline(timeout).remaining())

    @property
    def is_active(self) -> bool:
        """Whether messages are still being delivered."""
        return not self._done.is_set()

    def __enter__(self) -> ConsumeContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if kind is None:
            self.drain()
        else:
            self.stop()
