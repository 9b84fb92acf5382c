"""jetsync.otel - spans and metrics of OpenTelemetry for everything that jetsync.observe sees.

    import jetsync.otel

    jetsync.otel.instrument()          # before connecting; needs jetsync[otel]

Names and attributes follow the semantic conventions for messaging, version 1.38 (status
Development): docs/messaging/messaging-spans.md and messaging-metrics.md.

Room:      L6. May import: observe, client, hallway.
Threads:   none of its own.
Touch me:  to change names, attributes, links and metrics.
Not here:  which calls are observed (observe/).
"""

from __future__ import annotations

from jetsync.otel.instrumentor import JetsyncInstrumentor, instrument, uninstrument

__all__ = ["JetsyncInstrumentor", "instrument", "uninstrument"]
