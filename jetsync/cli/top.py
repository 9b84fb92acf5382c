"""``jetsync top``: the present rates of streams and consumers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jetsync.cli import values
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS", "HEADINGS", "Row", "Sampler", "by_rate", "cells"]

HEADINGS = ("STREAM", "CONSUMER", ">RATE/S", ">MESSAGES", ">SIZE", ">UNACKED", ">PULLS")
_ROWS = 40


@dataclass(frozen=True)
class Row:
    """A stream, or a consumer of it; rates are per second since the row before."""

    stream: str
    consumer: str | None
    rate: float
    messages: int
    bytes: int | None
    ack_pending: int | None
    waiting: int | None


class Sampler:
    """Looks at streams and consumers; rates are those since the look before. For one thread."""

    def __init__(self, js: Any, only: str | None = None) -> None:
        self._js = js
        self._only = only
        self._before: dict[tuple[str, str | None], int] = {}
        self._counts: dict[tuple[str, str | None], int] = {}
        self._at = self._seconds = 0.0

    def look(self) -> list[list[Row]]:
        """Return a list of rows for each stream: its own, and those of its consumers, the one with
        the most to do first. Blocks; raises what the server's refusal or silence raises."""
        now = time.monotonic()
        self._seconds = now - self._at if self._at else 0.0
        self._before, self._counts, self._at = self._counts, {}, now
        found = []
        for info in self._js.streams():
            name, state = info.config.name, info.state
            if self._only is not None and name != self._only:
                continue
            stored = self._rate((name, None), state.last_seq)
            rows = [Row(name, None, stored, state.messages, state.bytes, None, None)]
            if state.consumer_count:
                consumers = [self._consumer(name, one) for one in self._js.consumers(name)]
                rows += sorted(consumers, key=lambda row: (-row.messages, row.consumer or ""))
            found.append(rows)
        return found

    def _consumer(self, stream: str, info: Any) -> Row:
        rate = self._rate((stream, info.name), info.delivered.consumer_seq)
        pending, unacked, pulls = info.num_pending, info.num_ack_pending, info.num_waiting
        return Row(stream, info.name, rate, pending, None, unacked, pulls)

    def _rate(self, key: tuple[str, str | None], count: int) -> float:
        self._counts[key] = count
        before = self._before.get(key, count)
        return max(0.0, (count - before) / self._seconds) if self._seconds else 0.0


def run(invocation: Invocation) -> None:
    """Carry out the command: it ends with Ctrl-C, or after --count pictures."""
    args, out = invocation.args, invocation.out
    sampler = Sampler(invocation.jetstream(), args.stream)
    looked = sampler.look()
    if out.is_terminal and not out.json and args.count is None:
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
        rows = [row for group in sorted(looked, key=by_rate) for row in group]
        if out.json:
            out.item({"time": time.time(), "rows": rows}, str)
        else:
            out.show(None, Table(HEADINGS, [cells(row) for row in rows[: args.rows]], "no streams"))
        shown += 1


def by_rate(rows: Sequence[Row]) -> tuple[float, str]:
    """Return the place of a stream and its consumers: the busiest comes first."""
    return -max(row.rate for row in rows), rows[0].stream


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
                type=values.duration,
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
