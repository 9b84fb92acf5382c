"""The wire that tests rewrite passes on what it is not asked to change."""

from __future__ import annotations

import pytest

import jetsync
from tests.harness.tap import Frame, Tap
from tests.harness.waiting import wait_until


def test_the_parts_of_a_frame():
    frame = Frame(b"HMSG a.b 7 _INBOX.x 12 15", b"NATS/1.0\r\n\r\nabc")
    assert (frame.verb, frame.subject, frame.reply) == (b"HMSG", b"a.b", b"_INBOX.x")
    assert frame.raw == b"HMSG a.b 7 _INBOX.x 12 15\r\nNATS/1.0\r\n\r\nabc\r\n"
    assert Frame(b"PUB a 0").reply == Frame(b"PING").subject == b""
    assert Frame(b"PUB a r 2", b"ab").with_body(b"cde").raw == b"PUB a r 3\r\ncde\r\n"


def test_what_no_hook_changes_passes(server):
    with Tap(server.url) as tap, jetsync.connect(tap.url) as nc:
        nc.subscribe("echo", callback=lambda msg: msg.respond(msg.data, headers=msg.headers))
        answer = nc.request("echo", b"x\r\ny" * 100_000, headers={"A": "b"}, timeout=20)
        assert (answer.data, answer.headers["A"]) == (b"x\r\ny" * 100_000, "b")


def test_hooks_drop_rewrite_and_cut(server):
    with (
        Tap(server.url) as tap,
        jetsync.connect(tap.url, reconnect_wait=0.01) as nc,
        nc.subscribe("a") as sub,
    ):

        def other(frame):
            return {b"drop": b"", b"old": frame.with_body(b"new").raw}.get(frame.body, frame.raw)

        tap.to_server = lambda frame: other(frame) if frame.subject == b"a" else frame.raw
        for data in (b"drop", b"old", b"kept"):
            nc.publish("a", data)
        assert [sub.next(timeout=20).data for _ in range(2)] == [b"new", b"kept"]

        def cut(frame):
            tap.to_client = lambda frame: frame.raw
            tap.cut()
            return b""

        tap.to_client = cut
        with pytest.raises(jetsync.DisconnectedError):
            nc.flush(timeout=20)
        wait_until(lambda: nc.stats.reconnects == 1, timeout=20)
        nc.publish("a", b"again")
        assert sub.next(timeout=20).data == b"again"
