"""Acknowledgements on the real server: what each does, terminal states, reconnects, keep_alive."""

from __future__ import annotations

import itertools
import json
import threading
import time

import pytest

import jetsync
from jetsync.client.port import port_of
from jetsync.jetstream.acks.confirm import confirm
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, sequences

LONG = 20.0


def settled(consumer):
    """Wait until the server waits for no acknowledgement any more."""
    wait_until(lambda: consumer.info().num_ack_pending == 0, timeout=LONG)


def mend(proxy):
    """Cut the link that swallows what the server says; the next one is whole."""
    proxy.cut()
    proxy.heal()


@pytest.fixture
def quick(stream):
    """A consumer that soon delivers again what is not acknowledged."""
    with stream.create_consumer(durable_name="quick", ack_wait=0.6) as made:
        yield made


@pytest.fixture
def patient(stream):
    with stream.create_consumer(durable_name="patient", ack_wait=60) as made:
        yield made


# -- one message ----------------------------------------------------------------------------------


def test_every_kind_of_acknowledgement_does_what_it_says(js, nc, stream, patient):
    fill(js, stream, 5)
    acked, confirmed, again, later, ended = patient.fetch(5, timeout=LONG)
    with nc.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>") as advisories:
        nc.flush()
        acked.ack()
        confirmed.ack_sync()
        again.nak()
        begun = time.monotonic()
        later.nak(delay=0.5)
        ended.term("not for us")
        assert json.loads(advisories.next(timeout=LONG).data)["reason"] == "not for us"
    first = patient.next(timeout=LONG)
    second = patient.next(timeout=LONG)
    assert sequences([first, second]) == [3, 4]
    assert time.monotonic() - begun >= 0.4
    assert first.metadata.num_delivered == second.metadata.num_delivered == 2
    first.ack()
    second.ack()
    settled(patient)
    assert patient.info().ack_floor.stream_seq == 5


def test_after_a_terminal_acknowledgement_every_further_one_is_ignored(js, nc, stream, patient):
    fill(js, stream, 3)
    for msg, settle in zip(
        patient.fetch(3, timeout=LONG),
        (lambda m: m.ack(), lambda m: m.nak(delay=60), lambda m: m.term()),
        strict=True,
    ):
        assert not msg.is_acked
        msg.in_progress()
        assert not msg.is_acked  # that was not terminal
        settle(msg)
        assert msg.is_acked
        before = nc.stats.out_messages
        msg.ack()
        msg.nak()
        msg.term("again")
        msg.in_progress()
        assert nc.stats.out_messages == before


def test_ack_sync_is_idempotent_and_confirms_an_earlier_ack(js, nc, stream, quick):
    """Returned: never redelivered (promise P6), also when only the plain ack was sent before."""
    fill(js, stream, 2)
    one, two = quick.fetch(2, timeout=LONG)
    one.ack()
    one.ack_sync(timeout=LONG)
    before = nc.stats.out_messages
    one.ack_sync(timeout=LONG)  # known to be confirmed
    assert nc.stats.out_messages == before
    two.nak(delay=0.2)
    two.ack_sync(timeout=LONG)  # ignored: it cannot undo the nak
    assert nc.stats.out_messages == before + 1
    back = quick.next(timeout=LONG)
    assert sequences([back]) == [2]
    back.ack_sync(timeout=LONG)
    assert len(quick.fetch(1, timeout=1.0)) == 0


def test_a_late_acknowledgement_still_counts(js, stream, quick):
    fill(js, stream, 1)
    first = quick.next(timeout=LONG)
    again = quick.next(timeout=LONG)  # after ack_wait
    assert again.metadata.num_delivered == 2
    first.ack_sync(timeout=LONG)
    settled(quick)
    assert len(quick.fetch(1, timeout=1.0)) == 0


@pytest.mark.timed
def test_ack_sync_says_when_no_server_confirms(js, stream, patient, in_time):
    fill(js, stream, 2)
    one, two = patient.fetch(2, timeout=LONG)
    patient.delete()
    with in_time(0.3), pytest.raises(jetsync.TimeoutError):
        one.ack_sync(timeout=0.3)
    with pytest.raises(jetsync.NoRespondersError):
        two.ack_sync(timeout=LONG)
    assert not one.is_acked
    assert not two.is_acked


def test_ack_policy_none_ignores_everything(js, nc, stream):
    consumer = stream.create_consumer(durable_name="none", ack_policy="none")
    fill(js, stream, 3)
    batch = consumer.fetch(3, timeout=LONG)
    before = nc.stats.out_messages
    for msg in batch:
        msg.ack()
        msg.nak()
        msg.term()
        msg.in_progress()
        msg.ack_sync()
        with msg.keep_alive():
            pass
        with pytest.raises(jetsync.ConfigError, match="none"):
            msg.ack_next()
    batch.ack()
    batch.nak()
    batch.in_progress()
    batch.ack_sync()
    assert nc.stats.out_messages == before


