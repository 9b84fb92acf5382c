"""``jetsync req``: send a request and print the replies."""

from __future__ import annotations

import time
from typing import Any

from jetsync._counted import counted
from jetsync.cli import values
from jetsync.cli.flags import HEADER
from jetsync.cli.invocation import Invocation
from jetsync.cli.registry import Command, argument
from jetsync.errors import TimeoutError

__all__ = ["COMMANDS"]


def run(invocation: Invocation) -> None:
    """Carry out the command."""
    args, nc = invocation.args, invocation.connect()
    data = values.read_body(values.piped_body(invocation.out, args.body))
    given = values.headers(args.header)
    started = time.monotonic()
    if args.replies == 1 and not args.wait_for_empty:
        _print(invocation, nc.request(args.subject, data, headers=given), started)
        return
    # With --wait-for-empty the empty reply tells that there are no more.
    most = None if args.wait_for_empty else args.replies or None
    replies = 0
    for msg in nc.request_many(
        args.subject,
        data,
        headers=given,
        max_messages=most,
        stall=args.reply_timeout,
        sentinel=True if args.wait_for_empty else None,
    ):
        replies += 1
        _print(invocation, msg, started)
    if most is not None and replies < most:
        raise TimeoutError(f"{replies} of {counted(most, 'reply', 'replies')} came in time")


def _print(invocation: Invocation, msg: Any, started: float) -> None:
    took, out = time.monotonic() - started, invocation.out
    if invocation.args.raw and not out.json:
        out.write(msg.data + b"\n")
        return
    out.note(f"reply after {took * 1000:.1f} ms")
    out.item(
        values.message(msg, duration=round(took * 1e9)),
        lambda: values.header_text(msg) + values.body_text(msg.data),
    )


COMMANDS = (
    Command(
        "req",
        "send a request and print the replies",
        run,
        (
            argument("SUBJECT", help="subject of the service"),
            argument("BODY", nargs="?", help='data of the request; "-", or a pipe: standard input'),
            HEADER,
            argument(
                "--replies",
                type=int,
                default=1,
                metavar="N",
                help="wait for N replies, 0: for all until the timeout (default: 1)",
            ),
            argument(
                "--reply-timeout",
                type=values.pause,
                metavar="TIME",
                help="end when no further reply came for so long",
            ),
            argument(
                "--wait-for-empty", action="store_true", help="wait for replies until an empty one"
            ),
            argument("-r", "--raw", action="store_true", help="print the data only, as it is"),
        ),
        example="jetsync req greet.joe hello --timeout 2s",
        aliases=(),
    ),
)
