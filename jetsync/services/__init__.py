"""jetsync.services - services that answer requests, can be found, and report statistics (ADR-32).

Room:      L6. May import: client, protocol, hallway. May not: jetstream, spark or cli.
Threads:   as many for each endpoint as it may run handlers at once, started when needed.
Touch me:  to change what a service answers, how its handlers run, and how services are found.
Not here:  requests and subscriptions, which it uses (client/).
"""

from __future__ import annotations

from jetsync.errors import ServiceError
from jetsync.services.client import ServiceClient
from jetsync.services.documents import (
    EndpointInfo,
    EndpointStats,
    ServiceInfo,
    ServicePing,
    ServiceStats,
)
from jetsync.services.endpoint import Endpoint
from jetsync.services.names import INHERIT, Inherit
from jetsync.services.request import ServiceRequest
from jetsync.services.service import Service, ServiceGroup

__all__ = [
    "INHERIT",
    "Endpoint",
    "EndpointInfo",
    "EndpointStats",
    "Inherit",
    "Service",
    "ServiceClient",
    "ServiceError",
    "ServiceGroup",
    "ServiceInfo",
    "ServicePing",
    "ServiceRequest",
    "ServiceStats",
]
