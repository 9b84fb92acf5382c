"""Every way of publishing over every kind of link: each message is stored once and in order.

A few links for every commit; all of them, in all sizes that fit, in the long form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jetsync
from jetsync.jetstream.access import api_of
from tests.harness.conditioner import Link
from tests.reliability.link_cells import KIB, MB, Cell, cells

PATIENCE = 120.0


def short() -> list[Cell]:
    return [(0.1, None, 128, 12), (0.03, 5 * MB, 64 * KIB, 12), (0.005, 200_000, 50_000, 3)]


def publish(js: Any, rows: list[bytes]) -> None:
    for row in rows:
        js.publish("P.a", row)


def publish_async(js: Any, rows: list[bytes]) -> None:
    for future in [js.publish_async("P.a", row) for row in rows]:
        future.result(PATIENCE)


def publish_many(js: Any, rows: list[bytes]) -> None:
    report = js.publish_many((("P.a", row) for row in rows), timeout=PATIENCE)
    assert report.complete
    assert report.stored == len(rows)


def publish_arrow(js: Any, rows: list[bytes]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra arrow; rows of Python objects run")
    batch = pyarrow.record_batch({"data": pyarrow.array(rows, pyarrow.binary())})
    assert js.publish_arrow(batch, subject="P.a", timeout=PATIENCE).stored == len(rows)


def batch(js: Any, rows: list[bytes]) -> None:
    with js.batch(timeout=PATIENCE) as one:
        for row in rows:
            one.add("P.a", row)


def core_publish(js: Any, rows: list[bytes]) -> None:
    nc = api_of(js).port.connection
    for row in rows:
        nc.publish("P.a", row)
    nc.flush(PATIENCE)


def all_in_turn(js: Any, rows: list[bytes]) -> None:
    """What one thread publishes in several ways is stored in its order."""
    futures = []
    for n, row in enumerate(rows):
        if n % 3 == 0:
            futures.append(js.publish_async("P.a", row))
        elif n % 3 == 1:
            js.publish("P.a", row)
        else:
            assert js.publish_many([("P.a", row)], timeout=PATIENCE).stored == 1
    for future in futures:
        future.result(PATIENCE)


WAYS: list[Callable[[Any, list[bytes]], None]] = [
    publish,
    publish_async,
    publish_many,
    publish_arrow,
    batch,
    core_publish,
    all_in_turn,
]


@pytest.fixture(scope="module", params=cells(short()), ids=lambda cell: "-".join(map(str, cell)))
def cell(request, far_server, link_process):
    """A connection at the server, the link to the far end, and what to publish over it."""
    rtt, bandwidth, size, count = request.param
    with (
        jetsync.connect(far_server.url) as near,
        Link(far_server.url, rtt=rtt, bandwidth=bandwidth, process=link_process) as link,
    ):
        yield near.jetstream(), link, [b"%d " % n + bytes(size) for n in range(count)]


@pytest.mark.timeout(3 * PATIENCE)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_message_is_stored_once_and_in_order(cell, way):
    near, link, rows = cell
    told: list[BaseException | None] = []
    stream = near.create_stream(name="P", subjects=["P.>"], storage="memory", allow_atomic=True)
    try:
        with jetsync.connect(
            link.url, timeout=PATIENCE, on_error=lambda event: told.append(event.error)
        ) as far:
            way(far.jetstream(timeout=PATIENCE), rows)
        with stream.ordered_consumer() as reader:
            stored = reader.fetch(len(rows), timeout=PATIENCE)
        assert [bytes(msg.data) for msg in stored] == rows
        assert stream.info().state.messages == len(rows)
        assert told == []
    finally:
        stream.delete()
