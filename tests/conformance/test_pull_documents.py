"""The documents about pulling, sentence by sentence.

``pull-subscribe-internals`` (PSI) and ``simplified-jetstream-api`` (ADR-37), as a current server
means them (``protocol`` sections 3, 5.10, 5.11 and 6). Each test names its section.
"""

from __future__ import annotations

import json
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

PATIENCE = 30.0


@pytest.fixture(scope="module")
def server():
    with NatsServer() as one:
        yield one


@pytest.fixture
def nc(server):
    with jetsync.connect(server.url) as connection:
        yield connection


@pytest.fixture
def js(nc):
    return nc.jetstream()


@pytest.fixture
def stream(js):
    made = js.create_or_update_stream(name="BAR", subjects=["bar.>"], storage="memory")
    made.purge()
    yield made
    for name in list(js.consumer_names("BAR")):
        js.delete_consumer("BAR", name)


@pytest.fixture
def consumer(stream):
    return stream.create_consumer(durable_name="dur")


@pytest.fixture
def asked(server, nc, consumer):
    """Every request body that reaches CONSUMER.MSG.NEXT, as the server gets it."""
    with jetsync.connect(server.url) as other:
        sub = other.subscribe("$JS.API.CONSUMER.MSG.NEXT.BAR.dur")
        other.flush()

        def bodies():
            nc.flush()  # what was asked for is at the server now
            other.flush()
            return [sub.next(timeout=5) for _ in range(sub.pending_messages)]

        yield bodies


def publish(js, *payloads):
    js.publish_many(("bar.a", payload) for payload in payloads)


def test_psi_context_the_subject_is_the_one_of_the_stored_message(js, consumer):
    """PSI, Pull(n) Requests: "when the message got delivered the subject was rewritten into bar
    which is the subject of the message that is persisted in JetStream"."""
    publish(js, b"helo")
    msg = consumer.next(timeout=5)
    assert (msg.subject, msg.data) == ("bar.a", b"helo")
    assert msg.reply is not None
    assert msg.reply.startswith("$JS.ACK.BAR.dur.1.1.1.")


def test_psi_request_body_batch_no_wait_and_expires_in_nanoseconds(consumer, asked):
    """PSI, Request Body: batch, no_wait, expires ("the number of nanoseconds, from now")."""
    consumer.fetch(5, timeout=0.5)
    consumer.fetch_no_wait(7)
    # A fetch asks again where the server ended the first pull and there is time left.
    *timed, at_once = (json.loads(msg.data) for msg in asked())
    for body in timed:
        assert body["batch"] == 5
        assert 0 < body["expires"] < 0.5e9
        assert "no_wait" not in body
    assert at_once == {"batch": 7, "no_wait": True}


@pytest.mark.timed
def test_psi_request_body_expires_before_the_client_gives_up(consumer, asked):
    """PSI, Pull(n): "expires is set to cancel the request ... before the client side timeout"."""
    start = time.monotonic()
    consumer.fetch(1, timeout=1)
    assert time.monotonic() - start < 1.25
    assert json.loads(asked()[0].data)["expires"] < 1e9


@pytest.mark.timed
def test_psi_no_wait_answers_at_once(consumer):
    """PSI, No Wait Pull Requests: "a guaranteed instant response from the server"."""
    start = time.monotonic()
    assert len(consumer.fetch_no_wait(10)) == 0
    assert time.monotonic() - start < 2


def test_psi_design_a_partial_batch_is_returned(js, consumer):
    """PSI, Pull(n): "the result of a batch request will be at least one message being delivered";
    what is missing at the end of the time is not waited for any longer."""
    publish(js, b"1", b"2")
    assert [msg.data for msg in consumer.fetch(5, timeout=0.5)] == [b"1", b"2"]


def test_psi_design_interest_is_removed_with_the_request(consumer):
    """PSI, Pull(n): "it is recommended to unsubscribe to remove the interest of the awaited
    messages from the server"."""
    with pytest.raises(jetsync.TimeoutError):
        consumer.next(timeout=0.3)
    wait_until(lambda: consumer.info().num_waiting == 0, timeout=PATIENCE)


def test_psi_errors_a_status_is_never_a_message(js, consumer):
    """PSI, Errors and Status messages handling: "it is recommended that the error is not returned
    to the user as a processable message"; but a publisher's own status line is one."""
    publish(js, b"1")
    batch = consumer.fetch(5, timeout=0.3)
    assert [(msg.data, msg.status) for msg in batch] == [(b"1", 0)]


def test_psi_optimization_one_wildcard_subscription_for_all_fetches(consumer, asked, nc):
    """PSI, Pull Optimization: "a new style like request/response handler using a wildcard
    subscription", one for each pull subscriber."""
    for _ in range(3):
        consumer.fetch_no_wait(1)
    replies = [msg.reply for msg in asked()]
    assert len(set(replies)) == 3
    assert len({reply.rpartition(".")[0] for reply in replies}) == 1


def test_adr37_fetch_needs_one_of_its_bounds(consumer):
    """ADR-37, Fetch, Options: "while batch and max_bytes are described as optional at least one of
    them is required"."""
    with pytest.raises(jetsync.ConfigError):
        consumer.fetch()


def test_adr37_fetch_max_bytes_takes_precedence(js, consumer):
    """ADR-37, Fetch, Options: with both, "max_bytes will take precedence"."""
    publish(js, *[b"x" * 1000] * 10)
    assert 1 <= len(consumer.fetch(10, max_bytes=3500, timeout=0.5)) <= 3


