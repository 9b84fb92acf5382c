"""The pull engine on a real server: how often it pulls, what it leaves behind, how it recovers."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time

import pytest

import jetsync
from jetsync.jetstream.pull.inbox import PullInbox
from jetsync.jetstream.pull.options import PullOptions
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.signals import ctrl_c_when_waiting
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, numbers

PATIENCE = 30.0


class Wire:
    """Every pull request that reaches the server, seen by a second subscriber."""

    def __init__(self, nc, consumer):
        self._sub = nc.subscribe(
            f"$JS.API.CONSUMER.MSG.NEXT.{consumer.stream_name}.{consumer.name}",
            pending_messages_limit=0,
            pending_bytes_limit=0,
        )
        self._nc = nc
        nc.flush(timeout=PATIENCE)

    def bodies(self):
        """What was asked for, since the last time."""
        self._nc.flush(timeout=PATIENCE)
        found = []
        while self._sub.pending_messages:
            found.append(json.loads(self._sub.next(timeout=1).data))
        return found


@pytest.fixture
def consumer(stream):
    with stream.create_consumer(durable_name="c", ack_wait=30, max_ack_pending=10_000) as made:
        yield made


@pytest.fixture
def wire(url, consumer):
    with jetsync.connect(url) as other:
        yield Wire(other, consumer)


@pytest.fixture
def own():
    """A server of the test's own, with a stream and a consumer."""
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="S", subjects=["S.>"])
        consumer = stream.create_consumer(durable_name="c", ack_wait=2)
        yield server, nc, js, stream, consumer
        nc.close()


# -- how often ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_messages", "threshold"),
    [(1, None), (2, None), (10, None), (100, 10), (100, 99), (500, 0)],
)
def test_no_more_than_twice_the_ideal_number_of_pulls(
    js, stream, consumer, wire, max_messages, threshold
):
    """Issue's bound: each pull refills from the threshold to the brim."""
    total = min(3_000, 150 * max_messages)
    fill(js, stream, total)
    with consumer.messages(
        max_messages=max_messages, threshold_messages=threshold, stop_after=total
    ) as messages:
        assert numbers(messages) == list(range(total))
    low = max_messages // 2 if threshold is None else threshold
    ideal = math.ceil(total / (max_messages - low))
    asked = wire.bodies()
    assert 1 <= len(asked) <= 2 * ideal
    assert all(1 <= each["batch"] <= max_messages for each in asked)


def test_a_trickle_does_not_make_a_pull_for_each_message(js, stream, consumer, wire):
    with consumer.messages(max_messages=100) as messages:
        for n in range(90):
            js.publish(f"{stream.name}.a", b"%d" % n)
            assert messages.next(timeout=PATIENCE).data == b"%d" % n
        assert len(wire.bodies()) <= 4


def test_nothing_pending_costs_one_pull_for_each_expiry(consumer, wire):
    messages = consumer.messages(expires=1.0, max_messages=10)
    with messages, pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=3.3)
    assert 3 <= len(wire.bodies()) <= 5


def test_a_bytes_bound_asks_for_bytes_and_keeps_to_its_threshold(js, stream, consumer, wire):
    """ADR-37: with max_bytes the batch is a huge number, and each pull fills the buffer."""
    js.publish_many((f"{stream.name}.a", b"x" * 1_000) for _ in range(400))
    with consumer.messages(max_bytes=40_000, stop_after=400) as messages:
        for msg in messages:
            assert len(msg.data) == 1_000
            mailbox = messages._inbox.mailbox
            assert messages._buffered_bytes + mailbox.pending_bytes <= 40_000
    asked = wire.bodies()
    assert all(each["max_bytes"] <= 40_000 for each in asked)
    assert len(asked) <= 2 * math.ceil(400 * 1_100 / 20_000)


def test_a_message_that_needs_the_whole_bytes_buffer_comes_when_it_is_empty(js, stream, consumer):
    """Not refused, and no warning: it fits into the buffer, only not into what was left of it."""
    warnings: list[Exception] = []
    sizes = [100, 100, 8_000, 100, 9_000, 9_000, 100]
    js.publish_many((f"{stream.name}.a", b"x" * size) for size in sizes)
    with consumer.messages(max_bytes=9_500, on_warning=warnings.append) as messages:
        assert [len(messages.next(timeout=PATIENCE).data) for _ in sizes] == sizes
    assert warnings == []


def test_every_pull_of_a_stream_expires_and_asks_for_heartbeats(consumer, wire):
    """protocol 5.11: always send expires, and idle_heartbeat of at most half of it."""
    with consumer.messages(expires=4.0), consumer.messages(expires=4.0, heartbeat=0.5):
        pass
    with consumer.messages(expires=4.0) as messages, pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.1)
    (asked,) = wire.bodies()
    assert asked["expires"] == 4e9
    assert asked["idle_heartbeat"] == 2e9


