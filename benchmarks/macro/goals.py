"""Goals beyond the CPU of a workload: rates, latencies, sizes, ratios to other clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.links import record as links
from benchmarks.macro.figures import Figure, Row, Table, cpu, field, rate, readable
from benchmarks.macro.workloads import ALL, BUSY, IN_MEMORY

SWITCH_INTERVAL_US = 5_000.0
"""How long CPython lets one thread run while another one waits (``sys.getswitchinterval``)."""

NAMES = {"raw": "raw", "nats_c": "nats.c", "nats_py": "nats-py"}
P50, P99 = field("p50_us"), field("p99_us")
KEPT = field("bytes_per_message")


class Goal(NamedTuple):
    """jetsync's figure of a workload, as it is or divided by another figure, and its bound."""

    what: str
    measure: Callable[[Row], float]
    workload: str
    bound: float
    other: tuple[str, str] | None = None  # workload and client
    is_least: bool = False
    size: int = 128

    @property
    def promised(self) -> str:
        """The bound as the page says it; a ratio has an x."""
        bound = f"{self.bound:.3g}x" if self.other else f"{self.bound:,g}"
        return f"{'>=' if self.is_least else '<='} {bound}"

    def measured(self, table: Table) -> float | None:
        """Return the figure, or None where a part of it was not measured."""
        mine = table.figure(self.measure, self.workload, "jetsync", self.size)
        if mine is None or self.other is None:
            return mine.median if mine else None
        theirs: Figure | None = table.figure(self.measure, *self.other, self.size)
        return mine.median / theirs.median if theirs and theirs.median else None


def _beside(
    what: str,
    measure: Callable[[Row], float],
    bounds: Mapping[str, Mapping[str, float]],
    *,
    is_least: bool = False,
) -> Iterator[Goal]:
    """Goals of several workloads beside the same workload of other clients.

    ``bounds``: client -> workload -> bound. A workload that the other client calls by another name
    is written ``mine=theirs``.
    """
    for client, workloads in bounds.items():
        for names, bound in workloads.items():
            mine, _, theirs = names.partition("=")
            text = f"`{mine}`: {what} beside {NAMES[client]}"
            text += f"'s `{theirs}`" if theirs else ""
            yield Goal(text, measure, mine, bound, (theirs or mine, client), is_least)


RATES = {
    "raw": {
        "publish": 0.7, "sub_callback": 0.75, "messages": 0.75, "messages_ack": 0.85,
        "push": 0.75, "ordered=push": 0.7, "js_async_no_id": 0.65, "fetch_arrow": 0.75,
    },
    "nats_c": {
        "sub_callback": 1.1, "sub_next": 1.1, "fetch": 1.2, "messages=fetch": 1.15,
        "messages_ack_sync=fetch_ack_sync": 1.05, "js_async_no_id": 1.0, "js_publish": 0.95,
    },
    "nats_py": {
        "publish": 6, "sub_next": 35, "fetch": 15, "messages_ack_sync=fetch_ack_sync": 1.9,
        "js_publish": 1.7,
    },
}  # fmt: skip
COSTS = {
    "raw": {
        "sub_callback": 3, "sub_iter": 3, "fetch": 2, "messages": 2, "consume": 2,
        "messages_ack": 1.3, "consume_ack": 1.3, "ordered=push": 2.5, "push": 2.5, "js_many": 2,
        "js_async": 4, "js_publish": 1.5, "request": 1.5, "fetch_arrow": 1.5,
    },
    "nats_c": {
        "publish": 1.0, "sub_callback": 0.5, "sub_next": 0.45, "fetch": 0.4, "messages=fetch": 0.35,
        "messages_ack=fetch_ack": 0.75, "messages_ack_sync=fetch_ack_sync": 0.75, "push": 0.35,
        "ordered": 0.4, "js_async_no_id": 0.25, "js_publish": 1.0, "request": 0.85,
    },
    "nats_py": {
        "publish": 1 / 18, "sub_callback": 1 / 16, "sub_next": 1 / 100, "fetch": 1 / 65,
        "messages_ack=fetch_ack": 1 / 23, "push": 1 / 15, "ordered": 1 / 16,
        "js_async_no_id": 1 / 200, "js_publish": 1 / 3.1,
    },
}  # fmt: skip
SIZES = {
    "messages": {16: 0.42, 1024: 0.75, 16384: 6.5},
    "fetch": {16: 0.45, 1024: 1.5, 16384: 8},
    "sub_callback": {16: 0.25, 1024: 0.7, 16384: 7},
    "publish": {16: 0.09, 1024: 0.42, 16384: 4.2},
    "js_async_no_id": {16: 0.42, 1024: 0.9, 16384: 6},
}
MICRO = {
    "test_parse_queue_and_build_messages[128B]": ("parse and build a message of 128 B", 75.0),
    "test_ack_metadata": ("read the metadata of a delivery", 120.0),
}
"""Nanoseconds for each message, by the benchmark of the core alone."""

