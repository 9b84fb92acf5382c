"""Goals beyond the processor time of a workload: rates, latencies, and a busy thread beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.macro.figures import Row, Table, cpu, field, rate, readable
from benchmarks.macro.workloads import ALL, BUSY

SWITCH_INTERVAL_US = 5_000.0
"""How long CPython lets one thread run while another one waits (``sys.getswitchinterval``)."""


class Compared(NamedTuple):
    """jetsync's figure of a workload beside another figure, and what was promised of the ratio."""

    text: str
    measure: Callable[[Row], float]
    workload: str
    other: tuple[str, str]  # workload and client
    bound: float
    is_least: bool = True


MESSAGES = "messages per second"
COMPARED = (
    Compared(f"`ordered`: {MESSAGES} beside raw", rate, "ordered", ("push", "raw"), 0.7),
    Compared(f"`messages`: {MESSAGES} beside raw", rate, "messages", ("messages", "raw"), 0.75),
    Compared(
        f"`sub_callback`: {MESSAGES} beside nats.c",
        rate, "sub_callback", ("sub_callback", "nats_c"), 1.1,
    ),
    Compared(
        f"`sub_next`: {MESSAGES} beside nats.c", rate, "sub_next", ("sub_next", "nats_c"), 1.1
    ),
    Compared(
        f"`js_async_no_id`: {MESSAGES} beside nats.c",
        rate, "js_async_no_id", ("js_async_no_id", "nats_c"), 1.0,
    ),
    Compared(
        "`request`: median latency beside raw",
        field("p50_us"), "request", ("request", "raw"), 1.25, False,
    ),
    *(
        Compared(
            f"`{name}`: CPU with a busy thread beside it, to CPU without",
            cpu, name + BUSY, (name, "jetsync"), 1.2, False,
        )
        for name in ALL
        if name + BUSY in ALL and name != "request"
    ),
)  # fmt: skip


def compared(rows: Sequence[Row]) -> list[list[str]]:
    """Return goal, what was measured and the verdict, as cells; unmeasured goals say so."""
    table = Table(rows)
    lines = []
    for goal in COMPARED:
        mine = table.figure(goal.measure, goal.workload, "jetsync")
        theirs = table.figure(goal.measure, *goal.other)
        promised = f"{'>=' if goal.is_least else '<='} {goal.bound:g}x"
        if mine is None or theirs is None or not theirs.median:
            lines.append([goal.text, promised, "not measured", ""])
            continue
        ratio = mine.median / theirs.median
        met = ratio >= goal.bound if goal.is_least else ratio <= goal.bound
        lines.append([goal.text, promised, f"{ratio:.2f}x", "met" if met else "missed"])
    tail = table.figure(field("p99_us"), "request" + BUSY, "jetsync")
    bound = 1.3 * SWITCH_INTERVAL_US
    lines.append(
        [
            "`request`: 99th percentile beside a busy thread",
            f"<= {readable(bound)} us (1.3 switch intervals)",
            f"{readable(tail.median)} us" if tail else "not measured",
            ("met" if tail.median <= bound else "missed") if tail else "",
        ]
    )
    return lines
