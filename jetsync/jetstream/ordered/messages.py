"""OrderedMessages: the messages of an ordered consumer, one after another, with a buffer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync._core.prefetch import wake_buffer
from jetsync._deadline import Deadline
from jetsync.errors import ConfigError
from jetsync.jetstream.message import MsgBatch
from jetsync.jetstream.pull.options import HUGE_BATCH, BufferLimits, Window, check_count
from jetsync.jetstream.pull.stream import PullStream

if TYPE_CHECKING:
    from jetsync.jetstream.message import JetStreamMsg
    from jetsync.jetstream.ordered.reader import OrderedReader, Position
    from jetsync.jetstream.pull.inbox import PullInbox

__all__ = ["OrderedMessages", "release"]


class OrderedMessages(PullStream):
    """An endless iterator over the messages of an ordered consumer. Made by its ``messages``.

    For one thread at a time (misuse raises ConfigError); :meth:`stop` and :meth:`drain` may be
    called by any. The buffer is bounded: messages that wait, are prefetched or under way are
    together never more than ``max_messages`` or ``max_bytes``. As a context manager it stops at the
    end; the ordered consumer goes on behind the last message handed out.
    """

    def __init__(
        self,
        reader: OrderedReader,
        *,
        limits: BufferLimits,
        on_warning: Callable[[Exception], Any] | None,
        stop_after: int | None,
    ) -> None:
        check_count("stop_after", stop_after)
        super().__init__(
            reader.port,
            reader,
            Window(limits),
            expires=limits.expires,
            heartbeat=limits.heartbeat,
            group={},
            stop_after=stop_after,
            on_warning=on_warning,
        )
        self._reader = reader
        self._thread = 0  # which takes
        self._begin: Position = reader.position()  # where the prefetched messages begin
        if on_warning is not None:
            reader.on_warning = self._guard(on_warning)

    def _load(self, limit: int, deadline: Deadline) -> None:
        reader = self._reader
        self._thread = threading.get_ident()
        self._begin = reader.position()
        try:
            super()._load(limit, deadline)
        except BaseException:
            # Messages that were taken and not handed out are read again.
            self._rest()
            reader.rewind(self._begin)
            raise
        if self._is_over():
            self._close()

    # -- for consume() -----------------------------------------------------------------------------

    def _deliver(
        self,
        callback: Callable[[JetStreamMsg], Any],
        report: Callable[[BaseException, JetStreamMsg], Any],
        most: int,
    ) -> int:
        self._thread = threading.get_ident()
        return super()._deliver(callback, report, most)

    def _current(self) -> PullInbox | None:
        return self._inbox if self._reader.generation is not None else None

    def _recovers_at(self) -> float | None:
        return self._reader.recovers_at

    def _recover(self) -> None:
        self._thread = threading.get_ident()
        if not self._is_over():  # asked to end meanwhile: no server consumer is needed
            self._in_turn(self._reader.attempt, Deadline(None))

    # -- ending ------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        if super()._is_over():
            return True
        # Messages of a dropped generation are read again, but not while draining.
        return self._draining and not self._buffered and self._reader.generation is None

    def stop(self) -> None:
        """End now; the ordered consumer goes on behind the last message handed out. Any thread.

        While another thread works on a message of this stream, that thread ends it when it wants
        the next one.
        """
        self._stopped = True
        wake_buffer(self)
        if self._thread not in (0, threading.get_ident()):
            self._wake()
        elif self._try_enter():
            try:
                self._close()
            finally:
                self._leave()
                self._wake()

    def _release(self) -> None:
        if not self._is_open:
            return
        if not self._stopped or not self._try_enter():
            raise ConfigError("a message stream of this ordered consumer is open: stop() it first")
        try:
            self._close()
        finally:
            self._leave()

    def _close(self) -> None:
        """Set the reader back to the last message handed out, once. The caller holds the turn."""
        is_open, self._is_open = self._is_open, False
        if is_open:
            self._reader.on_warning = None
            self._reader.rewind(self._first_position())

    def _first_position(self) -> Position:
        """Right before the first message that was not handed out. Drops the prefetched ones."""
        first: JetStreamMsg | None = self._pop()
        if first is None:
            return self._reader.position()
        self._move_into(MsgBatch(), HUGE_BATCH)
        return first.metadata.stream_seq - 1, self._begin[1]

    def __del__(self) -> None:
        # Dropped, for example by `break` out of a for loop. This thread may hold any lock now.
        if getattr(self, "_is_open", False) and not self._port.closed:
            self._is_open = False
            self._reader.on_warning = None
            self._reader.rewind(self._first_position(), later=True)


def release(stream: OrderedMessages) -> None:
    """Let another call read: end this stream if it was stopped, else raise ConfigError."""
    stream._release()