def test_adr37_fetch_yields_nothing_when_no_message_fits(js, consumer):
    """ADR-37, Fetch, Options: "if all messages exceed the specified max_bytes no message will be
    yielded by the server"."""
    publish(js, b"x" * 1000)
    start = time.monotonic()
    assert len(consumer.fetch(10, max_bytes=100, timeout=10)) == 0
    assert time.monotonic() - start < 5


def test_adr37_fetch_heartbeats_are_asked_for(consumer, asked):
    """ADR-37, Fetch, Options: idle_heartbeat; by default only in long fetches (rev 3)."""
    consumer.fetch(1, timeout=1.5, heartbeat=0.5)
    consumer.fetch(1, timeout=0.3)
    bodies = [json.loads(msg.data) for msg in asked()]  # the first fetch may pull twice
    assert bodies[0]["idle_heartbeat"] == 0.5e9
    assert "idle_heartbeat" not in bodies[-1]


def test_adr37_consume_defaults(consumer, asked):
    """ADR-37, Defaults and constraints, rev 3: expires 30 s, heartbeats of at most half of it."""
    with consumer.messages() as messages, pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.2)
    (msg,) = asked()
    body = json.loads(msg.data)
    assert 29.75e9 < body["expires"] <= 30e9  # it ends with those of other consumers
    assert 0.5e9 <= body["idle_heartbeat"] <= 15e9
    assert 100 <= body["batch"] <= 1000
    assert "max_bytes" not in body


def test_adr37_consume_heartbeats_of_half_of_expires_are_asked_for(consumer, asked):
    """ADR-37: the heartbeat is at most half of ``expires``, and that much is allowed."""
    for options in ({"expires": 30, "heartbeat": 15}, {"expires": 12.3, "heartbeat": 6.15}):
        with consumer.messages(**options) as messages, pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.05)
    first, second = (json.loads(msg.data) for msg in asked())
    assert 14.8e9 < first["idle_heartbeat"] <= first["expires"] / 2
    assert (second["expires"], second["idle_heartbeat"]) == (12.3e9, 6.15e9)


def test_adr37_consume_bounds_exclude_each_other(consumer):
    """ADR-37, Max messages and max bytes options: "User cannot set both constraint for a single
    Consume() execution"; "The value of threshold cannot be higher than the constraint's"."""
    for options in (
        {"max_messages": 10, "max_bytes": 1000},
        {"max_messages": 10, "threshold_messages": 11},
        {"max_bytes": 10, "threshold_bytes": 11},
    ):
        with pytest.raises(jetsync.ConfigError):
            consumer.messages(**options)


def test_adr37_consume_in_bytes_asks_for_a_huge_batch(consumer, asked):
    """ADR-37 rev 3 (protocol 5.10, 6): "Bytes mode: send a huge batch (1 000 000)"."""
    with consumer.messages(max_bytes=5_000) as messages, pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.2)
    body = json.loads(asked()[0].data)
    assert (body["batch"], body["max_bytes"]) == (1_000_000, 5_000)


def test_adr37_consume_refills_the_buffer_at_the_threshold(js, consumer, asked):
    """ADR-37, Buffering messages, rev 3: a pull fills the buffer when the threshold is reached."""
    publish(js, *[b"x"] * 12)
    with consumer.messages(max_messages=10, threshold_messages=4) as messages:
        for _ in range(5):
            messages.next(timeout=PATIENCE)
        assert [json.loads(msg.data)["batch"] for msg in asked()] == [10]
        messages.next(timeout=PATIENCE)
        assert [json.loads(msg.data)["batch"] for msg in asked()] == [6]


def test_adr37_consume_one_subscription_and_a_reply_for_each_pull(js, consumer, asked):
    """ADR-37, NATS subscription: "a single subscription to handle responses for all pull
    requests"; protocol 5.11: a token for each pull below it."""
    publish(js, *[b"x"] * 20)
    with consumer.messages(max_messages=4, stop_after=20) as messages:
        assert len(list(messages)) == 20
    replies = [msg.reply for msg in asked()]
    assert len(set(replies)) == len(replies) > 1
    assert len({reply.rpartition(".")[0] for reply in replies}) == 1


def test_adr37_consume_ends_only_for_two_statuses(js, consumer):
    """ADR-37 rev 3 (protocol 5.10, 8): 409 Consumer Deleted ends it, refusals are warnings."""
    js.update_consumer("BAR", durable_name="dur", max_batch=5)
    warnings: list[Exception] = []
    with consumer.messages(max_messages=10, on_warning=warnings.append) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.5)
        assert "MaxRequestBatch" in str(warnings[0])
        js.delete_consumer("BAR", "dur")
        with pytest.raises(jetsync.ConsumerDeletedError):
            messages.next(timeout=PATIENCE)


def test_adr37_consume_reconnect_publishes_a_new_pull(nc, js, consumer, asked):
    """ADR-37, Server reconnects: "Publish a new pull request"; rev 3: no lookup, it never ends."""
    with consumer.messages() as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.2)
        nc.force_reconnect()
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=PATIENCE)
        publish(js, b"x")
        assert messages.next(timeout=PATIENCE).data == b"x"
    assert len(asked()) == 2


def test_adr37_operations_info_and_delete(js, consumer):
    """ADR-37, Operations: fetch, consume, info, delete."""
    assert consumer.info().name == "dur"
    consumer.delete()
    with pytest.raises(jetsync.ConsumerNotFoundError):
        js.consumer("BAR", "dur")
