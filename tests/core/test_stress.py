"""Many threads on both sides of a link: nothing is lost, doubled, reordered or mixed up."""

from __future__ import annotations

import functools
import threading

import pytest

from jetsync._core.batch import MsgBatch
from jetsync._core.inbound import EVENT_EOF, Inbound
from jetsync._core.mailbox import Mailbox, MailboxIterator
from jetsync._core.outbound import Outbound
from jetsync.errors import ConnectionClosedError, OutboundFullError
from tests.core.kit import LONG, Thread, cut_frames, link, message, pair, wait_until


def wait_for_messages(outbound, count):
    wait_until(lambda: outbound.messages > count)


def read_frames(sock, count):
    """Read that many client frames."""
    data = b""
    frames: list[object] = []
    while len(frames) < count:
        piece = sock.recv(1 << 16)
        assert piece, f"the link ended after {len(frames)} of {count} frames"
        whole, data = cut_frames(data + piece)
        frames += whole
    assert data == b""
    return frames


@pytest.mark.parametrize("high_water", [500, 16 << 20])
def test_frames_of_many_publishers_leave_whole_and_each_ones_in_order(high_water):
    """Some wake the writer, some send themselves, all of them at once."""
    threads, each = 6, 1500
    barrier = threading.Barrier(threads)
    with link(small=True, high_water=high_water, write_timeout=LONG) as (outbound, peer):

        def publish(me):
            barrier.wait()
            for i in range(each):
                itself = (i + me) % 3 == 0
                outbound.publish(f"p.{me}", b"%d" % i, None, b"", not itself)
                if itself:
                    outbound.send_now()

        reader = Thread(read_frames, peer, threads * each)
        publishers = [Thread(publish, me) for me in range(threads)]
        for publisher in publishers:
            publisher.finish()
        frames = reader.finish()
        for me in range(threads):
            mine = [int(f.payload) for f in frames if f.subject == b"p.%d" % me]
            assert mine == list(range(each))
        assert outbound.messages == threads * each


def test_links_may_change_under_publishers_and_every_frame_stays_whole():
    """A frame is on one link or on none (when its link was cut), never in part and never twice."""
    threads, links = 3, 10
    outbound = Outbound(high_water=20_000, offline_limit=20_000, write_timeout=LONG)
    writer = Thread(outbound.pump)
    stop = threading.Event()

    def publish(me):
        count = 0
        while not stop.is_set():
            try:
                outbound.publish(f"p.{me}", b"%d" % count)
            except OutboundFullError:  # between two links
                stop.wait(0.001)
                continue
            count += 1
            if count % 7 == 0:
                outbound.send_now()
        return count

    def drain(sock):
        data = bytearray()
        while not data.endswith(b"PING\r\n") and (piece := sock.recv(1 << 16)):
            data += piece
        return bytes(data)

    def published(count):
        return outbound.messages >= count

    publishers = [Thread(publish, me) for me in range(threads)]
    received = []
    for number in range(links):
        with pair() as (ours, theirs):
            enough = outbound.messages + 500
            outbound.attach(ours.fileno(), b"SUB link %d\r\n" % number, 1 << 20)
            reader = Thread(drain, theirs)
            wait_until(functools.partial(published, enough))
            if number == links - 1:
                stop.set()
                counts = [publisher.finish() for publisher in publishers]
                outbound.ping()  # what was published before comes out before it
                reader.finish()
            ours.shutdown(2)
            outbound.detach()
            received.append(reader.finish())
    outbound.close()
    writer.finish()
    # A cut link may end in the middle of a frame; the next one begins with a whole one.
    seen = [cut_frames(data)[0] for data in received]
    for number, frames in enumerate(seen):
        assert [f.subject for f in frames[:1]] in ([], [b"link %d" % number])
        assert {f.verb for f in frames} <= {b"SUB", b"PUB", b"PING"}
    for me, count in enumerate(counts):
        mine = [int(f.payload) for frames in seen for f in frames if f.subject == b"p.%d" % me]
        assert mine == sorted(set(mine))
        assert mine[-1] == count - 1


def test_subscriptions_come_and_go_while_the_reader_works():
    """Messages of a live subscription all arrive; of an ended one none does afterwards."""
    count = 20_000
    with pair() as (ours, theirs):
        inbound, steady = Inbound(Outbound()), Mailbox()
        steady_sid = inbound.add(steady)
        inbound.set_reply_route(b"_INBOX.me.", inbound.add(Mailbox()))
        late = [inbound.reply_token(number).encode() for number in range(40)]
        stop = threading.Event()
        reader = Thread(inbound.pump, ours.fileno())

        def churn():
            rounds = 0
            while not stop.is_set():
                box = Mailbox()
                sid, token = inbound.add(box), inbound.add_reply(box)
                inbound.remove(sid)
                inbound.remove_reply(token)
                rounds += 1
            return rounds

        def send():
            for start in range(0, count, 50):
                piece = b"".join(
                    message(sid=steady_sid, payload=b"%d" % i)
                    + message(sid=i % 40, payload=b"stray")
                    + message(b"_INBOX.me." + late[i % 40], 2, b"late")
                    for i in range(start, start + 50)
                )
                theirs.sendall(piece)

        churners = [Thread(churn) for _ in range(2)]
        sender = Thread(send)
        found: list[int] = []
        while len(found) < count:
            msg = steady.get(LONG)
            assert msg is not None
            if msg.data != b"stray":  # i % 40 is the steady subscription's own number too
                found.append(int(msg.data))
        sender.finish()
        stop.set()
        assert all(churner.finish() > 0 for churner in churners)
        theirs.close()
        assert reader.finish() == (EVENT_EOF, 0)
        assert found == list(range(count))


