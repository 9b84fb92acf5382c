"""Run every scenario of the compiled core while memory fails, at each of its allocations in turn.

``LD_PRELOAD=starve.so PYTHONMALLOC=malloc python -m tests.core.starving starve.so`` prints how
many allocations were refused in which scenario. The library is made of tests/harness/starve.c.

A scenario does something that may raise MemoryError half way. After that, with memory, it goes on:
each message must be there once, in its order, and each frame whole.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from jetsync._core.arrow_rows import ArrowRows
from jetsync._core.batch import MsgBatch, ack_all, first_of, last_of
from jetsync._core.bulk import BulkWindow
from jetsync._core.content_ids import ContentIds
from jetsync._core.delivered import Delivered
from jetsync._core.deliveries import Deliveries, DeliveryIterator, Sequences
from jetsync._core.encoding import encode_headers, encode_message, encode_sub, encode_unsub
from jetsync._core.futures import AsyncWindow
from jetsync._core.handles import Publishing
from jetsync._core.inbound import EVENT_ERR, EVENT_INFO, EVENT_SLOW, Inbound
from jetsync._core.index import Index
from jetsync._core.mailbox import Mailbox
from jetsync._core.message import Msg, parse_jsack
from jetsync._core.outbound import Outbound
from jetsync._core.prefetch import PrefetchBuffer
from jetsync._core.reply import Reply
from jetsync._core.stored import StoredFactory
from jetsync.jetstream.publish.puback import ACKS
from tests.core.kit import attached, block, client_frames, message


class Owner(Publishing):
    """A connection, as messages refer to it."""


class Stored(Msg):
    """A message that has what the server says of it."""

    _lines = b""


Scenario = Iterator[Callable[[], object]]
"""Yields what is done without memory; what comes after each is done and checked with it."""

PREFIX = b"_INBOX.me."
JSACK = b"$JS.ACK.S.C.1.%d.%d.1700000000000000000.0"


def delivered(count: int, sid: int = 1) -> list[bytes]:
    """Deliveries of a consumer, some with headers and of several subjects."""
    return [
        message(
            b"subject.%d" % (n % 3),
            sid,
            b"%d" % n * (1 + n % 2 * 300),
            reply=JSACK % (n + 1, n + 1),
            header=block(b"K: v") if n % 2 else None,
        )
        for n in range(count)
    ]


def numbers(found: list[Any]) -> list[int]:
    """Which of the deliveries these are."""
    return [int(m.reply.split(".")[5]) - 1 for m in found if m is not None]


def box_of(count: int, **options: Any) -> tuple[Inbound, Any]:
    inbound, box = Inbound(attached()), Mailbox(**options)
    sid = inbound.add(box)
    inbound.feed(b"".join(delivered(count, sid)))
    return inbound, box


def receiving() -> Scenario:
    """What is not in the mailbox is counted as dropped, and told; or the call raised."""
    inbound, box = Inbound(attached()), Mailbox()
    inbound.add(box)
    told: list[Any] = []
    data = b"".join([*delivered(20), b"PING\r\n", b"INFO {}\r\n", b"-ERR 'x'\r\n"])

    def feed() -> None:
        told.extend(inbound.feed(data))

    yield feed
    complete = bool(told)
    told.extend(inbound.feed(b""))
    look = box.pending_messages, box.dropped, box.received
    assert look[0] + look[1] == look[2], look
    assert look[2] in (0, 20), look
    if complete:
        kinds = [kind for kind, _ in told]
        assert kinds == [EVENT_SLOW] * (look[1] > 0) + [EVENT_INFO, EVENT_ERR], (told, look)


def routes() -> Scenario:
    outbound, asked, boxes = attached(), Index(), [Mailbox() for _ in range(6)]
    inbound, sids, replies = Inbound(outbound), [0] * 6, []

    def add() -> None:
        for n in range(6):
            sids[n] = inbound.add(boxes[n])
            replies.append(Reply(inbound, outbound, asked, "_INBOX.me.", "question", None))

    yield add
    known = [sid for sid in sids if sid]
    assert all(inbound.get(sid) is boxes[n] for n, sid in enumerate(known))
    assert len(replies) in (len(known) - 1, len(known))
    assert [r.mailbox for r in replies] == inbound.pending_replies() == asked.get("question")
    for sid in range(1, 13):  # a route that could not be added is gone
        inbound.feed(message(sid=sid))
    assert inbound.unmatched == 12 - len(known)
    assert [boxes[n].pending_messages for n in range(6)] == [int(sid > 0) for sid in sids]


def taking() -> Scenario:
    _, box = box_of(9)
    got: list[Any] = [None] * 18

    def take() -> None:
        for n in range(9):
            got[n] = box.get(0)

    yield take
    for n in range(9, 18):
        got[n] = box.get(0)
    assert numbers(got) == list(range(9))
    assert box.delivered == 9


def into_batches() -> Scenario:
    inbound, box = box_of(5)
    inbound.feed(message(header=block(status=b"404 No Messages")))
    inbound.feed(b"".join(delivered(10)[5:]))
    batch = box.new_batch(MsgBatch, None)
    statuses: list[Any] = [[], []]

    def take() -> None:
        statuses[0] = box.take_into(batch, 3, 0)
        statuses[1] = box.take_into(batch, 20, 0)

    yield take
    while box.pending_messages:
        statuses.append(box.take_into(batch, 20, 0))
    assert numbers(list(batch)) == list(range(10))
    assert [m.status for found in statuses for m in found] == [404]


def walking() -> Scenario:
    """Iterating, indices, slices and columns of a batch."""
    _, box = box_of(6)
    batch = box.new_batch(MsgBatch, None)
    box.take_into(batch, 10, 0)
    walk = iter(batch)
    got: list[Any] = [None] * 12

    def look() -> None:
        for n in range(6):
            got[n] = next(walk)

    yield look
    for n, msg in enumerate(walk):
        got[6 + n] = msg
    assert numbers(got) == list(range(6))

    def index() -> None:
        batch[3], batch[1:5], first_of(batch), last_of(batch), batch.first_seq, batch.last_seq

    yield index
    assert numbers(batch[0:6]) == list(range(6)), [m.reply for m in batch[0:6]]

    def columns() -> None:
        batch.__arrow_c_array__()
        batch.__arrow_c_stream__()

    yield columns
    assert pa.record_batch(batch).num_rows == 6


def stored() -> Scenario:
    """Messages that were read from a stream."""
    inbound, box = Inbound(attached()), Mailbox()
    inbound.add(box)
    for n in range(4):
        lines = [b"Nats-Stream: S", b"Nats-Subject: a.%d" % n, b"Nats-Sequence: %d" % (n + 1)]
        lines.append(b"Nats-Time-Stamp: 2026-01-01T00:00:00Z")
        inbound.feed(message(payload=b"x", header=block(b"A: b", b"", *lines)))
    batch = box.new_batch(MsgBatch, None, StoredFactory(Stored))
    box.take_into(batch, 10, 0)
    walk = iter(batch)
    got: list[Any] = [None] * 8

    def look() -> None:
        for n in range(4):
            got[n] = next(walk)
        batch.__arrow_c_array__()

    yield look
    for n, msg in enumerate(walk):
        got[4 + n] = msg
    assert [m.subject for m in got if m] == [f"a.{n}" for n in range(4)]


def prefetching() -> Scenario:
    _, box = box_of(8)
    batch = box.new_batch(MsgBatch, None)
    box.take_into(batch, 10, 0)
    stream: Any = PrefetchBuffer()
    stream._take_over(batch)
    got: list[Any] = [None] * 16
    given = box.new_batch(MsgBatch, None)

    def take() -> None:
        for n in range(4):
            got[n] = next(stream)
        stream._move_into(given, 2)

    yield take
    rest = [*given]
    while stream._buffered:
        rest.append(stream._pop())
    assert numbers([*got, *rest]) == list(range(8)), numbers([*got, *rest])


def deliveries() -> Scenario:
    _, box = box_of(6)
    judge: Any = Deliveries(Publishing(attached()), box)
    judge.sequences, judge.is_open = Sequences(0), True
    walk = DeliveryIterator(judge, lambda: None)
    got: list[Any] = [None] * 12

    def take() -> None:
        for n in range(6):
            got[n] = next(walk)

    yield take
    for n in range(6, 12):
        got[n] = next(walk)
    assert numbers(got) == list(range(6))
    assert (judge.taken, judge.sequences.last) == (6, 6)


def headers() -> Scenario:
    _, box = box_of(2)
    msg = (box.get(0), box.get(0))[1]

    def look() -> None:
        msg.headers["K"], msg.headers.get("none"), msg.reply, parse_jsack(msg.reply)
        encode_headers({"A": ["b", "c"], "D": "e"})

    yield look
    assert (msg.headers["K"], msg.reply.split(".")[2]) == ("v", "S")


def putting_in() -> Scenario:
    """A call that raised put nothing in, one that returned put in all."""
    out = attached()
    done = [0]
    big = b"x" * 9000

    def put() -> None:
        for n in range(4):
            out.publish("a", b"%d" % n, "r", block(b"K: v"))
            done[0] += 1
            out.ask("b", "r", big)
            done[0] += 1
            out.subscribe("c", "q", n + 1)
            done[0] += 1
            out.unsubscribe(n + 1, 3)
            done[0] += 1

    yield put
    assert len(client_frames(out.peek())) == done[0]
    assert client_frames(encode_message("a", b"b") + encode_sub("a", None, 1) + encode_unsub(1))


def acknowledging() -> Scenario:
    """What is sent is kept for the next link, or the call raised and nothing is sent."""
    owner: Any = Owner(attached())
    out = owner._outbound
    inbound = Inbound(out)
    box = Mailbox(msg_type=Delivered, owner=owner)
    inbound.add(box)
    inbound.feed(b"".join(delivered(12)))
    msgs: list[Any] = [box.get(0) for _ in range(6)]
    batch = box.new_batch(MsgBatch, out)
    box.take_into(batch, 10, 0)

    def ack() -> None:
        for msg in msgs:
            msg.ack()
        ack_all(batch, b"+ACK", None, 3)

    yield ack
    ack()
    sent = [f.subject for f in client_frames(out.peek())]
    assert sorted(sent) == sorted(JSACK % (n + 1, n + 1) for n in range(12)), sent
    out.detach()
    out.attach(0, b"", 1 << 20)
    assert out.kept_bytes == sum(len(b"PUB %s 4\r\n+ACK\r\n" % subject) for subject in sent)


KEEPER = SimpleNamespace()
"""What settles a window; here the scenario does."""


def with_futures() -> Scenario:
    """A message has a future or was not added; a future that is confirmed is settled and told."""
    out = attached()
    inbound, box = Inbound(out), Mailbox()
    sid = inbound.add(box)
    window = AsyncWindow(out, box, PREFIX, b"run.", b"", 100, only_linked=True, ring=200)
    window.bind(KEEPER, ACKS)
    futures: list[Any] = [None] * 8
    told: list[Any] = []

    def add() -> None:
        for n in range(8):
            futures[n] = window.publish("s", b"x" * 5000, b"", True, 1e6)

    yield add
    made = [f for f in futures if f is not None]
    assert window.added == window.open_count == len(made)
    assert window.flush()
    assert len(client_frames(out.peek())) == len(made)
    for future in made[::2]:
        future.add_done_callback(told.append)
    for n in range(len(made)):
        text = b'{"stream":"S%d","seq":%d,"domain":"d"}' % (n % 2, n + 1)
        inbound.feed(message(PREFIX + b"%d" % n, sid, b"odd" if n == 3 else text))
    odd: list[Any] = [[], []]

    def collect() -> None:
        odd[0] = window.collect(0)

    yield collect
    odd[1] = window.collect(0)
    told += window.take_settled()
    assert [number for found in odd for number, *_ in found] == [3][: len(made) > 3]
    assert [f.result(0).seq for n, f in enumerate(made) if n != 3] == [
        n + 1 for n in range(len(made)) if n != 3
    ]
    assert [f.seq for f in (t.result(0) for t in told)] == [
        n + 1 for n in range(0, len(made), 2)
    ], told


def failing_futures() -> Scenario:
    out = attached()
    window = AsyncWindow(out, Mailbox(), PREFIX, b"run.", b"", 100)
    window.bind(KEEPER, ACKS)
    futures: list[Any] = [window.publish("s", b"x", b"", True, 1e6) for _ in range(4)]
    told: list[Any] = []
    for future in futures:
        future.add_done_callback(print)

    def fail() -> None:
        for n in range(4):
            window.fail(n, ValueError("x"))

    yield fail
    fail()
    told += window.take_settled()
    assert told == futures
    assert window.open_count == 0


def in_bulk() -> Scenario:
    out = Outbound(offline_limit=1 << 30)
    inbound, box = Inbound(out), Mailbox()
    sid = inbound.add(box)
    window = BulkWindow(out, box, PREFIX, b"run.", b"", 100)
    rows: list[Any] = [("s", b"%d" % n, {"K": "v"}) if n % 2 else ("s", b"x") for n in range(6)]

    def add() -> None:
        window.add_rows(rows, 0)

    yield add
    window.flush()
    sent = client_frames(out.peek())
    assert [f.reply for f in sent] == [PREFIX + b"%d" % n for n in range(window.added)]
    window.mark_lost()
    counts = [0]

    def again() -> None:
        counts[0] = window.resend(1e6)

    yield again
    if window.waiting:
        counts.append(window.resend(1e6))
    assert sum(counts) == window.added
    assert len(client_frames(out.peek())) == 2 * window.added
    for n in range(window.added):
        inbound.feed(message(PREFIX + b"%d" % n, sid, b'{"stream":"S","seq":%d}' % (n + 1)))
    assert window.collect(0) == []
    assert (window.open_count, window.stored) == (0, window.added)


def columns() -> Scenario:
    out = Outbound(offline_limit=1 << 30)
    rows = ArrowRows(pa.record_batch({"data": [b"a", b"b", b"a"], "key": ["x", "y", "x"]}))
    window = BulkWindow(out, Mailbox(), PREFIX, b"run.", b"", 100)
    ids = ContentIds(b"p", 10)

    def add() -> None:
        window.add_arrow(rows, "key", b"", "data", None, None, 0)
        ids.column(rows, "data", None, b"s", None)

    yield add
    window.flush()
    assert len(client_frames(out.peek())) == window.added
    assert len(ids.column(rows, "data", None, b"s", None)[1]) >= 3


SCENARIOS = (
    receiving,
    routes,
    taking,
    into_batches,
    walking,
    stored,
    prefetching,
    deliveries,
    headers,
    putting_in,
    acknowledging,
    with_futures,
    failing_futures,
    in_bulk,
    columns,
)


def run(scenario: Callable[[], Scenario], step: int, nth: int, begin: Any, end: Any) -> int:
    """One run in which allocation `nth` of a step is refused; returns how many were."""
    refused = at = 0
    for act in scenario():
        if at == step:
            begin(nth)
            try:
                act()
            except MemoryError:
                pass
            finally:
                refused = end()
        else:
            act()
        at += 1
    return refused if at > step else -1


def main() -> None:
    faulthandler.enable()
    spec = importlib.util.spec_from_loader(
        "starve", importlib.machinery.ExtensionFileLoader("starve", sys.argv[1])
    )
    assert spec is not None
    starve: Any = importlib.util.module_from_spec(spec)
    swallowed: list[Any] = []
    sys.unraisablehook = swallowed.append
    counts: dict[str, int] = {}
    gc.disable()
    for scenario in SCENARIOS:
        name = scenario.__name__
        for _ in range(2):  # what is made once is there
            assert run(scenario, -1, 0, None, None) == 0
        for how in ("refuse_one", "refuse_from"):
            step = 0
            while True:
                nth, refused = 1, 1
                while refused > 0:
                    begin = getattr(starve, how)
                    try:
                        refused = run(scenario, step, nth, begin, starve.end)
                    except BaseException as error:
                        raise AssertionError(f"{name}, step {step}, {how}({nth})") from error
                    assert not swallowed, (name, step, how, nth, swallowed)
                    nth += 1
                counts[name] = counts.get(name, 0) + nth - 2
                if refused < 0:
                    break
                step += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
