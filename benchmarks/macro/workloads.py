"""What is measured: one definition per workload, the same for every peer.

A peer that has no such API leaves the workload out, and the table says so. Every consumer loop
touches each payload. A client's own default settings hold throughout, with one exception: limits on
pending messages are lifted where a message could otherwise be dropped (the ``sub_`` workloads and
``memory``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

BUSY = "+busy"
"""Ends the name of the same workload with a CPU-bound Python thread beside it."""

IN_MEMORY = "+memory"
"""Ends the name of the same workload with a stream that is kept in memory."""

Storage = Literal["file", "memory"]

SIZES = (16, 128, 1024, 16384)
BYTES_AT_MOST = 128 * 2**20
FETCH = 500
"""Messages per fetch."""


@dataclass(frozen=True)
class Workload:
    """One thing to do, and what the driver prepares for it.

    ``count`` is for clients in C, ``slow_count`` for those whose cost per message is some ten times
    higher; figures are per million messages either way. ``goal`` is the client's CPU in seconds per
    million messages of 128 bytes that jetsync is to stay below on the machine of the page's tables.
    """

    name: str
    does: str
    group: str
    count: int
    slow_count: int
    goal: float | None = None
    flood: bool = False  # the driver sends ``count`` messages with its own sender
    echo: bool = False  # the driver runs a responder on ``echo``
    source: bool = False  # a stream with ``count`` messages is there
    ack: str | None = None  # and a pull consumer with this ack policy
    push: bool = False  # and the raw client gets a push consumer
    sink: bool = False  # an empty stream is there, taking ``sink.>``
    busy: bool = False
    storage: Storage = "file"  # of the stream
    one_size: bool = False

    @property
    def takes(self) -> bool:
        """Whether it consumes; each such workload is also measured beside a busy thread."""
        return (self.flood or self.source) and self.group != "memory"

    @property
    def base(self) -> str:
        """The name without the busy thread, and without the kind of store."""
        return self.name.removesuffix(BUSY).removesuffix(IN_MEMORY)

    def messages(self, size: int, scale: float, slow: bool) -> int:
        """How many messages to handle."""
        count = int((self.slow_count if slow else self.count) * scale)
        return max(self._least(), min(count, BYTES_AT_MOST // max(size, 1)))

    def _least(self) -> int:
        return 200 if self.group == "latency" else 2 * FETCH


def _core() -> list[Workload]:
    sub: dict[str, Any] = {"group": "core", "count": 400_000, "slow_count": 40_000, "flood": True}
    return [
        Workload("publish", "publish, then flush", "core", 2_000_000, 60_000, 0.10),
        Workload("sub_callback", "subscribe with a callback", goal=0.24, **sub),
        Workload("sub_iter", "iterate over a subscription", goal=0.26, **sub),
        Workload("sub_next", "next(), a call per message", goal=0.26, **sub),
        Workload(
            "request", "request and reply, one at a time", "latency", 4000, 4000, 36, echo=True
        ),
    ]


def _publish() -> list[Workload]:
    def make(name: str, does: str, goal: float | None, count: int, slow: int) -> Workload:
        return Workload(name, does, "publish", count, slow, goal, sink=True)

    return [
        make("js_publish", "publish and wait for each confirmation", 45, 4000, 4000),
        make("js_async", "publish_async, all futures kept and looked at", 1.2, 200_000, 10_000),
        make("js_async_no_id", "the same without an automatic Nats-Msg-Id", None, 200_000, 10_000),
        make("js_many", "publish_many from a generator", 0.40, 200_000, 10_000),
        make("js_many_no_id", "the same without an automatic Nats-Msg-Id", 0.40, 200_000, 10_000),
        make("js_arrow", "publish_arrow from a record batch", 0.40, 200_000, 10_000),
    ]


def _consume() -> list[Workload]:
    def make(
        name: str, does: str, goal: float | None, ack: str | None = "none", count: int = 300_000,
        slow: int = 20_000, push: bool = False,
    ) -> Workload:  # fmt: skip
        return Workload(name, does, "consume", count, slow, goal, source=True, ack=ack, push=push)

    few: dict[str, Any] = {"count": 4000, "slow": 4000}
    acked: dict[str, Any] = {"ack": "explicit", "count": 100_000, "slow": 20_000}
    return [
        make("fetch", f"fetch({FETCH}), no acknowledgement", 0.42),
        make("fetch_ack", f"fetch({FETCH}), ack each message", 1.25, **acked),
        make("fetch_ack_batch", f"fetch({FETCH}), ack the batch in one call", 0.6, **acked),
        make("fetch_ack_sync", "fetch, ack_sync each message", 36, "explicit", **few),
        make("fetch_ack_sync_batch", "fetch, ack_sync the batch in one call", 2.5, **acked),
        make("messages", "iterate over messages(), no acknowledgement", 0.40),
        make("messages_ack", "iterate over messages(), ack each", 1.25, **acked),
        make("messages_ack_sync", "iterate, ack_sync each", 36, "explicit", **few),
        make("consume", "consume() with a callback, no acknowledgement", 0.40),
        make("consume_ack", "consume() with a callback, ack each", 1.25, **acked),
        make("consume_ack_sync", "consume(), ack_sync each", 36, "explicit", **few),
        make("ordered", "the ordered consumer, iterated", 0.33, None, push=True),
        make("push", "a push consumer with a callback", 0.30, None, push=True),
        make("fetch_arrow", f"fetch({10 * FETCH}) into Arrow columns, the payloads summed", 0.30),
        make("range_read", "get_msgs in ranges of 1000, no consumer", None, None),
    ]


def _memory() -> list[Workload]:
    return [
        Workload(
            "memory",
            "200,000 messages wait in a subscription: bytes of memory for each",
            "memory",
            200_000,
            200_000,
            flood=True,
            one_size=True,
        )
    ]


PLAIN = tuple(_core() + _publish() + _consume() + _memory())
BESIDE_BUSY = tuple(
    replace(w, name=w.name + BUSY, busy=True, goal=None) for w in PLAIN if w.takes or w.echo
)
IN_MEMORY_TOO = tuple(
    replace(w, name=w.name + IN_MEMORY, storage="memory", goal=None)
    for w in PLAIN
    if w.name in ("js_async", "fetch")
)
ALL = {w.name: w for w in PLAIN + BESIDE_BUSY + IN_MEMORY_TOO}

SHORT = (
    *("publish", "sub_callback", "sub_next", "request"),
    *("js_publish", "js_async", "js_many", "fetch", "fetch_ack", "fetch_ack_batch"),
    *("fetch_ack_sync", "messages", "consume", "ordered", "push", "fetch_arrow", "range_read"),
    *("memory", "messages" + BUSY, "request" + BUSY),
)
"""What ``make bench`` runs when nothing is chosen."""


@dataclass(frozen=True)
class Growth:
    """How a cost grows with one number; measured at ``points``, for each client that can do it."""

    name: str
    does: str
    axis: str
    unit: str
    points: tuple[int, ...]
    count: int
    goal: str
    flood: bool = False
    spread: bool = False  # over so many subjects as the point says
    source: bool = False
    sink: bool = False
    echo: bool = False

    def point_count(self, point: int, scale: float) -> int:
        """How many messages to handle at a point."""
        if not self.count:
            return point
        size = point if self.axis == "bytes" else 128
        least = 3 * point if self.axis == "outstanding" else 0
        return max(min(max(int(self.count * scale), 1000), max(BYTES_AT_MOST // size, 1)), least)


_POWERS = (1, 2, 4, 8, 16, 32, 64)
GROWTH = {
    g.name: g
    for g in (
        Growth("subscriptions", "core messages spread over subscriptions, taken with next()",
               "subscriptions", "CPU s per million messages", _POWERS, 200_000, "flat",
               flood=True, spread=True),
        Growth("request_threads", "requests from threads on one connection", "threads",
               "requests per second", _POWERS[:5], 8000, "rises, then flat", echo=True),
        Growth("publish_threads", "core publishes from threads on one connection", "threads",
               "CPU s per million messages", _POWERS[:5], 400_000, "flat"),
        Growth("outstanding", "publish_async with so many outstanding at most", "outstanding",
               "CPU s per million messages", (1, 10, 100, 1000, 10_000), 50_000,
               "falls, then flat", sink=True),
        Growth("size", "iterate over core messages of this size", "bytes",
               "CPU s per GiB", (16, 128, 1024, 16384, 131072, 1048576), 200_000,
               "falls to the cost of the copy", flood=True),
        Growth("many_subscriptions", "subscribe to so many subjects on one connection",
               "subscriptions", "CPU us per subscription", (100, 1000, 10_000, 100_000), 0, "flat"),
        Growth("many_memory", "memory of a subscription without messages",
               "subscriptions", "bytes per subscription", (1000, 10_000, 100_000), 0, "flat"),
        Growth("among_many", "messages of one subscription among so many others", "subscriptions",
               "CPU s per million messages", (1, 1000, 100_000), 100_000, "flat", flood=True),
        Growth("callbacks", "core messages spread over subscriptions with a callback",
               "subscriptions", "CPU s per million messages", (10, 100, 1000, 5000), 200_000,
               "at most twice as much from 10 to 5,000", flood=True, spread=True),
        Growth("consumers", "messages of a stream spread over consumers, taken by consume()",
               "consumers", "CPU s per million messages", (1, 10, 100, 1000), 100_000,
               "at most twice as much from 1 to 1,000"),
        Growth("connections", "connections of one process lose their links at once and come back",
               "connections", "CPU us per connection", (10, 100, 300, 1000), 0,
               "flat, at most 2,000 us"),
        Growth("refused", "subscriptions that the server refuses, beside as many that it takes",
               "subscriptions", "CPU us per subscription", (100, 1000, 3000, 10_000), 0, "flat"),
        Growth("keys", "list the keys of a bucket", "keys", "CPU us per key",
               (100, 1000, 10_000, 100_000), 0, "flat, at most nats-py's"),
        Growth("streams", "list the streams with all that is known of them", "streams",
               "CPU us per stream", (10, 50, 250, 1000), 0, "flat, at most nats-py's"),
        Growth("headers", "all headers of one message as a dict", "headers", "CPU us per header",
               (16, 256, 4096, 65_536), 0, "flat"),
    )
}  # fmt: skip
