"""``jetsync top``: the present rates of streams and consumers."""

from __future__ import annotations

import sys
import time

from jetsync.cli import values
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Output, Table
from jetsync.cli.registry import Command, argument
from jetsync.cli.top_rates import Row, Sampler, rows_in_order

__all__ = ["COMMANDS", "HEADINGS", "cells"]

HEADINGS = ("STREAM", "CONSUMER", ">RATE/S", ">MESSAGES", ">SIZE", ">UNACKED", ">PULLS")
_ROWS = 40


def run(invocation: Invocation) -> None:
    """Carry out the command: it ends with Ctrl-C, or after --count pictures."""
    args, out = invocation.args, invocation.out
    sampler = Sampler(invocation.jetstream(), args.stream)
    looked = sampler.look()
    if _has_screen(out) and not out.json and args.count is None:
        try:
            from jetsync.cli.top_screen import show
        except ImportError:
            out.note('a screen that is drawn in place needs textual: pip install "jetsync[cli]"')
        else:
            show(sampler, looked, args.interval, color=out.color)
            return
    shown = 0
    while shown != args.count:
        if args.count != 1:
            time.sleep(args.interval)
            looked = sampler.look()
        rows = rows_in_order(looked)
        if out.json:
            out.item({"time": time.time(), "rows": rows}, str)
        else:
            out.show(None, Table(HEADINGS, [cells(row) for row in rows[: args.rows]], "no streams"))
        shown += 1


def _has_screen(out: Output) -> bool:
    """Whether a screen can read keys, and draw: textual does so on stderr."""
    return out.is_terminal and sys.stdin.isatty() and sys.stderr.isatty()


def cells(row: Row) -> tuple[object, ...]:
    """Return what stands below the headings."""
    return (
        row.stream if row.consumer is None else "",
        row.consumer or "",
        f"{row.rate:,.0f}",
        f"{row.messages:,}" + (" to go" if row.consumer else ""),
        "" if row.bytes is None else values.format_size(row.bytes),
        "" if row.ack_pending is None else row.ack_pending,
        "" if row.waiting is None else row.waiting,
    )


COMMANDS = (
    Command(
        "top",
        "show what streams and consumers do, again and again",
        run,
        (
            argument(
                "--interval",
                type=values.pause,
                default=2.0,
                metavar="TIME",
                help="between two looks (default: 2s)",
            ),
            argument("--count", type=values.count, metavar="N", help="print so many pictures"),
            argument(
                "--rows",
                type=values.count,
                default=_ROWS,
                metavar="N",
                help=f"most of a picture that is printed (default: {_ROWS})",
            ),
            argument("--stream", completes="stream", help="this stream only"),
        ),
        example="jetsync top --interval 1s",
        description="Show the rates of streams and consumers, the busiest first. On a terminal the "
        "picture is drawn in place (with jetsync[cli]) until q or Ctrl-C; elsewhere, and with "
        "--count, pictures are printed one after the other.",
    ),
)
