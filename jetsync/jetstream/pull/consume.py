"""ConsumeContext: messages given to a callback on a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from jetsync._deadline import Deadline, Seconds
from jetsync._handles import Handle
from jetsync.client.port import Member
from jetsync.client.runner import run_callbacks
from jetsync.errors import ForkedError, TimeoutError
from jetsync.jetstream.message import JetStreamMsg, origin

if TYPE_CHECKING:
    from jetsync.client.port import Port

__all__ = ["ConsumeContext"]


class _Stream(Protocol):
    """The iterator that is consumed: endless, and stopped or drained from another thread."""

    _port: Port

    def __iter__(self) -> Iterator[JetStreamMsg]: ...
    def stop(self) -> None: ...
    def drain(self) -> None: ...


class _Running(Member):
    """Lets consuming end with its connection."""

    def __init__(self, context: ConsumeContext, stream: _Stream) -> None:
        self._context = context
        self._stream = stream

    def link_changed(self) -> None:
        if self._context._port.draining:
            self._stream.drain()  # send no more pulls

    def drain(self, deadline: Deadline) -> None:
        self._context.drain(deadline.remaining())

    def close(self) -> None:
        self._stream.stop()

    def join(self, timeout: float | None) -> None:
        self._context._thread.join(timeout)


class ConsumeContext(Handle):
    """Messages of a consumer given to a callback on a thread. Made by ``Consumer.consume``.

    Draining the connection drains it too, closing the connection stops it. Thread-safe. As a
    context manager it drains on success and stops on an exception.
    """

    def __init__(self, stream: _Stream, callback: Callable[[JetStreamMsg], Any]) -> None:
        self._stream = stream
        self._port = stream._port
        self._done = threading.Event()
        self._callback = callback
        self.error: Exception | None = None
        """Why consuming ended by itself, or None."""
        self._member = _Running(self, stream)
        self._port.attach(self._member)
        self._thread = self._port.start_thread("consume", self._run)

    def _run(self) -> None:
        try:
            run_callbacks(self._stream, self._callback, self._callback_failed)
        except Exception as error:  # noqa: BLE001 - kept for the user to look at
            self.error = error
            if not self._port.closed:
                self._port.report(error)
        finally:
            self._stream.stop()
            self._done.set()
            self._port.detach(self._member)

    def _callback_failed(self, error: BaseException, msg: JetStreamMsg) -> None:
        stream, consumer = origin(msg)
        self._port.callback_failed(error, msg, stream=stream, consumer=consumer)

    def stop(self) -> None:
        """End after the present message; the rest is handed back. Does not wait."""
        self._stream.stop()

    def drain(self, timeout: Seconds | None = None) -> None:
        """Send no more pulls and wait until the callback has processed the buffered messages.

        Blocks up to ``timeout`` seconds (default: the connection's); raises TimeoutError then.
        """
        self._stream.drain()
        if threading.current_thread() is not self._thread and not self.wait(
            self._port.seconds(timeout)
        ):
            raise TimeoutError("the callback did not finish in time", operation="drain")

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until consuming has ended; returns whether it has. None: no limit.

        Raises ForkedError in a forked child, where the thread that consumes does not exist.
        """
        if isinstance(refusal := self._port.refusal(), ForkedError):
            raise refusal
        return self._done.wait(Deadline(timeout).remaining())

    @property
    def is_active(self) -> bool:
        """Whether messages are still being delivered."""
        return not self._done.is_set()

    def __repr__(self) -> str:
        return f"ConsumeContext({self._stream!r}, {'active' if self.is_active else 'ended'})"

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
