"""Windows of one connection hand over in turn: the order of what one thread adds to several."""

from __future__ import annotations

import contextlib

import pytest

from jetsync._core.bulk import BulkWindow
from jetsync._core.futures import AsyncWindow
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.jetstream.publish.puback import ACKS
from tests.core.kit import Thread, client_frames, pair

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
