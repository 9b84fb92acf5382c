"""Publishing through faults: nothing confirmed is lost, nothing is stored twice (P3, G1, G2)."""

from __future__ import annotations

import random

import jetsync
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.publish_load import Load, contents

FAULTS = scaled(12, 320)
MESSAGES = scaled(18_000, 2_000_000)
SEED = 20


def make_faults(server, proxy, dice):
    """What networks and operating systems do, one fault a call."""

    def kill():
        server.kill()
        server.start()

    def lose_answers():
        # Messages are stored and their confirmations are lost.
        proxy.swallow_after(dice.randrange(5000))
        before = proxy.bytes_to_server
        wait_until(lambda: proxy.bytes_to_server > before + 500, timeout=10)
        proxy.cut()

    def close_one_way():
        proxy.half_close(towards_client=dice.random() < 0.5)
        proxy.cut()

    def go_away():
        proxy.stop()
        proxy.start()

    return [kill, kill, proxy.cut, lose_answers, close_one_way, go_away]


def test_kills_and_broken_links_lose_and_double_nothing(record_figure):
    dice = random.Random(SEED)
    # `sync_interval` is left alone: a killed process loses nothing that the kernel has.
    with (
        NatsServer() as server,
        Proxy(server.url) as proxy,
        jetsync.connect(proxy.url, reconnect_wait=0.02, reconnect_jitter=0.02) as nc,
    ):
        js = nc.jetstream(max_pending=1000)
        js.create_stream(name="S", subjects=["s"])
        faults = make_faults(server, proxy, dice)
        with Load(js, "s") as load:
            for turn in range(FAULTS):
                load.grow(MESSAGES // FAULTS // 2, timeout=60)
                faults[turn % len(faults)]()
                proxy.swallow_after(None)
            load.grow(max(1, MESSAGES - load.ledger.told), timeout=scaled(120, 3600))
        found, sequences = contents(js, "S")
        load.ledger.record(record_figure, found, f"{FAULTS} faults")
        load.ledger.compare(found, sequences)
        assert len(load.ledger.stored) >= 0.99 * MESSAGES
