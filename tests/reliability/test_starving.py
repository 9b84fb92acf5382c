"""Memory that fails while a real server delivers: nothing crashes, hangs or is lost in silence."""

from __future__ import annotations

import pytest

import jetsync
from jetsync.client.session import Session
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.starve import needs_glibc, starved
from tests.harness.waiting import wait_until

PATIENCE = 30.0


@needs_glibc
@pytest.mark.timeout(scaled(150, 1200))
def test_a_connection_outlives_a_failing_allocator(tmp_path, record_figure):
    with NatsServer() as server:
        often = server.url, str(scaled(20, 400)), str(scaled(41, 1))
        counts = starved("tests.reliability.starving", tmp_path, *often, limit=scaled(120, 1000))
    assert counts["in all threads"] > 0
    assert counts["in one thread"] > 10
    total = counts["in all threads"] + counts["in one thread"]
    record_figure("allocations refused over a link, and nothing lost", total)


def test_a_link_that_there_was_no_memory_for_is_made_anew(monkeypatch, server):
    """Not the whole connection ends because memory fails as a new link is taken over."""
    taken = Session._take_over
    failed = []

    def take_over(self, link):
        if not failed:
            failed.append(link)
            raise MemoryError
        taken(self, link)

    with Proxy(server.url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.02) as nc:
        sub = nc.subscribe("a")
        nc.flush(timeout=PATIENCE)
        monkeypatch.setattr(Session, "_take_over", take_over)
        proxy.cut()
        wait_until(lambda: bool(failed) and nc.is_connected)
        nc.publish("a", b"again")
        assert sub.next(timeout=PATIENCE).data == b"again"
