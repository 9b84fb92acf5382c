"""Probes a server on 127.0.0.1, without a NATS client: readiness and monitoring."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

from jetsync._deadline import Deadline
from jetsync.server.ports import HOST

__all__ = ["get_json", "takes_clients"]

_SILENCE = 0.5


def takes_clients(port: int, deadline: Deadline, *, with_jetstream: bool) -> bool:
    """Return whether the port greets a client and, if asked for, offers JetStream.

    Blocks up to half a second, less if the deadline is closer. A server that accepts and waits
    for the client to speak counts as greeting: with TLS first that is what it has to do.
    """
    try:
        with socket.create_connection((HOST, port), deadline.within(_SILENCE)) as link:
            try:
                with link.makefile("rb") as lines:
                    greeting = lines.readline()
            except TimeoutError:
                return not deadline.expired
    except OSError:
        return False
    if not greeting.startswith(b"INFO "):
        return False
    return not with_jetstream or bool(json.loads(greeting[5:]).get("jetstream"))


def get_json(port: int, path: str, deadline: Deadline) -> dict[str, Any]:
    """Return the answer of a monitoring endpoint. Raises OSError, HTTPException or ValueError."""
    link = http.client.HTTPConnection(HOST, port, timeout=deadline.within(60.0))
    try:
        link.request("GET", "/" + path.lstrip("/"))
        answer: dict[str, Any] = json.loads(link.getresponse().read())
        return answer
    finally:
        link.close()
