"""The subscribe workflow, second half: whose consumer ends with the subscription, and when."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import jetsync
from tests.harness.insides import left_open, waits_for_pong
from tests.harness.proxy import Proxy
from tests.harness.tap import Tap
from tests.harness.waiting import wait_until


@pytest.fixture
def errors():
    return []


@pytest.fixture
def nc(url, errors):
    with jetsync.connect(url, on_error=lambda event: errors.append(event.error)) as connection:
        yield connection


def push(js, subject, **arguments):
    return js.subscribe(subject, **arguments)


def pull(js, subject, **arguments):
    return js.pull_subscribe(subject, **arguments)


def unsubscribe(sub):
    sub.unsubscribe()


def drain(sub):
    sub.drain(timeout=10)


def leave(sub):
    with sub:
        pass


ways = pytest.mark.parametrize("end", [unsubscribe, drain, leave])
kinds = pytest.mark.parametrize("kind", [push, pull])


@ways
@kinds
@pytest.mark.parametrize("names", [{}, {"durable": "d"}])
def test_the_consumer_it_made_ends_with_it(js, stream, subject, kind, end, names):
    sub = kind(js, subject, **names)
    assert sub.created_consumer
    end(sub)
    assert list(js.consumer_names(stream.name)) == []
    assert not sub.is_active


@ways
@kinds
def test_a_consumer_that_was_there_stays(js, stream, subject, kind, end):
    fields = {"deliver_subject": "x"} if kind is push else {}
    stream.create_consumer(durable_name="c", **fields)
    for names in ({"consumer": "c"}, {"durable": "c"}):
        end(kind(js, subject, **names))
        assert list(js.consumer_names(stream.name)) == ["c"]


@ways
@pytest.mark.parametrize("names", [{}, {"durable": "d"}])
def test_what_a_queue_may_share_is_never_deleted_implicitly(js, stream, subject, end, names):
    first = js.subscribe(subject, queue="q", **names)
    second = js.subscribe(subject, queue="q", **names)
    assert first.created_consumer
    end(first)
    js.publish(subject, b"one")
    assert second.next(timeout=5).data == b"one"
    end(second)
    assert len(list(js.consumer_names(stream.name))) == 1


@ways
@kinds
def test_delete_consumer_false_keeps_what_it_made(js, stream, subject, kind, end):
    end(kind(js, subject, durable="d", delete_consumer=False))
    assert list(js.consumer_names(stream.name)) == ["d"]


@ways
@kinds
def test_delete_consumer_true_deletes_what_it_found(js, stream, subject, kind, end):
    fields = {"deliver_subject": "x"} if kind is push else {}
    stream.create_consumer(durable_name="c", **fields)
    end(kind(js, subject, consumer="c", delete_consumer=True))
    assert list(js.consumer_names(stream.name)) == []


def test_delete_consumer_true_deletes_a_group_consumer(js, stream, subject):
    js.subscribe(subject, queue="q", delete_consumer=True).unsubscribe()
    assert list(js.consumer_names(stream.name)) == []


@kinds
def test_ending_twice_or_after_another_client_deleted_it_is_no_error(js, stream, subject, kind):
    sub = kind(js, subject, durable="d")
    js.delete_consumer(stream.name, "d")
    sub.unsubscribe()
    sub.unsubscribe()
    sub.drain(timeout=10)


def test_closing_the_connection_deletes_nothing(url, js, stream, subject):
    other = jetsync.connect(url)
    other.jetstream().subscribe(subject, durable="d")
    other.close()
    assert list(js.consumer_names(stream.name)) == ["d"]


@pytest.mark.parametrize("callback", [None, lambda msg: None])
def test_draining_the_connection_deletes_what_its_subscriptions_made(
    url, js, stream, subject, callback
):
    with jetsync.connect(url) as other:
        # A subscription that is dropped is no longer one of the connection's.
        pushed = other.jetstream().subscribe(subject, durable="d", callback=callback)
        queued = other.jetstream().subscribe(subject, queue="q")
        pulling = other.jetstream().pull_subscribe(subject, durable="p")
        left = other.jetstream().pull_subscribe(subject, durable="left", delete_consumer=False)
        other.jetstream().pull_subscribe(subject, durable="gone").unsubscribe()
    assert sorted(js.consumer_names(stream.name)) == ["left", "q"]
    assert not any(sub.is_active for sub in (pushed, queued, pulling, left))
    with pytest.raises(jetsync.ConnectionClosedError):
        pulling.fetch(1)


def test_draining_deletes_also_where_the_callback_is_done_at_once(
    url, js, stream, subject, monkeypatch
):
    """The callback may have had its last message before the drain comes to this subscription."""
    with jetsync.connect(url) as other:
        sub = other.jetstream().subscribe(subject, durable="d", callback=lambda msg: None)
        close_all = type(other._routes).close_all

        def close_and_wait(routes, stopped):
            close_all(routes, stopped)
            assert sub._dispatched is not None
            assert sub._dispatched.wait(20)

        monkeypatch.setattr(type(other._routes), "close_all", close_and_wait)
    assert list(js.consumer_names(stream.name)) == []


def test_drain_deletes_only_after_the_callback_had_everything(js, stream, subject):
    """While messages wait for the callback the consumer must exist, or their acks are lost."""
    gate, seen, existed = threading.Event(), [], []

    def slow(msg):
        gate.wait(20)
        seen.append(int(msg.data))
        existed.append(list(js.consumer_names(stream.name)))

    sub = js.subscribe(subject, durable="d", callback=slow)
    for n in range(10):
        js.publish(subject, b"%d" % n)
    wait_until(lambda: sub.pending_messages == 9, timeout=20)
    drainer = threading.Thread(target=lambda: sub.drain(timeout=30))
    drainer.start()
    gate.set()
    drainer.join(40)
    assert not drainer.is_alive()
    assert seen == list(range(10))
    assert existed == [["d"]] * 10
    assert list(js.consumer_names(stream.name)) == []


def test_drain_waits_for_the_thread_that_takes_the_messages_and_needs_no_end_of_heartbeats(
    js, stream, subject
):
    sub = js.subscribe(subject, heartbeat=0.1)
    for n in range(5):
        js.publish(subject, b"%d" % n)
    wait_until(lambda: sub.pending_messages > 5, timeout=20, message="no heartbeat behind them")
    drainer = threading.Thread(target=lambda: sub.drain(timeout=30))
    drainer.start()
    wait_until(lambda: not sub.is_active, timeout=20)
    assert [int(msg.data) for msg in sub] == list(range(5))
    drainer.join(40)
    assert list(js.consumer_names(stream.name)) == []


@pytest.mark.parametrize("breaks", ["before", "within"])
def test_drain_survives_a_broken_link(url, js, stream, subject, breaks):
    """What came over the link is handed out, and the consumer deleted over the next one."""
    for n in range(5):
        js.publish(subject, b"%d" % n)
    with Proxy(url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.01) as nc:
        gate = threading.Event()
        seen: list[int] = []
        problems: list[Exception] = []

        def slow(msg):
            gate.wait(20)
            seen.append(int(msg.data))

        def run():
            try:
                sub.drain(timeout=60)
            except Exception as error:
                problems.append(error)

        sub = nc.jetstream().subscribe(subject, durable="d", callback=slow)
        wait_until(lambda: sub.pending_messages == 4, timeout=20)
        proxy.blackhole()
        drainer = threading.Thread(target=run)
        if breaks == "within":
            drainer.start()
            wait_until(lambda: waits_for_pong(nc), timeout=20)  # its flush waits
            proxy.cut()
        else:
            proxy.cut()
            wait_until(lambda: not nc.is_connected, timeout=20)
            drainer.start()
        wait_until(lambda: not sub.is_active, timeout=20)
        proxy.heal()
        gate.set()
        drainer.join(60)
        assert not drainer.is_alive()
        assert problems == []
        assert seen == list(range(5))
        assert list(js.consumer_names(stream.name)) == []


def test_drain_that_runs_out_of_time_says_so_and_deletes_nothing(js, stream, subject):
    sub = js.subscribe(subject, durable="d")
    js.publish(subject, b"one")
    wait_until(lambda: sub.pending_messages, timeout=20)
    with pytest.raises(jetsync.TimeoutError):
        sub.drain(timeout=0.3)
    assert list(js.consumer_names(stream.name)) == ["d"]
    assert sub.next(timeout=1).data == b"one"
    with pytest.raises(jetsync.ConnectionClosedError):
        sub.next(timeout=1)


def test_a_callback_may_drain_its_own_subscription(js, stream, subject):
    subs: list[Any] = []
    seen: list[bytes] = []

    def once(msg):
        seen.append(msg.data)
        if len(seen) == 1:
            subs[0].drain(timeout=10)

    for n in range(5):
        js.publish(subject, b"%d" % n)
    made = threading.Event()

    def callback(msg):
        made.wait(20)
        once(msg)

    subs.append(js.subscribe(subject, durable="d", callback=callback))
    made.set()
    wait_until(lambda: list(js.consumer_names(stream.name)) == [], timeout=20)
    assert seen[0] == b"0"


NO_LEADER = b'{"error": {"code": 503, "err_code": 10008, "description": "no leader"}}'


@pytest.fixture
def refusing(server, errors):
    """A JetStream whose server, from the call of what this also gives on, refuses deletions."""
    replies: set[bytes] = set()

    def to_server(frame):
        if b".CONSUMER.DELETE." in frame.subject:
            replies.add(frame.reply)
        return frame.raw

    def to_client(frame):
        return frame.with_body(NO_LEADER).raw if frame.subject in replies else frame.raw

    def refuse():
        tap.to_server, tap.to_client = to_server, to_client

    with (
        Tap(server.url) as tap,
        jetsync.connect(tap.url, on_error=lambda event: errors.append(event.error)) as nc,
    ):
        yield nc.jetstream(), refuse


@pytest.mark.parametrize("end", [unsubscribe, drain])
def test_a_refused_deletion_is_raised_and_drain_tells_on_error_too(
    refusing, stream, subject, errors, end
):
    js, refuse = refusing
    sub = js.subscribe(subject, durable="d")
    refuse()
    with pytest.raises(jetsync.JetStreamUnavailableError) as caught:
        end(sub)
    if end is drain:
        wait_until(lambda: caught.value in errors, timeout=20)


def test_unsubscribe_after_a_number_counts_messages_and_not_statuses(js, stream, subject):
    sub = js.subscribe(subject, heartbeat=0.1)
    sub.unsubscribe(max_messages=3)
    assert sub.is_active
    wait_until(lambda: sub._mailbox.received >= 3, timeout=20, message="no heartbeats")
    for n in range(5):
        js.publish(subject, b"%d" % n)
    assert [int(msg.data) for msg in sub] == [0, 1, 2]
    assert sub.delivered == 3
    wait_until(lambda: list(js.consumer_names(stream.name)) == [], timeout=20)


def test_after_a_number_the_rest_goes_back_to_a_consumer_that_stays(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="x", ack_wait=120)
    for n in range(6):
        js.publish(subject, b"%d" % n)
    first = js.subscribe(subject, consumer="c")
    wait_until(lambda: first.pending_messages == 6, timeout=20)
    first.unsubscribe(max_messages=2)
    for msg in first:
        msg.ack()
    with js.subscribe(subject, consumer="c") as second:
        assert sorted(int(second.next(timeout=10).data) for _ in range(4)) == [2, 3, 4, 5]


def test_a_failed_subscribe_leaves_nothing_behind(url, nc, js, stream, subject):
    with pytest.raises(jetsync.APIError):
        js.subscribe(subject, durable="d", num_replicas=3)
    assert left_open(nc)["subscriptions"] == 0
    assert list(js.consumer_names(stream.name)) == []


def test_with_an_exception_in_the_block_that_exception_counts(refusing, stream, subject):
    js, refuse = refusing
    with pytest.raises(KeyError), js.subscribe(subject):
        refuse()
        raise KeyError("mine")


def test_a_deletion_that_no_server_answers_is_raised_in_time(fresh_server):
    """As in the document: the error of the deletion is the result of unsubscribe."""
    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"], storage="memory")
        sub = js.subscribe("s", durable="d")
        fresh_server.pause()
        with pytest.raises(jetsync.TimeoutError):
            sub.unsubscribe(timeout=0.3)
        fresh_server.resume()
