"""``jetsync top``: the present rates of streams and consumers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from jetsync.cli import values
from jetsync.cli.invocation import Invocation
from jetsync.cli.output import Table
from jetsync.cli.registry import Command, argument

__all__ = ["COMMANDS"]

_CLEAR = "\x1b[H\x1b[J"


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


def run(invocation: Invocation) -> None:
    """Carry out the command: it ends with Ctrl-C, or after --count pictures."""
    args, out = invocation.args, invocation.out
    js = invocation.jetstream()
    before: dict[tuple[str, str | None], int] = {}
    at = 0.0
    shown = 0
    while True:
        now = time.monotonic()
        counts, rows = _look(js, before, now - at if before else 0.0, args.stream)
        if before or args.count == 1:
            picture = Table(
                ("STREAM", "CONSUMER", ">RATE/S", ">MESSAGES", ">SIZE", ">UNACKED", ">PULLS"),
                [_cells(row) for row in rows[: args.rows]],
                "no streams",
            )
            if out.json:
                out.item({"time": time.time(), "rows": rows}, str)
            else:
                if out.is_terminal:
                    out.write(_CLEAR.encode())
                out.show(None, picture)
            shown += 1
            if shown == args.count:
                return
        before, at = counts, now
        time.sleep(args.interval)


def _look(
    js: Any, before: dict[tuple[str, str | None], int], seconds: float, only: str | None
) -> tuple[dict[tuple[str, str | None], int], list[Row]]:
    counts: dict[tuple[str, str | None], int] = {}
    groups: list[tuple[float, list[Row]]] = []

    def rate(key: tuple[str, str | None], count: int) -> float:
        counts[key] = count
        return max(0.0, (count - before.get(key, count)) / seconds) if seconds else 0.0

    for info in js.streams():
        name, state = info.config.name, info.state
        if only is not None and name != only:
            continue
        stored = rate((name, None), state.last_seq)
        rows = [Row(name, None, stored, state.messages, state.bytes, None, None)]
        if state.consumer_count:
            rows += sorted(
                (
                    Row(
                        name,
                        one.name,
                        rate((name, one.name), one.delivered.consumer_seq),
                        one.num_pending,
                        None,
                        one.num_ack_pending,
                        one.num_waiting,
                    )
                    for one in js.consumers(name)
                ),
                key=lambda row: (-row.messages, row.consumer or ""),
            )
        groups.append((max(row.rate for row in rows), rows))
    groups.sort(key=lambda group: (-group[0], group[1][0].stream))
    return counts, [row for _, rows in groups for row in rows]


def _cells(row: Row) -> tuple[object, ...]:
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
            argument("--count", type=values.count, metavar="N", help="end after so many pictures"),
            argument(
                "--rows", type=values.count, default=40, metavar="N", help="most (default: 40)"
            ),
            argument("--stream", completes="stream", help="this stream only"),
        ),
        example="jetsync top --interval 1s",
    ),
)
