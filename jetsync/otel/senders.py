"""Where messages come from: the contexts that their headers carry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from jetsync.client import parent_texts, read_parents, trace_parents
from jetsync.headers import Headers

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import SpanContext

__all__ = ["Senders", "Sent", "SentSpan"]

_W3C = {"traceparent", "tracestate", "baggage"}


class Sent:
    """The context in the headers of a message, as a propagator read it."""

    __slots__ = ("_context", "has_span", "sampled", "span")

    def __init__(self, context: Context, span: SpanContext | None) -> None:
        self._context = context
        self.span: SpanContext | None = span
        """The place of the span that sent it."""
        self.has_span: bool = span is not None
        self.sampled: bool = span is not None and span.trace_flags.sampled

    def joined(self, senders: Senders, context: Context) -> Context:
        """Return a context with all that the sender has given."""
        return senders.joined(self._context, context) if context else self._context


class SentSpan:
    """The context in the headers of a message with a ``traceparent`` only."""

    __slots__ = ("_flags", "_senders", "_span_id", "_trace_id", "has_span", "sampled")

    def __init__(self, senders: Senders, trace_id: int, span_id: int, flags: int) -> None:
        self._senders = senders
        self._trace_id, self._span_id, self._flags = trace_id, span_id, flags
        self.has_span: bool = True
        self.sampled: bool = bool(flags & 1)

    @property
    def span(self) -> SpanContext:
        return self._senders.span(self._trace_id, self._span_id, self._flags)

    def joined(self, senders: Senders, context: Context) -> Context:
        return senders.within(lambda: self.span, context)


class Senders:
    """Reads the contexts in headers, by a propagator. Thread-safe."""

    def __init__(self, propagator: TextMapPropagator) -> None:
        from opentelemetry import context, trace

        from jetsync.otel.later import LaterSpan

        self._trace = trace
        self._context = context
        self._later = LaterSpan
        (self._span_key,) = trace.set_span_in_context(trace.INVALID_SPAN, context.Context())
        self.only_span: frozenset[str] = frozenset({self._span_key})
        """The key of a context that holds a span and nothing else."""
        self._propagator = propagator
        self._flags = [trace.TraceFlags(flags) for flags in range(256)]
        fields = propagator.fields
        # A propagator of these fields alone reads them as the W3C says, and so does this class,
        # without the objects that a propagator makes for each message.
        self.is_w3c: bool = "traceparent" in fields and fields <= _W3C

    def sent(self, block: bytes) -> Sent | SentSpan | None:
        """Return what a sender has put into a header block; None: nothing."""
        parents = trace_parents([block], baggage=True) if self.is_w3c else None
        if parents is None:
            context = self._extracted(Headers.parse(block))
            return None if context is None else Sent(context, self._span(context))
        return SentSpan(self, *parents[0]) if parents else None

    def span(self, trace_id: int, span_id: int, flags: int) -> SpanContext:
        """Return the place of a sender in its trace."""
        return self._trace.SpanContext(trace_id, span_id, True, self._flags[flags])

    def within(self, make: Callable[[], SpanContext], context: Context) -> Context:
        """Return a context with a span that records nothing, whose place is made when it is asked
        for."""
        span = self._later(make)
        # As the API does it, but without a copy of the values that an empty context does not have.
        return (
            self._trace.set_span_in_context(span, context)
            if context
            else self._context.Context({self._span_key: span})
        )

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

    def found(self, blocks: Iterable[bytes]) -> Callable[[], Iterable[SpanContext]] | None:
        """Look who sent messages with these header blocks: return what makes their places in their
        traces, each once; None where there are none."""
        read = getattr(blocks, "parents", None)  # those of a batch have a quicker way
        if read is None:
            blocks = every = list(blocks)
            read = functools.partial(parent_texts, every)
        texts: bytes | None = read() if self.is_w3c else None
        if texts is not None:
            return functools.partial(self._places, texts) if texts else None
        by_propagator = self._by_propagator(blocks)
        found = {(one.trace_id, one.span_id): one for one in by_propagator}.values()
        return (lambda: found) if found else None

    def spans(self, blocks: Iterable[bytes]) -> Iterator[SpanContext]:
        """Return the spans that sent messages with these header blocks, each once. Nothing is read
        before the first is asked for."""
        places = self.found(blocks)
        if places is not None:
            yield from places()

    def _places(self, texts: bytes) -> Iterator[SpanContext]:
        for trace_id, span_id, flags in read_parents(texts):
            yield self.span(trace_id, span_id, flags)

    def _by_propagator(self, blocks: Iterable[bytes]) -> Iterator[SpanContext]:
        for block in blocks:
            sender = self._span(self._extracted(Headers.parse(block)))
            if sender is not None:
                yield sender
