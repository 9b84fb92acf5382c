"""Acknowledgements on a network that loses them (P6, G4)."""

from __future__ import annotations

import random
import threading

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.insides import outbound_of
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.reliability.links import await_reconnect

LONG = 30.0
CONFIRMED = scaled(3_000, 200_000)
FAULTS = scaled(10, 300)
SEED = 6


@pytest.fixture
def world():
    """A server, a network in front of it, a direct connection and one through the network."""
    with (
        NatsServer() as server,
        Proxy(server.url) as proxy,
        jetsync.connect(server.url) as direct,
        jetsync.connect(proxy.url, reconnect_wait=0.02, reconnect_jitter=0.02) as nc,
    ):
        js = direct.jetstream()
        js.create_stream(name="S", subjects=["s"])
        yield server, proxy, js, nc


def consumer_of(js, nc, count, **fields):
    """A consumer with so many messages: as the server has it, and through the network."""
    js.publish_many(("s", b"%d" % n) for n in range(count))
    watched = js.create_consumer("S", durable_name="c", **fields)
    return watched, nc.jetstream().consumer("S", "c")


def lose_what_is_said(proxy, nc, say):
    """Say something that leaves this process and does not arrive, and let the link break."""
    reconnects = nc.stats.reconnects
    proxy.blackhole()
    arrived = proxy.bytes_to_server
    say()
    wait_until(lambda: not outbound_of(nc).pending_bytes, timeout=LONG)
    assert proxy.bytes_to_server == arrived
    proxy.cut()
    proxy.unblackhole()
    await_reconnect(nc, reconnects + 1)


def ack_all(batch):
    for msg in batch:
        msg.ack()


def term_all(batch):
    for msg in batch:
        msg.term("not wanted")


@pytest.mark.parametrize("say", [ack_all, term_all, jetsync.MsgBatch.ack])
def test_acknowledgements_that_were_lost_with_the_link_are_sent_again(world, say):
    """P6: within ack_wait they arrive after all, so nothing is redelivered."""
    _, proxy, js, nc = world
    watched, mine = consumer_of(js, nc, 10, ack_wait=120)
    batch = mine.fetch(10, timeout=LONG)
    lose_what_is_said(proxy, nc, lambda: say(batch))
    wait_until(lambda: watched.info().num_ack_pending == 0, timeout=LONG)
    assert watched.info().num_redelivered == 0


def test_acknowledgements_are_sent_again_until_they_arrive(world):
    """Links that break one after another, each one before what was lost with the first is known to
    have arrived."""
    _, proxy, js, nc = world
    watched, mine = consumer_of(js, nc, 10, ack_wait=120)
    batch = mine.fetch(10, timeout=LONG)
    lose_what_is_said(proxy, nc, batch.ack)
    for _ in range(3):
        lose_what_is_said(proxy, nc, lambda: None)
    wait_until(lambda: watched.info().num_ack_pending == 0, timeout=LONG)


def test_a_lost_nak_is_not_sent_again(world):
    """The client that has the message by then would lose it once more; ack_wait brings it back."""
    _, proxy, js, nc = world
    watched, mine = consumer_of(js, nc, 1, ack_wait=120)
    msg = mine.next(timeout=LONG)
    lose_what_is_said(proxy, nc, msg.nak)
    nc.flush(LONG)
    assert watched.info().num_ack_pending == 1
    assert watched.info().num_redelivered == 0


def test_what_has_arrived_is_forgotten(world):
    """Nothing piles up, and when everything has arrived no PING is sent any more."""
    _, proxy, js, nc = world
    _, mine = consumer_of(js, nc, 40_000, ack_wait=120, max_ack_pending=-1)
    taken = 0
    while taken < 40_000:
        batch = mine.fetch(5_000, timeout=LONG)
        taken += len(batch)
        batch.ack()
    wait_until(lambda: outbound_of(nc).kept_bytes == 0, timeout=LONG)
    said = nc.stats.out_messages
    before = proxy.bytes_to_server
    nc.force_reconnect()
    await_reconnect(nc, 1)
    nc.flush(LONG)
    assert nc.stats.out_messages == said
    # CONNECT, the subscriptions and a ping or two; 40,000 acknowledgements are three megabytes.
    assert proxy.bytes_to_server - before < 10_000


# -- G4 --------------------------------------------------------------------------------------------


class Ledger:
    """The messages whose confirmation returned, in that order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._confirmed: dict[int, int] = {}
        self.wrong: list[int] = []

    def confirmed(self, messages):
        with self._lock:
            for msg in messages:
                self._confirmed.setdefault(sequence(msg), len(self._confirmed))

    def delivered(self, messages, asked_at):
        """What was asked for when so many were confirmed already: none of those may be in it."""
        with self._lock:
            late = [
                n for n in map(sequence, messages) if self._confirmed.get(n, asked_at) < asked_at
            ]
            self.wrong += late

    def wait_for(self, count):
        wait_until(lambda: len(self) >= count, timeout=60)

    def __len__(self):
        return len(self._confirmed)


def sequence(msg):
    return msg.metadata.stream_seq


def work(js, ledger, dice):
    """Take messages and confirm them, one by one or as a batch, until all are confirmed."""
    consumer = js.consumer("S", "c", timeout=LONG)
    while len(ledger) < CONFIRMED:
        asked_at = len(ledger)
        try:
            batch = consumer.fetch(dice.choice([1, 20, 200]), timeout=0.5)
        except jetsync.PullUnansweredError:
            continue  # the link was away for all of this time
        finally:
            # What a broken or slow link left over would come first in the next batch, though the
            # server sent it before that was asked for.
            consumer.close()
        ledger.delivered(batch, asked_at)
        if len(batch) > 20:
            batch.ack_sync(timeout=60)
            ledger.confirmed(batch)
        else:
            for msg in batch:
                msg.ack_sync(timeout=60)
                ledger.confirmed([msg])


def test_what_was_confirmed_never_comes_again(world, record_figure):
    """G4: three workers, links that break and answers that are lost, a server that restarts."""
    server, proxy, js, nc = world
    _, mine = consumer_of(js, nc, CONFIRMED, ack_wait=1.0, max_ack_pending=-1)
    dice = random.Random(SEED)
    ledger = Ledger()

    def lose_answers():
        proxy.swallow_after(dice.randrange(2_000))
        before = proxy.bytes_to_server
        wait_until(lambda: proxy.bytes_to_server > before or not nc.is_connected, timeout=LONG)
        proxy.cut()

    def hold_everything():
        proxy.blackhole()
        proxy.cut()

    # Stopped, not killed: a killed server may have forgotten what it had confirmed.
    faults = [proxy.cut, lose_answers, hold_everything, proxy.restart, server.restart]
    workers = [
        threading.Thread(
            target=work, args=(nc.jetstream(), ledger, random.Random(SEED + n)), daemon=True
        )
        for n in range(3)
    ]
    for worker in workers:
        worker.start()
    for turn in range(FAULTS):
        ledger.wait_for((turn + 1) * CONFIRMED // (FAULTS + 1))
        faults[turn % len(faults)]()
        proxy.heal()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    record_figure(
        f"G4 redelivered of {CONFIRMED} over {FAULTS} faults", len(ledger.wrong), goal="0"
    )
    assert ledger.wrong == []
    assert len(ledger) == CONFIRMED
    late = mine.fetch(1, timeout=2.5)  # twice ack_wait: nothing was left waiting either
    assert [sequence(msg) for msg in late] == []
    assert mine.info().num_ack_pending == 0
