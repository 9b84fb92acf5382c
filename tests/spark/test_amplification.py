"""What a read takes from the server is what it gives out, however sparse the rows lie."""

from __future__ import annotations

import time

import pytest
from pyspark.sql.types import StructType

import jetsync
from jetsync.server import NatsServer
from jetsync.spark.connection import shared
from jetsync.spark.range_read import read_range
from jetsync.spark.ranges import SequenceRange
from jetsync.spark.read_options import ReadOptions
from jetsync.spark.schema import Layout
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

TOTAL = scaled(100_000, 1_000_000)
SCHEMA = StructType().add("seq", "long").add("subject", "string")


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """A server with a stream in which every 100th message is rare, every 1000th very rare."""
    with (
        NatsServer(store_dir=tmp_path_factory.mktemp("sparse")) as server,
        jetsync.connect(server.url) as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="F", subjects=["f.>"], storage="memory", allow_direct=True)
        subjects = [
            "f.veryrare" if seq % 1000 == 0 else "f.rare" if seq % 100 == 0 else "f.common"
            for seq in range(1, TOTAL + 1)
        ]
        js.publish_many([(s, b"x" * 100) for s in subjects], msg_id=None).raise_for_failed()
        yield server, js


def received(server, js, length, **options):
    """Read two thirds of the stream in ranges of ``length``; return rows and messages received."""
    given = {"servers": server.url, "stream": "F", "connectionName": "amplification", **options}
    parsed = ReadOptions.parse(given, streaming=False)
    info = js.stream("F").info()
    last = TOTAL * 2 // 3
    nc = shared(parsed.link)
    before = nc.stats.in_messages
    seen: list[int] = []
    ranges = 0
    for first in range(1, last + 1, length):
        ranges += 1
        wanted = SequenceRange("F", info.created.isoformat(), first, min(last, first + length - 1))
        for batch in read_range(parsed, Layout(SCHEMA), wanted):
            seen += batch.column("seq").to_pylist()
    # Requests about each range: its stream, what the leader holds, consumers made and removed.
    return seen, nc.stats.in_messages - before, ranges


@pytest.mark.parametrize("method", ["direct", "consumer", "auto"])
@pytest.mark.parametrize(("subject", "every"), [("f.rare", 100), ("f.veryrare", 1000)])
@pytest.mark.parametrize("pieces", [1, 8])
def test_a_filtered_range_receives_little_more_than_its_rows(
    sparse, subject, every, method, pieces
):
    server, js = sparse
    length = -(-TOTAL * 2 // 3 // pieces)
    seen, messages, ranges = received(server, js, length, filterSubjects=subject, readMethod=method)
    expected = [
        seq
        for seq in range(every, TOTAL * 2 // 3 + 1, every)
        if subject == "f.veryrare" or seq % 1000
    ]
    assert seen == expected
    assert messages <= 1.2 * len(expected) + 12 * ranges


@pytest.mark.parametrize("method", ["direct", "consumer"])
def test_a_range_of_holes_receives_little_more_than_its_rows(sparse, method):
    server, js = sparse
    js.create_stream(
        name="H", subjects=["h.>"], storage="memory", allow_direct=True, max_msgs_per_subject=1
    )
    try:
        half = TOTAL // 4
        # Nearly all of the first half is replaced later: a few survivors, then a dense part.
        rows = [f"h.keep.{n}" if n % 100 == 0 else "h.one" for n in range(half)]
        rows += [f"h.new.{n}" for n in range(half)]
        js.publish_many([(s, b"") for s in rows], msg_id=None).raise_for_failed()
        given = {"servers": server.url, "stream": "H", "readMethod": method}
        parsed = ReadOptions.parse(given, streaming=False)
        nc = shared(parsed.link)
        before = nc.stats.in_messages
        created = js.stream("H").info().created.isoformat()
        wanted = SequenceRange("H", created, 1, half - 1)
        seen = [
            seq
            for batch in read_range(parsed, Layout(SCHEMA), wanted)
            for seq in batch.column("seq").to_pylist()
        ]
        assert seen == list(range(1, half, 100))
        assert nc.stats.in_messages - before <= 1.2 * len(seen) + 24
    finally:
        js.delete_stream("H")


def test_payloads_that_are_not_asked_for_stay_at_the_server(sparse):
    server, js = sparse
    js.create_stream(name="P", subjects=["p.>"], storage="memory", allow_direct=True)
    try:
        js.publish_many([("p.x", b"x" * 10_000)] * 500, msg_id=None).raise_for_failed()
        given = {"servers": server.url, "stream": "P"}
        parsed = ReadOptions.parse(given, streaming=False)
        nc = shared(parsed.link)
        before = nc.stats.in_bytes
        wanted = SequenceRange("P", js.stream("P").info().created.isoformat(), 1, 500)
        rows = sum(batch.num_rows for batch in read_range(parsed, Layout(SCHEMA), wanted))
        assert rows == 500
        assert nc.stats.in_bytes - before < 500_000
    finally:
        js.delete_stream("P")


@pytest.mark.parametrize("method", ["direct", "consumer"])
@pytest.mark.parametrize("filtered", [False, True])
def test_a_link_that_breaks_while_messages_are_under_way_loses_and_repeats_none(
    sparse, method, filtered
):
    server, js = sparse
    options = {"filterSubjects": "f.common"} if filtered else {}
    with Proxy(server.url) as proxy:
        given = {"servers": proxy.url, "stream": "F", "readMethod": method, "fetchBatch": "10000"}
        parsed = ReadOptions.parse({**given, **options}, streaming=False)
        wanted = SequenceRange("F", js.stream("F").info().created.isoformat(), 1, 60_000)
        batches = read_range(parsed, Layout(SCHEMA), wanted)
        seen = next(batches).column("seq").to_pylist()
        for cut in (300_000, 50_000, 700_000):
            proxy.swallow_after(cut)
            # Some of what is under way is swallowed; then the link breaks.
            wait_until_nothing_comes(shared(parsed.link))
            proxy.cut()
            proxy.heal()
            seen += next(batches).column("seq").to_pylist()
        for batch in batches:
            seen += batch.column("seq").to_pylist()
    assert seen == [seq for seq in range(1, 60_001) if not filtered or seq % 100]


def wait_until_nothing_comes(nc):
    """Wait until no byte came for a while."""
    last, since = nc.stats.in_bytes, time.monotonic()

    def is_quiet():
        nonlocal last, since
        if nc.stats.in_bytes != last:
            last, since = nc.stats.in_bytes, time.monotonic()
        return time.monotonic() - since > 0.2

    wait_until(is_quiet)
