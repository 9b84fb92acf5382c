"""A span of which only the place in a trace is known, and that only when it is asked for.

Needs OpenTelemetry to be imported.
"""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.trace import NonRecordingSpan, SpanContext

__all__ = ["LaterSpan"]


class LaterSpan(NonRecordingSpan):
    """Most handlers in a trace that is not sampled never look at their span: its SpanContext, which
    costs more than the rest of such a handler's context, is made at the first look. Thread-safe."""

    def __init__(self, make: Callable[[], SpanContext]) -> None:
        self._make = make
        self._made: dict[str, SpanContext] = {}

    def get_span_context(self) -> SpanContext:
        # Of two threads that look at the same moment both get what the first one has made.
        return self._made.get("context") or self._made.setdefault("context", self._make())

    def __repr__(self) -> str:
        return f"LaterSpan({self.get_span_context()!r})"
