"""Every row is stored exactly once although the server goes away while tasks write."""

from __future__ import annotations

import functools
import threading
from collections import Counter

import jetsync
from jetsync.server import NatsServer
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

PIECE = 5_000


def payloads(handle):
    """How often each payload is in a stream."""
    found: Counter[bytes] = Counter()
    last = handle.info().state.last_seq
    for first in range(1, last + 1, PIECE):
        batch = handle.get_msgs(first, max_messages=min(PIECE, last + 1 - first))
        found.update(bytes(message.data) for message in batch)
    return found


def test_a_server_that_is_killed_and_restarted_while_tasks_write(spark, tmp_path):
    rows, kills = scaled((30_000, 2), (2_000_000, 20))
    with NatsServer(store_dir=tmp_path) as server, jetsync.connect(server.url) as nc:
        handle = nc.jetstream().create_stream(name="S", subjects=["s.>"], allow_direct=True)
        frame = spark.range(0, rows, 1, 2).selectExpr("'s.x' subject", "cast(id as string) data")
        wrong = []

        part = rows // (kills + 2)

        def holds_more_than(count):
            return handle.info(timeout=20).state.messages > count

        def disturb():
            try:
                for number in range(kills):
                    wait_until(functools.partial(holds_more_than, part * (number + 1)), timeout=120)
                    if number % 2:
                        server.stop()
                    else:
                        server.kill()
                    server.start()
            except BaseException as error:
                wrong.append(error)

        thread = threading.Thread(target=disturb)
        thread.start()
        frame.write.format("jetstream").option("servers", server.url).mode("append").save()
        thread.join()
        assert not wrong
        wait_until(lambda: nc.stats.reconnects >= kills)
        found = payloads(handle)
        assert set(found.values()) == {1}
        assert len(found) == rows
