"""What closing a pulled consumer costs, and what it waits for."""

from __future__ import annotations

import jetsync
from tests.harness.insides import left_open, waits_for_pong
from tests.harness.proxy import Proxy
from tests.jetstream.messages import fill, numbers

PATIENCE = 30.0


def test_closing_a_consumer_whose_pulls_were_served_awaits_no_answer(server, js, stream):
    """Nothing can be on its way to it: no PING is sent, and nothing waits for a PONG. The server
    is too far away to have answered one."""
    stream.create_consumer(durable_name="c")
    fill(js, stream, 3)
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url) as far:
        theirs = far.jetstream().consumer(stream.name, "c")
        assert numbers(theirs.fetch(3, timeout=PATIENCE)) == [0, 1, 2]
        assert left_open(far)["subscriptions"] == 1
        proxy.delay(1)
        theirs.close()
        assert left_open(far)["subscriptions"] == 0
        assert not waits_for_pong(far)
        proxy.delay(0)
