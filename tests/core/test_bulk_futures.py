"""A window with a future per message: who waits is told, and told once."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from jetsync import PubAck
from jetsync._core.futures import AsyncWindow
from jetsync._core.inbound import Inbound
from jetsync._core.mailbox import Mailbox
from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError, MaxPayloadError
from jetsync.jetstream.publish.puback import ACKS
from tests.core.kit import Thread, client_frames, cut_frames, message, pair

PREFIX = b"_INBOX.me."
FAR = 1e6


class Line:
    """A window on a link whose other end the test is."""

    def __init__(self, ours, theirs, capacity=1000):
        self.outbound = Outbound()
        self.outbound.attach(ours.fileno(), b"", 1 << 20)
        self.theirs = theirs
        self.inbound = Inbound(self.outbound)
        self.box = Mailbox()
        self.sid = self.inbound.add(self.box)
        self.window = AsyncWindow(
            self.outbound,
            self.box,
            PREFIX,
            b"run.",
            b"",
            capacity,
            only_linked=True,
            ring=2 * capacity,
        )
        self.window.bind(self, ACKS)

    def publish(self, data=b"x", seconds=FAR, block=b"", auto=True, subject="s"):
        return self.window.publish(subject, data, block, auto, seconds)

    def answer(self, number, payload):
        self.inbound.feed(message(PREFIX + b"%d" % number, self.sid, payload))
        return self.window.collect(0)

    def confirm(self, number, seq=1, stream=b"S"):
        return self.answer(number, b'{"stream":"%s","seq":%d}' % (stream, seq))

    def frames(self):
        self.window.flush()
        self.outbound.ping()
        data = b""
        while not data.endswith(b"PING\r\n"):
            self.outbound.send_now()  # here is no writer to send the rest
            data += self.theirs.recv(1 << 20)
        return client_frames(data)[:-1]


def received(sock):
    """What is there, or comes within a moment."""
    sock.settimeout(0.01)
    try:
        return sock.recv(1 << 20)
    except TimeoutError:
        return b""


@pytest.fixture
def line():
    with pair() as (ours, theirs):
        made = Line(ours, theirs)
        yield made
        made.outbound.close()


def test_a_confirmation_settles_its_future(line):
    first, second = line.publish(), line.publish()
    assert not first.done()
    assert line.confirm(1, 7, b"ORDERS") == []
    assert not first.done()
    assert second.done()
    assert second.result() == PubAck("ORDERS", 7)
    line.answer(0, b'{"stream":"S","seq":8,"duplicate": true}')
    assert first.result() == PubAck("S", 8, duplicate=True)
    assert (line.window.stored, line.window.duplicates, line.window.open_count) == (2, 1, 0)


@pytest.mark.parametrize(
    ("text", "ack"),
    [
        (b'{"stream":"S","domain":"hub","seq":1}', PubAck("S", 1, domain="hub")),
        (b'{"stream":"S","seq":1,"val":"5"}', PubAck("S", 1, value="5")),
        (
            b'{"stream":"S","seq":1,"duplicate":true,"val":"5"}',
            PubAck("S", 1, duplicate=True, value="5"),
        ),
    ],
)
def test_what_else_a_confirmation_says_is_kept(line, text, ack):
    future = line.publish()
    assert line.answer(0, text) == []
    assert future.result() == ack


def test_an_unusual_layout_is_handed_over_and_settled_by_hand(line):
    future = line.publish()
    text = b'{"stream":"a\\u003eb","seq":3}'
    assert line.answer(0, text) == [(0, 0, text)]
    line.window.confirm_text(0, text, 3, False)
    line.window.confirm_text(0, b"late", 4, False)
    assert future.result() == PubAck("a>b", 3)


def test_an_error_settles_it_once(line):
    future = line.publish()
    error = ValueError("no")
    assert line.window.fail(0, error)
    assert not line.window.fail(0, error)
    assert future.done()
    assert future.exception() is error
    line.confirm(0)
    assert future.exception() is error
    assert line.window.stored == 0


def test_messages_gather_while_an_answer_is_awaited(line):
    line.publish()
    assert line.outbound.messages == 1  # nothing to wait for
    for _ in range(50):
        line.publish()
    assert line.outbound.messages == 1
    line.window.flush()
    assert line.outbound.messages == 51
    line.publish(b"x" * 20_000)
    assert line.outbound.messages == 52  # enough by itself
    assert [frame.reply for frame in line.frames()] == [PREFIX + b"%d" % n for n in range(52)]


def test_what_was_gathered_is_not_lost_with_a_link_nor_sent_twice(line):
    for _ in range(10):
        line.publish(auto=False)
    assert line.window.mark_lost() == [0]  # the others have not left
    assert line.window.resend(60.0) == 0
    assert len(line.frames()) == 10


def test_many_messages_go_round_with_the_right_ids(line):
    line.theirs.setblocking(True)
    for number in range(5000):
        line.publish(b"%d" % number)
        if number % 900 == 899:
            frames = line.frames()
            for frame in frames:
                n = int(frame.reply[len(PREFIX) :])
                assert b"Nats-Msg-Id: run.%d\r\n" % n in frame.header
                assert frame.payload == b"%d" % n
                line.confirm(n, n + 1)
    assert line.window.open_count == 5000 % 900


def test_a_full_window_takes_nothing(line):
    with pair() as (ours, theirs):
        small = Line(ours, theirs, capacity=3)
        futures = [small.publish() for _ in range(3)]
        assert small.publish() is None
        small.confirm(1)
        assert small.publish() is not None  # the oldest does not hold up the others at once
        small.confirm(2)
        assert small.publish() is not None
        small.confirm(3)
        assert small.publish() is not None
        small.confirm(4)
        assert small.publish() is None  # but the ring has an end
        small.confirm(0)
        assert small.publish() is not None
        assert all(future.done() for future in futures)
        small.outbound.close()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"subject": "a b"}, ConfigError),
        ({"subject": b"a"}, ConfigError),
        ({"data": "text"}, ConfigError),
        ({"data": 5}, ConfigError),
        ({"data": b"x" * (2 << 20)}, MaxPayloadError),
    ],
    ids=str,
)
def test_what_cannot_be_sent_takes_no_number(line, options, error):
    line.publish()
    with pytest.raises(error):
        line.publish(**options)
    line.publish()
    assert line.window.added == line.window.open_count == 2
    assert [frame.reply for frame in line.frames()] == [PREFIX + b"0", PREFIX + b"1"]
    line.confirm(0)
    line.confirm(1)
    assert line.window.open_count == 0


def test_a_window_full_of_bytes_is_crowded_until_a_quarter_is_free():
    """Who waits for room does not go on, to find none, while the bytes are what is full."""
    with pair() as (ours, theirs):
        line = Line(ours, theirs)
        line.window = AsyncWindow(
            line.outbound,
            line.box,
            PREFIX,
            None,
            b"",
            1000,
            capacity_bytes=10_000,
            only_linked=True,
        )
        line.window.bind(line, ACKS)
        taken = 0
        while line.publish(b"x" * 1000) is not None:
            assert line.window.crowded == (taken >= 7)
            taken += 1
        assert line.window.crowded
        line.confirm(0)
        assert line.window.crowded
        for number in range(1, 3):
            line.confirm(number)
        assert not line.window.crowded
        line.outbound.close()


def test_what_is_under_way_is_kept_while_the_memory_of_settled_messages_is_used_again(line):
    """Chunks of messages that are confirmed, one left out each time: the open ones stay whole."""
    data = bytes(range(256)) * 100
    for number in range(60):
        line.publish(data + b"%d" % number)
        line.frames()
        if number % 10:
            line.confirm(number, number + 1)
        if number == 30:
            line.window.trim()
    line.window.mark_lost()
    assert line.window.resend(3600) == 6
    assert [frame.payload for frame in line.frames()] == [
        data + b"%d" % n for n in range(0, 60, 10)
    ]


def test_each_is_sent_again_after_a_refusal_only_while_it_has_time_for_an_answer(line):
    for seconds in (10.0, FAR):
        line.publish(seconds=seconds)
        line.frames()
    for number in range(2):
        line.window.refuse(number)
    line.window.last_attempt = 20.0
    assert line.window.resend(60.0) == 1
    assert [line.window.is_refused(number) for number in range(2)] == [True, False]


def test_those_whose_time_is_over(line):
    for seconds in (-1, FAR, -2, 3600):
        line.publish(seconds=seconds)
    assert line.window.overdue() == [0, 2]
    line.window.fail(0, ValueError())
    assert line.window.overdue() == [2]


def test_who_waits_is_told_once(line):
    future, other = line.publish(), line.publish()
    event, late = threading.Event(), threading.Event()
    assert line.window.wake_with(future, event) is event
    assert line.window.wake_with(future, late) is event  # one for all who wait
    assert line.window.call_with(other, print)
    line.publish()
    for number in range(3):
        line.confirm(number)
    assert line.window.take_settled() == [future, other]
    assert line.window.take_settled() == []
    assert other._callbacks == [print]
    assert line.window.wake_with(future, late) is None
    assert not line.window.call_with(future, print)


def test_a_settled_future_is_let_go(line):
    class Mark:
        pass

    mark = Mark()
    gone = weakref.ref(mark)
    future = line.publish()
    line.window.call_with(future, lambda _, mark=mark: None)
    del mark
    line.confirm(0)
    (settled,) = line.window.take_settled()
    settled._callbacks = None
    del future, settled
    gc.collect()
    assert gone() is None


def test_a_failed_future_keeps_no_frame_alive(line):
    """The collector does not see futures: what `result` raises must not lead back to them."""

    class Mark:
        pass

    def ask():
        future, mark = line.publish(), Mark()
        line.window.fail(0, ConfigError("no"))
        with pytest.raises(ConfigError, match="no"):
            future.result()
        return weakref.ref(mark)

    gone = ask()
    gc.collect()
    assert gone() is None


def test_threads_that_publish_and_one_that_settles(line):
    room = threading.Event()

    def publish():
        done = 0
        while done < 2000:
            if line.publish() is None:
                room.clear()
                room.wait(0.01)
            else:
                done += 1
        return done

    def serve():
        seen, left = 0, b""
        while seen < 8000:
            line.window.flush()
            line.outbound.send_now()
            frames, left = cut_frames(left + received(line.theirs))
            for frame in frames:
                line.confirm(int(frame.reply[len(PREFIX) :]), seen + 1)
                seen += 1
            room.set()

    workers = [Thread(publish) for _ in range(4)]
    server = Thread(serve)
    assert [worker.finish() for worker in workers] == [2000] * 4
    server.finish()
    assert line.window.open_count == 0
    assert line.window.stored == 8000
