"""Where messages come from: the contexts that their headers carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from jetsync.client import trace_parents
from jetsync.headers import Headers

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import SpanContext

__all__ = ["Senders"]

_W3C = {"traceparent", "tracestate", "baggage"}


class Senders:
    """Reads the contexts in headers, by a propagator. Thread-safe."""

    def __init__(self, propagator: TextMapPropagator) -> None:
        from opentelemetry import context, trace

        self._trace = trace
        self._context = context
        self._propagator = propagator
        self._empty = context.Context()
        self._flags = [trace.TraceFlags(flags) for flags in range(256)]
        fields = propagator.fields
        # A propagator of these fields alone reads them as the W3C says, and so does this class,
        # without the objects that a propagator makes for each message.
        self.is_w3c: bool = "traceparent" in fields and fields <= _W3C

    def sent(self, block: bytes) -> tuple[Context | None, SpanContext | None]:
        """Return the context that a sender has put into a header block (its span, its baggage) and
        the span in it."""
        parents = trace_parents([block], baggage=True) if self.is_w3c else None
        if parents is None:
            sent = self._extracted(Headers.parse(block))
            return sent, self._span(sent)
        if not parents:
            return None, None
        ((trace_id, span_id, flags),) = parents
        span = self._trace.SpanContext(trace_id, span_id, True, self._flags[flags])
        only = self._trace.set_span_in_context(self._trace.NonRecordingSpan(span), self._empty)
        return only, span

    def _extracted(self, headers: Headers) -> Context | None:
        # Names as they were sent, in lower case, and as the propagator spells them.
        carrier = {name: headers[name] for name in headers}
        lower = {name.lower(): value for name, value in carrier.items()}
        known = {n: lower[n.lower()] for n in self._propagator.fields if n.lower() in lower}
        if not known:
            return None
        return self._propagator.extract({**carrier, **lower, **known}, self._context.Context())

    def _span(self, sent: Context | None) -> SpanContext | None:
        if sent is None:
            return None
        found = self._trace.get_current_span(sent).get_span_context()
        return found if found.is_valid else None

    def joined(self, sent: Context, context: Context) -> Context:
        """Return a context with all that the sender has given."""
        for key, value in sent.items():
            context = self._context.set_value(key, value, context)
        return context

    def spans(self, blocks: Iterable[bytes]) -> Iterator[SpanContext]:
        """Return the spans that sent messages with these header blocks, each once."""
        read = list(blocks)
        parents = trace_parents(read) if self.is_w3c else None
        if parents is None:
            found = self._by_propagator(read)
            yield from {(sender.trace_id, sender.span_id): sender for sender in found}.values()
            return
        make, flags_of = self._trace.SpanContext, self._flags
        for trace_id, span_id, flags in parents:
            yield make(trace_id, span_id, True, flags_of[flags])

    def _by_propagator(self, blocks: Iterable[bytes]) -> Iterator[SpanContext]:
        for block in blocks:
            sender = self._span(self._extracted(Headers.parse(block)))
            if sender is not None:
                yield sender