# -- what is left behind -------------------------------------------------------------------------


def waiting(consumer):
    return consumer.info().num_waiting


@pytest.mark.parametrize("end", ["full", "expired", "eager", "no_wait", "bytes", "interrupted"])
def test_a_fetch_leaves_no_pull_on_the_server(js, stream, consumer, end):
    """Nothing is delivered to a fetch that is over."""
    fill(js, stream, 3)
    if end == "full":
        consumer.fetch(3, timeout=5)
    elif end == "expired":
        consumer.fetch(10, timeout=0.2)
    elif end == "eager":
        consumer.fetch(10, timeout=5, eager=True)
    elif end == "no_wait":
        consumer.fetch_no_wait(10)
    elif end == "bytes":
        consumer.fetch(max_bytes=60, timeout=1)
    else:
        consumer.fetch(3, timeout=5)
        # Its pull stays for the next call, and ends with its time.
        with pytest.raises(KeyboardInterrupt), ctrl_c_when_waiting():
            consumer.fetch(10, timeout=2)
    wait_until(lambda: waiting(consumer) == 0, timeout=PATIENCE)
    assert len(consumer._shared._idle) <= 1
    fill(js, stream, 1, start=99)
    assert 99 in numbers(consumer.fetch(5, timeout=PATIENCE, eager=True))


@pytest.mark.parametrize("how", ["stop", "break", "with", "raise", "drain"])
def test_a_stream_leaves_no_pull_on_the_server(js, stream, consumer, how):
    fill(js, stream, 20)
    messages = consumer.messages(max_messages=10)
    if how == "stop":
        messages.next(timeout=PATIENCE)
        messages.stop()
    elif how == "break":
        for _ in messages:
            break
        del messages
    elif how == "with":
        with messages:
            messages.next(timeout=PATIENCE)
    elif how == "raise":
        with pytest.raises(ZeroDivisionError), messages:
            messages.next(timeout=PATIENCE)
            raise ZeroDivisionError
    else:
        messages.next(timeout=PATIENCE)
        messages.drain()
        for _ in messages:
            pass
        messages.stop()
    wait_until(lambda: waiting(consumer) == 0, timeout=PATIENCE)


def test_an_engine_that_was_given_up_is_not_used_again(js, stream, consumer):
    """A fetch that runs out of time without the server's last word gives its inbox up."""
    engine = consumer._shared._borrow()
    engine.pull(PullOptions(batch=5, expires=30))
    engine.close()
    consumer._shared._park(engine)
    assert consumer._shared._idle == []
    fill(js, stream, 1)
    assert numbers(consumer.fetch(1, timeout=PATIENCE)) == [0]


def test_late_messages_of_an_abandoned_fetch_come_back_at_once(server, js, nc, stream, consumer):
    """They are handed back, not kept for ack_wait (30 s here)."""
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url) as far:
        theirs = far.jetstream().consumer(stream.name, "c")
        theirs.fetch(1, timeout=0.2)
        proxy.delay(0.6)
        start = time.monotonic()
        filler = threading.Timer(0.3, lambda: fill(js, stream, 5))
        filler.start()
        with pytest.raises(jetsync.PullUnansweredError):
            theirs.fetch(5, timeout=0.8)  # they are on their way when it gives up
        filler.join()
        proxy.delay(0)
        got: set[int] = set()
        while len(got) < 5 and time.monotonic() - start < 20:
            with contextlib.suppress(jetsync.PullUnansweredError):  # the next call returns it
                got.update(numbers(consumer.fetch(5, timeout=1)))
        assert got == set(range(5))
        far.close()


def test_an_interrupted_take_loses_nothing(js, stream, consumer):
    """What was taken out of the mailbox when a signal came is the first that comes next."""
    fill(js, stream, 10)
    messages = consumer.messages(max_messages=10)
    messages._refill()  # the first pull goes out
    wait_until(lambda: messages.pending == 10, timeout=PATIENCE)
    presence = messages._inbox._presence

    def interrupted():
        presence.asked = None
        raise KeyboardInterrupt

    # It is told of the first sign of life, between the taking and the charging of messages.
    presence.asked, presence.seen = True, interrupted
    with pytest.raises(KeyboardInterrupt):
        messages.next(timeout=PATIENCE)
    assert numbers(messages.next(timeout=1) for _ in range(10)) == list(range(10))
    messages.stop()


# -- how it recovers -----------------------------------------------------------------------------


