"""Answering: the requests of one endpoint that wait, and the threads that answer them."""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jetsync._deadline import Deadline
from jetsync._locks import native_rlock
from jetsync._native import NativeQueue
from jetsync._printable import printable
from jetsync.client import Msg
from jetsync.errors import ConfigError, ConnectionClosedError, Error, ServiceError, TimeoutError
from jetsync.services.documents import EndpointInfo, EndpointStats
from jetsync.services.request import ServiceRequest

if TYPE_CHECKING:
    from jetsync.client import Subscription

__all__ = ["Answering", "Handler"]

Handler = Callable[[ServiceRequest], "bytes | None"]
"""A handler of requests: it returns the body, or None when it has answered or will."""

_OVERLOADED = 503, "overloaded"
_STOPPED = 503, "stopped"
_INTERNAL = 500, "internal error"


class Answering:
    """The requests, threads and counts behind an ``Endpoint``. Thread-safe."""

    def __init__(
        self,
        info: EndpointInfo,
        handler: Handler,
        *,
        observed: Callable[[Handler], Handler],
        threads: int,
        max_pending: int,
        max_bytes: int,
        expose_errors: bool,
        start_thread: Callable[[str, Callable[[], Any]], threading.Thread],
        check: Callable[[], object],
        report: Callable[[BaseException, ServiceRequest | None], object],
        stats_handler: Callable[[EndpointInfo], Any] | None,
    ) -> None:
        self._info = info
        self._handler = handler

        @functools.wraps(handler, updated=())
        def answer(request: ServiceRequest) -> None:
            self._answered(request)

        # An observer sees the answer within the operation, so that its span is in the same trace.
        self._answer = observed(answer)
        self._most_threads = threads
        self._max_pending = max_pending
        self._max_bytes = max_bytes
        self._expose_errors = expose_errors
        self._start = start_thread
        self._check = check
        self._report = report
        self._stats_handler = stats_handler
        self._waiting: NativeQueue[ServiceRequest | None] = NativeQueue()
        # Guards the numbers and the list of threads; no code of users runs while it is held.
        self._lock = native_rlock("services/answering.py _lock")
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._waiting_bytes = 0
        self._stopped = False
        self.subscription: Subscription | None = None
        """The subscription that receives its requests; the service sets it."""
        self.reset()

    # -- description and statistics --------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name."""
        return self._info.name

    @property
    def subject(self) -> str:
        """Where it listens, the subjects of its groups included."""
        return self._info.subject

    @property
    def queue_group(self) -> str | None:
        """The queue group that shares the requests; None: every instance gets every request."""
        return self._info.queue_group

    @property
    def metadata(self) -> Mapping[str, str]:
        """A copy of its metadata."""
        return dict(self._info.metadata)

    def info(self) -> EndpointInfo:
        """Return its description. Does not block."""
        self._check()
        info = self._info
        return EndpointInfo(info.name, info.subject, info.queue_group, self.metadata)

    def stats(self) -> EndpointStats:
        """Return its statistics. Does not block, but for a ``stats_handler``."""
        self._check()
        with self._lock:
            requests, errors = self._num_requests, self._num_errors
            last, spent = self._last_error, self._processing_time
        return EndpointStats(
            self.name,
            self.subject,
            self.queue_group,
            requests,
            errors,
            last,
            spent,
            spent // requests if requests else 0,
            self._own_data(),
        )

    def counts(self) -> tuple[float, float, float]:
        """Return the numbers of requests and of errors, and the seconds spent in the handler."""
        with self._lock:
            return self._num_requests, self._num_errors, self._processing_time / 1e9

    def reset(self) -> None:
        """Count from zero again. Does not block."""
        self._check()
        with self._lock:
            self._num_requests = self._num_errors = self._processing_time = 0
            self._last_error = ""

    def _own_data(self) -> Any:
        """The value of the user's ``stats_handler``, if it can be written as JSON."""
        if self._stats_handler is None:
            return None
        try:
            return json.loads(json.dumps(self._stats_handler(self.info())))
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            self._report(error, None)
            return None

    def _count_error(self, text: str) -> None:
        with self._lock:
            self._num_errors += 1
            self._last_error = text

    # -- requests --------------------------------------------------------------------------------

    def admit(self, msg: Msg) -> None:
        """Take a request, or answer at once that too many wait. Called for each message."""
        request = ServiceRequest(msg, self._count_error)
        with self._lock:
            self._num_requests += 1
            left_over = self._waiting.qsize() - self._idle
            full = 0 < self._max_bytes < self._waiting_bytes + msg.size
        if left_over >= 0 and len(self._threads) < self._most_threads:
            self._start_thread()
            left_over -= 1
        if full or left_over >= self._max_pending or not self._threads:
            self._refuse(request, *_OVERLOADED)
        else:
            with self._lock:
                self._waiting_bytes += msg.size
            self._waiting.put(request)

    def _start_thread(self) -> None:
        """Start one more, if the system has one. Only ``admit`` calls this."""
        with self._lock:
            self._idle += 1
        try:
            self._threads.append(self._start("service", self._run))
        except (RuntimeError, ConnectionClosedError) as error:
            with self._lock:
                self._idle -= 1
            if isinstance(error, RuntimeError):
                self._report(error, None)

    def _refuse(self, request: ServiceRequest, code: int, description: str) -> None:
        try:
            request.respond_error(code, description)
        except Error as error:
            self._report(error, request)

    def _run(self) -> None:
        while (request := self._waiting.get()) is not None:
            with self._lock:
                self._idle -= 1
                self._waiting_bytes -= request.msg.size
            self._handle(request)
            del request  # free it: it may be large, and the next one may come late
            with self._lock:
                self._idle += 1

    def _handle(self, request: ServiceRequest) -> None:
        with contextlib.suppress(BaseException):  # it is told, and answered
            self._answer(request)

    def _answered(self, request: ServiceRequest) -> None:
        """Call the handler, and answer. Raises what the handler raises."""
        try:
            answer = self._timed(request)
            if answer is not None:
                if not isinstance(answer, (bytes, bytearray, memoryview)):
                    raise ConfigError(
                        f"the handler of endpoint {self.name!r} must return bytes or None, not "
                        f"{type(answer).__name__}"
                    )
                request.respond(bytes(answer))
        except ServiceError as error:
            self._answer_error(request, error.code, error.description, error.data)
            raise
        except BaseException as error:
            self._report(error, request)
            code, text = _INTERNAL
            if self._expose_errors:
                text = _described(error)
            self._answer_error(request, code, text)
            raise

    def _timed(self, request: ServiceRequest) -> bytes | None:
        """Call the handler. Its time is counted before its answer leaves."""
        begun = time.perf_counter_ns()
        try:
            return self._handler(request)
        finally:
            with self._lock:
                self._processing_time += time.perf_counter_ns() - begun

    def _answer_error(
        self, request: ServiceRequest, code: int, description: str, data: bytes = b""
    ) -> None:
        try:
            request.respond_error(code, description, data)
        except BaseException as error:  # noqa: BLE001 - the user's description or data may be odd
            self._report(error, request)
            self._refuse(request, *_INTERNAL)  # else it would wait for as long as it can

    # -- the end ---------------------------------------------------------------------------------

    def finish(self, deadline: Deadline) -> None:
        """No more requests come: wait until those that are here are answered.

        Raises TimeoutError; then those that wait are answered with an error.
        """
        self.close()
        own = threading.current_thread()
        for thread in list(self._threads):
            thread.join(deadline.remaining())
            if thread is not own and thread.is_alive():
                self.discard()
                raise TimeoutError(
                    f"a handler of {printable(self.subject)!r} did not finish in time",
                    operation="stop",
                )

    def close(self) -> None:
        """Let the threads end when no request waits. Does not block; safe to repeat."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        for _ in range(self._most_threads):
            self._waiting.put(None)

    def discard(self) -> None:
        """Answer the waiting requests with an error: no handler will run for them. Does not block
        for long."""
        with contextlib.suppress(queue.Empty):
            while True:
                request = self._waiting.get_nowait()
                if request is not None:
                    self._refuse(request, *_STOPPED)
        for _ in self._threads:
            self._waiting.put(None)

    @property
    def runs_here(self) -> bool:
        """Whether the caller is one of its handlers."""
        return threading.current_thread() in self._threads

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, subject={self.subject!r}, queue={self.queue_group!r})"


def _described(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except BaseException:  # noqa: BLE001 - __str__ is the user's as well
        return name
