"""Where messages come from: the contexts that their headers carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

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
        self._flags = [trace.TraceFlags(flags) for flags in range(256)]
        fields = propagator.fields
        # A propagator of these fields alone reads them as the W3C says, and so does this class,
        # without the objects that a propagator makes for each message.
        self._is_w3c = "traceparent" in fields and fields <= _W3C

    def context(self, headers: Any) -> Context | None:
        """Return the context that a sender has put into these headers: its span, its baggage."""
        if not headers:
            return None
        # Names as they were sent, in lower case, and as the propagator spells them.
        carrier = {name: headers[name] for name in headers}
        lower = {name.lower(): value for name, value in carrier.items()}
        known = {n: lower[n.lower()] for n in self._propagator.fields if n.lower() in lower}
        if not known:
            return None
        return self._propagator.extract({**carrier, **lower, **known}, self._context.Context())

    def span(self, sent: Context | None) -> SpanContext | None:
        """Return the span that sent a message, or None."""
        if sent is None:
            return None
        found = self._trace.get_current_span(sent).get_span_context()
        return found if found.is_valid else None

    def joined(self, sent: Context | None) -> Context:
        """Return the context of this thread with all that the sender has given."""
        joined = self._context.get_current()
        for key, value in (sent or {}).items():
            joined = self._context.set_value(key, value, joined)
        return joined

    def spans(self, blocks: Iterable[bytes]) -> Iterator[SpanContext]:
        """Return the spans that sent messages with these header blocks, each once."""
        read = list(blocks)
        parents = trace_parents(read) if self._is_w3c else None
        if parents is None:
            found = self._by_propagator(read)
            yield from {(sender.trace_id, sender.span_id): sender for sender in found}.values()
            return
        make, flags_of = self._trace.SpanContext, self._flags
        for trace_id, span_id, flags in parents:
            yield make(trace_id, span_id, True, flags_of[flags])

    def _by_propagator(self, blocks: Iterable[bytes]) -> Iterator[SpanContext]:
        for block in blocks:
            sender = self.span(self.context(Headers.parse(block)))
            if sender is not None:
                yield sender
