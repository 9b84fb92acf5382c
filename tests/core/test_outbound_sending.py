"""What is put in leaves in order and whole, waits within limits, and survives a lost link."""

from __future__ import annotations

import socket
import time

import pytest

from jetsync._core.outbound import Outbound
from jetsync.errors import ConfigError, ConnectionClosedError, OutboundFullError
from tests.core.kit import Sent, Thread, attached, client_frames, link, pair, read, wait_until

BIG = b"x" * 200_000  # more than a small link takes


def stuff(outbound):
    """Publish until the writer is stuck in the middle of a frame that the peer does not read."""
    outbound.publish("stuck", BIG)
    wait_until(lambda: outbound.pending_bytes == 0)


def publish_many(outbound, count):
    for _ in range(count):
        outbound.publish("s", b"y" * 1000)


def test_frames_leave_in_the_order_they_were_put_in():
    with link() as (outbound, peer):
        expected = b""
        for i in range(2000):
            outbound.publish("s", b"%d" % i)
            expected += b"PUB s %d\r\n%d\r\n" % (len(str(i)), i)
        outbound.ping()
        assert read(peer, len(expected) + 6) == expected + b"PING\r\n"
        assert outbound.pending_bytes == 0
        assert outbound.messages == 2000
        assert outbound.bytes == len(expected)


def test_what_was_published_before_the_link_follows_the_replayed_lines():
    with pair() as (ours, theirs):
        outbound = Outbound()
        outbound.publish("s", b"early")
        writer = Thread(outbound.pump)
        outbound.attach(ours.fileno(), b"SUB a 1\r\n", 77)
        assert read(theirs, 25) == b"SUB a 1\r\nPUB s 5\r\nearly\r\n"
        assert outbound.max_payload == 77
        outbound.close()
        writer.finish()


def test_without_a_link_the_offline_limit_holds_and_no_caller_waits():
    outbound = Outbound(offline_limit=100, write_timeout=60.0)
    accepted = 0
    start = time.monotonic()
    with pytest.raises(OutboundFullError, match="100 bytes"):
        while True:
            outbound.publish("s", b"0123456789")
            accepted += 1
    assert time.monotonic() - start < 30
    frames = client_frames(outbound.peek())
    assert frames == [Sent(b"PUB", b"s", payload=b"0123456789")] * accepted
    assert 0 < outbound.pending_bytes <= 110
    assert outbound.messages == accepted


def test_an_offline_limit_of_zero_buffers_nothing():
    outbound = Outbound(offline_limit=0)
    with pytest.raises(OutboundFullError):
        outbound.publish("s", b"x")
    assert outbound.peek() == b""


def test_a_link_that_takes_nothing_refuses_after_write_timeout():
    with link(small=True, high_water=50_000, write_timeout=0.3) as (outbound, peer):
        stuff(outbound)
        accepted = 0
        with pytest.raises(OutboundFullError, match="stayed full"):
            while True:
                start = time.monotonic()
                outbound.publish("s", b"y" * 1000)
                accepted += 1
        waited = time.monotonic() - start
        assert 0.25 <= waited < 15
        assert 45_000 <= outbound.pending_bytes <= 51_100
        # It was a matter of time only: once the peer reads, all of it arrives, and more is taken.
        sent = (
            b"PUB stuck 200000\r\n"
            + BIG
            + b"\r\n"
            + b"PUB s 1000\r\n%s\r\n" % (b"y" * 1000) * accepted
        )
        assert read(peer, len(sent)) == sent
        outbound.publish("s", b"again")
        assert read(peer, 16) == b"PUB s 5\r\nagain\r\n"
        assert outbound.messages == accepted + 2


def test_a_waiting_publisher_goes_on_when_the_peer_reads():
    with link(small=True, high_water=10_000, write_timeout=30.0) as (outbound, peer):
        stuff(outbound)
        publisher = Thread(publish_many, outbound, 100)
        wait_until(lambda: outbound.pending_bytes > 8_000)
        total = 18 + len(BIG) + 2 + 100 * (12 + 1000 + 2)
        assert len(client_frames(read(peer, total))) == 101
        publisher.finish()


def test_a_message_larger_than_the_high_water_mark_is_taken_when_nothing_waits():
    with link(high_water=1000) as (outbound, peer):
        reader = Thread(read, peer, 18 + len(BIG) + 2)
        outbound.publish("large", BIG)
        assert reader.finish().endswith(b"\r\n")


