"""Turning it on and off."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetsync.errors import ConfigError
from jetsync.observe import MOST_READ, install
from jetsync.observe import uninstall as uninstall_hooks
from jetsync.otel.hooks import SpanHooks
from jetsync.otel.names import template_of

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import TracerProvider

__all__ = ["JetsyncInstrumentor", "instrument", "uninstrument"]


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    subject_template: Callable[[str], str] | None = None,
    propagator: TextMapPropagator | None = None,
    link_only: bool = False,
    message_spans: bool = False,
    max_links: int = 128,
    durations_per_second: float | None = 100.0,
) -> None:
    """Make spans and metrics for the connections of this process that are made from now on.

    ``tracer_provider``, ``meter_provider`` and the propagator are the global ones unless given.
    ``subject_template`` makes a name of few values out of a subject; by default numbers, UUIDs and
    NUIDs become ``{id}``. A span that processes a message links to the one that sent it; where no
    span is current that one is also its parent, unless ``link_only``. ``message_spans``: each
    message of ``publish_many`` has a "create" span of its own, whose context it carries; tens of
    microseconds each. The span of a fetch links to the first ``max_links`` senders of its messages,
    0 to 128; each costs what exports it two microseconds or more. Of more operations than
    ``durations_per_second`` the histograms have a sample (None: all of them; a record costs the SDK
    half as much as a span); numbers of messages are exact. Does not block. Raises ConfigError
    without ``jetsync[otel]``, and for a wrong number.
    """
    if not (isinstance(max_links, int) and 0 <= max_links <= MOST_READ):
        raise ConfigError(f"max_links must be a number from 0 to {MOST_READ}, not {max_links!r}")
    if durations_per_second is not None and not durations_per_second > 0:
        raise ConfigError(
            f"durations_per_second must be above 0, or None for all: {durations_per_second!r}"
        )
    try:
        hooks = SpanHooks(
            tracer_provider,
            meter_provider,
            subject_template or template_of,
            propagator,
            link_only,
            message_spans,
            max_links,
            durations_per_second,
        )
    except ImportError as error:
        raise ConfigError(f'{error}; install it with: pip install "jetsync[otel]"') from error
    install(hooks)


def uninstrument() -> None:
    """Undo :func:`instrument` for connections that are made from now on."""
    uninstall_hooks()


class JetsyncInstrumentor:
    """The entry point of ``opentelemetry-instrument``: calls :func:`instrument`."""

    def instrument(self, **options: Any) -> None:
        """See :func:`instrument`; options of other instrumentations are ignored."""
        known = (
            "tracer_provider",
            "meter_provider",
            "subject_template",
            "propagator",
            "link_only",
            "message_spans",
            "max_links",
            "durations_per_second",
        )
        instrument(**{name: options[name] for name in known if name in options})

    def uninstrument(self, **_: Any) -> None:
        """See :func:`uninstrument`."""
        uninstrument()
