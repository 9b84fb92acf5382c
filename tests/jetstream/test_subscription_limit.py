"""A connection with as many subscriptions as it may have: what needs one more says so, and works
when there is room again."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.server import NatsServer

PATIENCE = 30.0
MOST = 10


@pytest.fixture(scope="module")
def server():
    with NatsServer(config={"max_subscriptions": MOST}) as one:
        with jetsync.connect(one.url) as nc:
            js = nc.jetstream()
            stream = js.create_stream(name="S", subjects=["s"], storage="memory")
            stream.create_consumer(durable_name="c", ack_policy="none", max_ack_pending=-1)
            js.create_key_value(bucket="B", storage="memory").put("k", b"v")
        yield one


CALLS = {
    "fetch": lambda js: len(js.consumer("S", "c").fetch(1, timeout=PATIENCE)),
    "messages": lambda js: js.consumer("S", "c").messages().next(timeout=PATIENCE),
    "pull_subscribe": lambda js: js.pull_subscribe(stream="S", consumer="c").fetch(1),
    "ordered": lambda js: js.ordered_consumer("S").next(timeout=PATIENCE),
    "push": lambda js: js.subscribe("s").next(timeout=PATIENCE),
    "ordered push": lambda js: js.subscribe("s", ordered=True).next(timeout=PATIENCE),
    "keys": lambda js: list(js.key_value("B").keys()),
    "watch": lambda js: js.key_value("B").watch().next(timeout=PATIENCE),
    "publish_async": lambda js: js.publish_async("s").result(PATIENCE),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_needs_a_subscription_is_refused_at_once_and_works_again(server, call):
    with jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=PATIENCE)
        js.publish("s", b"1")
        held = [nc.subscribe(f"held.{n}") for n in range(MOST - 1)]
        nc.flush(timeout=PATIENCE)
        with pytest.raises(jetsync.Error) as caught:
            CALLS[call](js)
        reasons = f"{caught.value!r} {caught.value.__cause__!r}"
        assert "maximum subscriptions exceeded" in reasons
        assert all(sub.is_active for sub in held)
        held.pop().unsubscribe()
        held.pop().unsubscribe()
        assert CALLS[call](js)


def test_a_consume_context_ends_with_the_reason(server):
    with jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=PATIENCE)
        consumer = js.consumer("S", "c")
        held = [nc.subscribe(f"held.{n}") for n in range(MOST - 1)]
        context = consumer.consume(lambda msg: None)
        assert context.wait(PATIENCE)
        assert all(sub.is_active for sub in held)
        assert isinstance(context.error, jetsync.ServerError)
