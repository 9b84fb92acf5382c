"""The hooks that make spans and metrics."""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from jetsync.client import unsampled_parent
from jetsync.client.port import port_of
from jetsync.observe import MOST_NOTED, Hooks, LeftOut, Note, Operation
from jetsync.otel.sampling import Sampling
from jetsync.otel.senders import Senders, Sent, SentSpan
from jetsync.otel.shapes import Shapes, about
from jetsync.otel.totals import Pace, Totals
from jetsync.otel.unsampled import Unsampled

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Span, SpanContext, Tracer, TracerProvider

    from jetsync.otel.links import LaterLinks

__all__ = ["SpanHooks"]

_LATE = ("receive", "settle")
"""Kinds whose messages carry no context of the span: it is made when the operation is over, with
all of its attributes and links in one call of the SDK."""

_FIRST = ("publish", "request", *_LATE)
"""Kinds without the context of another message: where there is no span they begin a trace."""

_PROVIDER_CHECK = 0.05
"""Seconds between two looks for the providers that the program has not set yet: a look takes longer
than all the rest of an operation that is left out."""


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
        max_links: int,
        durations_per_second: float | None,
    ) -> None:
        from opentelemetry import context, propagate, trace

        from jetsync._version import __version__

        self._trace = trace
        self._context = context
        self._current = context.get_current
        self._shapes = Shapes(subject_template, message_spans)
        self._propagator = propagator or propagate.get_global_textmap()
        self._senders = Senders(self._propagator)
        self._later = _later_links()
        self._link_only = link_only
        self._max_links = max_links
        self.each_message = message_spans
        self._sampling = Sampling(tracer_provider, __version__)
        self._kinds = {kind.name: kind for kind in trace.SpanKind}
        self._first = _FIRST if self._senders.is_w3c else _LATE
        self._totals = Totals.of(meter_provider, __version__)
        if durations_per_second is None:
            self._totals.pace = None
        else:
            self._totals.pace = Pace(durations_per_second)
        self._notes = self._totals.notes(self._shapes)
        self._wanted: deque[Note] | None = None
        self._beginning: dict[str, LeftOut] = {}
        self._look()

    def _look(self) -> None:
        """Look which providers the program has, and note what is done with operations that begin a
        trace where they are left out."""
        is_set = self._totals.wanted()
        self._wanted = notes = self._notes if is_set else None
        sampling = self._sampling
        is_known = sampling.look() and is_set
        self._look_at: float | None = None if is_known else monotonic() + _PROVIDER_CHECK
        received = LeftOut(None, notes)
        sent = received if sampling.is_off else Unsampled(notes)
        kinds = {"publish": sent, "request": sent, **dict.fromkeys(_LATE, received)}
        self._beginning = {k: kinds[k] for k in self._first}
        self._draws = not sampling.begins_none

    def plan(self, kind: str, block: bytes) -> LeftOut | _Plan:
        if self._look_at is not None and monotonic() >= self._look_at:
            self._look()
        current = self._current  # an attribute that is called is looked for in the class first
        context = current()
        if not context and kind in self._beginning:
            # A trace begins: all but whether it is wanted is known beforehand.
            if self._draws and (tracer := self._sampling.first()) is not None:
                return _Plan(tracer, False, context, None)
            return self._beginning[kind]
        plan = self._planned(block, context)
        if plan.tracer is not None:
            return plan
        if kind == "process":
            return _Unsampled(self._context, self._inside(plan, None), self._wanted)
        if kind in _LATE:
            return LeftOut(None, self._wanted)
        return LeftOut(self._carried(plan), self._wanted)

    def _planned(self, block: bytes, context: Context) -> _Plan:
        """Decide where the span of an operation belongs, and whether it is sampled."""
        sent = self._senders.sent(block) if block else None
        if context:  # else there is nothing in it, a span neither
            current = self._trace.get_current_span(context).get_span_context()
            if current.is_valid:
                sampled = current.trace_flags.sampled
                return _Plan(self._sampling.below(sampled, current.is_remote), True, context, sent)
        if sent is None or not sent.has_span or self._link_only:
            # Without a provider no trace begins, not even one that is left out.
            return _Plan(self._sampling.first(), self._sampling.is_off, context, sent)
        joined = sent.joined(self._senders, context)
        return _Plan(self._sampling.below(sent.sampled, True), True, context, sent, joined)

    def _inside(self, plan: _Plan, span: Span | None) -> Context | None:
        """Return the context for a handler, in which what it does belongs to its span; None where
        that is the present one."""
        if span is not None:
            return self._trace.set_span_in_context(span, plan.context)
        if plan.is_below:
            return plan.context
        return self._senders.within(_left_out(self._trace), plan.around)

    def _carried(self, plan: _Plan) -> dict[str, str]:
        """Return the headers of messages that are sent in the span of a plan."""
        span, inside = plan.span, None
        senders = self._senders
        if senders.is_w3c and plan.around.keys() <= senders.only_span:
            # Nothing else goes with them.
            if span is None and not plan.is_below:
                return {"traceparent": unsampled_parent()}
            if span is not None:
                trace_id, span_id, _, flags, state, *_ = span.get_span_context()
                if not state:
                    return {"traceparent": f"00-{trace_id:032x}-{span_id:016x}-{flags:02x}"}
        headers: dict[str, str] = {}
        if span is None and not plan.is_below:
            span = self._trace.NonRecordingSpan(_left_out(self._trace)())
        if span is not None:
            inside = self._trace.set_span_in_context(span)
        self._propagator.inject(headers, inside)
        return headers

    def begin(self, op: Operation) -> None:
        kind = op.kind
        if kind == "api":  # no operation of the conventions for messaging
            return
        if op.state is None:
            if self._look_at is not None and monotonic() >= self._look_at:
                self._look()
            op.state = self._planned(b"", self._current())
        plan: _Plan = op.state
        if kind in _LATE:
            plan.began = time.time_ns()
            return
        if plan.tracer is not None:
            link = None if plan.sent is None else plan.sent.span
            links = [] if link is None else [self._trace.Link(link)]
            self._start(plan, op, links)
            if op.batch is not None:  # the span of the batch links to those of its messages
                whole = op.batch.state.span
                if whole is not None:
                    whole.add_link(plan.span.get_span_context())
        if kind == "process":
            inside = self._inside(plan, plan.span)
            plan.token = None if inside is None else self._context.attach(inside)

    def _start(self, plan: _Plan, op: Operation, links: Any) -> None:
        nature, connection = about(op), op.connection
        shape, shared = self._shapes.of(nature), self._shapes.attributes(nature)
        client = {} if connection is None else _client(port_of(connection).ends)
        plan.known = found = _outcome(op)
        # Given the context, the SDK does not look for it three times.
        plan.span = plan.tracer.start_span(
            shape.name,
            plan.context or plan.around,
            self._kinds[shape.kind],
            {**shared, **client, **found},
            links,
            plan.began,
        )

    def inject(self, op: Operation, headers: dict[str, str]) -> None:
        plan: _Plan = op.state
        if op.kind != "publish_many" or (plan.span is not None and plan.span.is_recording()):
            headers.update(self._carried(plan))

    def end(self, op: Operation) -> None:
        if op.kind == "api":
            return
        plan: _Plan = op.state
        if plan.token is not None:
            self._context.detach(plan.token)
        if plan.tracer is not None:
            if op.kind in _LATE:
                self._start_linked(plan, op)
            elif (found := _outcome(op)) != plan.known:
                plan.span.set_attributes(dict(found.items() - plan.known.items()))
            span = plan.span
            if op.settled is not None:
                span.add_event(op.settled)
            if op.error is not None and span.is_recording():
                self._failed(span, op.error)
            span.end()
        if self._wanted is not None and op.kind != "create":  # that is counted when it is sent
            self._note(op)

    def _note(self, op: Operation) -> None:
        error = None if op.error is None else type(op.error).__name__
        count = op.count
        if count is None:
            count = 0 if op.kind in ("receive", "process") else 1
        note = (about(op), error, count, op.duration or 0.0)
        context = self._current()
        if self._trace.get_current_span(context).get_span_context().trace_flags.sampled:
            self._totals.read(self._shapes, [note], context)  # the SDK may show it as an example
            return
        self._notes.append(note)
        if len(self._notes) >= MOST_NOTED:
            self.noted()

    def noted(self) -> None:
        self._totals.read_all()

    def _start_linked(self, plan: _Plan, op: Operation) -> None:
        """Start a span with links to those that sent its messages."""
        senders, most, blocks, later = self._senders, self._max_links, op.headers, self._later
        if not most or blocks is None:
            self._start(plan, op, ())
        elif later is None:  # a tracer that is not of the SDK
            sent = itertools.islice(senders.spans(blocks), most)
            self._start(plan, op, [self._trace.Link(sender) for sender in sent])
        elif not self._sampling.is_known:  # the sampler may look at them
            self._start(plan, op, later(functools.partial(senders.spans, blocks), most))
        else:
            self._start(plan, op, ())
            # Read now: the headers would keep the memory of the whole batch.
            places = senders.found(blocks)
            if places is not None:
                later(places, most).give_to(plan.span)

    def _failed(self, span: Span, error: BaseException) -> None:
        span.record_exception(error)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(error)))


