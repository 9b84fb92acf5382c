"""Where messages come from: the contexts that their headers carry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jetsync.headers import Headers

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import SpanContext

__all__ = ["Senders"]

_W3C = {"traceparent", "tracestate", "baggage"}
_TRACEPARENT = re.compile(
    rb"\ntraceparent:[ \t]*(00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2}))[ \t]*\r", re.IGNORECASE
)


class Senders:
    """Reads the contexts in headers, by a propagator. Thread-safe."""

    def __init__(self, propagator: TextMapPropagator) -> None:
        from opentelemetry import context, trace

        self._trace = trace
        self._context = context
        self._propagator = propagator
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
        seen: set[bytes] = set()
        last = b"no header block"
        for block in blocks:
            if self._is_w3c:
                if block.startswith(last):
                    continue
                found = _TRACEPARENT.search(block)
                if found is None or found[1] in seen:
                    continue
                seen.add(found[1])
                last = block[: found.end()]
                if b"racestate:" not in block:
                    sender = self._trace.SpanContext(
                        int(found[2], 16),
                        int(found[3], 16),
                        is_remote=True,
                        trace_flags=self._trace.TraceFlags(int(found[4], 16)),
                    )
                    if sender.is_valid:
                        yield sender
                    continue
            sent = self.span(self.context(Headers.parse(block)))
            if sent is not None:
                yield sent
