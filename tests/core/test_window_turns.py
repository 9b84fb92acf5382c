"""Windows of one connection hand over in turn: the order of what one thread adds to several."""

from __future__ import annotations

import contextlib

import pytest

from jetsync._core.bulk import BulkWindow
from jetsync._core.futures import AsyncWindow
from jetsync._core.handles import Publishing
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.errors import ConnectionClosedError, OutboundFullError
from jetsync.jetstream.publish.puback import ACKS
from tests.core.kit import Thread, client_frames, pair
from tests.harness.waiting import wait_until

FAR = 1e6


class Windows:
    """Two windows of publish_async and one of publish_many, on a link; the test is the server."""

    def __init__(self, stack):
        self.stack = stack
        self.outbound = Outbound()
        self.link()
        self.first, self.second = (self.window(AsyncWindow, n) for n in (b"1", b"2"))
        self.bulk = self.window(BulkWindow, b"3")
        for window in (self.first, self.second):
            window.bind(self, ACKS)

    def window(self, kind, name):
        prefix = b"_INBOX.%s." % name
        window = kind(self.outbound, Mailbox(), prefix, name, b"", 1000, only_linked=True)
        self.outbound.enter_window(prefix, None if kind is BulkWindow else window)
        return window

    def link(self):
        """Lose the link, if there is one, and what was sent over it; have another one."""
        self.outbound.detach()
        ours, self.theirs = self.stack.enter_context(pair())
        self.outbound.attach(ours.fileno(), b"", 1 << 20)

    def publish(self, window, data):
        assert window.publish("s", data, b"", True, FAR) is not None

    def sent(self):
        """The payloads of the messages that the server gets."""
        self.outbound.ping()
        data = b""
        while not data.endswith(b"PING\r\n"):
            self.outbound.send_now()
            data += self.theirs.recv(1 << 20)
        return [frame.payload for frame in client_frames(data)[:-1]]


@pytest.fixture
def windows():
    with contextlib.ExitStack() as stack:
        yield Windows(stack)


def test_rows_are_sent_again_behind_the_asynchronous_messages_before_them(windows):
    windows.publish(windows.first, b"a")
    windows.publish(windows.first, b"b")
    windows.bulk.add_rows([("s", b"c"), ("s", b"d")], 0)
    assert windows.sent() == [b"a", b"b", b"c", b"d"]
    windows.link()
    windows.bulk.mark_lost()
    assert not windows.bulk.has_turn
    assert windows.bulk.resend(60.0) == 0  # the other window has not noticed the loss
    windows.first.mark_lost()
    assert windows.bulk.resend(60.0) == 0  # it has, and may not send again yet
    assert windows.sent() == []
    assert windows.first.resend(60.0) == 2
    windows.bulk.flush()
    assert windows.sent() == [b"a", b"b", b"c", b"d"]


def test_new_rows_wait_for_what_was_lost_before_them(windows):
    windows.publish(windows.first, b"a")
    assert windows.sent() == [b"a"]
    windows.link()
    windows.bulk.add_rows([("s", b"b")], 0)
    assert windows.sent() == []
    windows.first.mark_lost()
    windows.first.resend(60.0)
    windows.bulk.flush()
    assert windows.sent() == [b"a", b"b"]


def test_two_windows_in_turn_are_sent_again_in_turn(windows):
    expected = [b"%d" % n for n in range(40)]
    for n, data in enumerate(expected):
        windows.publish((windows.first, windows.second)[n % 2], data)
    windows.first.flush()
    windows.second.flush()
    assert windows.sent() == expected
    windows.link()
    windows.second.mark_lost()
    assert windows.second.resend(60.0) == 0
    windows.first.mark_lost()
    assert windows.first.resend(60.0) == 20  # and moves the other one on
    windows.second.flush()
    assert windows.sent() == expected


def test_what_was_gathered_goes_before_what_comes_later_in_another_window(windows):
    for n in range(10):
        windows.publish(windows.first, b"%d" % n)
    windows.publish(windows.second, b"10")
    assert windows.sent() == [b"%d" % n for n in range(11)]


