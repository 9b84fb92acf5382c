"""KeepAlive: tells the server from time to time that work on a message goes on."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Seconds, to_seconds
from jetsync._locks import lock
from jetsync.client.timer import TimerHandle
from jetsync.errors import ConfigError, ConnectionClosedError, Error
from jetsync.jetstream.acks.wait import ack_waits

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["KeepAlive"]

# How many times it is sent within ack_wait: one may be late and another one lost.
_TIMES = 3
_DEFAULT_ACK_WAIT = 30.0


class KeepAlive:
    """Sends ``in_progress`` before ``ack_wait`` runs out, while its ``with`` block lasts.

    Made by ``keep_alive()`` of a message or a batch. It sends the first one at once and the next
    ones on the connection's timer thread, until the block ends, the message is settled, or the
    connection ends. While there is no link, or the outbound buffer is full, nothing is sent. Errors
    go to the connection's ``on_error`` and it goes on.
    """

    def __init__(
        self,
        keep: Callable[[], None],
        is_settled: Callable[[], bool],
        port: Port,
        interval: float,
    ) -> None:
        # Both functions hold the message or the batch; at the end they are dropped.
        self._functions: tuple[Callable[[], None], Callable[[], bool]] | None = (keep, is_settled)
        self._port = port
        self._lock = lock("jetstream/acks/keep_alive.py _lock")
        self._handle: TimerHandle | None = None
        self.interval = interval
        """Seconds between two of them."""

    def _tick(self) -> None:
        with self._lock:
            functions = self._functions
            if functions is None:
                return
            keep, is_settled = functions
            if self._port.closed or is_settled():
                return
            try:
                outbound = self._port.outbound
                # The timer thread must not wait for room; the next one comes soon.
                if self._port.linked and outbound.pending_bytes < outbound.high_water // 2:
                    keep()
            except ConnectionClosedError:
                return
            except Error as error:
                self._port.report(error)
            self._handle = self._port.later(self.interval, self._tick)

    def __enter__(self) -> KeepAlive:
        self._port.check()
        self._tick()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        # A sign of life is sent with the lock held: what the caller sends next comes after it.
        with self._lock:
            self._functions = None
            if self._handle is not None:
                self._handle.cancel()


def interval_of(context: Any, interval: Seconds | None) -> float:
    """The seconds between two signs of life: ``interval``, or a part of the consumer's ack_wait."""
    if interval is not None:
        seconds = to_seconds(interval, "interval")
        if seconds < 0.01:
            raise ConfigError("interval must be 0.01 seconds or more")
        return seconds
    return max(0.01, min(ack_waits(context), default=_DEFAULT_ACK_WAIT) / _TIMES)
