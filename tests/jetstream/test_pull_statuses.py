"""Every row of the table of pull statuses is provoked: its words come from a real nats-server.

One row cannot be: ``408 Interest Expired`` needs an import that was taken away; a scripted server
says it in ``test_pull_scripted.py``.
"""

from __future__ import annotations

import contextlib

import pytest

import jetsync
from jetsync.jetstream.pull.inbox import PullInbox
from jetsync.jetstream.pull.options import PullOptions
from jetsync.jetstream.pull.statuses import STATUSES, Fate, fate_of, pending_messages
from jetsync.server import NatsServer
from tests.harness.insides import api_of, connection_of
from tests.harness.waiting import wait_until

PATIENCE = 20.0


@contextlib.contextmanager
def engine_of(consumer):
    engine = PullInbox(consumer._shared)
    try:
        yield engine
    finally:
        engine.close()


def statuses(engine, *, until):
    """Every status that comes, up to the first one with this code."""
    found: list = []
    while not found or found[-1].status != until:
        msg = engine.mailbox.get(PATIENCE)
        assert msg is not None, f"no status {until}, only {[str(m.status) for m in found]}"
        if msg.status:
            found.append(msg)
    return found


def ask(engine, batch=1, expires=5.0, **options):
    engine.pull(PullOptions(batch=batch, expires=expires, **options))


def status_of(consumer, code, **options):
    with engine_of(consumer) as engine:
        ask(engine, **options)
        return statuses(engine, until=code)[-1]


def fill(js, stream, count=1, size=10):
    js.publish_many((f"{stream.name}.a", b"x" * size) for _ in range(count))


# -- one provocation for each row ----------------------------------------------------------------


def idle_heartbeat(js, stream):
    return status_of(stream.create_consumer(durable_name="c"), 100, heartbeat=0.2)


def bad_request(js, stream):
    return status_of(stream.create_consumer(durable_name="c"), 400, expires=1.0, heartbeat=0.9)


def no_messages(js, stream):
    return status_of(stream.create_consumer(durable_name="c"), 404, expires=0.0, no_wait=True)


def request_timeout(js, stream):
    return status_of(stream.create_consumer(durable_name="c"), 408, expires=0.1)


def requests_pending(js, stream):
    consumer = stream.create_consumer(durable_name="c", max_ack_pending=1)
    fill(js, stream, 2)
    consumer.next(timeout=PATIENCE)  # kept without an answer, so the second one has to wait
    with engine_of(consumer) as engine:
        ask(engine, batch=5, expires=30.0)
        wait_until(lambda: consumer.info().num_waiting == 1, timeout=PATIENCE)
        ask(engine, expires=0.0, no_wait=True)
        return statuses(engine, until=408)[-1]


