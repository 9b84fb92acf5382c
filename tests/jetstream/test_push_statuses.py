"""Push subscriptions and statuses: heartbeats, flow control, gaps, a consumer that goes away.

Statuses that a healthy server never sends are sent by a raw client to the deliver subject: the
server passes them on as they are.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import jetsync
from jetsync.errors import (
    ConsumerDeletedError,
    MessageGapError,
    MissedHeartbeatError,
    NotJetStreamMessageError,
    UnexpectedStatusError,
)
from tests.harness.insides import api_of
from tests.harness.proxy import Proxy
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, of_kind


@pytest.fixture
def raw(url):
    with RawClient(url) as client:
        client.handshake()
        yield client


def status(raw, subject, line, reply="", **headers):
    """Send a status as the server would, and wait until the server has it."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    block = f"NATS/1.0 {line}\r\n{lines}\r\n".encode()
    words = f"{subject} {reply}".rstrip()
    raw.send(f"HPUB {words} {len(block)} {len(block)}\r\n".encode() + block + b"\r\nPING\r\n")
    raw.read_until(b"PONG\r\n")


def first(errors, kind):
    return wait_until(lambda: of_kind(errors, kind), timeout=20)[0]


# -- statuses -------------------------------------------------------------------------------------


def test_heartbeats_are_never_handed_out(js, stream, subject, errors):
    with js.subscribe(subject, heartbeat=0.1) as sub:
        wait_until(lambda: sub._mailbox.received >= 3, timeout=20)
        fill(js, subject, 1)
        assert sub.next(timeout=5).data == b"0"
        with pytest.raises(jetsync.TimeoutError):
            sub.next(timeout=0.4)
    assert errors == []


def test_heartbeats_do_not_fill_the_mailbox_of_an_idle_subscription(js, stream, subject):
    """A limit of a few messages is for messages, also when none is taken for a long time."""
    with js.subscribe(subject, heartbeat=0.1, pending_messages_limit=4) as sub:
        wait_until(lambda: sub._mailbox.received >= 8, timeout=20)
        fill(js, subject, 4)
        assert [int(sub.next(timeout=5).data) for _ in range(4)] == [0, 1, 2, 3]
        assert sub.dropped == 0


@pytest.mark.parametrize(
    ("line", "code"),
    [("409 Consumer is strange", 409), ("503", 503), ("499 What", 499), ("100 Hello", 100)],
)
def test_other_statuses_go_to_on_error_and_never_to_the_user(
    js, stream, subject, errors, raw, line, code
):
    with js.subscribe(subject) as sub:
        status(raw, sub.subject, line)
        fill(js, subject, 1)
        assert sub.next(timeout=5).data == b"0"
        error = first(errors, UnexpectedStatusError)
        assert error.status == code
        assert line in str(error)


def test_manual_status_hands_every_status_over_and_answers_none(js, nc, stream, subject, raw):
    with js.subscribe(subject, flow_control=True, heartbeat=0.1, manual_status=True) as sub:
        assert sub.next(timeout=5).status == 100
        answers = nc.subscribe("answers")
        status(raw, sub.subject, "100 FlowControl Request", reply="answers")
        got = wait_until(
            lambda: (msg := sub.next(timeout=5)).reply == "answers" and msg, timeout=20
        )
        assert (got.status, got.description) == (100, "FlowControl Request")
        with pytest.raises(jetsync.TimeoutError):
            answers.next(timeout=0.3)
        got.respond(b"")
        assert answers.next(timeout=5).data == b""


def test_what_is_no_delivery_is_an_error_and_not_handed_out(js, nc, stream, subject, errors):
    with js.subscribe(subject) as sub:
        nc.publish(sub.subject, b"stray")
        fill(js, subject, 1)
        assert sub.next(timeout=5).data == b"0"
        first(errors, NotJetStreamMessageError)


@pytest.mark.parametrize("manual_ack", [True, False])
def test_a_callback_goes_on_after_what_any_publisher_sent(
    js, nc, stream, subject, errors, manual_ack
):
    """With a queue group a stray message comes to the callback; it fails, the next one comes."""
    seen = []

    def handle(msg):
        seen.append(msg.data)
        if manual_ack:
            raise ValueError("not expected")

    with js.subscribe(
        subject, queue="q", durable="q", callback=handle, manual_ack=manual_ack
    ) as sub:
        nc.publish(sub.subject, b"stray")
        wait_until(lambda: seen == [b"stray"], timeout=20)
        js.publish(subject, b"real")
        wait_until(lambda: b"real" in seen, timeout=20)
        first(errors, ValueError if manual_ack else NotJetStreamMessageError)


# -- flow control ---------------------------------------------------------------------------------


def question(sub, number=1):
    """A subject on which the server may ask whether the subscription keeps up."""
    return f"$JS.FC.{sub.stream_name}.{sub.name}.{number}"