def test_bad_acknowledgements_are_refused_before_anything_is_sent(js, nc, stream, patient):
    fill(js, stream, 1)
    msg = patient.next(timeout=LONG)
    before = nc.stats.out_messages
    for call in (
        lambda: msg.nak(delay=-1),
        lambda: msg.term("two\r\nlines"),
        lambda: msg.ack_next(0),
        lambda: msg.ack_next(max_bytes=0),
        lambda: msg.keep_alive(interval=0),
    ):
        with pytest.raises(jetsync.ConfigError):
            call()
    assert nc.stats.out_messages == before
    assert not msg.is_acked


# -- +NXT -----------------------------------------------------------------------------------------


@pytest.mark.timed
def test_ack_next_acknowledges_and_fetches(js, stream, patient, in_time):
    fill(js, stream, 10)
    msg = patient.next(timeout=LONG)
    got = [1]
    batch = msg.ack_next(timeout=LONG)
    assert msg.is_acked
    got += sequences(batch)
    batch = batch[0].ack_next(3, timeout=LONG)
    got += sequences(batch)
    batch[0].ack()
    batch[1].ack()
    batch = batch[2].ack_next(100, no_wait=True)
    got += sequences(batch)
    assert got == list(range(1, 11))
    with in_time(0.4):
        assert len(batch[0].ack_next(5, timeout=0.4)) == 0
    info = patient.info()
    assert (info.ack_floor.stream_seq, info.num_ack_pending, info.num_waiting) == (6, 4, 0)
    fill(js, stream, 1, start=10)
    # Settled already: it only fetches.
    assert sequences(batch[0].ack_next(timeout=LONG)) == [11]


def test_ack_next_is_bounded_by_bytes(js, stream, patient):
    js.publish_many((f"{stream.name}.a", b"x" * 1000) for _ in range(20))
    msg = patient.next(timeout=LONG)
    batch = msg.ack_next(20, max_bytes=5000, timeout=LONG)
    assert 3 <= len(batch) <= 5


def test_a_chain_of_ack_next_works_through_a_stream(js, stream, patient):
    fill(js, stream, 300)
    msg, seen = patient.next(timeout=LONG), []
    while True:
        seen.append(msg.metadata.stream_seq)
        batch = msg.ack_next(no_wait=True)
        if not len(batch):
            break
        msg = batch[0]
    assert seen == list(range(1, 301))
    settled(patient)


# -- whole batches --------------------------------------------------------------------------------


def test_a_batch_is_acknowledged_in_one_write(js, nc, stream, patient):
    fill(js, stream, 1000)
    batch = patient.fetch(1000, timeout=LONG)
    batch.in_progress()
    batch.ack()
    before = nc.stats.out_messages
    batch.ack()
    batch.nak()
    batch.in_progress()
    assert nc.stats.out_messages == before
    settled(patient)
    before = nc.stats.out_messages
    batch.ack_sync(timeout=LONG)  # confirms what ack() sent
    assert nc.stats.out_messages == before + 1000
    before = nc.stats.out_messages
    batch.ack_sync(timeout=LONG)
    assert nc.stats.out_messages == before


def test_a_batch_comes_back_after_nak(js, stream, patient):
    fill(js, stream, 10)
    patient.fetch(10, timeout=LONG).nak()
    patient.fetch(10, timeout=LONG).nak(delay=0.2)
    batch = patient.fetch(10, timeout=LONG)
    assert {msg.metadata.num_delivered for msg in batch} == {3}
    batch.ack_sync(timeout=LONG)
    assert patient.info().num_ack_pending == 0


# -- over reconnects ------------------------------------------------------------------------------


def test_acks_given_while_the_link_is_down_are_sent_after_the_reconnect(server, js, stream):
    """Within ack_wait they arrive in time: nothing is redelivered (promise P6)."""
    consumer = stream.create_consumer(durable_name="c", ack_wait=60)
    fill(js, stream, 6)
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url) as nc:
        mine = nc.jetstream().consumer(stream.name, "c")
        batch = mine.fetch(3, timeout=LONG)
        singles = mine.fetch(3, timeout=LONG)
        proxy.stop()
        wait_until(lambda: not nc.is_connected, timeout=LONG)
        batch.ack()
        for msg in singles:
            msg.ack()
        assert consumer.info().num_ack_pending == 6
        proxy.start()
        settled(consumer)
        assert consumer.info().ack_floor.stream_seq == 6


def test_ack_sync_outlasts_reconnects_and_swallowed_answers(server, js, stream):
    """G4: what was confirmed never comes again, whatever happened to the answers."""
    consumer = stream.create_consumer(durable_name="c", ack_wait=60)
    fill(js, stream, 30)
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url) as nc:
        mine = nc.jetstream().consumer(stream.name, "c")
        taken = list(mine.fetch(9, timeout=LONG))
        rest = mine.fetch(21, timeout=LONG)
        for msg, fault in zip(taken, itertools.cycle(["cut", "swallow", ""]), strict=False):
            if fault == "cut":
                threading.Timer(0.0, proxy.cut).start()
            elif fault == "swallow":
                proxy.swallow_after(0)
                threading.Timer(0.02, mend, [proxy]).start()
            msg.ack_sync(timeout=LONG)
        proxy.swallow_after(0)
        threading.Timer(0.02, mend, [proxy]).start()
        rest.ack_sync(timeout=60)
    info = consumer.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 30)