GOALS = (
    *_beside("messages per second", rate, RATES, is_least=True),
    Goal("`fetch_ack_sync_batch`: messages per second", rate, "fetch_ack_sync_batch", 100_000,
         is_least=True),
    Goal("`request`: median latency beside raw", P50, "request", 1.15, ("request", "raw")),
    Goal("`request`: median latency beside nats.c", P50, "request", 1.0, ("request", "nats_c")),
    *_beside("CPU", cpu, COSTS),
    *(
        Goal(f"`{name}` of {size:,} B: CPU seconds per million", cpu, name, bound, size=size)
        for name, bounds in SIZES.items()
        for size, bound in bounds.items()
    ),
    *(
        Goal(f"`{name}` with a memory store: CPU to that with files", cpu, name + IN_MEMORY,
             1.25, (name, "jetsync"))
        for name in ("js_async", "fetch")
    ),
    Goal("bytes of memory for a message of 128 B that waits", KEPT, "memory", 240),
    Goal("the same beside nats.c", KEPT, "memory", 0.9, ("memory", "nats_c")),
    Goal("the same beside nats-py", KEPT, "memory", 0.6, ("memory", "nats_py")),
    *(
        goal
        for name in ALL
        if name + BUSY in ALL and name != "request"
        for goal in (
            Goal(f"`{name}`: CPU with a busy thread beside it, to CPU without",
                 cpu, name + BUSY, 1.2, (name, "jetsync")),
            Goal(f"`{name}`: messages per second with a busy thread, to those without",
                 rate, name + BUSY, 0.5, (name, "jetsync"), is_least=True),
        )
    ),
    Goal("`request`: 99th percentile beside a busy thread, us (1.3 switch intervals)",
         P99, "request" + BUSY, 1.3 * SWITCH_INTERVAL_US),
)  # fmt: skip

ELSEWHERE = (
    ("payloads of 64 KiB and more: copies beside the kernel's", "<= 1",
     "asserted by `tests/client/test_copies.py`"),
    ("throughput with validation and accounting, to that without", ">= 0.95x",
     "not measured: nothing leaves them out"),
    ("growth with connections, callbacks, consumers, headers, keys, streams", "linear", "below"),
    ("Spark's source and sink", "several", "below"),
)  # fmt: skip
"""Goals that these rows have no figure for."""


def compared(result: Mapping[str, Any]) -> list[list[str]]:
    """Return goal, what was promised, what was measured and the verdict, as cells."""
    rows: Sequence[Row] = result["rows"]
    table = Table(rows)
    lines = [
        _line(goal.what, goal.promised, goal.measured(table), goal.bound, goal.is_least,
              "x" if goal.other else "")
        for goal in GOALS
    ]  # fmt: skip
    for name, (what, bound) in MICRO.items():
        figure = result["micro"].get(name)
        found = figure["median_ns"] if figure else None
        lines.append(_line(f"the core alone, ns: {what}", f"<= {bound:g}", found, bound, False, ""))
    lines.append([
        "streams and publishing through 10 ms: messages per second, to those on loopback",
        f">= {links.GOAL:g}x", *links.goal(),
    ])  # fmt: skip
    lines += [[what, promised, where, ""] for what, promised, where in ELSEWHERE]
    return lines


def _line(
    what: str, promised: str, found: float | None, bound: float, is_least: bool, unit: str
) -> list[str]:
    if found is None:
        return [what, promised, "not measured", ""]
    met = found >= bound if is_least else found <= bound
    shown = readable(found) if found >= 0.095 else f"{found:.2g}"
    return [what, promised, f"{shown}{unit}", "met" if met else "missed"]