def test_flow_control_is_answered_when_the_message_before_it_was_handed_out(
    js, nc, stream, subject, raw
):
    answers = nc.subscribe("$JS.FC.>")
    with js.subscribe(subject, flow_control=True, heartbeat=30) as sub:
        fill(js, subject, 2)
        wait_until(lambda: sub.pending_messages == 2, timeout=20)
        status(raw, sub.subject, "100 FlowControl Request", reply=question(sub))
        wait_until(lambda: sub.pending_messages == 3, timeout=20)
        assert sub.next(timeout=5).data == b"0"
        nc.flush()
        assert answers.pending_messages == 0
        assert sub.next(timeout=5).data == b"1"
        with pytest.raises(jetsync.TimeoutError):
            sub.next(timeout=0.05)
        assert answers.next(timeout=5).data == b""


def test_with_a_callback_it_is_answered_after_the_callback_returned(js, nc, stream, subject, raw):
    answers = nc.subscribe("$JS.FC.>")
    gate, entered = threading.Event(), threading.Event()

    def callback(msg):
        entered.set()
        gate.wait(20)

    with js.subscribe(subject, flow_control=True, heartbeat=0.1, callback=callback) as sub:
        fill(js, subject, 1)
        assert entered.wait(20)
        status(raw, sub.subject, "100 FlowControl Request", reply=question(sub))
        wait_until(lambda: sub._mailbox.received >= 4, timeout=20)
        nc.flush()
        assert answers.pending_messages == 0
        gate.set()
        assert answers.next(timeout=5).data == b""


def test_the_next_message_comes_in_the_same_call(js, nc, stream, subject, raw):
    answers = nc.subscribe("$JS.FC.>")
    with js.subscribe(subject, flow_control=True, heartbeat=30) as sub:
        status(raw, sub.subject, "100 FlowControl Request", reply=question(sub))
        fill(js, subject, 1)
        assert sub.next(timeout=5).data == b"0"
        assert answers.next(timeout=5).data == b""


def test_a_stalled_heartbeat_is_answered_once(js, nc, stream, subject, raw):
    answers = nc.subscribe("$JS.FC.>")
    with js.subscribe(subject, flow_control=True, heartbeat=30) as sub:
        for _ in range(3):
            status(raw, sub.subject, "100 Idle Heartbeat", Nats_Consumer_Stalled=question(sub))
        status(raw, sub.subject, "100 FlowControl Request", reply=question(sub))
        status(raw, sub.subject, "100 FlowControl Request", reply=question(sub, 2))
        with pytest.raises(jetsync.TimeoutError):
            sub.next(timeout=0.2)
        assert [answers.next(timeout=5).subject for _ in range(2)] == [
            question(sub),
            question(sub, 2),
        ]
        nc.flush()
        assert answers.pending_messages == 0


@pytest.mark.parametrize("flow_control", [True, False])
def test_a_forged_question_gets_no_answer(js, nc, stream, subject, raw, flow_control):
    """The answer is published with the rights of the subscriber: only for the server's own."""
    answers = nc.subscribe("victim")
    questions = nc.subscribe("$JS.FC.>")
    with js.subscribe(subject, flow_control=flow_control, heartbeat=30) as sub:
        status(raw, sub.subject, "100 FlowControl Request", reply="victim")
        status(raw, sub.subject, "100 Idle Heartbeat", Nats_Consumer_Stalled="victim")
        status(raw, sub.subject, "100 FlowControl Request", reply=question(sub))
        fill(js, subject, 1)
        assert sub.next(timeout=20).data == b"0"
        nc.flush()
        assert answers.pending_messages == 0
        assert questions.pending_messages == (1 if flow_control else 0)


def test_flow_control_lets_everything_through_and_nothing_is_dropped(js, stream, subject):
    """More than the server's window, with messages of 8 KiB."""
    js.publish_many((subject, b"%08d" % n + b"x" * 8184) for n in range(2000))
    largest = 0
    with js.subscribe(subject, flow_control=True, ack_policy="none", heartbeat=1) as sub:
        for n in range(2000):
            assert int(sub.next(timeout=20).data[:8]) == n
            largest = max(largest, sub.pending_bytes)
        assert sub.dropped == 0
    assert 0 < largest < 40 * 2**20


# -- gaps -----------------------------------------------------------------------------------------


def test_a_heartbeat_that_counts_more_deliveries_tells_of_a_gap(js, stream, subject, errors, raw):
    with js.subscribe(subject, ack_policy="none") as sub:
        fill(js, subject, 2)
        wait_until(lambda: sub.pending_messages == 2, timeout=20)
        status(raw, sub.subject, "100 Idle Heartbeat", Nats_Last_Consumer=5, Nats_Last_Stream=5)
        assert [int(sub.next(timeout=5).data) for _ in range(2)] == [0, 1]
        with pytest.raises(jetsync.TimeoutError):
            sub.next(timeout=0.1)
        error = first(errors, MessageGapError)
        assert (error.expected, error.received) == (3, 6)
        assert "3 message(s)" in str(error)
        assert "lost" in str(error)