def test_single_gets_and_batches_share_a_mailbox_without_losing_anything():
    count, threads = 30_000, 4
    with pair() as (ours, theirs):
        inbound, box = Inbound(Outbound()), Mailbox()
        assert inbound.add(box) == 1
        barrier = threading.Barrier(threads)

        def singles():
            barrier.wait()
            return [int(msg.data) for msg in MailboxIterator(box)]

        def batches():
            barrier.wait()
            found = []
            while not box.ended:
                batch = box.new_batch(MsgBatch, None)
                assert box.take_into(batch, 97, 0.1) == []
                mine = [int(msg.data) for msg in batch]
                assert mine == sorted(mine)
                found += mine
            return found

        consumers = [Thread(singles), Thread(batches), Thread(singles), Thread(batches)]
        reader = Thread(inbound.pump, ours.fileno())
        for start in range(0, count, 500):
            theirs.sendall(b"".join(message(payload=b"%d" % i) for i in range(start, start + 500)))
        theirs.close()
        assert reader.finish() == (EVENT_EOF, 0)
        box.finish()
        found = [consumer.finish() for consumer in consumers]
        assert sorted(n for mine in found for n in mine) == list(range(count))
        assert (box.delivered, box.pending_messages, box.pending_bytes) == (count, 0, 0)


def test_received_is_delivered_plus_dropped_whatever_the_limit_did():
    count = 30_000
    with pair() as (ours, theirs):
        inbound, box = Inbound(Outbound()), Mailbox(limit_messages=50)
        inbound.add(box)

        def read():
            slow = 0
            while inbound.pump(ours.fileno())[0] != EVENT_EOF:
                slow += 1
            return slow

        reader = Thread(read)
        consumer = Thread(lambda: [int(msg.data) for msg in MailboxIterator(box)])
        for start in range(0, count, 500):
            theirs.sendall(b"".join(message(payload=b"%d" % i) for i in range(start, start + 500)))
        theirs.close()
        slow = reader.finish()
        box.finish()
        found = consumer.finish()
        assert found == sorted(set(found))
        assert len(found) == box.delivered == count - box.dropped
        assert box.received == count
        assert (slow > 0) == (box.dropped > 0)


# -- ending --------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiters", [1, 8])
def test_close_ends_every_wait(waiters):
    with link(small=True, high_water=1000, write_timeout=60.0) as (outbound, _):
        outbound.publish("stuck", b"x" * 200_000)
        boxes = [Mailbox() for _ in range(waiters)]
        consumers = [Thread(box.get) for box in boxes for _ in range(2)]

        def publish():
            while True:
                outbound.publish("s", b"y" * 600)

        publishers = [Thread(publish) for _ in range(waiters)]
        wait_until(lambda: all(one.waits for one in [*consumers, *publishers]))
        outbound.close()
        for box in boxes:
            box.finish()
        assert all(consumer.finish() is None for consumer in consumers)
        for publisher in publishers:
            with pytest.raises(ConnectionClosedError):
                publisher.finish()


def test_detach_ends_every_wait_for_room():
    with link(small=True, high_water=1000, offline_limit=1000, write_timeout=60.0) as (
        outbound,
        peer,
    ):
        outbound.publish("stuck", b"x" * 200_000)

        def publish():
            while True:
                outbound.publish("s", b"y" * 600)

        publishers = [Thread(publish) for _ in range(5)]
        wait_until(lambda: all(publisher.waits for publisher in publishers))
        peer.shutdown(2)
        outbound.detach()
        for publisher in publishers:
            with pytest.raises(OutboundFullError):
                publisher.finish()


def test_pokes_and_ends_at_the_same_moment_leave_no_thread_waiting():
    for _ in range(200):
        box = Mailbox()
        barrier = threading.Barrier(3)

        def consume(box=box, barrier=barrier):
            barrier.wait()
            while not box.ended:
                box.get(None)

        def poke(box=box, barrier=barrier):
            barrier.wait()
            box.wake()

        consumer, poker = Thread(consume), Thread(poke)
        barrier.wait()
        box.finish()
        poker.finish()
        consumer.finish()