def _later_links() -> type[LaterLinks] | None:
    """Return the class for links that are made later; None without the SDK."""
    try:
        from jetsync.otel.links import LaterLinks
    except ImportError:
        return None
    return LaterLinks


def _left_out(trace: Any) -> Callable[[], SpanContext]:
    """Return what makes the beginning of a trace that is not sampled, so that nothing below it is
    either."""
    return lambda: trace.SpanContext(
        random.getrandbits(128) or 1, random.getrandbits(64) or 1, is_remote=False
    )


class _Plan:
    """The decision on an operation, made before it begins, and what it has while it runs."""

    __slots__ = (
        "around",
        "began",
        "context",
        "is_below",
        "known",
        "sent",
        "span",
        "token",
        "tracer",
    )

    def __init__(
        self,
        tracer: Tracer | None,
        is_below: bool,
        around: Context,
        sent: Sent | SentSpan | None,
        context: Context | None = None,
    ) -> None:
        self.tracer: Any = tracer
        """Makes the span; None where the sampler leaves it out."""
        self.is_below: bool = is_below
        """Whether there is a span above; else a trace begins."""
        self.around: Context = around
        """The context of the call."""
        self.sent: Sent | SentSpan | None = sent
        """The context in the headers of the message that is processed."""
        self.context: Context | None = context
        """The context that the span is made in; None: that of the call."""
        self.began: int | None = None
        """When it began, where its span is made at the end."""
        self.known: dict[str, Any] = {}
        """The part of its outcome that its span was made with."""
        self.span: Any = None
        self.token: Any = None


