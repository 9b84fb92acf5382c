"""Message traces: what each server does with one message (ADR-41, nats-server 2.11).

Each server that takes the message sends one report to the subject in ``Nats-Trace-Dest``. The
report says how many further servers it was passed on to, so that the end is known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jetsync._core.encoding import encode_headers
from jetsync._deadline import Deadline
from jetsync.client.link_inbox import LinkInbox
from jetsync.client.port import port_of
from jetsync.errors import ConfigError, ProtocolError, TimeoutError
from jetsync.headers import HeaderInput, Headers

if TYPE_CHECKING:
    from jetsync.client.connection import Connection

__all__ = ["MessageTrace", "TraceHop", "trace_message"]

_KINDS = {0: "client", 1: "router", 2: "gateway", 3: "system", 4: "leafnode", 5: "jetstream"}
_SINCE = (2, 11)
_MOST = 10_000


@dataclass(frozen=True)
class TraceHop:
    """The work of one server on the message.

    ``hop`` is its position: "" for the server of this connection, "1" and "2" for those that it
    passed the message on to, "1.1" for the next one behind the first. ``server``, ``cluster`` and
    ``account`` say where; ``kind`` how the message came there ("client", "router", "gateway",
    "leafnode"); ``hops`` to how many servers it went on. ``events`` are all events of the report as
    the server wrote them: "in", "sm" (subject mapping), "se" and "si" (service export and import),
    "js" (stored by JetStream), "eg" (sent on).
    """

    hop: str
    server: str
    cluster: str | None
    kind: str
    account: str | None
    subject: str | None
    hops: int
    events: tuple[dict[str, Any], ...] = field(repr=False)


@dataclass(frozen=True)
class MessageTrace:
    """The way of a message: the ``hops`` in their order, the number of deliveries by kind
    (``egress``: "client", "router", "gateway", "leafnode", "jetstream"), and what went wrong.

    ``complete`` is False when reports of servers were missing at the end of the time.
    """

    hops: tuple[TraceHop, ...]
    egress: dict[str, int]
    errors: tuple[str, ...]
    complete: bool


def trace_message(
    nc: Connection,
    subject: str,
    data: bytes,
    headers: HeaderInput | None,
    deliver: bool,
    deadline: Deadline,
) -> MessageTrace:
    """Send a message that is traced. See ``Connection.trace``."""
    info = nc.server_info
    if info is not None and info.version_tuple[:2] < _SINCE:
        raise ConfigError(
            f"tracing a message needs nats-server 2.11 or newer, and this is {info.version}"
        )
    port = port_of(nc)
    given = headers.to_dict() if isinstance(headers, Headers) else headers
    found: dict[str, TraceHop] = {}
    with LinkInbox(port, "trace", limit_messages=_MOST) as reports:
        merged: dict[str, Any] = {**(given or {}), "Nats-Trace-Dest": reports.subject}
        if not deliver:
            merged["Nats-Trace-Only"] = "1"
        reports.send(subject, data, encode_headers(merged), deadline.remaining())
        while not _is_complete(found):
            msg = reports.mailbox.get(deadline.remaining())
            if msg is None:
                reports.check()
                break
            hop = _hop(msg.data)
            found[hop.hop] = hop
    if not found:
        raise TimeoutError(
            "no server sent a report: the account may not let messages be traced, or the user may "
            "not publish on this subject",
            operation="trace",
        )
    hops = tuple(sorted(found.values(), key=lambda hop: _position(hop.hop)))
    return MessageTrace(hops, _egress(hops), _errors(hops), _is_complete(found))


def _is_complete(found: dict[str, TraceHop]) -> bool:
    """Whether all reports are there. Each report announces those of the servers that it sent the
    message on to, and these may arrive before it."""
    announced = all(hop.rpartition(".")[0] in found for hop in found)
    return announced and len(found) >= 1 + sum(hop.hops for hop in found.values())


def _position(hop: str) -> list[int]:
    return [int(part) if part.isdecimal() else 0 for part in hop.split(".") if part]


def _hop(data: bytes) -> TraceHop:
    """Read the report of a server."""
    try:
        report = json.loads(data)
        headers = {
            name.lower(): values
            for name, values in (report.get("request", {}).get("header") or {}).items()
        }
        events = tuple(event for event in report.get("events") or () if isinstance(event, dict))
        arrival = next((event for event in events if event.get("type") == "in"), {})
        server = report["server"]
        return TraceHop(
            hop=str((headers.get("nats-trace-hop") or [""])[0]),
            server=str(server["name"]),
            cluster=server.get("cluster"),
            kind=_kind(arrival.get("kind")),
            account=arrival.get("acc"),
            subject=arrival.get("subj"),
            hops=int(report.get("hops") or 0),
            events=events,
        )
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise ProtocolError(f"the report of a server cannot be read: {error!r}") from error


def _kind(number: object) -> str:
    return _KINDS.get(number, str(number)) if isinstance(number, int) else "unknown"


def _egress(hops: tuple[TraceHop, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for hop in hops:
        for event in hop.events:
            if event.get("error"):
                continue
            if event.get("type") == "eg":
                kind = _kind(event.get("kind"))
            elif event.get("type") == "js":
                kind = "jetstream"
            else:
                continue
            found[kind] = found.get(kind, 0) + 1
    return found


def _errors(hops: tuple[TraceHop, ...]) -> tuple[str, ...]:
    return tuple(
        f"{hop.server}: {event['error']}"
        for hop in hops
        for event in hop.events
        if event.get("error")
    )
