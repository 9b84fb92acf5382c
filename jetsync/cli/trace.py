"""``jetsync trace``: the way of a message through the servers."""

from __future__ import annotations

from typing import Any

from jetsync.cli import values
from jetsync.cli.flags import HEADER
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_WHAT = {
    "sm": "mapped to",
    "se": "exported by service",
    "si": "imported as",
    "js": "stored in stream",
    "eg": "sent to",
}


def run(invocation: Invocation) -> int:
    """Carry out the command."""
    args = invocation.args
    trace = invocation.connect().trace(
        args.subject,
        values.read_body(args.body),
        headers=values.headers(args.header),
        deliver=args.deliver,
        timeout=args.wait,
    )
    rows = [
        (hop.hop or "-", hop.server, hop.cluster or "-", hop.kind, _events(hop, args.deliver))
        for hop in trace.hops
    ]
    table = Table(("HOP", "SERVER", "CLUSTER", "CAME BY", "WHAT IT DID"), rows)
    invocation.out.show(trace, table)
    if not invocation.out.json:
        for error in trace.errors:
            invocation.out.note(f"error: {error}")
        if not trace.complete:
            invocation.out.note("not every server has sent its report in time")
        if not trace.egress:
            invocation.out.note("no receiver gets this message and no stream stores it")
    return 1 if trace.errors or not trace.complete else 0


def _events(hop: Any, deliver: bool) -> str:
    texts = []
    for event in hop.events:
        kind = event.get("type")
        if kind == "in":
            continue
        target = event.get("stream") or event.get("name") or event.get("to") or event.get("sub")
        if kind == "sm":
            target = event.get("to")
        would = "would be " if kind in ("js", "eg") and not deliver else ""
        text = f"{would}{_WHAT.get(kind, str(kind))} {target or 'a client'}"
        if kind == "eg" and event.get("queue"):
            text += f" (queue {event['queue']})"
        if event.get("nointerest"):
            text += ": no interest"
        if event.get("error"):
            text += f": {event['error']}"
        texts.append(text)
    return "; ".join(texts) or "nothing"


COMMANDS = (
    Command(
        "trace",
        "show the way of a message through the servers",
        run,
        (
            argument("SUBJECT", help="subject to publish to"),
            argument("BODY", nargs="?", help='data of the message; "-" reads standard input'),
            HEADER,
            argument("--deliver", action="store_true", help="deliver and store the message too"),
            argument(
                "--wait",
                type=values.duration,
                default=2.0,
                metavar="TIME",
                help="for the reports of the servers (default: 2s)",
            ),
        ),
        example="jetsync trace orders.new --server nats://a:4222",
        description="Show the way of a message through the servers: which ones it reaches, whom "
        "each delivers it to, and what stops it. Nothing is delivered without --deliver. Ends with "
        "1 when something stopped it, or reports are missing. Needs nats-server 2.11.",
    ),
)
