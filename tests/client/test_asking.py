"""Requests that no thread waits for: many threads, many links, and what they leave behind."""

from __future__ import annotations

import threading

import jetsync
from jetsync.client.requests import Requests
from tests.harness.waiting import wait_until


def test_threads_that_ask_first_at_the_same_time_share_one_reply_subject(url, monkeypatch):
    together = threading.Barrier(2)
    real = Requests.open

    def open_together(self, subject):
        reply = real(self, subject)
        if subject is None:
            together.wait(20)  # both threads have found no reply subject
        return reply

    with jetsync.connect(url) as nc:
        nc.subscribe("echo", callback=lambda m: m.respond(m.data))
        monkeypatch.setattr(Requests, "open", open_together)
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(nc.request_async("echo", b"x")))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        found.append(nc.request_async("echo", b"x"))
        assert [future.result(20).data for future in found] == [b"x"] * 3
        assert len(nc._inbound.pending_replies()) == 1


def test_the_end_of_a_link_ends_no_request_of_the_next_one(url):
    with jetsync.connect(url) as nc:
        asked = nc.subscribe("slow")
        before = nc.request_async("slow", timeout=60)
        asked.next(10)
        old = nc._asking._line
        assert old.reply is not None
        nc.force_reconnect()
        assert isinstance(before.exception(20), jetsync.DisconnectedError)
        wait_until(lambda: nc.is_connected)
        after = nc.request_async("slow", timeout=60)
        nc._asking._end(old, old.reply)  # its thread may come so late
        asked.next(10).respond(b"y")
        assert after.result(20).data == b"y"


def test_a_request_that_is_interrupted_while_its_timer_is_made_leaves_nothing(url, monkeypatch):
    with jetsync.connect(url) as nc:
        nc.subscribe("slow")

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(nc._timer, "call_later", interrupted)
        try:
            nc.request_async("slow")
        except KeyboardInterrupt:
            pass
        monkeypatch.undo()
        assert not nc._asking._open