def test_a_call_waits_for_room_no_longer_than_its_own_time_allows():
    """A call has a timeout of its own: ``write_timeout`` is only the longest."""
    with link(small=True, high_water=1000, write_timeout=60.0) as (outbound, _):
        stuff(outbound)
        outbound.publish("s", b"y" * 1000)
        for seconds in (0, 1e-9, 0.2):
            start = time.monotonic()
            with pytest.raises(OutboundFullError, match="stayed full"):
                outbound.publish("s", b"y" * 1000, seconds=seconds)
            with pytest.raises(OutboundFullError, match="stayed full"):
                outbound.ask("s", "r", b"y" * 1000, seconds=seconds)
            assert 2 * seconds <= time.monotonic() - start < 30
        assert outbound.messages == 2


@pytest.mark.parametrize("seconds", [None, 1e10, float("inf"), 10**400])
def test_a_call_without_end_waits_for_the_time_that_writing_has(seconds):
    with link(small=True, high_water=1000, write_timeout=0.2) as (outbound, _):
        stuff(outbound)
        outbound.publish("s", b"y" * 1000)
        with pytest.raises(OutboundFullError, match="stayed full"):
            outbound.publish("s", b"y" * 1000, seconds=seconds)


def test_without_a_link_subscribing_leaves_nothing_behind():
    """A new link begins with all subscriptions; lines kept beside would fill the memory."""
    outbound = Outbound(offline_limit=100)
    for sid in range(1, 10_000):
        outbound.subscribe(f"some.subject.{sid}", "queue", sid)
        outbound.unsubscribe(sid)
    assert outbound.pending_bytes == 0
    outbound.publish("s", b"there is room")
    with pytest.raises(ConfigError):
        outbound.subscribe("a..b", None, 1)


def test_close_ends_the_wait_of_a_publisher():
    with link(small=True, high_water=1000, write_timeout=60.0) as (outbound, _):
        stuff(outbound)
        outbound.publish("s", b"y" * 1000)
        publishers = [Thread(outbound.publish, "s", b"y" * 1000) for _ in range(3)]
        outbound.close()
        for publisher in publishers:
            with pytest.raises(ConnectionClosedError):
                publisher.finish()


def test_losing_the_link_ends_the_wait_of_a_publisher():
    """Without a link the offline limit counts, and no call waits for it."""
    with pair() as (ours, _):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        outbound = Outbound(high_water=1000, offline_limit=1500, write_timeout=60.0)
        writer = Thread(outbound.pump)
        outbound.attach(ours.fileno(), b"", 1 << 20)
        stuff(outbound)
        outbound.publish("s", b"y" * 1000)
        publisher = Thread(outbound.publish, "s", b"y" * 1000)
        ours.shutdown(socket.SHUT_RDWR)
        with pytest.raises(OutboundFullError, match="reconnect buffer"):
            publisher.finish()
        outbound.detach()
        outbound.close()
        writer.finish()


def test_detaching_ends_the_wait_of_a_publisher():
    with pair() as (ours, _):
        outbound = Outbound(high_water=1000, offline_limit=1500, write_timeout=60.0)
        outbound.attach(ours.fileno(), b"", 1 << 20)  # and no thread pumps
        outbound.publish("s", b"y" * 1000)
        publisher = Thread(outbound.publish, "s", b"y" * 1000)
        outbound.detach()
        with pytest.raises(OutboundFullError, match="reconnect buffer"):
            publisher.finish()


def test_a_half_sent_frame_is_dropped_and_whole_ones_are_kept():
    """Sending the rest on another link would be garbage, sending all of it could store it twice."""
    with link(small=True) as (outbound, peer):
        stuff(outbound)
        for i in range(10):
            outbound.publish("kept", b"%d" % i)
        # What a session does with a dead link: shut it down, detach, go elsewhere.
        half = peer.recv(100)
        assert half.startswith(b"PUB stuck")
        peer.shutdown(socket.SHUT_RDWR)
        outbound.detach()
        with pair() as (ours, theirs):
            outbound.attach(ours.fileno(), b"SUB a 1\r\n", 1 << 20)
            data = read(theirs, 9 + 10 * 15)
            assert client_frames(data) == [
                Sent(b"SUB", b"a 1"),
                *(Sent(b"PUB", b"kept", payload=b"%d" % i) for i in range(10)),
            ]
            outbound.detach()


def test_replayed_lines_that_were_not_sent_are_not_sent_twice():
    """They belong to the link they were made for."""
    outbound = Outbound()
    with pair() as first, pair() as second:
        outbound.attach(first[0].fileno(), b"SUB a 1\r\n", 1 << 20)
        outbound.detach()
        outbound.publish("s", b"x")
        outbound.attach(second[0].fileno(), b"SUB b 2\r\n", 1 << 20)
        outbound.send_now()
        assert read(second[1], 21) == b"SUB b 2\r\nPUB s 1\r\nx\r\n"
        outbound.close()


