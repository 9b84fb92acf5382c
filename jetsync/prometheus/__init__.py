"""jetsync.prometheus - numbers of connections, consumers and workers for Prometheus.

    from jetsync.prometheus import render, serve

    print(render(nc, consumer))
    with serve(nc, consumer, port=9100) as server:
        ...

Room:      L5. May import: hallway. It takes whatever has `measurements()`.
Threads:   one that answers HTTP, while a MetricsServer runs.
Touch me:  to change the text format, the HTTP server or the collector for `prometheus_client`.
Not here:  what is measured (client/measuring.py, jetstream/consumers/measuring.py).
"""

from __future__ import annotations

from jetsync.prometheus.collector import Collector
from jetsync.prometheus.server import MetricsServer, serve
from jetsync.prometheus.text import Measured, render

__all__ = ["Collector", "Measured", "MetricsServer", "render", "serve"]