def test_dropped_messages_are_a_gap(js, stream, subject, errors):
    """Without acks and flow control nothing keeps the server back: the loss is told, exactly."""
    with js.subscribe(subject, ack_policy="none", pending_messages_limit=10) as sub:
        fill(js, subject, 30)
        wait_until(lambda: sub._mailbox.received == 30, timeout=20)
        assert [int(sub.next(timeout=5).data) for _ in range(10)] == list(range(10))
        fill(js, subject, 1, start=30)
        assert int(sub.next(timeout=5).data) == 30
        error = first(errors, MessageGapError)
        assert (error.expected, error.received) == (11, 31)
        assert sub.dropped == 20


def test_a_redelivery_is_no_gap(js, stream, subject, errors):
    fill(js, subject, 3)
    with js.subscribe(subject) as sub:
        sub.next(timeout=5).nak()
        got = [int(sub.next(timeout=5).data) for _ in range(3)]
        assert sorted(got) == [0, 1, 2]
    assert errors == []


def test_a_reset_consumer_counts_anew_without_a_gap(js, stream, subject, errors):
    fill(js, subject, 3)
    with js.subscribe(subject) as sub:
        for _ in range(3):
            sub.next(timeout=5).ack_sync(timeout=5)
        api_of(js).request(f"CONSUMER.RESET.{stream.name}.{sub.name}", {"seq": 1})
        fill(js, subject, 1, start=3)
        wait_until(lambda: sub.next(timeout=5).data == b"3", timeout=20)
    assert errors == []


def test_gaps_are_not_looked_for_in_a_queue(js, stream, subject, errors):
    """Each member sees only its part of the numbers."""
    with js.subscribe(subject, queue="q") as one, js.subscribe(subject, queue="q") as two:
        fill(js, subject, 60)
        wait_until(lambda: one.pending_messages + two.pending_messages == 60, timeout=20)
        for sub in (one, two):
            while sub.pending_messages:
                sub.next(timeout=5).ack()
    assert errors == []


# -- heartbeats that stay away --------------------------------------------------------------------


def test_silence_of_three_intervals_raises_the_alarm_once(url, js, stream, subject):
    """A network that swallows everything: the link looks alive, but nothing comes."""
    errors = []
    with (
        Proxy(url) as proxy,
        jetsync.connect(proxy.url, on_error=lambda e: errors.append(e.error)) as nc,
    ):
        sub = nc.jetstream().subscribe(subject, heartbeat=0.2)
        wait_until(lambda: sub._mailbox.received >= 2, timeout=20)
        assert errors == []
        proxy.blackhole()
        silent_since = sub._mailbox.last_put
        error = first(errors, MissedHeartbeatError)
        assert error.seconds == pytest.approx(0.6)
        assert time.monotonic() - silent_since >= 0.6
        proxy.heal()
        fill(js, subject, 1)
        assert sub.next(timeout=20).data == b"0"
        assert len(of_kind(errors, MissedHeartbeatError)) == 1


def test_the_time_until_the_alarm_can_be_chosen(url, js, stream, subject):
    errors = []
    with (
        Proxy(url) as proxy,
        jetsync.connect(proxy.url, on_error=lambda e: errors.append(e.error)) as nc,
    ):
        sub = nc.jetstream().subscribe(subject, heartbeat=0.1, heartbeat_alarm=1.5)
        proxy.blackhole()
        silent_since = sub._mailbox.last_put
        assert first(errors, MissedHeartbeatError).seconds == 1.5
        assert time.monotonic() - silent_since >= 1.5
        proxy.heal()


def test_no_alarm_while_there_is_no_link_or_the_user_is_slow(fresh_server):
    errors = []
    with jetsync.connect(fresh_server.url, on_error=lambda e: errors.append(e.error)) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"])
        sub = js.subscribe("s", durable="d", heartbeat=0.1)
        fill(js, "s", 1)
        wait_until(lambda: sub._mailbox.received >= 10, timeout=20, message="heartbeats")
        fresh_server.kill()
        silent_since = sub._mailbox.last_put
        wait_until(lambda: time.monotonic() - silent_since > 1, timeout=20)
        fresh_server.start()
        assert sub.next(timeout=20).data == b"0"
        wait_until(lambda: nc.is_connected, timeout=20)
    assert not of_kind(errors, MissedHeartbeatError)


# -- a consumer that goes away --------------------------------------------------------------------


@pytest.mark.parametrize("callback", [False, True])
def test_a_deleted_consumer_ends_the_subscription_after_the_alarm(
    js, stream, subject, errors, callback
):
    got: list[Any] = []
    extra = {"callback": got.append} if callback else {}
    sub = js.subscribe(subject, heartbeat=0.1, **extra)
    js.delete_consumer(stream.name, sub.name)
    if callback:
        first(errors, ConsumerDeletedError)
    else:
        with pytest.raises(ConsumerDeletedError):
            sub.next(timeout=20)
    assert not sub.is_active
    sub.unsubscribe()


def test_an_ephemeral_that_did_not_outlive_a_long_disconnect_is_told(fresh_server):
    """Without heartbeats too: after every reconnect it is looked for."""
    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"], storage="file")
        sub = js.subscribe("s", mem_storage=True)
        fresh_server.kill()
        fresh_server.start()
        with pytest.raises(ConsumerDeletedError):
            sub.next(timeout=20)
