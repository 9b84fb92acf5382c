"""Pulling over links that are not loopback: far, slow, frozen. Nothing is lost, nothing is handed
out twice, nothing is asked for twice, and an outage does not look like an empty queue."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.insides import members_of
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

PATIENCE = 60.0
LAW = 0.25
ROOM = 1.0  # for a busy machine, beside the law


@pytest.fixture(scope="module")
def server():
    with NatsServer(config={"max_payload": 8 << 20}) as one:
        yield one


@pytest.fixture
def js(server):
    with jetsync.connect(server.url) as nc:
        yield nc.jetstream()


@pytest.fixture
def stream(js, request):
    name = f"L{abs(hash(request.node.nodeid)) % 10**9}"
    made = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    yield made
    made.delete()


@contextlib.contextmanager
def far(server, **link):
    """A JetStream object at the far end of a link."""
    with Link(server.url, **link) as line, jetsync.connect(line.url, timeout=30) as nc:
        yield line, nc.jetstream(timeout=30)


def fill(js, stream, count, size=10, start=0):
    for n in range(start, start + count):
        js.publish(f"{stream.name}.a", b"%d " % n + b"x" * size)


def number(msg):
    return int(msg.data.split(b" ")[0])


class Trickle:
    """A publisher that sends a numbered message every so many seconds."""

    def __init__(self, js, stream, every):
        self._js, self._stream, self._every = js, stream, every
        self.count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._stop.wait(self._every):
            self._js.publish(f"{self._stream.name}.a", b"%d " % self.count)
            self.count += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


# -- the server's last word ------------------------------------------------------------------------


@pytest.mark.parametrize("rtt", [0.03, 0.1])
@pytest.mark.parametrize("policy", ["none", "once", "explicit"])
def test_what_is_on_its_way_when_a_fetch_ends_is_not_lost_and_comes_once(
    server, js, stream, rtt, policy
):
    """Short fetches one behind another while messages come all the time."""
    if policy == "none":
        stream.create_consumer(durable_name="c", ack_policy="none")
    else:
        stream.create_consumer(durable_name="c", max_deliver=1 if policy == "once" else -1)
    got: list[int] = []
    with far(server, rtt=rtt) as (_, theirs):
        consumer = theirs.consumer(stream.name, "c")
        with Trickle(js, stream, rtt / 5) as source:
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                batch = consumer.fetch(1000, timeout=0.4)
                got += map(number, batch)
                batch.ack()
        while len(got) < source.count and time.monotonic() < until + PATIENCE:
            batch = consumer.fetch(1000, timeout=0.5)
            got += map(number, batch)
            batch.ack()
    assert got == list(range(source.count))


@pytest.mark.parametrize("rtt", [0.0, 0.1, 0.3])
def test_fetch_no_wait_takes_no_message_too_many(server, js, stream, rtt):
    fill(js, stream, 20)
    stream.create_consumer(durable_name="c", ack_policy="none")
    with far(server, rtt=rtt) as (_, theirs):
        consumer = theirs.consumer(stream.name, "c")
        got = [[number(msg) for msg in consumer.fetch_no_wait(5)] for _ in range(5)]
    assert got == [list(range(n, n + 5)) for n in (0, 5, 10, 15)] + [[]]


@pytest.mark.parametrize("how", ["eager", "pull_subscribe"])
def test_an_eager_fetch_ends_when_the_server_has_nothing_more_ready(server, js, stream, how):
    """Not at a hole between two large messages: each is delivered once, although a third delivery
    would be the last."""
    fill(js, stream, 6, size=300_000)
    stream.create_consumer(durable_name="c", ack_wait=30, max_deliver=3)
    with far(server, bandwidth=5_000_000) as (_, theirs):
        if how == "eager":
            consumer = theirs.consumer(stream.name, "c")
            fetch = lambda: consumer.fetch(10, timeout=PATIENCE, eager=True)  # noqa: E731
        else:
            sub = theirs.pull_subscribe(stream=stream.name, consumer="c")
            fetch = lambda: sub.fetch(10, timeout=PATIENCE)  # noqa: E731
        batch = fetch()
        assert [number(msg) for msg in batch] == list(range(6))
        assert {msg.metadata.num_delivered for msg in batch} == {1}
        batch.ack()


def test_a_fetch_keeps_its_time_while_a_large_message_arrives_and_the_next_one_returns_it(
    server, js, stream
):
    fill(js, stream, 1, size=1_000_000)
    stream.create_consumer(durable_name="c", ack_policy="none")
    with far(server, bandwidth=500_000) as (_, theirs):
        consumer = theirs.consumer(stream.name, "c")
        start = time.monotonic()
        with pytest.raises(jetsync.PullUnansweredError) as caught:
            consumer.fetch(5, timeout=0.5)
        assert time.monotonic() - start < 0.5 + LAW + ROOM
        assert caught.value.cause == "link"
        assert [number(msg) for msg in consumer.fetch(1, timeout=PATIENCE)] == [0]


def test_what_an_old_pull_still_brings_over_a_slow_link_is_not_taken_for_the_new_ones(
    server, js, stream
):
    """The server ended those pulls long ago, and their messages and last words arrive in a row: no
    call takes them for the end of its own pull."""
    fill(js, stream, 14, 32_000)
    with far(server, bandwidth=200_000) as (_, distant):
        consumer = distant.create_consumer(stream.name, max_deliver=1, mem_storage=True)
        got, causes, until = [], set(), time.monotonic() + PATIENCE
        while len(got) < 14 and time.monotonic() < until:
            try:
                batch = consumer.fetch(7, timeout=0.2)
            except jetsync.PullUnansweredError as error:
                causes.add(error.cause)
                continue
            assert batch.error is None
            got.extend(number(msg) for msg in batch)
        assert got == list(range(14))
        assert causes <= {"link"}
        assert len(consumer.fetch(7, timeout=0.3)) == 0


def test_messages_that_came_too_late_go_back_when_no_call_comes_for_them(server, js, stream):
    """Another client gets them long before ack_wait is over."""
    stream.create_consumer(durable_name="c", ack_wait=60)
    fill(js, stream, 1, size=1_000_000)
    with far(server, bandwidth=500_000) as (_, theirs):
        consumer = theirs.consumer(stream.name, "c")
        with pytest.raises(jetsync.PullUnansweredError):
            consumer.fetch(5, timeout=0.3)
        start = time.monotonic()
        other = js.consumer(stream.name, "c")
        assert number(other.next(timeout=30)) == 0
        assert time.monotonic() - start < 30
        del consumer


def test_polling_an_ordered_consumer_from_far_away_makes_no_new_ones(server, js, stream):
    fill(js, stream, 1)
    with far(server, rtt=0.1) as (_, theirs):
        ordered = theirs.ordered_consumer(stream.name)
        name = ordered.name
        assert len(ordered.fetch(10, timeout=0.5)) == 1
        for _ in range(4):
            # On a busy machine an answer may come too late for its call.
            with contextlib.suppress(jetsync.PullUnansweredError):
                assert len(ordered.fetch(10, timeout=0.4)) == 0
        with pytest.raises(jetsync.TimeoutError):
            ordered.next(timeout=0.4)
        assert (ordered.resets, ordered.name) == (0, name)


# -- bytes are a sign of life ----------------------------------------------------------------------


def test_a_large_message_on_a_slow_link_is_no_silence_and_is_not_asked_for_twice(
    server, js, stream
):
    fill(js, stream, 3, size=1_500_000)
    stream.create_consumer(durable_name="c", ack_wait=120)
    warnings: list[Exception] = []
    with far(server, bandwidth=600_000) as (_, theirs):
        consumer = theirs.consumer(stream.name, "c")
        with consumer.messages(
            max_messages=1, heartbeat=0.5, on_warning=warnings.append
        ) as messages:
            for n in range(3):
                msg = messages.next(timeout=PATIENCE)
                assert number(msg) == n
                assert js.consumer(stream.name, "c").info().num_ack_pending <= 2
                msg.ack()
    assert warnings == []


def test_an_ordered_consumer_reads_large_messages_over_a_slow_link(server, js, stream):
    fill(js, stream, 2, size=800_000)
    warnings: list[Exception] = []
    with far(server, bandwidth=400_000) as (_, theirs):
        ordered = theirs.ordered_consumer(stream.name)
        with ordered.messages(
            max_messages=3, heartbeat=0.5, on_warning=warnings.append
        ) as messages:
            assert [number(messages.next(timeout=PATIENCE)) for _ in range(2)] == [0, 1]
        assert ordered.resets == 0
    assert warnings == []


# -- an outage is not an empty queue ---------------------------------------------------------------


@pytest.fixture
def own():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        stream = nc.jetstream().create_stream(name="S", subjects=["S.>"])
        yield server, nc, stream
        server.resume()
        nc.close()


CALLS = {
    "fetch": lambda consumer: consumer.fetch(5, timeout=1),
    "fetch_no_wait": lambda consumer: consumer.fetch_no_wait(5, timeout=1),
    "eager": lambda consumer: consumer.fetch(5, timeout=1, eager=True),
    "next": lambda consumer: consumer.next(timeout=1),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_hangs_is_told_from_an_empty_queue(own, call):
    server, _, stream = own
    consumer = stream.create_consumer(durable_name="c")
    assert len(consumer.fetch_no_wait(5)) == 0
    server.pause()
    start = time.monotonic()
    with pytest.raises(jetsync.PullUnansweredError) as caught:
        CALLS[call](consumer)
    assert time.monotonic() - start < 1 + LAW + ROOM
    assert caught.value.cause == "server"
    server.resume()
    stream._js.publish("S.a", b"0")
    assert consumer.next(timeout=PATIENCE).data == b"0"


@pytest.mark.parametrize("call", CALLS)
def test_a_lost_link_is_told_from_an_empty_queue(own, call):
    server, nc, stream = own
    consumer = stream.create_consumer(durable_name="c")
    assert len(consumer.fetch_no_wait(5)) == 0
    server.kill()
    wait_until(lambda: not nc.is_connected, timeout=PATIENCE)
    start = time.monotonic()
    with pytest.raises(jetsync.PullUnansweredError) as caught:
        CALLS[call](consumer)
    assert time.monotonic() - start < 1 + LAW + ROOM
    assert caught.value.cause == "link"


@pytest.mark.parametrize("call", ["fetch", "eager"])
def test_a_pull_for_which_the_outbound_buffer_has_no_room_is_told_from_one_without_a_leader(
    own, call
):
    server, _, stream = own
    stream.create_consumer(durable_name="c")
    with jetsync.connect(server.url, write_timeout=0.05) as nc:
        consumer = nc.jetstream().consumer(stream.name, "c")
        assert len(consumer.fetch_no_wait(5)) == 0
        server.pause()
        for size in (500_000, 10_000, 200, 0):
            with pytest.raises(jetsync.OutboundFullError):
                while True:
                    nc.publish("elsewhere", bytes(size))
        start = time.monotonic()
        with pytest.raises(jetsync.PullUnansweredError, match="outbound buffer") as caught:
            CALLS[call](consumer)
        assert time.monotonic() - start < 1 + LAW + ROOM
        assert caught.value.cause == "link"
        server.resume()
        nc.flush(PATIENCE)
        stream._js.publish("S.a", b"0")
        assert consumer.next(timeout=PATIENCE).data == b"0"


def test_what_came_before_an_outage_is_returned_with_the_reason(own):
    server, _, stream = own
    fill(stream._js, stream, 2)
    consumer = stream.create_consumer(durable_name="c")
    timer = threading.Timer(0.5, server.pause)
    timer.start()
    batch = consumer.fetch(5, timeout=2)
    timer.join()
    assert [number(msg) for msg in batch] == [0, 1]
    assert isinstance(batch.error, jetsync.PullUnansweredError)


def test_a_message_that_does_not_fit_into_max_bytes_is_told(own):
    _, _, stream = own
    fill(stream._js, stream, 1, size=1000)
    consumer = stream.create_consumer(durable_name="c")
    batch = consumer.fetch(max_bytes=100, timeout=5)
    assert len(batch) == 0
    assert isinstance(batch.error, jetsync.PullTerminatedError)
    assert "max_bytes" in str(batch.error)


# -- limits of the consumer ------------------------------------------------------------------------


def test_pulls_keep_to_the_limits_that_the_consumer_sets(js, stream):
    fill(js, stream, 250)
    consumer = stream.create_consumer(
        durable_name="c", max_batch=100, max_expires=1.0, max_bytes=50_000
    )
    warnings: list[Exception] = []
    batch = consumer.fetch(max_bytes=2_000, timeout=3)
    assert 1 <= len(batch) < 100
    batch.nak()
    got = 0
    with consumer.messages(on_warning=warnings.append) as messages:
        while got < 250:
            messages.next(timeout=PATIENCE)
            got += 1
    messages = consumer.messages(max_bytes=100_000, on_warning=warnings.append)
    with messages, pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.5)
    assert warnings == []


# -- handles that are dropped ----------------------------------------------------------------------


def subscriptions(nc, server):
    """How many subscriptions the server has of a connection."""
    nc.flush(timeout=PATIENCE)
    (one,) = server.monitor(f"connz?cid={nc.client_id}", timeout=30)["connections"]
    return one["subscriptions"]


@pytest.mark.parametrize(
    "use", ["fetch", "messages", "pull_subscribe", "ordered", "subscribe", "push", "ordered push"]
)
def test_handles_that_are_dropped_leave_nothing_behind(use):
    """No subscription on the server and no member of the connection, however many there were."""
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        members = len(members_of(nc))
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["S.>"], storage="memory")
        js.create_consumer("S", durable_name="c")

        def use_one():
            if use == "fetch":
                js.consumer("S", "c").fetch_no_wait(1)
            elif use == "messages":
                for batch in js.consumer("S", "c").messages().batches(timeout=0):
                    assert len(batch) == 0
                    break
            elif use == "pull_subscribe":
                with pytest.raises(jetsync.TimeoutError):
                    js.pull_subscribe(stream="S", consumer="c").fetch(1, timeout=0.001)
            elif use == "ordered":
                js.ordered_consumer("S").fetch_no_wait(1)
            elif use == "subscribe":
                with pytest.raises(jetsync.TimeoutError):
                    nc.subscribe("nothing").next(timeout=0)
            else:
                with pytest.raises(jetsync.TimeoutError):
                    js.subscribe(
                        "S.a", ordered=use != "push", heartbeat=1, inactive_threshold=0.5
                    ).next(timeout=0)

        use_one()
        gc.collect()
        wait_until(lambda: len(members_of(nc)) == members, timeout=PATIENCE)
        wait_until(lambda: subscriptions(nc, server) <= 1, timeout=PATIENCE)
        threads = threading.active_count()
        for _ in range(scaled(200, 10_000)):
            use_one()
        gc.collect()
        wait_until(lambda: len(members_of(nc)) == members, timeout=PATIENCE)
        wait_until(lambda: subscriptions(nc, server) <= 1, timeout=PATIENCE)
        assert threading.active_count() <= threads


# -- interrupts ------------------------------------------------------------------------------------


class Interrupted(Exception):
    """Raised by the handler of the test's signal."""


def test_an_interrupted_stream_stays_usable_and_loses_nothing(js, stream):
    """Signals at any moment inside ``next``: the stream belongs to its thread afterwards too."""
    total = 400
    consumer = stream.create_consumer(durable_name="c", ack_policy="none")
    got: list[int] = []
    rounds = scaled(150, 3000)

    def interrupt(signum, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with consumer.messages() as messages:
            for n in range(rounds):
                if n < total:
                    js.publish(f"{stream.name}.a", b"%d " % n)
                with contextlib.suppress(Interrupted):
                    signal.setitimer(signal.ITIMER_REAL, 0.00002 + (n % 40) / 100_000)
                    for _ in range(20):
                        with contextlib.suppress(jetsync.TimeoutError):
                            got.append(number(messages.next(timeout=0)))
                    signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            due = min(total, rounds)
            until = time.monotonic() + PATIENCE
            while (not got or got[-1] < due - 1) and time.monotonic() < until:
                with contextlib.suppress(jetsync.TimeoutError):
                    got.append(number(messages.next(timeout=0.2)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert got == sorted(set(got))
    assert got[-1] == min(total, rounds) - 1