@pytest.mark.timed
def test_a_silent_server_is_noticed_and_asked_again_within_the_bound(own, in_time):
    """P4: no sign of life for two heartbeats is a warning within 2 x heartbeat + 1 s, and delivery
    resumes within the same time after the server is back."""
    server, _, js, stream, consumer = own
    warned: list[Exception] = []
    bound = 2 * 0.5 + 1
    with consumer.messages(expires=10, heartbeat=0.5, on_warning=warned.append) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.2)
        server.pause()
        with in_time(bound):
            while not warned:
                with pytest.raises(jetsync.TimeoutError):
                    messages.next(timeout=0.05)
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=1.0)
        server.resume()
        with in_time(bound):
            fill(js, stream, 1)
            assert messages.next(timeout=PATIENCE).data == b"0"
    assert len(warned) <= 4


def test_the_strict_form_ends_at_missed_heartbeats(own):
    """simplified-jetstream-api, "Idle heartbeats": on heartbeat error processing is terminated."""
    server, _, _, _, consumer = own
    messages = consumer.messages(expires=10, heartbeat=0.3, on_missed_heartbeat="stop")
    with pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.2)
    server.pause()
    with pytest.raises(jetsync.PullTerminatedError, match="no heartbeat"):
        messages.next(timeout=PATIENCE)
    with pytest.raises(jetsync.PullTerminatedError, match="no heartbeat"):
        next(messages)
    server.resume()
    messages.stop()


def test_heartbeats_are_not_missed_while_there_is_no_link(own):
    """The timer is paused while disconnected."""
    server, nc, js, stream, consumer = own
    warnings: list[Exception] = []
    with consumer.messages(
        expires=2, heartbeat=0.2, on_missed_heartbeat="stop", on_warning=warnings.append
    ) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.3)
        server.kill()
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=1.0)
        server.start()
        wait_until(lambda: nc.is_connected, timeout=PATIENCE)
        fill(js, stream, 1)
        assert messages.next(timeout=PATIENCE).data == b"0"
    assert warnings == []


def test_a_stream_that_no_thread_polls_during_a_restart_goes_on(own):
    """Not polled at the restart must not mean dead for ever."""
    server, nc, js, stream, consumer = own
    with consumer.messages(max_messages=10, heartbeat=0.5, expires=5) as messages:
        fill(js, stream, 30)
        got = {int(messages.next(timeout=PATIENCE).data)}
        for _ in range(2):
            server.kill()
            server.start()
            wait_until(lambda: nc.is_connected, timeout=PATIENCE)
        while len(got) < 30:
            msg = messages.next(timeout=PATIENCE)
            got.add(int(msg.data))
            msg.ack()
    assert got == set(range(30))


def test_pulls_swallowed_by_max_waiting_are_sent_again(stream, js):
    """With a heartbeat the server drops a pull over max_waiting in silence; heartbeats tell."""
    consumer = stream.create_consumer(durable_name="narrow", max_waiting=1)
    warnings: list[Exception] = []
    other = PullInbox(consumer._shared)
    other.pull(PullOptions(batch=1, expires=1.5))
    wait_until(lambda: waiting(consumer) == 1, timeout=PATIENCE)
    with consumer.messages(expires=2, heartbeat=0.3, on_warning=warnings.append) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=2.5)
        fill(js, stream, 1)
        assert messages.next(timeout=PATIENCE).data == b"0"
    assert warnings
    other.close()


def test_a_consumer_that_vanished_during_a_restart_is_told(own):
    server, _, _, stream, _ = own
    consumer = stream.create_consumer(name="memory", mem_storage=True, inactive_threshold=60)
    with consumer.messages(heartbeat=0.5, expires=5) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.2)
        server.kill()
        server.start()
        try:
            stream.delete_consumer("memory")
        except (jetsync.ConsumerNotFoundError, AttributeError):
            pass
        with pytest.raises(jetsync.ConsumerDeletedError):
            messages.next(timeout=PATIENCE)


@pytest.mark.parametrize("what", ["consumer", "stream"])
def test_deletion_is_told_at_once_and_stays_told(js, nc, what):
    """409 Consumer Deleted ends messages, batches and fetch."""
    name = f"GONE{what}"
    stream = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    keeper = js.create_stream(name=f"KEEP{what}", subjects=[f"KEEP{what}"], storage="memory")
    consumer = stream.create_consumer(durable_name="c")
    with consumer.messages() as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.2)
        if what == "consumer":
            js.delete_consumer(name, "c")
        else:
            stream.delete()
        start = time.monotonic()
        for _ in range(2):
            with pytest.raises(jetsync.ConsumerDeletedError):
                messages.next(timeout=PATIENCE)
        with pytest.raises(jetsync.ConsumerDeletedError):
            next(messages)
        with pytest.raises(jetsync.ConsumerDeletedError):
            consumer.fetch(1, timeout=PATIENCE)
        with pytest.raises(jetsync.ConsumerDeletedError):
            consumer.next(timeout=PATIENCE)
        assert time.monotonic() - start < 10
    if what == "consumer":
        stream.delete()
    keeper.delete()