def test_what_is_put_in_after_the_end_of_a_link_waits_for_the_next_one():
    """Also when the writer finds the link broken before the reader does. Only what a publish window
    has put in for the old link is dropped, since the window sends it again."""
    outbound = Outbound()
    outbound.enter_window(b"_I.w.", None)
    assert not outbound.is_linked
    with pair() as first, pair() as second:
        outbound.attach(first[0].fileno(), b"", 1 << 20)
        assert (outbound.is_linked, outbound.link_to_leave_on, outbound.ping()) == (True, 2, 1)
        first[1].close()
        outbound.send_now()
        assert (outbound.is_linked, outbound.link_to_leave_on, outbound.ping()) == (False, 3, 0)
        outbound.publish("s", b"1", "_I.w.1", link=3)
        with pytest.raises(OutboundFullError, match="broke"):
            outbound.publish("s", b"2", "_I.w.2", link=2)
        outbound.detach()
        outbound.publish("s", b"3", "_I.w.3")
        outbound.attach(second[0].fileno(), b"", 1 << 20)
        outbound.publish("s", b"4", "_I.w.4", link=3)
        outbound.send_now()
        expected = b"".join(b"PUB s _I.w.%d 1\r\n%d\r\n" % (n, n) for n in (1, 3, 4))
        assert read(second[1], len(expected)) == expected
        outbound.close()


def test_a_broken_link_ends_quietly_and_the_next_one_works():
    """The reader finds out; the writer only stops using the descriptor."""
    with link() as (outbound, peer):
        peer.close()
        outbound.publish("s", b"lost")
        wait_until(lambda: outbound.pending_bytes == 0)
        outbound.detach()
        outbound.publish("s", b"kept")
        with pair() as (ours, theirs):
            outbound.attach(ours.fileno(), b"", 1 << 20)
            assert read(theirs, 15) == b"PUB s 4\r\nkept\r\n"
            outbound.detach()


def test_send_now_sends_from_the_calling_thread():
    with pair() as (ours, theirs):
        outbound = Outbound()  # no thread pumps
        outbound.attach(ours.fileno(), b"", 1 << 20)
        outbound.publish("s", b"x", None, b"", False)
        outbound.send_now()
        assert read(theirs, 12) == b"PUB s 1\r\nx\r\n"
        outbound.close()


def test_send_now_never_waits_and_leaves_the_rest_to_the_writer():
    with link(small=True) as (outbound, peer):
        outbound.publish("s", b"a")
        assert read(peer, 12) == b"PUB s 1\r\na\r\n"  # the writer has worked and sleeps again
        outbound.publish("big", BIG, None, b"", False)
        outbound.send_now()
        outbound.publish("s", b"x", None, b"", False)
        outbound.send_now()
        expected = b"PUB big 200000\r\n" + BIG + b"\r\nPUB s 1\r\nx\r\n"
        assert read(peer, len(expected)) == expected


def test_publishing_without_waking_leaves_the_frame_to_send_now():
    with link() as (outbound, peer):
        outbound.publish("s", b"a", None, b"", False)
        outbound.send_now()
        assert read(peer, 12) == b"PUB s 1\r\na\r\n"


def test_send_now_without_a_link_does_nothing():
    outbound = Outbound()
    outbound.publish("s", b"x")
    outbound.send_now()
    outbound.detach()
    assert outbound.peek() == b"PUB s 1\r\nx\r\n"


def test_the_writer_ends_at_close_although_it_never_had_a_link():
    outbound = Outbound()
    writer = Thread(outbound.pump)
    outbound.publish("s", b"x")
    outbound.close()
    writer.finish()
    assert outbound.pending_bytes == 0


# -- a new link ----------------------------------------------------------------------------------


def test_messages_too_large_for_the_new_server_are_dropped_before_they_break_its_link():
    """Only they: messages around them go out whole. Other lines were for the old link."""
    out = attached()
    out.publish("a", b"small")
    out.publish("b", b"x" * 100, None, b"NATS/1.0\r\nsize: 7\r\n\r\n")
    out.ping()
    out.publish("c.12", b"12\r\n34")
    out.subscribe("d", None, 9)
    out.unsubscribe(9)
    out.publish("e", b"y" * 11)
    with pair() as (end, _):
        assert out.attach(end.fileno(), b"", 10) == 2
        assert out.peek() == b"PUB a 5\r\nsmall\r\nPUB c.12 6\r\n12\r\n34\r\n"
        out.detach()