def too_large(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    fill(js, stream, size=1000)
    return status_of(consumer, 409, max_bytes=10)


def batch_completed(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    fill(js, stream)
    return status_of(consumer, 409, max_bytes=10_000)


def consumer_deleted(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    with engine_of(consumer) as engine:
        ask(engine)
        wait_until(lambda: consumer.info().num_waiting == 1, timeout=PATIENCE)
        js.delete_consumer(stream.name, "c")
        return statuses(engine, until=409)[-1]


def push_based(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    js.delete_consumer(stream.name, "c")
    api_of(js).request(
        f"CONSUMER.CREATE.{stream.name}.c",
        {
            "stream_name": stream.name,
            "config": {
                "name": "c",
                "durable_name": "c",
                "deliver_subject": "nowhere.in.particular",
            },
        },
    )
    return status_of(consumer, 409)


def max_waiting(js, stream):
    consumer = stream.create_consumer(durable_name="c", max_waiting=1)
    with engine_of(consumer) as engine:
        ask(engine)
        ask(engine)
        return statuses(engine, until=409)[-1]


def limited_later(stream, **limit):
    """A consumer whose handle does not know its limit: it would keep to it."""
    consumer = stream.create_consumer(durable_name="c")
    stream.update_consumer(name="c", **limit)
    return consumer


def max_request_batch(js, stream):
    return status_of(limited_later(stream, max_batch=5), 409, batch=6)


def max_request_expires(js, stream):
    return status_of(limited_later(stream, max_expires=1.0), 409, expires=2.0)


def max_request_bytes(js, stream):
    return status_of(limited_later(stream, max_bytes=100), 409, max_bytes=200)


def api_level(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    with engine_of(consumer) as engine:
        connection_of(js).publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.c",
            b"",
            reply=f"{engine._prefix}1",
            headers={"Nats-Required-Api-Level": "99"},
        )
        return statuses(engine, until=412)[-1]


def pinned(stream, timeout=120.0):
    return stream.create_consumer(
        durable_name="c",
        ack_policy="explicit",
        priority_policy="pinned_client",
        priority_groups=["g"],
        priority_timeout=timeout,
    )


def pin_mismatch(js, stream):
    consumer = pinned(stream)
    fill(js, stream)
    consumer.next(timeout=PATIENCE, group="g")
    return status_of(consumer, 423, group="g", id="not-the-pinned-one")


def wrong_pin(js, stream):
    consumer = pinned(stream)
    fill(js, stream)
    msg = consumer.next(timeout=PATIENCE, group="g")
    with engine_of(consumer) as engine:
        ask(engine, expires=30.0, group="g", id=msg.headers["Nats-Pin-Id"])
        wait_until(lambda: consumer.info().num_waiting == 1, timeout=PATIENCE)
        api_of(js).request(f"CONSUMER.UNPIN.{stream.name}.c", {"group": "g"})
        with engine_of(consumer) as other:
            ask(other, expires=30.0, group="g")
            fill(js, stream)
            return statuses(engine, until=423)[-1]


def no_responders(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    js.delete_consumer(stream.name, "c")
    return status_of(consumer, 503)


PROVOCATIONS = {
    (100, ""): idle_heartbeat,
    (400, "bad request"): bad_request,
    (404, "no messages"): no_messages,
    (408, "request timeout"): request_timeout,
    (408, "requests pending"): requests_pending,
    (409, "message size exceeds maxbytes"): too_large,
    (409, "batch completed"): batch_completed,
    (409, "consumer deleted"): consumer_deleted,
    (409, "consumer is push based"): push_based,
    (409, "exceeded maxwaiting"): max_waiting,
    (409, "exceeded maxrequestbatch"): max_request_batch,
    (409, "exceeded maxrequestexpires"): max_request_expires,
    (409, "exceeded maxrequestmaxbytes"): max_request_bytes,
    (412, "required api level"): api_level,
    (423, "nats-pin-id mismatch"): pin_mismatch,
    (423, "nats-wrong-pin-id"): wrong_pin,
    (503, ""): no_responders,
}
ELSEWHERE = {
    (408, "interest expired"),  # test_pull_scripted.py
    (409, "leadership change"),
    (409, "server shutdown"),
    (404, ""),
    (408, ""),
    (423, ""),  # words of other versions
}


def row_of(msg):
    lowered = msg.description.lower()
    return next(
        (code, text)
        for code, text, _ in STATUSES
        if code == msg.status and lowered.startswith(text)
    )


@pytest.mark.parametrize("row", PROVOCATIONS, ids=str)
def test_the_server_says_what_the_row_says(js, stream, row):
    """protocol, section 3: each status on a delivery, with its words."""
    msg = PROVOCATIONS[row](js, stream)
    assert row_of(msg) == row
    assert msg.data == b""


def test_every_row_is_provoked_somewhere():
    rows = {(code, text) for code, text, _ in STATUSES}
    assert rows == set(PROVOCATIONS) | ELSEWHERE


def is_asked(consumer, engine):
    """Pull. The server that leads may not have heard of it: then it is to be done again."""
    ask(engine, expires=60.0)
    with contextlib.suppress(AssertionError):
        return wait_until(lambda: consumer.info().num_waiting >= 1, timeout=2)
    return False


def test_a_leader_that_steps_down_says_leadership_change(cluster):
    with jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=10)
        stream = js.create_stream(name="LEADING", subjects=["LEADING.>"], num_replicas=3)
        consumer = stream.create_consumer(durable_name="c")
        with engine_of(consumer) as engine:
            wait_until(lambda: is_asked(consumer, engine), timeout=PATIENCE)
            nc.request("$JS.API.CONSUMER.LEADER.STEPDOWN.LEADING.c", timeout=10)
            msg = statuses(engine, until=409)[-1]
        assert row_of(msg) == (409, "leadership change")
        assert pending_messages(msg) is None
        stream.delete()


def test_a_server_that_ends_in_order_says_server_shutdown():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="S", subjects=["S.>"])
        consumer = stream.create_consumer(durable_name="c")
        with engine_of(consumer) as engine:
            ask(engine, expires=60.0)
            wait_until(lambda: consumer.info().num_waiting == 1, timeout=PATIENCE)
            server.stop()
            found = [row_of(msg) for msg in statuses(engine, until=409)]
        nc.close()
        assert (409, "server shutdown") in found


def test_what_is_not_in_the_table_ends_the_pull_and_is_told():
    assert fate_of(418, "I'm a teapot") is Fate.WARN
    assert fate_of(409, "Something New") is Fate.WARN
    assert fate_of(404, "Nothing") is Fate.DONE