def test_fetch_asks_for_the_remainder_after_a_reconnect(own):
    """Within the same deadline."""
    _server, nc, js, stream, consumer = own
    fill(js, stream, 2)
    timer = threading.Timer(0.5, nc.force_reconnect)
    timer.start()
    filler = threading.Timer(1.5, lambda: fill(js, stream, 2, start=2))
    filler.start()
    start = time.monotonic()
    batch = consumer.fetch(4, timeout=PATIENCE)
    assert numbers(batch) == [0, 1, 2, 3]
    assert batch.error is None
    assert time.monotonic() - start < PATIENCE / 2
    timer.join()
    filler.join()


@pytest.mark.timed
def test_fetch_keeps_its_deadline_without_a_server(own, in_time):
    """P2: within timeout + 0.25 s, and what came is not lost."""
    server, _, js, stream, consumer = own
    fill(js, stream, 2)
    threading.Timer(0.2, server.kill).start()
    with in_time(1.5, least=1.4):
        batch = consumer.fetch(5, timeout=1.5)
    assert numbers(batch) == [0, 1]
    assert isinstance(batch.error, jetsync.PullUnansweredError)
    with in_time(0.3), pytest.raises(jetsync.PullUnansweredError):
        consumer.fetch(5, timeout=0.3)


# -- without waiting -------------------------------------------------------------------------------


@pytest.mark.timed
def test_fetch_no_wait_on_nothing_takes_a_round_trip(consumer):
    consumer.fetch_no_wait(1)
    start = time.monotonic()
    for _ in range(5):
        assert len(consumer.fetch_no_wait(10)) == 0
    assert time.monotonic() - start < 2
    assert len(consumer._shared._idle) == 1


@pytest.mark.timed
def test_fetch_no_wait_ends_when_the_server_says_nothing(js, stream):
    """The server does not answer no_wait at max_ack_pending."""
    consumer = stream.create_consumer(durable_name="held", max_ack_pending=2)
    fill(js, stream, 5)
    # The server tells its consumers of new messages a moment after it has confirmed them.
    wait_until(lambda: consumer.info().num_pending == 5)
    assert len(consumer.fetch_no_wait(5)) == 2
    start = time.monotonic()
    assert len(consumer.fetch_no_wait(5)) == 0
    assert time.monotonic() - start < 3


def test_a_large_backlog_comes_whole_without_waiting(js, stream, consumer):
    fill(js, stream, 5_000)
    assert numbers(consumer.fetch_no_wait(5_000)) == list(range(5_000))


def test_an_eager_fetch_returns_with_the_first_message_that_comes(js, stream, consumer):
    timer = threading.Timer(0.3, lambda: fill(js, stream, 1))
    timer.start()
    start = time.monotonic()
    assert numbers(consumer.fetch(10, timeout=PATIENCE, eager=True)) == [0]
    assert time.monotonic() - start < PATIENCE / 2
    timer.join()
    wait_until(lambda: waiting(consumer) == 0, timeout=PATIENCE)
    assert len(consumer.fetch(10, timeout=2, eager=True)) == 0


def test_a_paused_consumer_is_waited_for(js, stream, consumer):
    """Pause (server 2.11): pulls get heartbeats and expire; no warning, and it goes on after."""
    from datetime import datetime, timedelta, timezone

    warnings: list[Exception] = []
    fill(js, stream, 1)
    consumer.pause(datetime.now(timezone.utc) + timedelta(seconds=60))
    assert len(consumer.fetch_no_wait(1)) == 0
    with consumer.messages(expires=1, heartbeat=0.2, on_warning=warnings.append) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=1.5)
        consumer.resume()
        assert messages.next(timeout=PATIENCE).data == b"0"
    assert warnings == []


def test_a_batch_says_how_much_is_in_it(js, stream):
    js.publish(f"{stream.name}.a", bytes(100))
    batch = stream.create_consumer(durable_name="c").fetch(1, timeout=10)
    assert (
        repr(batch)
        == f"MsgBatch(1 message, seq {batch.first_seq}..{batch.last_seq}, {batch.nbytes} bytes)"
    )
    batch.error = jetsync.TimeoutError("late")
    assert "late" in repr(batch)
