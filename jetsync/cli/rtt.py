"""``jetsync rtt``: the time that an answer of each server takes."""

from __future__ import annotations

import argparse
import time

from jetsync.cli import values
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument
from jetsync.errors import ConnectError

__all__ = ["COMMANDS"]


def run(invocation: Invocation) -> int:
    """Carry out the command."""
    from jetsync.client import connect

    args = invocation.args
    rows: list[tuple[object, ...]] = []
    data: list[dict[str, object]] = []
    wrong = 0
    servers = invocation.options().servers
    texts = servers.split(",") if isinstance(servers, str) else servers
    for text, url in zip(texts, invocation.options().server_urls(), strict=True):
        begun = time.monotonic()
        try:
            with connect(
                options=invocation.options(
                    servers=text.strip(), ignore_discovered_servers=True, reconnect=False
                )
            ) as nc:
                connected = time.monotonic() - begun
                times = sorted(nc.rtt() for _ in range(args.pings or args.count))
        except ConnectError as error:
            wrong += 1
            rows.append((url, "-", "-", "-", str(error)))
            data.append({"url": str(url), "error": str(error)})
            continue
        middle = times[len(times) // 2]
        rows.append((url, *map(values.format_duration, (connected, times[0], middle)), "ok"))
        data.append(
            {
                "url": str(url),
                "connect": round(connected * 1e9),
                "least": round(times[0] * 1e9),
                "median": round(middle * 1e9),
            }
        )
    invocation.out.show(data, Table(("SERVER", ">CONNECT", ">LEAST", ">MEDIAN", "RESULT"), rows))
    return 4 if wrong == len(rows) else 0


COMMANDS = (
    Command(
        "rtt",
        "measure how long an answer of each server takes",
        run,
        (
            argument("COUNT", nargs="?", type=values.count, default=5, help="pings (default: 5)"),
            argument("--count", dest="pings", type=values.count, help=argparse.SUPPRESS),
        ),
        example="jetsync rtt --server nats://a:4222,nats://b:4222",
    ),
)