def test_what_other_threads_have_lost_holds_up_nothing(windows):
    Thread(windows.publish, windows.first, b"a").finish()
    windows.bulk.add_rows([("s", b"b")], 0)
    assert windows.sent() == [b"a", b"b"]
    windows.link()
    windows.bulk.mark_lost()
    assert windows.bulk.resend(60.0) == 1
    assert windows.sent() == [b"b"]


def test_what_may_not_be_sent_again_holds_up_nothing(windows):
    windows.publish(windows.first, b"a")
    windows.bulk.add_rows([("s", b"b")], 0)
    assert windows.sent() == [b"a", b"b"]
    windows.link()
    for window in (windows.first, windows.bulk):
        window.mark_lost()
    assert windows.first.resend(-1.0) == 0  # too old
    assert windows.bulk.resend(60.0) == 1
    assert windows.sent() == [b"b"]


def test_a_window_that_has_ended_holds_up_nothing(windows):
    windows.publish(windows.first, b"a")
    windows.link()
    windows.first.ended = True
    windows.bulk.add_rows([("s", b"b")], 0)
    assert windows.sent() == [b"b"]


def test_a_window_in_which_nothing_waits_has_its_turn(windows):
    windows.bulk.add_rows([("s", b"a")], 0)
    assert windows.sent() == [b"a"]
    windows.publish(windows.first, b"b")
    windows.link()
    windows.first.mark_lost()
    windows.bulk.settle(0)
    assert windows.bulk.has_turn


class Crowded(Windows):
    """A window that takes one unconfirmed message, and one more behind it."""

    def __init__(self, stack):
        super().__init__(stack)
        self.nc = Publishing(self.outbound)
        prefix = b"_INBOX.4."
        self.small = AsyncWindow(
            self.outbound, Mailbox(), prefix, b"4", b"", 1, only_linked=True, ring=2
        )
        self.small.bind(self, ACKS)
        self.outbound.enter_window(prefix, self.small)

    def lose(self):
        """Publish one and lose its answer: what this thread publishes next waits behind a copy."""
        self.publish(self.small, b"a")
        assert self.small.publish("s", b"no room", b"", True, FAR) is None
        assert self.sent() == [b"a"]
        self.small.mark_lost()


@pytest.fixture
def crowded():
    with contextlib.ExitStack() as stack:
        yield Crowded(stack)


def test_a_core_publish_waits_behind_a_window_that_takes_no_more_messages(crowded):
    """It needs no confirmation, so it does not count among those that may be unconfirmed."""
    crowded.lose()
    crowded.nc.publish("s", b"b")
    assert crowded.sent() == []
    crowded.small.resend(60.0)
    assert crowded.sent() == [b"a", b"b"]


def test_a_core_publish_without_room_behind_others_waits_for_it(crowded):
    def publish():
        crowded.lose()
        for data in (b"b", b"c", b"d"):
            crowded.nc.publish("s", data)

    thread = Thread(publish)
    wait_until(lambda: crowded.small.in_flight == 2)
    crowded.small.resend(60.0)  # makes room; the thread did not fail before
    thread.finish()
    assert crowded.sent() == [b"a", b"b", b"c", b"d"]


def test_a_core_publish_waits_behind_others_for_the_write_timeout(crowded):
    crowded.lose()
    crowded.outbound.write_timeout = 0.05
    crowded.nc.publish("s", b"b")
    with pytest.raises(OutboundFullError, match=r"behind those of publish_async.*2 messages.* s$"):
        crowded.nc.publish("s", b"c")
    crowded.small.resend(60.0)
    assert crowded.sent() == [b"a", b"b"]


def test_a_core_publish_behind_others_does_not_wait_for_a_link(crowded):
    crowded.lose()
    crowded.outbound.write_timeout = FAR
    crowded.outbound.detach()
    crowded.nc.publish("s", b"b")
    with pytest.raises(OutboundFullError, match="without a connection"):
        crowded.nc.publish("s", b"c")


def test_a_core_publish_that_waits_behind_others_ends_with_the_connection(crowded):
    def publish():
        crowded.lose()
        crowded.nc.publish("s", b"b")
        crowded.nc.publish("s", b"c")

    thread = Thread(publish)
    wait_until(lambda: crowded.small.in_flight == 2)
    crowded.nc._refusal = lambda: ConnectionClosedError("closed")
    with pytest.raises(ConnectionClosedError):
        thread.finish()
