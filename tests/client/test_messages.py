"""Core messages: publish, subscribe, queue groups, callbacks, requests."""

from __future__ import annotations

import itertools
import threading

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.waiting import wait_until

_subjects = (f"t{n}" for n in itertools.count())


@pytest.fixture
def subject():
    return next(_subjects)


def test_a_message_arrives_with_headers_reply_and_payload(nc, subject):
    sub = nc.subscribe(subject)
    nc.publish(subject, b"pay\r\nload", reply="answer.me", headers={"A": ["1", "2"], "b": "x"})
    msg = sub.next(timeout=2)
    assert (msg.subject, msg.data, msg.reply) == (subject, b"pay\r\nload", "answer.me")
    assert msg.headers["A"] == "1"
    assert msg.headers.get_all("A") == ["1", "2"]
    assert msg.headers.get("B") is None


def test_messages_come_in_order_and_all_of_them(nc, subject):
    sub = nc.subscribe(subject)
    for n in range(20_000):
        nc.publish(subject, b"%d" % n)
    assert [int(sub.next(timeout=5).data) for _ in range(20_000)] == list(range(20_000))


def test_counters_tell_messages_and_their_bytes(url, subject):
    """Inwards headers and payloads, outwards whole frames; of a subscription also subjects."""
    with jetsync.connect(url) as nc:
        before = nc.stats
        sub = nc.subscribe(subject)
        for _ in range(3):
            nc.publish(subject, b"12345")
        nc.flush()
        wait_until(lambda: sub.pending_messages == 3)
        assert (sub.delivered, sub.pending_bytes) == (0, 3 * (len(subject) + 5))
        sub.next(timeout=5)
        assert (sub.delivered, sub.pending_bytes) == (1, 2 * (len(subject) + 5))
        stats = nc.stats
        assert (stats.in_messages, stats.out_messages) == (3, 3)
        assert stats.in_bytes - before.in_bytes == 15
        assert stats.out_bytes - before.out_bytes == 3 * len(
            b"PUB %b 5\r\n12345\r\n" % subject.encode()
        )


def test_iteration_ends_with_unsubscribe_and_keeps_what_came(nc, subject):
    sub = nc.subscribe(subject)
    for n in range(3):
        nc.publish(subject, b"%d" % n)
    nc.flush()
    sub.unsubscribe()
    assert [msg.data for msg in sub] == [b"0", b"1", b"2"]
    assert not sub.is_active
    with pytest.raises(jetsync.ConnectionClosedError):
        sub.next(timeout=1)


def test_unsubscribe_after_fewer_messages_than_have_come_drops_the_others(nc, subject):
    sub = nc.subscribe(subject)
    for n in range(5):
        nc.publish(subject, b"%d" % n)
    nc.flush()
    wait_until(lambda: sub.pending_messages == 5)
    assert sub.next().data == b"0"
    sub.unsubscribe(max_messages=3)
    assert [msg.data for msg in sub] == [b"1", b"2"]
    later = nc.subscribe(subject)
    for n in range(3):
        nc.publish(subject, b"%d" % n)
    nc.flush()
    assert [later.next().data for _ in range(3)] == [b"0", b"1", b"2"]
    later.unsubscribe(max_messages=2)
    assert list(later) == []


def test_unsubscribe_after_a_number_of_messages(nc, subject):
    sub = nc.subscribe(subject)
    sub.unsubscribe(max_messages=2)
    for n in range(5):
        nc.publish(subject, b"%d" % n)
    nc.flush()
    assert [msg.data for msg in sub] == [b"0", b"1"]


def test_next_raises_timeout_error_of_both_kinds(nc, subject):
    sub = nc.subscribe(subject)
    with pytest.raises(TimeoutError) as caught:
        sub.next(timeout=0.05)
    assert isinstance(caught.value, jetsync.TimeoutError)


def test_a_queue_group_shares_the_messages(nc, subject):
    members = [nc.subscribe(subject, queue="q") for _ in range(3)]
    for _ in range(300):
        nc.publish(subject)
    nc.flush()
    counts = [member.pending_messages for member in members]
    assert sum(counts) == 300
    assert all(counts)


def test_callbacks_run_one_by_one_and_survive_exceptions(url, subject):
    errors, seen = [], []
    with jetsync.connect(url, on_error=lambda event: errors.append(event.error)) as nc:

        def callback(msg):
            seen.append(msg.data)
            if msg.data == b"1":
                raise ValueError("mine")

        sub = nc.subscribe(subject, callback=callback)
        for n in range(4):
            nc.publish(subject, b"%d" % n)
        sub.drain(timeout=5)
        assert seen == [b"0", b"1", b"2", b"3"]
        wait_until(lambda: errors, timeout=5)
    assert [type(error) for error in errors] == [ValueError]


