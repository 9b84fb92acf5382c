"""The moment at which a link ends: what is sent from then on waits for the next one."""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any

import pytest

import jetsync
from jetsync.client import routes, session
from tests.harness.leaks import descriptors
from tests.harness.waiting import wait_until

PATIENCE = 20.0


def test_what_is_sent_once_there_is_no_link_waits_for_the_next_one(server):
    """At each step of the thread that leaves the link, something is published and asked."""
    published: list[bytes] = []
    replies: list[Any] = []
    futures: list[Any] = []

    def send() -> None:
        if nc.is_connected:
            return
        data = b"%d" % len(published)
        nc.publish("probe", data)
        replies.append(nc._port.ask("echo", data, seconds=0))
        futures.append(nc.request_async("echo", data, timeout=PATIENCE))
        published.append(data)

    def at_each_step(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename != session.__file__:
            return None
        if leaves.is_set():
            send()
        return at_each_step

    leaves = threading.Event()
    threading.settrace(at_each_step)
    try:
        nc = jetsync.connect(server.url, reconnect_wait=0.01)
    finally:
        threading.settrace(None)
    with nc, jetsync.connect(server.url) as other:
        probes = other.subscribe("probe")
        other.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        other.flush(timeout=PATIENCE)
        nc.request("echo", timeout=PATIENCE)
        leaves.set()
        nc._session.suspect(None)
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=PATIENCE)
        leaves.clear()
        assert len(published) > 3
        assert [probes.next(timeout=PATIENCE).data for _ in published] == published
        assert [reply.mailbox.get(PATIENCE).data for reply in replies] == published
        assert [future.result(PATIENCE).data for future in futures] == published


def test_what_is_published_behind_a_subscription_leaves_behind_it(server):
    """At each step of the thread that takes a new link over: to a server that gets the two the
    other way round, no subscriber listens."""
    asked: list[Any] = []

    def subscribe_and_publish() -> None:
        if not nc.is_connected:
            sub = nc.subscribe(f"behind.{len(asked)}")
            nc.publish(sub.subject)
            asked.append(sub)

    def at_each_step(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in (session.__file__, routes.__file__):
            return None
        if takes_over.is_set():
            subscribe_and_publish()
        return at_each_step

    takes_over = threading.Event()
    threading.settrace(at_each_step)
    try:
        nc = jetsync.connect(server.url, reconnect_wait=0.01)
    finally:
        threading.settrace(None)
    with nc:
        nc.subscribe("an.earlier.one")
        takes_over.set()
        nc._session.suspect(None)
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected, timeout=PATIENCE)
        takes_over.clear()
        assert len(asked) > 20
        for sub in asked:
            assert sub.next(timeout=PATIENCE).subject == sub.subject


def test_a_reader_thread_that_fails_by_a_bug_leaves_no_socket(url, monkeypatch):
    """The connection is closed, with the reason, and its descriptor too."""

    def fail() -> None:
        raise RuntimeError("a bug")

    before = descriptors()
    nc = jetsync.connect(url)
    monkeypatch.setattr(nc._session, "_on_pong", fail)
    with pytest.raises(jetsync.DisconnectedError, match="a bug"):
        nc.flush(timeout=PATIENCE)
    wait_until(lambda: nc.is_closed and descriptors() == before, timeout=PATIENCE)
    nc.close()
