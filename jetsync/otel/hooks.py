"""The hooks that make spans and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jetsync.headers import Headers
from jetsync.observe import Hooks, Operation

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, SpanContext, TracerProvider

__all__ = ["SpanHooks"]

# By the kind of an operation: the operation of the conventions, its type, the kind of its span.
_KINDS = {
    "publish": ("publish", "send", "PRODUCER"),
    "request": ("request", "send", "PRODUCER"),
    "publish_many": ("publish", "send", "PRODUCER"),
    "receive": ("receive", "receive", "CLIENT"),
    "process": ("process", "process", "CONSUMER"),
}


class SpanHooks(Hooks):
    """A span for each operation, and its metrics."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        subject_template: Callable[[str], str],
        propagator: TextMapPropagator | None,
        link_only: bool,
    ) -> None:
        from opentelemetry import context, metrics, propagate, trace

        from jetsync._version import __version__

        self._trace = trace
        self._context = context
        self._template = lru_cache(1024)(subject_template)
        self._propagator = propagator or propagate.get_global_textmap()
        self._by_traceparent = "traceparent" in self._propagator.fields
        self._link_only = link_only
        self._tracer = trace.get_tracer("jetsync", __version__, tracer_provider)
        meter = metrics.get_meter("jetsync", __version__, meter_provider)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration", "s", "Duration of messaging operations"
        )
        self._processing = meter.create_histogram(
            "messaging.process.duration", "s", "Duration of processing a message"
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were sent"
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that were delivered"
        )

    def begin(self, op: Operation) -> None:
        operation, type_, kind = _KINDS[op.kind]
        shared = {
            "messaging.system": "nats",
            "messaging.operation.name": operation,
            "messaging.operation.type": type_,
        }
        # A batch has one destination in the conventions: the stream, where it is known.
        place = op.subject or op.stream
        temporary = op.subject is not None and op.subject.startswith("_INBOX.")
        if place is not None and not temporary:
            shared["messaging.destination.template"] = self._template(place)
        if op.consumer is not None:
            shared["messaging.consumer.group.name"] = op.consumer
        url = None if op.connection is None else op.connection.connected_url
        if url is not None:
            shared.update(_server(url))
        name = shared.get("messaging.destination.template", "(temporary)" if temporary else "")
        links: list[Link] = []
        parent = None
        if op.kind == "process":
            sent = self._extracted(op.headers)
            sender = self._span_of(sent)
            if sender is not None:
                links = [self._trace.Link(sender)]
                current = self._trace.get_current_span().get_span_context()
                if not self._link_only and not current.is_valid:
                    parent = self._joined(sent)
        span = self._tracer.start_span(
            f"{operation} {name}".rstrip(),
            parent,
            self._trace.SpanKind[kind],
            shared,
            links,
        )
        if span.is_recording():
            if op.subject is not None:
                span.set_attribute("messaging.destination.name", op.subject)
            if temporary:
                span.set_attribute("messaging.destination.temporary", True)
            if op.connection is not None and op.connection.client_id is not None:
                span.set_attribute("messaging.client.id", str(op.connection.client_id))
        token = None
        if op.kind == "process":  # what the handler does belongs to this span
            token = self._context.attach(self._trace.set_span_in_context(span, parent))
        op.state = span, shared, token

    def inject(self, op: Operation, headers: dict[str, str]) -> None:
        span = op.state[0]
        if op.kind != "publish_many" or span.is_recording():
            self._propagator.inject(headers, self._trace.set_span_in_context(span))

    def end(self, op: Operation) -> None:
        span, shared, token = op.state
        if token is not None:
            self._context.detach(token)
        if op.error is not None:
            shared["error.type"] = type(op.error).__name__
        if span.is_recording():
            self._finish(span, op)
        span.end()
        seconds, count = op.duration or 0.0, 1 if op.count is None else op.count
        if op.kind == "process":
            self._processing.record(seconds, shared)
            if op.count is not None:  # else the operation that received it has counted it
                self._consumed.add(op.count, shared)
            return
        self._duration.record(seconds, shared)
        if op.kind == "receive":
            self._consumed.add(op.count or 0, shared)
        elif op.error is None or op.kind != "publish_many":
            self._sent.add(count, shared)

    def _finish(self, span: Any, op: Operation) -> None:
        if op.kind == "receive" and op.error is None:
            for sender in self._senders(op.headers):
                span.add_link(sender)
        if op.kind in ("receive", "publish_many") and op.count is not None:
            span.set_attribute("messaging.batch.message_count", op.count)
        for name, value in (
            ("messaging.message.id", op.msg_id),
            ("messaging.message.body.size", op.bytes),
            ("messaging.destination.subscription.name", op.consumer),
            ("messaging.nats.stream", op.stream),
            ("messaging.nats.consumer", op.consumer if op.stream is not None else None),
            ("messaging.nats.stream_sequence", op.seq),
            ("messaging.nats.delivery_count", op.num_delivered),
        ):
            if value is not None:
                span.set_attribute(name, value)
        if op.error is not None:
            span.set_attribute("error.type", type(op.error).__name__)
            span.record_exception(op.error)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(op.error)))

    def _senders(self, blocks: Iterable[bytes] | None) -> Iterator[SpanContext]:
        """The contexts of the spans that sent messages with these header blocks, each once."""
        seen = set()
        last = b"no header block"
        for block in blocks or ():
            if self._by_traceparent:  # equal ones are told apart without parsing the block
                if block.startswith(last):
                    continue
                at = block.find(b"\ntraceparent:")
                if at < 0:
                    at = block.find(b"\nTraceparent:")
                end = block.find(b"\r", at)
                if at < 0 or block[at:end] in seen:
                    continue
                last = block[: end + 1]
                seen.add(block[at:end])
            sender = self._span_of(self._extracted(Headers.parse(block)))
            if sender is not None:
                yield sender

    def _extracted(self, headers: Any) -> Context | None:
        """The context that a sender has put into these headers: its span, its baggage."""
        if not headers:
            return None
        # Names as they were sent, in lower case, and as the propagator spells them.
        carrier = {name: headers[name] for name in headers}
        lower = {name.lower(): value for name, value in carrier.items()}
        known = {n: lower[n.lower()] for n in self._propagator.fields if n.lower() in lower}
        if not known:
            return None
        return self._propagator.extract({**carrier, **lower, **known}, self._context.Context())

    def _span_of(self, sent: Context | None) -> SpanContext | None:
        """The span that sent a message, or None."""
        if sent is None:
            return None
        found = self._trace.get_current_span(sent).get_span_context()
        return found if found.is_valid else None

    def _joined(self, sent: Context | None) -> Context:
        """The context of this thread with all that the sender has given."""
        joined = self._context.get_current()
        for key, value in (sent or {}).items():
            joined = self._context.set_value(key, value, joined)
        return joined


@lru_cache(64)
def _server(url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    found: dict[str, Any] = {"server.address": parts.hostname or ""}
    if parts.port is not None:
        found["server.port"] = parts.port
    return found
