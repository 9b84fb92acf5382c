"""The hooks that make spans and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jetsync.observe import Hooks, Operation
from jetsync.otel.senders import Senders
from jetsync.otel.shapes import Shape, Shapes
from jetsync.otel.totals import Totals

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Span, TracerProvider

__all__ = ["SpanHooks"]

_LATE = ("receive", "settle")
"""Kinds whose messages carry no context of the span: it is made when the operation is over, with
all of its attributes and links in one call of the SDK."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Bounds of the buckets of durations, as the conventions for metrics give them."""


class SpanHooks(Hooks):
    """A span for each operation, and its metrics."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        subject_template: Callable[[str], str],
        propagator: TextMapPropagator | None,
        link_only: bool,
        message_spans: bool,
    ) -> None:
        from opentelemetry import context, metrics, propagate, trace

        from jetsync._version import __version__

        self._trace = trace
        self._context = context
        self._shapes = Shapes(subject_template, message_spans)
        self._propagator = propagator or propagate.get_global_textmap()
        self._senders = Senders(self._propagator)
        self._link_only = link_only
        self.each_message = message_spans
        self._tracer = trace.get_tracer("jetsync", __version__, tracer_provider)
        meter = metrics.get_meter("jetsync", __version__, meter_provider)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of messaging operations",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._processing = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of processing a message",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._totals = Totals.of(meter_provider, __version__)

    def begin(self, op: Operation) -> None:
        if op.kind == "api":  # no operation of the conventions for messaging
            return
        if op.kind in _LATE:
            op.state = time.time_ns()
            return
        shape = self._shapes.of(op)
        links: list[Link] = []
        parent = None
        if op.kind == "process":
            sent = self._senders.context(op.headers)
            sender = self._senders.span(sent)
            if sender is not None:
                links = [self._trace.Link(sender)]
                current = self._trace.get_current_span().get_span_context()
                if not self._link_only and not current.is_valid:
                    parent = self._senders.joined(sent)
        span = self._tracer.start_span(
            shape.name, parent, self._trace.SpanKind[shape.kind], _attributes(op, shape), links
        )
        token = None
        if op.kind == "process":  # what the handler does belongs to this span
            token = self._context.attach(self._trace.set_span_in_context(span, parent))
        op.state = span, shape, token
        if op.batch is not None:  # the span of the batch links to those of its messages
            op.batch.state[0].add_link(span.get_span_context())

    def inject(self, op: Operation, headers: dict[str, str]) -> None:
        span = op.state[0]
        if op.kind != "publish_many" or span.is_recording():
            self._propagator.inject(headers, self._trace.set_span_in_context(span))

    def end(self, op: Operation) -> None:
        if op.kind == "api":
            return
        if op.kind in _LATE:
            shape = self._shapes.of(op)
            span = self._tracer.start_span(
                shape.name,
                None,
                self._trace.SpanKind[shape.kind],
                {**_attributes(op, shape), **_outcome(op)},
                _Links(self._trace, self._senders, op.headers) if op.headers else (),
                op.state,
            )
        else:
            span, shape, token = op.state
            if token is not None:
                self._context.detach(token)
            if span.is_recording():
                for name, value in _outcome(op).items():
                    span.set_attribute(name, value)
        if op.settled is not None:
            span.add_event(op.settled)
        if op.error is not None and span.is_recording():
            self._failed(span, op.error)
        span.end()
        self._measure(op, shape)

    def _measure(self, op: Operation, shape: Shape) -> None:
        labels, items, seconds = shape.shared, shape.items, op.duration or 0.0
        if op.error is not None:
            labels = {**labels, "error.type": type(op.error).__name__}
            items = frozenset(labels.items())
        if op.kind == "process":
            self._totals.record(self._processing, seconds, labels)
            if op.count is not None:  # else the operation that received it has counted it
                self._totals.add("consumed", op.count, items)
        elif op.kind != "create":  # a message that is created is counted when it is sent
            self._totals.record(self._duration, seconds, labels)
            if op.kind == "receive":
                self._totals.add("consumed", op.count or 0, items)
            elif op.kind != "settle" and (op.error is None or op.kind != "publish_many"):
                self._totals.add("sent", 1 if op.count is None else op.count, items)

    def _failed(self, span: Span, error: BaseException) -> None:
        span.record_exception(error)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(error)))


class _Links(Sequence[Any]):
    """The links of a span to those that sent its messages. They are made when the SDK reads them:
    for a span that the sampler does not want it reads none."""

    def __init__(self, trace: Any, senders: Senders, blocks: Iterable[bytes]) -> None:
        self._trace = trace
        self._senders = senders
        self._blocks = blocks
        self._made: list[Link] | None = None

    def _all(self) -> list[Link]:
        if self._made is None:
            self._made = [self._trace.Link(one) for one in self._senders.spans(self._blocks)]
        return self._made

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Link]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, at: Any) -> Any:
        return self._all()[at]


def _attributes(op: Operation, shape: Shape) -> dict[str, Any]:
    """Return the attributes of an operation that are known when its span is made."""
    found = dict(shape.shared)
    if op.subject is not None:
        found["messaging.destination.name"] = op.subject
    if shape.temporary:
        found["messaging.destination.temporary"] = True
    if op.connection is not None and op.connection.client_id is not None:
        found["messaging.client.id"] = str(op.connection.client_id)
    return found


def _outcome(op: Operation) -> dict[str, Any]:
    """Return the attributes of an operation that are known when it is over."""
    found: dict[str, Any] = {}
    if op.msg_id is not None:
        found["messaging.message.id"] = op.msg_id
    if op.bytes is not None:
        found["messaging.message.body.size"] = op.bytes
    if op.consumer is not None:
        found["messaging.destination.subscription.name"] = op.consumer
    if op.stream is not None:
        found["messaging.nats.stream"] = op.stream
        if op.consumer is not None:
            found["messaging.nats.consumer"] = op.consumer
    if op.seq is not None:
        found["messaging.nats.stream_sequence"] = op.seq
    if op.num_delivered is not None:
        found["messaging.nats.delivery_count"] = op.num_delivered
    if op.count is not None and _is_batch(op):
        found["messaging.batch.message_count"] = op.count
    if op.error is not None:
        found["error.type"] = type(op.error).__name__
    return found


def _is_batch(op: Operation) -> bool:
    """Whether a call takes many messages, even if there is only one this time."""
    if op.kind == "receive":
        return op.name != "next"
    if op.kind == "settle":
        return op.subject is None  # that of one message has its subject
    return op.kind == "publish_many"
