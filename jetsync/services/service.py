"""Service: endpoints under one name, with discovery and statistics below ``$SRV`` (ADR-32)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, TypeVar, overload

from jetsync._deadline import Deadline, Seconds
from jetsync._handles import Handle
from jetsync._latch import Latch, Once
from jetsync._locks import native_rlock
from jetsync._measurement import Measurement
from jetsync._numbers import check_whole
from jetsync.client import Connection, Msg, Subscription, next_nuid
from jetsync.client.callbacks import check_callback
from jetsync.client.port import Member, port_of
from jetsync.errors import ConfigError, Error, TimeoutError
from jetsync.services.answering import Answering, Handler
from jetsync.services.documents import EndpointInfo, ServiceInfo, ServicePing, ServiceStats
from jetsync.services.endpoint import Endpoint
from jetsync.services.names import (
    DEFAULT_PREFIX,
    DEFAULT_QUEUE_GROUP,
    INHERIT,
    Inherit,
    check_group,
    check_metadata,
    check_name,
    check_prefix,
    check_queue_group,
    check_version,
    discovery_subject,
    join,
)
from jetsync.services.request import ServiceRequest

__all__ = ["Service", "ServiceGroup"]

H = TypeVar("H", bound=Handler)
_NUMBERS = (
    ("requests_total", "Requests received, those refused because too many waited included."),
    ("errors_total", "Answers that were errors."),
)


class _Adds:
    """The common base of a service and its groups: endpoints and groups are added to them."""

    _prefix: str
    _queue: str | None
    _service: Service

    def add_endpoint(
        self,
        name: str,
        handler: Handler,
        *,
        subject: str | None = None,
        queue_group: str | Inherit | None = INHERIT,
        metadata: Mapping[str, str] | None = None,
        threads: int | None = None,
    ) -> Endpoint:
        """Answer requests on a subject from now on. Does not wait for the server.

        ``name`` has letters, digits, ``-`` and ``_``; ``subject`` (default: the name) may have
        wildcards. ``queue_group`` None: every instance gets every request. ``threads`` is how many
        handlers run at once (default: the service's number). The bytes that the ``handler`` returns
        are the answer; None: it has answered, or will. ``metadata`` is shown to clients that
        ask for the service. A ``ServiceError`` that the handler raises is the answer, any other
        exception is the error 500. Endpoints cannot be removed. Raises
        ConfigError, ConnectionClosedError. Thread-safe.
        """
        return self._service._add(
            self._prefix,
            self._queue if queue_group is INHERIT else queue_group,
            name,
            handler,
            subject,
            metadata,
            threads,
        )

    @overload
    def endpoint(self, name: H) -> H: ...
    @overload
    def endpoint(
        self,
        name: str | None = None,
        *,
        subject: str | None = None,
        queue_group: str | Inherit | None = INHERIT,
        metadata: Mapping[str, str] | None = None,
        threads: int | None = None,
    ) -> Callable[[H], H]: ...
    def endpoint(
        self,
        name: H | str | None = None,
        *,
        subject: str | None = None,
        queue_group: str | Inherit | None = INHERIT,
        metadata: Mapping[str, str] | None = None,
        threads: int | None = None,
    ) -> H | Callable[[H], H]:
        """Decorate a handler: like :meth:`add_endpoint`, by default under the function's name.

        ``subject``, ``queue_group``, ``metadata`` and ``threads`` are those of it. Does not block.
        Raises ConfigError, ConnectionClosedError.
        """
        if callable(name):
            self.add_endpoint(_name_of(name), name)
            return name

        def decorate(handler: H) -> H:
            self.add_endpoint(
                _name_of(handler) if name is None else name,
                handler,
                subject=subject,
                queue_group=queue_group,
                metadata=metadata,
                threads=threads,
            )
            return handler

        return decorate

    def add_group(self, name: str, *, queue_group: str | Inherit | None = INHERIT) -> ServiceGroup:
        """Return a group: the subjects of its endpoints begin with ``name``. Does not block.

        ``queue_group`` is what its endpoints inherit. Raises ConfigError.
        """
        queue = check_queue_group(queue_group)
        return ServiceGroup(
            self._service,
            join(self._prefix, check_group(name)) if name else self._prefix,
            self._queue if isinstance(queue, Inherit) else queue,
        )


class ServiceGroup(_Adds):
    """Endpoints whose subjects begin alike. Made by ``add_group``. Thread-safe."""

    def __init__(self, service: Service, prefix: str, queue: str | None) -> None:
        self._service = service
        self._prefix = prefix
        self._queue = queue

    def __repr__(self) -> str:
        return f"ServiceGroup({self._prefix!r}, queue={self._queue!r})"


class _Running(Member):
    """Lets a service end with its connection."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def drain(self, deadline: Deadline) -> None:
        self._service._drain(deadline)

    def close(self) -> None:
        self._service._close()


class Service(Handle, _Adds):
    """One instance of a service. Made by ``Connection.add_service``, which explains the options.

    Thread-safe. As a context manager it stops at the end. It lives until it is stopped or its
    connection ends, whether or not the program holds it. In a forked child every method raises
    ForkedError.
    """

    def __init__(
        self,
        nc: Connection,
        name: str,
        version: str,
        *,
        description: str = "",
        metadata: Mapping[str, str] | None = None,
        queue_group: str | None = DEFAULT_QUEUE_GROUP,
        threads: int = 1,
        max_pending: int = 1000,
        stats_handler: Callable[[EndpointInfo], Any] | None = None,
        on_error: Callable[[BaseException, ServiceRequest | None], Any] | None = None,
        on_done: Callable[[Service], Any] | None = None,
        prefix: str = DEFAULT_PREFIX,
        expose_errors: bool = False,
    ) -> None:
        self.name: str = check_name("a service", name)
        self.version: str = check_version(version)
        self.id: str = next_nuid()
        self.subject_prefix: str = check_prefix(prefix)
        self.error: BaseException | None = None
        if not isinstance(description, str):
            raise ConfigError("description must be a str")
        callbacks = {"stats_handler": stats_handler, "on_error": on_error, "on_done": on_done}
        for called, callback in callbacks.items():
            if callback is not None:
                check_callback(callback, called)
        if check_queue_group(queue_group) is INHERIT:
            raise ConfigError("queue_group of a service must be a str or None")
        self._service, self._prefix, self._queue = self, "", queue_group
        self._description = description
        self._metadata = check_metadata(metadata)
        self._threads = check_whole("threads", threads)
        self._max_pending = check_whole("max_pending", max_pending)
        self._stats_handler = stats_handler
        self._on_error = on_error
        self._on_done = on_done
        self._expose_errors = expose_errors
        self._nc = nc
        self._port = port_of(nc)
        self._port.check()
        # Orders adding an endpoint and stopping.
        self._lock = native_rlock("services/service.py _lock")
        self._endpoints: list[Answering] = []
        self._discovery: list[Subscription] = []
        self._started = datetime.now(timezone.utc)
        self._stopping = Once()
        self._closed_to_new = False
        self._done = Latch()
        self._member = _Running(self)
        self._port.attach(self._member, hold=True)
        try:
            self._open_discovery()
        except BaseException:
            self._end()
            raise

    # -- description and statistics --------------------------------------------------------------

    def ping(self) -> ServicePing:
        """Return what it answers to a PING. Does not block."""
        self._check()
        return ServicePing(self.name, self.id, self.version, dict(self._metadata))

    def info(self) -> ServiceInfo:
        """Return its description with that of its endpoints. Does not block."""
        self._check()
        return ServiceInfo(
            self.name,
            self.id,
            self.version,
            dict(self._metadata),
            self._description,
            tuple(endpoint.info() for endpoint in self._endpoints),
        )

    def stats(self) -> ServiceStats:
        """Return its statistics. Does not block, but for its ``stats_handler``."""
        self._check()
        return ServiceStats(
            self.name,
            self.id,
            self.version,
            dict(self._metadata),
            self._started,
            tuple(endpoint.stats() for endpoint in self._endpoints),
        )

    def measurements(self) -> list[Measurement]:
        """Return the statistics of its endpoints as measurements, for a collector such as
        ``jetsync.prometheus``; endpoints of one name are added up. Does not block."""
        self._check()
        at = {"connection": self._nc.options.name or self._port.label, "service": self.name}
        found: dict[str, list[float]] = {}
        for one in list(self._endpoints):
            sums = found.setdefault(one.name, [0.0] * 3)
            for place, value in enumerate(one.counts()):
                sums[place] += value
        numbers = []
        for endpoint, (requests, errors, seconds) in found.items():
            labels = {**at, "endpoint": endpoint}
            for (name, text), value in zip(_NUMBERS, (requests, errors), strict=True):
                numbers.append(Measurement(f"jetsync_service_{name}", text, value, labels))
            name, text = "jetsync_service_duration_seconds", "How long handlers ran."
            numbers.append(Measurement(name, text, seconds, labels, int(requests)))
        return numbers

    def reset(self) -> None:
        """Let all endpoints count from zero again. Does not block."""
        self._check()
        for endpoint in self._endpoints:
            endpoint.reset()

    @property
    def is_stopped(self) -> bool:
        """Whether it has been stopped, or its connection has ended."""
        return self._done.is_set()

    def _check(self) -> None:
        if self._port.forked:
            self._port.check()

    # -- endpoints -------------------------------------------------------------------------------

    def _add(
        self,
        group: str,
        queue: str | Inherit | None,
        name: str,
        handler: Handler,
        subject: str | None,
        metadata: Mapping[str, str] | None,
        threads: int | None,
    ) -> Endpoint:
        """See ``add_endpoint``."""
        self._check()
        check_callback(handler, "the handler")
        queue = check_queue_group(queue)
        assert not isinstance(queue, Inherit)
        info = EndpointInfo(
            check_name("an endpoint", name),
            join(group, name if subject is None else subject),
            queue,
            check_metadata(metadata),
        )
        endpoint = Answering(
            info,
            handler,
            observed=lambda answer: self._port.observed(answer, queue),
            threads=self._threads if threads is None else check_whole("threads", threads),
            max_pending=self._max_pending,
            max_bytes=self._nc.options.pending_bytes_limit,
            expose_errors=self._expose_errors,
            start_thread=self._port.start_thread,
            check=self._check,
            report=self._report,
            stats_handler=self._stats_handler,
        )
        with self._lock:
            if self._closed_to_new:
                raise ConfigError(f"service {self.name!r} has stopped: it takes no more endpoints")
            endpoint.subscription = self._subscribe(info.subject, queue, endpoint.admit)
            self._endpoints.append(endpoint)
        return Endpoint(endpoint)

    def _subscribe(
        self, subject: str, queue: str | None, callback: Callable[[Msg], Any]
    ) -> Subscription:
        # Observers see the handlers of endpoints, on their own threads, and no discovery.
        return Connection.subscribe(self._nc, subject, queue=queue, callback=callback)

    def _report(self, error: BaseException, request: ServiceRequest | None) -> None:
        """Tell the user of an error of a handler: ``on_error``, or else the connection's."""
        if self._on_error is not None:
            try:
                self._on_error(error, request)
                return
            except BaseException as other:  # noqa: BLE001 - user code may raise anything
                error = other
        if request is None:
            self._port.report(error)
        else:
            self._port.callback_failed(error, request)

    # -- discovery -------------------------------------------------------------------------------

    def _open_discovery(self) -> None:
        answers: dict[str, Callable[[], ServicePing]] = {
            "PING": self.ping,
            "INFO": self.info,
            "STATS": self.stats,
        }
        for verb, document in answers.items():
            for name, instance in ((None, None), (self.name, None), (self.name, self.id)):
                subject = discovery_subject(self.subject_prefix, verb, name, instance)
                self._discovery.append(self._subscribe(subject, None, self._answering(document)))

    def _answering(self, document: Callable[[], ServicePing]) -> Callable[[Msg], None]:
        """Answer each question with a document."""
        nc = self._nc

        def answer(msg: Msg) -> None:
            if msg.reply:
                Connection.publish(nc, msg.reply, json.dumps(document().to_dict()).encode())

        return answer

    # -- the end ---------------------------------------------------------------------------------

    def stop(self, error: BaseException | None = None, timeout: Seconds | None = None) -> None:
        """Take no more requests, answer those that came, and stop being found.

        Blocks up to ``timeout`` seconds (default: the connection's); raises TimeoutError when a
        handler did not finish; what waits is answered with the error 503 then, and the handler's
        own answer is still sent. ``error`` is kept as ``Service.error`` for ``on_done``. Safe to
        repeat, and in a handler, which is not waited for. The connection stays.
        """
        self._check()
        deadline = Deadline(self._port.seconds(timeout))
        self._stop(error, deadline)

    def wait(self, timeout: Seconds | None = None) -> None:
        """Wait until the service has stopped. Blocks up to ``timeout`` seconds (None: for ever) and
        raises TimeoutError then. Ctrl-C interrupts."""
        self._check()
        if not self._done.wait(Deadline(timeout).remaining()):
            raise TimeoutError(f"service {self.name!r} has not stopped", operation="wait")

    def _stop(self, error: BaseException | None, deadline: Deadline) -> None:
        if not self._stopping.first():
            if not any(endpoint.runs_here for endpoint in self._endpoints):
                self._done.wait(deadline.remaining())
            if not self._done.is_set():
                raise TimeoutError("another thread stops the service", operation="stop")
            return
        self.error = error
        with self._lock:
            self._closed_to_new = True
        try:
            self._finish(deadline)
        finally:
            self._end()
            self._tell_done()

    def _finish(self, deadline: Deadline) -> None:
        """Answer every request that came."""
        problem: Error | None = None
        try:
            receiving = [one.subscription for one in self._endpoints if one.subscription]
            self._port.drain(receiving, deadline)
        except Error as error:
            problem = error
        for endpoint in self._endpoints:
            try:
                endpoint.finish(deadline)
            except TimeoutError as error:
                problem = problem or error
        if problem is not None and not self._port.closed:
            raise problem

    def _end(self) -> None:
        """End discovery and free everything. Does not block."""
        with self._lock:
            self._closed_to_new = True
        for endpoint in self._endpoints:
            endpoint.close()
        for subscription in self._discovery:
            with contextlib.suppress(Error):
                subscription.unsubscribe()
        self._port.detach(self._member)
        self._done.set()

    def _tell_done(self) -> None:
        if self._on_done is not None:
            try:
                self._on_done(self)
            except BaseException as error:  # noqa: BLE001 - user code may raise anything
                self._port.report(error)

    def _drain(self, deadline: Deadline) -> None:
        if not any(endpoint.runs_here for endpoint in self._endpoints):
            self._stop(None, deadline)

    def _close(self) -> None:
        if self._stopping.first():
            refusal = self._port.refusal()
            self.error = refusal
            self._end()
            for endpoint in self._endpoints:
                endpoint.discard()
            if self._on_done is not None:
                with contextlib.suppress(RuntimeError):  # the interpreter ends
                    self._port.start_thread("service", self._tell_done)

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(error)

    def __repr__(self) -> str:
        state = ", stopped" if self.is_stopped else ""
        return f"Service({self.name!r}, {self.version!r}, id={self.id!r}{state})"


def _name_of(handler: Callable[..., object]) -> str:
    name: str = getattr(handler, "__name__", "")
    return name