def test_ack_sync_outlasts_a_restart_of_the_server():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="S", subjects=["S.>"])
        consumer = stream.create_consumer(durable_name="c", ack_wait=60)
        fill(js, stream, 50)
        batch = consumer.fetch(50, timeout=LONG)
        # In order: after a kill the server may have forgotten that it ever delivered them.
        helper = threading.Thread(target=server.restart)
        helper.start()
        wait_until(lambda: not nc.is_connected, timeout=LONG)
        batch[0].ack_sync(timeout=LONG)
        batch.ack_sync(timeout=LONG)
        helper.join()
        server.restart()
        wait_until(lambda: nc.is_connected, timeout=LONG)
        assert len(consumer.fetch(1, timeout=1.0)) == 0
        assert consumer.info(timeout=LONG).num_ack_pending == 0


# -- keep_alive -----------------------------------------------------------------------------------


def test_keep_alive_keeps_a_message_and_a_batch(js, nc, stream, quick):
    fill(js, stream, 12)
    threads = threading.active_count()
    msg = quick.next(timeout=LONG)
    batch = quick.fetch(11, timeout=LONG)
    with msg.keep_alive() as alive, batch.keep_alive():
        assert alive.interval == pytest.approx(0.2)
        assert len(quick.fetch(1, timeout=2.5)) == 0  # four times ack_wait
        assert threading.active_count() == threads
        msg.ack_sync(timeout=LONG)
        batch.ack_sync(timeout=LONG)
    assert quick.info().num_redelivered == 0
    settled(quick)


def test_keep_alive_ends_with_its_block_and_with_the_acknowledgement(js, nc, stream, quick):
    fill(js, stream, 2)
    one, two = quick.fetch(2, timeout=LONG)
    with one.keep_alive(interval=0.02):
        before = nc.stats.out_messages
        wait_until(lambda: nc.stats.out_messages > before + 3, timeout=LONG)
    before = nc.stats.out_messages
    with two.keep_alive(interval=0.02):
        two.ack()
        assert len(quick.fetch(1, timeout=LONG)) == 1  # the first one came back
        assert nc.stats.out_messages - before <= 4  # one sign of life, the ack, the fetch


def test_keep_alive_is_quiet_without_a_link_and_ends_with_the_connection(server, js, stream):
    stream.create_consumer(durable_name="c", ack_wait=60)
    fill(js, stream, 1)
    errors: list[jetsync.Event] = []
    with Proxy(server.url) as proxy:
        nc = jetsync.connect(proxy.url, on_error=errors.append)
        msg = nc.jetstream().consumer(stream.name, "c").next(timeout=LONG)
        with msg.keep_alive(interval=0.02):
            proxy.stop()
            wait_until(lambda: not nc.is_connected, timeout=LONG)
            before = nc.stats.out_messages
            proxy.start()
            wait_until(lambda: nc.stats.out_messages > before, timeout=LONG)
            nc.close()
        with pytest.raises(jetsync.ConnectionClosedError), msg.keep_alive():
            pass
    assert errors == []


def test_keep_alive_of_an_empty_batch_or_a_copy_is_refused(patient):
    with pytest.raises(jetsync.ConfigError):
        patient.fetch_no_wait(1).keep_alive()
    with pytest.raises(jetsync.ConfigError):
        jetsync.JetStreamMsg().keep_alive()
    with pytest.raises(jetsync.ConfigError):
        jetsync.JetStreamMsg().ack_next()


def test_keep_alive_minds_backoff(js, stream):
    consumer = stream.create_consumer(durable_name="b", backoff=[0.6, 3.0], max_deliver=5)
    fill(js, stream, 1)
    with consumer.next(timeout=LONG).keep_alive() as alive:
        assert alive.interval == pytest.approx(0.2)


def test_ack_sync_goes_on_while_no_server_serves_the_consumer(url, js, stream, patient):
    """As between the crash of a consumer's leader and the election of the next one: no server takes
    its acknowledgements, but it exists. A subscriber stands for the new leader."""
    fill(js, stream, 1)
    [msg] = patient.fetch(1, timeout=LONG)
    elsewhere = msg.reply.replace("$JS.ACK", "$ELSEWHERE.ACK")
    with jetsync.connect(url) as other:
        late: list[object] = []

        def lead():
            late.append(other.subscribe(elsewhere, callback=lambda msg: msg.respond(b"")))
            other.flush()

        timer = threading.Timer(3.5, lead)
        timer.start()
        try:
            confirm(port_of(other), elsewhere, LONG)
        finally:
            timer.join()
        assert late