class _Unsampled(LeftOut):
    """A handler in a trace that is not sampled, which what it does must know."""

    __slots__ = ("_api", "_token")

    def __init__(self, api: Any, context: Context | None, notes: deque[Note] | None) -> None:
        super().__init__(None, notes)
        self._api = api
        self._token = None if context is None else api.attach(context)

    def end(self) -> None:
        if self._token is not None:
            self._api.detach(self._token)


@functools.lru_cache(64)
def _client(ends: tuple[int | None, tuple[str, int] | None]) -> Mapping[str, Any]:
    """Return the attributes of a connection between these ends: see ``Port.ends``."""
    found: dict[str, Any] = {}
    client_id, peer = ends
    if client_id is not None:
        found["messaging.client.id"] = str(client_id)
    if peer is not None:
        found["network.peer.address"], found["network.peer.port"] = peer
    return found


def _outcome(op: Operation) -> dict[str, Any]:
    """Return the attributes that an operation does not share with others like it. The last of them
    are known when it is over."""
    found: dict[str, Any] = {}
    if op.msg_id is not None:
        found["messaging.message.id"] = op.msg_id
    if op.bytes is not None:
        found["messaging.message.body.size"] = op.bytes
    if op.stream is not None:
        found["messaging.nats.stream"] = op.stream
    if op.seq is not None:
        found["messaging.nats.stream_sequence"] = op.seq
    if op.num_delivered is not None:
        found["messaging.nats.delivery_count"] = op.num_delivered
    if op.count is not None and op.subject is None:  # that of one message has its subject
        found["messaging.batch.message_count"] = op.count
    if op.error is not None:
        found["error.type"] = type(op.error).__name__
    return found
