"""What tests look at inside of a connection, in one place, so that the inside can change."""

from __future__ import annotations

import jetsync
from jetsync._core.outbound import Outbound
from jetsync.client.members import Members
from jetsync.client.pongs import RoundTrip
from jetsync.client.port import port_of
from jetsync.jetstream.access import api_of

__all__ = [
    "api_of",
    "connection_of",
    "label_of",
    "left_open",
    "members_of",
    "outbound_of",
    "round_trip_of",
    "waits_for_pong",
]


def connection_of(js: jetsync.JetStream) -> jetsync.Connection:
    """The connection that a JetStream object uses."""
    return api_of(js).port.connection


def label_of(nc: jetsync.Connection) -> str:
    """The name that the threads of a connection begin with."""
    return nc._label


def members_of(nc: jetsync.Connection) -> Members:
    """What follows the life of a connection."""
    return nc._members


def outbound_of(nc: jetsync.Connection) -> Outbound:
    """The bytes that wait to be sent, and their limits."""
    return nc._outbound


def round_trip_of(nc: jetsync.Connection) -> RoundTrip:
    """What was measured of the way to the server and back."""
    return port_of(nc).round_trip


def left_open(nc: jetsync.Connection) -> dict[str, int]:
    """Count what is open on a connection: ``subscriptions`` of the user and of consumers,
    ``answers`` (inboxes of requests and publishers), ``tokens`` of requests, ``members``."""
    assert port_of(nc).connection is nc
    table = list(nc._routes.table.values())
    return {
        "subscriptions": sum(not route.answers for route in table),
        "answers": sum(route.answers for route in table),
        "tokens": len(nc._inbound.pending_replies()),
        "members": len(nc._members),
    }


def waits_for_pong(nc: jetsync.Connection) -> bool:
    """Whether a call waits for the server's answer to a PING."""
    link = nc._session._link
    return link is not None and len(link.pongs) > 0
