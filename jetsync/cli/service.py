"""``jetsync service``: which services there are, and what they do (ADR-32)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jetsync.cli import values
from jetsync.cli.failure import NotFoundError
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Fields, Table
from jetsync.cli.registry import Argument, Command, argument
from jetsync.errors import NoRespondersError, ProtocolError

if TYPE_CHECKING:
    from jetsync.services import EndpointStats, ServiceInfo, ServiceStats

__all__ = ["COMMANDS"]

_NAME = argument("name", metavar="NAME", nargs="?", help="the service (default: all)")
_ID = argument("id", metavar="ID", nargs="?", help="one instance of it (default: all)")
_WAIT = argument(
    "--wait",
    type=values.duration,
    default=0.5,
    metavar="TIME",
    help="end when nothing came for so long (default: 500ms)",
)
_NAMED: tuple[Argument, ...] = (
    argument("name", metavar="NAME", help="the service"),
    _ID,
    _WAIT,
)


def _ls(invocation: Invocation) -> None:
    found = _asked(invocation, "info", None, None)
    rows = [
        (one.name, one.version, one.id, len(one.endpoints), one.description)
        for one in sorted(found, key=lambda one: (one.name, one.version, one.id))
    ]
    invocation.out.show(
        [one.to_dict() for one in found],
        Table(("NAME", "VERSION", "ID", ">ENDPOINTS", "DESCRIPTION"), rows, "no services"),
    )


def _info(invocation: Invocation) -> None:
    args = invocation.args
    found: list[ServiceInfo] = _asked(invocation, "info", args.name, args.id)
    if invocation.out.json:
        invocation.out.show([one.to_dict() for one in found], "")
        return
    for one in found:
        invocation.out.show(None, _about(one))


def _about(info: ServiceInfo) -> Fields:
    sections: dict[str, dict[str, object]] = {
        "": {
            "Id": info.id,
            "Version": info.version,
            "Description": info.description or None,
            "Metadata": [f"{key}: {value}" for key, value in info.metadata.items()],
        }
    }
    for endpoint in info.endpoints:
        sections[f"Endpoint {endpoint.name}"] = {
            "Subject": endpoint.subject,
            "Queue group": endpoint.queue_group or "none",
            "Metadata": [f"{key}: {value}" for key, value in endpoint.metadata.items()],
        }
    return Fields(f"Service {info.name}", sections)


def _stats(invocation: Invocation) -> None:
    args = invocation.args
    found: list[ServiceStats] = _asked(invocation, "stats", args.name, args.id)
    rows = [_row(one, endpoint) for one in found for endpoint in one.endpoints]
    headings = (
        "NAME",
        "ID",
        "ENDPOINT",
        ">REQUESTS",
        ">ERRORS",
        ">AVERAGE",
        "UP SINCE",
        "LAST ERROR",
    )
    invocation.out.show(
        [one.to_dict() for one in found], Table(headings, rows, "no services with endpoints")
    )


def _row(stats: ServiceStats, endpoint: EndpointStats) -> tuple[object, ...]:
    return (
        stats.name,
        stats.id,
        endpoint.name,
        endpoint.num_requests,
        endpoint.num_errors,
        values.format_duration(endpoint.average_processing_time / 1e9),
        values.format_time(stats.started),
        endpoint.last_error,
    )


def _ping(invocation: Invocation) -> None:
    from jetsync.services import ServicePing

    args, nc = invocation.args, invocation.connect()
    subject = f"$SRV.PING.{args.name}" if args.name else "$SRV.PING"
    data: list[dict[str, Any]] = []
    rows: list[tuple[object, ...]] = []
    begun = time.monotonic()
    try:
        for msg in nc.request_many(subject, stall=args.wait):
            seconds = time.monotonic() - begun
            try:
                one = ServicePing.from_json(msg.data)
            except ProtocolError as error:
                invocation.out.note(f"an answer is left out: {error}")
                continue
            data.append({**one.to_dict(), "rtt": round(seconds * 1e9)})
            rows.append((one.name, one.version, one.id, values.format_duration(seconds)))
    except NoRespondersError:
        pass
    _check_found(data, args.name, None)
    invocation.out.show(data, Table(("NAME", "VERSION", "ID", ">RTT"), rows, "no services"))


def _asked(invocation: Invocation, what: str, name: str | None, instance: str | None) -> list[Any]:
    """Ask for documents. Raises NotFoundError when a service that was named is not there."""
    from jetsync.services import ServiceClient

    nc = invocation.connect()
    ask = getattr(ServiceClient(nc), what)
    timeout = nc.options.timeout
    found: list[Any] = ask(name, instance, stall=invocation.args.wait, timeout=timeout)
    _check_found(found, name, instance)
    return found


def _check_found(found: list[Any], name: str | None, instance: str | None) -> None:
    if name is not None and not found:
        which = f"no instance {instance!r}" if instance else "no instance"
        raise NotFoundError(f"{which} of service {name!r} answers")


COMMANDS = (
    Command(
        "ls",
        "list the services",
        _ls,
        (_WAIT,),
        aliases=("list",),
        example="jetsync service ls",
        other=("l",),
    ),
    Command(
        "info",
        "show what a service is and which endpoints it has",
        _info,
        _NAMED,
        example="jetsync service info orders --json",
        other=("i",),
    ),
    Command(
        "stats",
        "show what the endpoints of services have done",
        _stats,
        (_NAME, _ID, _WAIT),
        example="jetsync service stats orders",
    ),
    Command(
        "ping",
        "show which services answer, and how fast",
        _ping,
        (_NAME, _WAIT),
        example="jetsync service ping",
    ),
)
