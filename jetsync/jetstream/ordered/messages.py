"""OrderedMessages: the messages of an ordered consumer, one after another, with a buffer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._core.hand import Hand
from jetsync._deadline import Deadline, Seconds
from jetsync.errors import ConfigError, ConnectionClosedError, PullTerminatedError, TimeoutError
from jetsync.jetstream.message import JetStreamMsg, MsgBatch
from jetsync.jetstream.ordered.reader import Generation, OrderedReader
from jetsync.jetstream.pull.buffering import check_count
from jetsync.jetstream.pull.engine import HUGE_BATCH, IDLE_HEARTBEAT, PullOptions

__all__ = ["OrderedMessages"]

_DEFAULT_MESSAGES = 1000
_TOO_LARGE = "409 message size exceeds"


class OrderedMessages(Hand):
    """An endless iterator over the messages of an ordered consumer. Made by its ``messages``.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` and :meth:`drain` may be
    called by any. Half of the buffer is at most in the hand of the user, the rest waits or is on
    its way: together never more than ``max_messages`` or ``max_bytes``. As a context manager it
    stops at the end; the ordered consumer goes on behind the last message handed out.
    """

    def __init__(
        self,
        reader: OrderedReader,
        *,
        max_messages: int | None,
        max_bytes: int | None,
        expires: float,
        heartbeat: float | None,
        threshold_messages: int | None,
        threshold_bytes: int | None,
        on_warning: Callable[[Exception], Any] | None,
        stop_after: int | None,
    ) -> None:
        check_count("max_messages", max_messages)
        check_count("max_bytes", max_bytes)
        check_count("stop_after", stop_after)
        if expires < 1:
            raise ConfigError("expires must be 1 second or more")
        if heartbeat is None:
            heartbeat = min(expires / 2, IDLE_HEARTBEAT)
        if not 0 < heartbeat * 2 <= expires:
            raise ConfigError("heartbeat must be above 0 and at most half of expires")
        if max_messages is None:
            max_messages = HUGE_BATCH if max_bytes is not None else _DEFAULT_MESSAGES
        self._threshold = max_messages // 2 if threshold_messages is None else threshold_messages
        self._threshold_bytes = (
            (max_bytes or 0) // 2 if threshold_bytes is None else threshold_bytes
        )
        if not 0 <= self._threshold < max_messages:
            raise ConfigError("threshold_messages must be below max_messages")
        if max_bytes is not None and not 0 <= self._threshold_bytes < max_bytes:
            raise ConfigError("threshold_bytes must be below max_bytes")
        self._reader = reader
        self._port = reader._port
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._expires = expires
        self._heartbeat = heartbeat
        self._left = stop_after
        self._thread = 0  # which takes
        self._stopped = False
        self._draining = False
        self._closed = False
        self._mark = reader.mark()  # where what is in hand begins
        self._came = 0  # messages since the last pull was sent
        self._pull_again_at = 0.0
        self._backoff = 0.1
        reader.on_warning = on_warning

    # -- taking ------------------------------------------------------------------------------------

    def next(self, timeout: Seconds | None = None) -> JetStreamMsg:
        """Return the next message. Blocks up to ``timeout`` seconds (None: no limit).

        Raises TimeoutError when none came, ConnectionClosedError after the end, JetStreamError when
        reading cannot go on.
        """
        msg: JetStreamMsg | None = self._quick()
        if msg is None:
            msg = self._take(Deadline(timeout))
        if msg is not None:
            return msg
        if self._closed:
            raise ConnectionClosedError("the message stream has ended")
        raise TimeoutError("no message of the ordered consumer in time", operation="next")

    if TYPE_CHECKING:

        def __iter__(self) -> OrderedMessages: ...
        def __next__(self) -> JetStreamMsg: ...

    def _slow_next(self) -> JetStreamMsg:
        """What iteration does for the last message in hand, and when there is none."""
        msg = self._take(Deadline(None))
        if msg is None:
            raise StopIteration
        return msg

    def _take(self, deadline: Deadline) -> JetStreamMsg | None:
        self._begin()
        try:
            if not self._held:
                self._load(self._hand_limit(), deadline)
            # The last one is taken the slow way: it may be the end.
            self._pause(1)
            msg: JetStreamMsg | None = None if self._stopped else self._pop()
            return msg
        finally:
            self._end()

    def batches(
        self, max_messages: int | None = None, timeout: Seconds | None = None
    ) -> Iterator[MsgBatch]:
        """Iterate over whole batches of what is ready: one message or more, up to ``max_messages``.

        Each waits up to ``timeout`` seconds (None: no limit) for its first message; an empty batch
        says that none came. Ends like the iteration over messages.
        """
        check_count("max_messages", max_messages)
        limit = self._hand_limit() if max_messages is None else max_messages
        while True:
            self._begin()
            try:
                if self._held:
                    raise ConfigError("messages were taken one by one and are not used up yet")
                self._load(limit, Deadline(timeout))
                batch = self._reader.new_batch()
                self._give(batch, limit)
            finally:
                self._end()
            if not len(batch) and self._closed:
                return
            yield batch

    def _hand_limit(self) -> int:
        """The other half waits or is on its way while the user works on this one."""
        return max(1, self._max_messages // 2)

    def _load(self, limit: int, deadline: Deadline) -> None:
        """Take what is ready into the hand; wait for the first message. It stays empty when time is
        up or it is over."""
        reader = self._reader
        self._mark = reader.mark()
        if self._left is not None:
            limit = min(limit, self._left)
        try:
            while not self._over():
                generation = reader.renew(deadline, self._over)
                if generation is None:
                    return
                self._refill(generation, 0, 0)
                batch, done = reader.receive(generation, limit, self._wait(deadline))
                count = len(batch)
                self._came += count
                if done.lower().startswith(_TOO_LARGE) and not self._came:
                    self._too_large()
                if not count:
                    if deadline.expired:
                        return
                    continue
                size = batch.nbytes
                self._hold(batch)
                self._backoff = 0.1
                if self._left is not None:
                    self._left -= count
                if reader.generation is generation:
                    self._refill(generation, count, size)
                return
        except BaseException:
            self._drop_hand()
            reader.rewind(self._mark)
            raise

    def _drop_hand(self) -> None:
        self._give(self._reader.new_batch(), HUGE_BATCH)

    def _begin(self) -> None:
        self._port.check()
        self._enter()
        self._thread = threading.get_ident()

    def _end(self) -> None:
        try:
            if self._stopped or (self._over() and not self._held):
                self._close()
        finally:
            self._leave()

    def _over(self) -> bool:
        """Whether nothing more will be loaded."""
        if self._closed or self._stopped:
            return True
        if self._left is not None and self._left <= 0:
            return True
        if not self._draining:
            return False
        generation = self._reader.generation
        return generation is None or not generation.engine.mailbox.pending_messages

    def _wait(self, deadline: Deadline) -> float:
        wait = self._heartbeat
        if self._pull_again_at:
            wait = min(wait, max(0.0, self._pull_again_at - time.monotonic()) + 0.001)
        return 0.0 if self._draining else deadline.within(wait)

    # -- pulling -----------------------------------------------------------------------------------

    def _refill(self, generation: Generation, in_hand: int, hand_bytes: int) -> None:
        """Send a pull when what waits, is in hand and is on its way has sunk to the threshold."""
        if self._draining or not self._port.linked:
            return
        if generation.epoch != self._port.epoch:
            return  # it is on its way out
        if self._pull_again_at and time.monotonic() < self._pull_again_at:
            return
        engine, mailbox = generation.engine, generation.engine.mailbox
        waiting = engine.outstanding + mailbox.pending_messages
        have = waiting + in_hand
        want = self._max_messages - have
        if self._left is not None:
            want = min(want, self._left - waiting)
        low = have <= self._threshold
        max_bytes = None
        if self._max_bytes is not None:
            have_bytes = engine.outstanding_bytes + mailbox.pending_bytes + hand_bytes
            max_bytes = self._max_bytes - have_bytes
            low = have_bytes <= self._threshold_bytes or not engine.outstanding
            if max_bytes <= 0:
                return
        if not low or want <= 0:
            return
        self._pull_again_at = 0.0
        self._came = 0
        engine.pull(
            PullOptions(
                batch=want, expires=self._expires, max_bytes=max_bytes, heartbeat=self._heartbeat
            )
        )

    def _too_large(self) -> None:
        """Not even one message fitted: pulling again at once would do the same for ever."""
        self._pull_again_at = time.monotonic() + self._backoff
        self._backoff = min(self._backoff * 2, 1.0)
        self._reader.warn(
            PullTerminatedError(
                f"the next message of the ordered consumer is larger than max_bytes "
                f"({self._max_bytes}); raise it",
                status=409,
            )
        )

    # -- ending ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End now; the ordered consumer goes on behind the last message handed out. Any thread.

        While another thread works on a message of this stream, that thread ends it when it wants
        the next one.
        """
        self._stopped = True
        self._pause_now()
        if self._thread in (0, threading.get_ident()):
            if self._try_enter():
                self._end()
        elif (generation := self._reader.generation) is not None:
            generation.engine.poke()

    def _release(self) -> None:
        """Somebody else wants to read: end it if it was stopped. Raises ConfigError if not."""
        if self._closed:
            return
        if not self._stopped or not self._try_enter():
            raise ConfigError("a message stream of this ordered consumer is open: stop() it first")
        self._end()

    def _close(self) -> None:
        """Set the reader back to behind the last message handed out, once. Only inside."""
        if not self._closed:
            self._closed = True
            self._reader.on_warning = None
            self._reader.rewind(self._place())

    def _place(self) -> tuple[int, int]:
        """Right before the first message that was not handed out. Empties the hand."""
        first: JetStreamMsg | None = self._pop()
        if first is None:
            return self._reader.mark()
        self._drop_hand()
        return first.metadata.stream_seq - 1, self._mark[1]

    def drain(self) -> None:
        """Ask for nothing more; the iteration ends when what is buffered was taken. Any thread."""
        self._draining = True
        if (generation := self._reader.generation) is not None:
            generation.engine.poke()

    @property
    def pending(self) -> int:
        """Messages that are buffered and not yet in hand."""
        generation = self._reader.generation
        return 0 if generation is None else generation.engine.mailbox.pending_messages

    def __enter__(self) -> OrderedMessages:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        # Left by `break` out of a for loop. This thread may hold any lock at this moment.
        if not getattr(self, "_closed", True) and not self._port.closed:
            self._closed = True
            self._reader.on_warning = None
            self._reader.rewind(self._place(), later=True)