def test_everything_may_be_called_from_a_callback(nc, subject):
    done = threading.Event()

    def callback(msg):
        nc.flush()
        other = nc.subscribe(subject + ".other")
        nc.publish(subject + ".other", b"x")
        assert other.next(timeout=2).data == b"x"
        nc.close()
        done.set()

    nc.subscribe(subject, callback=callback)
    nc.publish(subject)
    assert done.wait(5)
    assert nc.is_closed


def test_two_threads_share_a_subscription_and_no_message_is_lost_or_doubled(nc, subject):
    sub = nc.subscribe(subject)
    got: list[list[int]] = [[], []]

    def take(mine):
        while True:
            number = int(sub.next(timeout=5).data)
            if number < 0:
                return
            mine.append(number)

    threads = [threading.Thread(target=take, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    for n in range(5_000):
        nc.publish(subject, b"%d" % n)
    nc.publish(subject, b"-1")
    nc.publish(subject, b"-1")
    for thread in threads:
        thread.join(20)
    assert sorted(got[0] + got[1]) == list(range(5_000))


def test_an_iterator_in_two_threads_is_refused(nc, subject):
    sub = nc.subscribe(subject)
    iterator = iter(sub)
    nc.publish(subject)
    next(iterator)
    caught = []

    def misuse():
        try:
            next(iterator)
        except jetsync.ConfigError as error:
            caught.append(error)

    thread = threading.Thread(target=misuse)
    thread.start()
    thread.join(5)
    assert caught


def test_request_and_reply(nc, subject):
    nc.subscribe(subject, callback=lambda msg: msg.respond(msg.data[::-1], headers={"H": "v"}))
    reply = nc.request(subject, b"abc", timeout=2)
    assert (reply.data, reply.headers["H"]) == (b"cba", "v")


def test_no_responders_is_known_at_once(nc, subject):
    with pytest.raises(jetsync.NoRespondersError) as caught:
        nc.request(subject, timeout=5)
    assert caught.value.subject == subject


def test_a_late_reply_never_reaches_another_request(nc, subject):
    held = nc.subscribe(subject)
    with pytest.raises(jetsync.TimeoutError):
        nc.request(subject, b"first", timeout=0.05)
    late = held.next(timeout=1)
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(nc.request(subject, b"second", timeout=5).data)
    )
    thread.start()
    second = held.next(timeout=2)
    late.respond(b"late")
    second.respond(b"right")
    thread.join(5)
    assert answers == [b"right"]
    wait_until(lambda: nc.stats.unmatched >= 1, timeout=5)


def test_request_many_ends_by_count_stall_and_sentinel(nc, subject):
    def answer(msg):
        for n in range(3):
            nc.publish(msg.reply, b"%d" % n)
        nc.publish(msg.reply, b"")

    nc.subscribe(subject, callback=answer)
    assert [m.data for m in nc.request_many(subject, max_messages=2)] == [b"0", b"1"]
    assert [m.data for m in nc.request_many(subject, sentinel=True)] == [b"0", b"1", b"2"]
    assert len(list(nc.request_many(subject, stall=0.2))) == 4


def test_request_many_asks_before_its_first_reply_is_taken(nc, subject):
    with nc.subscribe(subject) as asked:
        replies = nc.request_many(subject, timeout=20)
        msg = asked.next(timeout=5)
        nc.publish(msg.reply, b"one")
        assert next(replies).data == b"one"
    with pytest.raises(jetsync.ConfigError):
        nc.request_many("a b")


@pytest.mark.parametrize("bad", ["", "a b", "a\r\nPING", "a\tb", "a\x00b", "a.*", ">", "a\x7f"])
def test_bad_publish_subjects_are_refused_and_nothing_leaves(nc, bad):
    before = nc.stats.out_messages
    with pytest.raises(jetsync.ConfigError):
        nc.publish(bad, b"")
    with pytest.raises(jetsync.ConfigError):
        nc.publish("ok", b"", reply=bad or " ")
    assert nc.stats.out_messages == before
    nc.flush()


@pytest.mark.parametrize("bad", ["", "a..b", ".a", "a.>.b", "a b"])
def test_bad_subscribe_subjects_are_refused(nc, bad):
    with pytest.raises(jetsync.ConfigError):
        nc.subscribe(bad)


def test_bad_headers_and_data_are_refused(nc):
    for headers in ({"a:b": "x"}, {"": "x"}, {"a": "x\r\nB: y"}, {"a\n": "x"}, {"a": "\x00"}):
        with pytest.raises(jetsync.ConfigError):
            nc.publish("ok", b"", headers=headers)
    for data in ("text", 5, None):
        with pytest.raises(jetsync.ConfigError):
            nc.publish("ok", data)


def test_a_server_that_sends_more_than_max_message_size_loses_the_link(nc, url, subject):
    """What it announces is refused before it is kept, and a new link takes the next messages."""
    told: list[jetsync.Event] = []
    with jetsync.connect(url, max_message_size=1000, on_disconnected=told.append) as small:
        sub = small.subscribe(subject)
        small.flush()
        nc.publish(subject, b"x" * 1000)
        assert sub.next(timeout=5).data == b"x" * 1000
        nc.publish(subject, b"x" * 1001)
        nc.flush()
        wait_until(lambda: small.stats.reconnects == 1 and small.is_connected)
        small.flush()
        nc.publish(subject, b"after")
        assert sub.next(timeout=5).data == b"after"
    assert [type(event.error) for event in told] == [jetsync.ProtocolError]


@pytest.mark.parametrize("size", [0, -1, 2**30 + 1, 1.5, "1000"])
def test_a_max_message_size_that_is_none_is_refused(size):
    with pytest.raises(jetsync.ConfigError, match="max_message_size"):
        jetsync.ConnectOptions(max_message_size=size)


def test_a_message_over_max_payload_is_refused_before_it_is_sent(nc):
    with pytest.raises(jetsync.MaxPayloadError):
        nc.publish("big", b"x" * (nc.max_payload + 1))
    nc.flush()
    assert nc.is_connected


def test_a_line_over_max_control_line_is_refused_before_it_is_sent(nc):
    with pytest.raises(jetsync.ConfigError, match="max_control_line"):
        nc.publish("s" * 4096, b"")
    with pytest.raises(jetsync.ConfigError, match="max_control_line"):
        nc.subscribe("s" * 4096)
    nc.flush()


def test_max_control_line_is_that_of_the_server():
    with (
        NatsServer(config={"max_control_line": 16384}) as server,
        jetsync.connect(server.url, max_control_line=16384) as nc,
    ):
        long, queue = "s" * 9000, "q" * 4000
        sub = nc.subscribe(long, queue=queue)
        nc.publish(long, b"far", reply="r" * 7000)
        assert sub.next(timeout=5).reply == "r" * 7000
        with jetsync.connect(server.url) as usual, pytest.raises(jetsync.ConfigError):
            usual.publish(long)
        js = nc.jetstream()
        js.create_stream(name="LONG", subjects=[f"{'t' * 250}.>"], allow_atomic=True)
        deep = ".".join(["t" * 250] * 30)
        assert js.publish(deep, b"one").seq == 1
        assert js.publish_async(deep, b"two").result(5).seq == 2
        with js.batch() as batch:
            batch.add(deep, b"three")
        nc.force_reconnect()  # the long subscription is made anew
        wait_until(lambda: nc.stats.reconnects == 1 and nc.is_connected)
        nc.publish(long, b"again")
        assert sub.next(timeout=5).data == b"again"
        assert js.publish_many([(deep, b"four")]).stored == 1
        assert js.stream("LONG").info().state.messages == 4


def test_a_strict_server_gets_no_line_that_would_end_the_link():
    with (
        NatsServer(config={"max_control_line": 512}, jetstream=False) as server,
        jetsync.connect(server.url, max_control_line=512) as nc,
    ):
        line = 512 - len("PUB  0")
        nc.publish("s" * line)
        with pytest.raises(jetsync.ConfigError, match="max_control_line"):
            nc.publish("s" * (line + 1))
        nc.flush()
        assert nc.is_connected
        told = []
        with jetsync.connect(server.url, on_error=told.append) as usual:
            usual.publish("s" * 600)
            wait_until(lambda: any("max_control_line" in str(event.error) for event in told))


@pytest.mark.parametrize("line", [0, 63, 65_001, "4096", None])
def test_a_max_control_line_that_is_none_is_refused(line):
    with pytest.raises(jetsync.ConfigError, match="max_control_line"):
        jetsync.ConnectOptions(max_control_line=line)


def test_every_buffer_like_payload_is_taken(nc, subject):
    sub = nc.subscribe(subject)
    for data in (b"x", bytearray(b"x"), memoryview(b"x")):
        nc.publish(subject, data)
        assert sub.next(timeout=1).data == b"x"
