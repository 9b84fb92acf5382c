"""Direct get (ADR-31): stored messages without a consumer, from any server that has them."""

from __future__ import annotations

import pickle
import sys
import threading
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import jetsync
from jetsync.jetstream.streams import direct
from jetsync.server import NatsServer
from tests.harness.proxy import Proxy
from tests.harness.raw import RawClient
from tests.harness.waiting import wait_until

COLUMNS = "subject data headers stream_seq consumer_seq num_delivered num_pending timestamp reply"


@pytest.fixture
def open_stream(js, request):
    """A fresh memory stream that answers direct gets."""
    name = f"D{abs(hash(request.node.nodeid)) % 10**9}"
    made = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory", allow_direct=True)
    yield made
    made.delete()


def fill(js, stream, count=10):
    for n in range(count):
        headers = {"N": [str(n), "again"], "Only": "odd"} if n % 2 else None
        js.publish(f"{stream.name}.{n % 3}", b"%d" % n, headers=headers, msg_id=None)


def sequences(batch):
    return [msg.metadata.stream_seq for msg in batch]


# -- what comes ------------------------------------------------------------------------------------


def test_get_msgs_gives_exactly_what_was_published(js, open_stream):
    fill(js, open_stream)
    batch = open_stream.get_msgs(1, max_messages=100)
    assert (len(batch), batch.first_seq, batch.last_seq) == (10, 1, 10)
    assert (batch.num_pending, batch.error, batch.up_to_seq) == (0, None, None)
    for n, msg in enumerate(batch):
        stored = open_stream.get_msg(n + 1)
        assert (
            (msg.subject, msg.data)
            == (stored.subject, stored.data)
            == (
                f"{open_stream.name}.{n % 3}",
                b"%d" % n,
            )
        )
        assert (msg.raw_headers, msg.headers) == (stored.raw_headers, stored.headers)
        about = msg.metadata
        assert (about.stream, about.stream_seq) == (open_stream.name, n + 1)
        assert (about.timestamp_ns, about.num_pending) == (stored.time_ns, 9 - n)
        assert (about.consumer, about.consumer_seq, about.num_delivered) == ("", 0, 0)
    assert batch[1].headers == {"N": ["1", "again"], "Only": "odd"}
    assert batch[0].raw_headers == b""


def test_a_batch_is_a_sequence(js, open_stream):
    fill(js, open_stream, 5)
    batch = open_stream.get_msgs(1, max_messages=5)
    assert sequences(batch[1:3]) == [2, 3]
    assert sequences(reversed(batch)) == [5, 4, 3, 2, 1]
    assert batch[-1].metadata.stream_seq == 5
    with pytest.raises(IndexError):
        batch[5]


def test_removed_messages_are_stepped_over(js, open_stream):
    fill(js, open_stream)
    for seq in (1, 4, 5, 10):
        open_stream.delete_msg(seq)
    batch = open_stream.get_msgs(1, max_messages=4)
    assert (sequences(batch), batch.num_pending) == ([2, 3, 6, 7], 2)
    assert sequences(open_stream.get_msgs(8, max_messages=9)) == [8, 9]


def test_one_subject_with_or_without_wildcards(js, open_stream):
    name = open_stream.name
    fill(js, open_stream)
    batch = open_stream.get_msgs(2, max_messages=2, subject=f"{name}.0")
    assert (sequences(batch), batch.num_pending) == ([4, 7], 1)
    assert sequences(open_stream.get_msgs(8, max_messages=9, subject=f"{name}.*")) == [8, 9, 10]


def test_nothing_there_is_an_empty_batch(js, open_stream):
    for _ in range(2):
        batch = open_stream.get_msgs(1, max_messages=5)
        assert (len(batch), batch.first_seq, batch.last_seq) == (0, None, None)
        assert (batch.num_pending, batch.error) == (0, None)
        assert batch.to_arrow().num_rows == 0
        assert len(open_stream.get_last_msgs(f"{open_stream.name}.x")) == 0
        js.publish(f"{open_stream.name}.y")
        open_stream.delete_msg(open_stream.info().state.last_seq)


def test_published_headers_that_look_like_the_servers_are_kept(js, open_stream):
    own = {"Nats-Sequence": ["77", "78"], "Nats-Stream": "OTHER", "Nats-Num-Pending": "5", "A": "b"}
    js.publish(f"{open_stream.name}.a", b"x", headers=own, msg_id=None)
    batch = open_stream.get_msgs(1, max_messages=1)
    assert batch[0].headers == own
    assert (batch[0].metadata.stream, batch[0].metadata.stream_seq) == (open_stream.name, 1)
    row = batch.to_arrow(text_headers=True).to_pylist()[0]
    assert (row["stream_seq"], row["num_pending"]) == (1, 0)
    assert dict(row["headers"]) == batch[0].headers.to_dict()
    assert open_stream.get_msg(1, direct=True).headers == own


def test_a_stored_status_line_does_not_end_the_reading(js, open_stream, url):
    block = b"NATS/1.0 404 Not Here\r\nX: y\r\n\r\n"
    with RawClient(url) as raw:
        raw.handshake()
        subject = f"{open_stream.name}.a".encode()
        raw.send(b"HPUB %s %d %d\r\n%s\r\n" % (subject, len(block), len(block), block))
        wait_until(lambda: open_stream.info().state.messages == 1, timeout=20)
    js.publish(f"{open_stream.name}.b", b"behind")
    assert sequences(open_stream.get_msgs(1, max_messages=5)) == [1, 2]


def test_messages_of_a_direct_get_need_no_acknowledgement(js, nc, open_stream):
    fill(js, open_stream, 3)
    batch = open_stream.get_msgs(1, max_messages=3)
    nc.flush()
    sent = nc.stats.out_messages
    for answer in ("ack", "nak", "term", "in_progress", "ack_sync"):
        getattr(batch[0], answer)()
    for answer in ("ack", "nak", "in_progress", "ack_sync"):
        getattr(batch, answer)()
    assert nc.stats.out_messages == sent
    assert batch[0].reply is None


def test_a_message_survives_pickling(js, open_stream):
    fill(js, open_stream, 2)
    msg = open_stream.get_msgs(2, max_messages=1)[0]
    copy = pickle.loads(pickle.dumps(msg))
    assert (copy.subject, copy.data, copy.headers, copy.metadata) == (
        msg.subject,
        msg.data,
        msg.headers,
        msg.metadata,
    )


# -- columns ---------------------------------------------------------------------------------------


def test_columns_have_what_the_messages_have(js, open_stream):
    fill(js, open_stream, 20)
    batch = open_stream.get_msgs(1, max_messages=20)
    table = batch.to_arrow()
    table.validate(full=True)
    assert table.schema.names == COLUMNS.split()
    for row, msg in zip(table.to_pylist(), batch, strict=True):
        assert (row["subject"], row["data"]) == (msg.subject, msg.data)
        assert row["stream_seq"] == msg.metadata.stream_seq
        assert row["num_pending"] == msg.metadata.num_pending
        assert row["timestamp"].value == msg.metadata.timestamp_ns
        published = msg.headers.to_dict()
        given = {k: [v.decode() for v in values] for k, values in row["headers"] or []}
        assert given == published
        assert (row["headers"] is None) == (not published)
        assert [row[name] for name in ("consumer_seq", "num_delivered", "reply")] == [None] * 3


def test_columns_have_the_types_of_every_batch(js, open_stream):
    fill(js, open_stream, 4)
    consumer = open_stream.create_consumer(ack_policy="none", inactive_threshold=60)
    consumed = consumer.fetch(4, timeout=20)
    read = open_stream.get_msgs(1, max_messages=4)
    for text_headers in (False, True):
        wanted = consumed.to_arrow(text_headers=text_headers)
        got = read.to_arrow(text_headers=text_headers)
        assert got.schema == wanted.schema
        same = ["subject", "data", "headers", "stream_seq", "num_pending", "timestamp"]
        assert got.select(same).equals(wanted.select(same))


def test_columns_can_be_chosen(js, open_stream):
    fill(js, open_stream, 3)
    batch = open_stream.get_msgs(1, max_messages=3)
    assert batch.to_arrow(["stream_seq", "data"]).schema.names == ["stream_seq", "data"]
    assert pa.record_batch(batch).equals(batch.to_arrow())
    for wrong in (["nothing"], ["data", "data"]):
        with pytest.raises(jetsync.ConfigError):
            batch.to_arrow(wrong)


def test_text_that_is_not_utf8_is_replaced(js, open_stream):
    js.publish(f"{open_stream.name}.a", headers={"K": b"\xff\xfe"}, msg_id=None)
    table = open_stream.get_msgs(1, max_messages=1).to_arrow(text_headers=True)
    assert table.to_pylist()[0]["headers"] == [("K", ["��"])]


def test_many_messages_make_no_objects(js, open_stream):
    js.publish_many((f"{open_stream.name}.a", b"x" * 64) for _ in range(20_000))
    open_stream.get_msgs(1, max_messages=10).to_arrow(["stream_seq"])
    before = sys.getallocatedblocks()
    batch = open_stream.get_msgs(1, max_messages=20_000, timeout=60)
    columns = batch.to_arrow(["stream_seq", "timestamp", "data"])
    assert sys.getallocatedblocks() - before < 2_000
    assert columns.column("stream_seq").to_pylist() == list(range(1, 20_001))


# -- pages and limits ------------------------------------------------------------------------------


def test_pages_follow_each_other_without_hole_or_repetition(js, nc, open_stream, monkeypatch):
    fill(js, open_stream, 100)
    monkeypatch.setattr(direct, "PAGE_BYTES", 200)
    asked = nc.stats.out_messages
    batch = open_stream.get_msgs(1, max_messages=95)
    assert nc.stats.out_messages - asked > 3
    assert (sequences(batch), batch.num_pending) == (list(range(1, 96)), 5)
    filtered = open_stream.get_msgs(1, max_messages=500, subject=f"{open_stream.name}.1")
    assert sequences(filtered) == list(range(2, 101, 3))


def test_max_bytes_ends_a_batch_after_the_message_that_reaches_it(js, open_stream):
    for _ in range(10):
        js.publish(f"{open_stream.name}.a", b"x" * 1000, msg_id=None)
    assert len(open_stream.get_msgs(1, max_messages=10, max_bytes=1)) == 1
    batch = open_stream.get_msgs(1, max_messages=10, max_bytes=3000)
    assert (len(batch), batch.num_pending) == (3, 7)
    assert len(open_stream.get_msgs(1, max_messages=10, max_bytes=10**6)) == 10


def test_max_bytes_above_one_page(js, open_stream, monkeypatch):
    for _ in range(10):
        js.publish(f"{open_stream.name}.a", b"x" * 1000, msg_id=None)
    monkeypatch.setattr(direct, "PAGE_BYTES", 2000)
    assert 4 <= len(open_stream.get_msgs(1, max_messages=10, max_bytes=5000)) <= 6
    assert len(open_stream.get_msgs(1, max_messages=10, max_bytes=10**6)) == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"start_seq": 0, "max_messages": 1},
        {"start_seq": True, "max_messages": 1},
        {"start_seq": 2**64, "max_messages": 1},
        {"start_seq": 1, "max_messages": 0},
        {"start_seq": 1, "max_messages": 1, "max_bytes": 0},
        {"start_seq": 1, "max_messages": 1, "subject": "a b"},
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(nc, open_stream, wrong):
    nc.flush()
    sent = nc.stats.out_messages
    with pytest.raises(jetsync.ConfigError):
        open_stream.get_msgs(wrong.pop("start_seq"), **wrong)
    assert nc.stats.out_messages == sent


# -- last messages ---------------------------------------------------------------------------------


def test_last_messages_of_many_subjects_in_order(js, open_stream):
    name = open_stream.name
    fill(js, open_stream, 9)
    batch = open_stream.get_last_msgs(f"{name}.*")
    assert (sequences(batch), batch.up_to_seq, batch.num_pending) == ([7, 8, 9], 9, 0)
    batch = open_stream.get_last_msgs([f"{name}.0", f"{name}.2", f"{name}.none"])
    assert sequences(batch) == [7, 9]
    assert batch.to_arrow(["subject"]).column(0).to_pylist() == [f"{name}.0", f"{name}.2"]


def test_last_messages_as_of_a_sequence_or_a_time(js, open_stream):
    name = open_stream.name
    fill(js, open_stream, 9)
    batch = open_stream.get_last_msgs(f"{name}.*", up_to_seq=5)
    assert (sequences(batch), batch.up_to_seq) == ([3, 4, 5], 5)
    moment = open_stream.get_msg(6).time + timedelta(microseconds=1)
    wait_until(lambda: datetime.now(timezone.utc) > moment)
    js.publish(f"{name}.0")
    later = open_stream.get_last_msgs(f"{name}.*", up_to_time=moment)
    assert 6 <= later.up_to_seq < 10
    assert max(sequences(later)) == later.up_to_seq
    assert (
        len(
            open_stream.get_last_msgs(
                f"{name}.*", up_to_time=datetime(2020, 1, 1, tzinfo=timezone.utc)
            )
        )
        == 0
    )


def test_pages_of_last_messages_are_of_one_moment(js, open_stream, monkeypatch):
    name = open_stream.name
    for n in range(300):
        js.publish(f"{name}.{n}", b"old", msg_id=None)
    monkeypatch.setattr(direct, "PAGE_BYTES", 100)
    stop = threading.Event()

    def overwrite():
        while not stop.is_set():
            for n in range(0, 300, 7):
                js.publish(f"{name}.{n}", b"new", msg_id=None)

    writer = threading.Thread(target=overwrite)
    writer.start()
    try:
        for _ in range(5):
            batch = open_stream.get_last_msgs(f"{name}.*", timeout=30)
            # A message that is no longer the last one now was the last one then, or is left out;
            # nothing newer than that moment may be there.
            assert sequences(batch) == sorted(set(sequences(batch)))
            assert max(sequences(batch)) <= batch.up_to_seq
            assert len({msg.subject for msg in batch}) == len(batch)
    finally:
        stop.set()
        writer.join()
    quiet = open_stream.get_last_msgs(f"{name}.*", timeout=30)
    assert len(quiet) == 300


def test_more_than_1024_subjects_are_too_many(js, open_stream):
    js.publish_many((f"{open_stream.name}.{n}", b"") for n in range(1025))
    with pytest.raises(jetsync.LimitsExceededError, match="1024") as caught:
        open_stream.get_last_msgs(f"{open_stream.name}.*")
    assert caught.value.code == 413
    open_stream.purge(subject=f"{open_stream.name}.7")
    assert len(open_stream.get_last_msgs(f"{open_stream.name}.*")) == 1024


def test_wrong_arguments_for_last_messages_are_refused(open_stream):
    now = datetime.now(timezone.utc)
    for subjects, options in (
        ([], {}),
        ("a b", {}),
        ("a", {"up_to_seq": 0}),
        ("a", {"up_to_seq": 1, "up_to_time": now}),
        ("a", {"up_to_time": datetime(2026, 1, 1)}),
    ):
        with pytest.raises(jetsync.ConfigError):
            open_stream.get_last_msgs(subjects, **options)


# -- one message -----------------------------------------------------------------------------------


def test_one_message_is_the_same_from_the_leader_and_directly(js, open_stream):
    name = open_stream.name
    fill(js, open_stream, 6)
    for direct_ in (True, None):
        assert open_stream.get_msg(4, direct=direct_) == open_stream.get_msg(4)
        assert open_stream.get_msg(
            2, next_by_subject=f"{name}.0", direct=direct_
        ) == open_stream.get_msg(4)
        assert open_stream.get_last_msg(f"{name}.1", direct=direct_) == open_stream.get_msg(5)
        with pytest.raises(jetsync.MessageNotFoundError) as caught:
            open_stream.get_msg(99, direct=direct_)
        assert caught.value.code == 404
        with pytest.raises(jetsync.MessageNotFoundError):
            open_stream.get_last_msg(f"{name}.none", direct=direct_)


# -- who answers -----------------------------------------------------------------------------------


def test_without_allow_direct_it_says_so(js, stream):
    js.publish(f"{stream.name}.a", b"x")
    for call in (
        lambda: stream.get_msgs(1, max_messages=1),
        lambda: stream.get_last_msgs(f"{stream.name}.a"),
        lambda: stream.get_msg(1, direct=True),
        lambda: stream.get_last_msg(f"{stream.name}.a", direct=True),
    ):
        with pytest.raises(jetsync.DirectGetNotAllowedError, match="allow_direct=True"):
            call()
    # Where it is not asked for expressly, the leader answers.
    assert stream.get_msg(1, direct=None).data == b"x"
    js.update_stream(name=stream.name, allow_direct=True)
    assert len(stream.get_msgs(1, max_messages=1)) == 1


def test_a_stream_that_lost_allow_direct_is_read_from_its_leader(js, open_stream):
    js.publish(f"{open_stream.name}.a", b"x")
    js.update_stream(name=open_stream.name, allow_direct=False)
    assert open_stream.get_msg(1, direct=None).data == b"x"


def test_a_deleted_stream_is_not_found(js, stream):
    gone = js.create_stream(name=f"{stream.name}x", storage="memory", allow_direct=True)
    js.delete_stream(gone.name)
    with pytest.raises(jetsync.StreamNotFoundError):
        gone.get_msgs(1, max_messages=1)
    with pytest.raises(jetsync.StreamNotFoundError):
        gone.get_msg(1, direct=True)


def test_a_mirror_may_answer_and_the_leader_knows_more(js, open_stream):
    name = open_stream.name
    mirror = js.create_stream(
        name=f"{name}M",
        storage="memory",
        mirror={"name": name, "filter_subject": f"{name}.1"},
        mirror_direct=True,
        allow_direct=True,
    )
    try:
        fill(js, open_stream, 9)
        wait_until(lambda: mirror.info().state.messages == 3, timeout=20)
        for seq in range(1, 10):
            assert open_stream.get_msg(seq).seq == seq
        for _ in range(30):
            batch = open_stream.get_msgs(1, max_messages=9)
            assert sequences(batch) in (list(range(1, 10)), [2, 5, 8])
            assert {msg.metadata.stream for msg in batch} <= {name, mirror.name}
        assert sequences(mirror.get_msgs(1, max_messages=9)) == [2, 5, 8]
    finally:
        mirror.delete()


def reads_all(stream):
    return lambda: (
        sequences(stream.get_msgs(1, max_messages=99)) == list(range(1, 51))
        and sequences(stream.get_last_msgs("every.*")) == [49, 50]
    )


def test_every_server_of_a_cluster_answers_directly(cluster):
    with jetsync.connect(cluster.urls) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="EVERY", subjects=["every.>"], num_replicas=3, allow_direct=True)
        try:
            for n in range(50):
                js.publish(f"every.{n % 2}", b"%d" % n)
            for server in cluster.servers:
                with jetsync.connect(server.url) as near:
                    stream = near.jetstream(timeout=20).stream("EVERY")
                    wait_until(reads_all(stream), timeout=20)
        finally:
            js.delete_stream("EVERY")


# -- trouble ---------------------------------------------------------------------------------------


def test_a_broken_link_is_got_over_without_hole_or_repetition(server, js, open_stream, monkeypatch):
    js.publish_many((f"{open_stream.name}.a", b"x" * 200) for _ in range(5_000))
    monkeypatch.setattr(direct, "PAGE_BYTES", 50_000)
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.01) as nc:
        stream = nc.jetstream(timeout=60).stream(open_stream.name)
        done = threading.Event()

        def cut():
            for _ in range(40):
                if done.wait(0.02):
                    return
                proxy.cut()

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            proxy.delay(0.001)
            batch = stream.get_msgs(1, max_messages=5_000)
        finally:
            done.set()
            cutter.join()
        assert sequences(batch) == list(range(1, 5_001))


@pytest.mark.parametrize("wanted", [10, 100])
def test_a_link_that_breaks_before_the_last_word_costs_nothing(
    js, open_stream, monkeypatch, wanted
):
    fill(js, open_stream, 30)
    page = direct._Reader._page
    broken: list[jetsync.Msg] = []

    def lose_the_end(reader):
        end = page(reader)
        if not broken:
            broken.append(end)
            raise jetsync.DisconnectedError("just now")
        return end

    monkeypatch.setattr(direct._Reader, "_page", lose_the_end)
    batch = open_stream.get_msgs(1, max_messages=wanted)
    assert (sequences(batch), batch.num_pending) == (
        list(range(1, min(wanted, 30) + 1)),
        max(0, 30 - wanted),
    )
    broken.clear()
    assert sequences(open_stream.get_last_msgs(f"{open_stream.name}.*")) == [28, 29, 30]
    broken.clear()
    assert len(open_stream.get_msgs(1, max_messages=30, max_bytes=1)) == 1


def test_silence_is_a_timeout_and_what_came_is_kept(fresh_server, monkeypatch):
    with Proxy(fresh_server.url) as proxy, jetsync.connect(proxy.url) as nc:
        stream = nc.jetstream().create_stream(
            name="SLOW", subjects=["slow"], storage="memory", allow_direct=True
        )
        nc.jetstream().publish_many(("slow", b"x" * 500) for _ in range(100))
        proxy.blackhole()
        with pytest.raises(jetsync.TimeoutError):
            stream.get_msgs(1, max_messages=100, timeout=0.3)
        with pytest.raises(jetsync.TimeoutError):
            stream.get_last_msgs("slow", timeout=0.3)
        proxy.unblackhole()
        assert nc.rtt(timeout=20) >= 0
        page = direct._Reader._page
        monkeypatch.setattr(direct, "PAGE_BYTES", 2_000)

        def one_page_then_silence(reader):
            if len(reader._batch):
                proxy.blackhole()
            return page(reader)

        monkeypatch.setattr(direct._Reader, "_page", one_page_then_silence)
        batch = stream.get_msgs(1, max_messages=100, timeout=0.5)
        assert isinstance(batch.error, jetsync.TimeoutError)
        assert sequences(batch) == list(range(1, len(batch) + 1))
        assert 0 < len(batch) < 100
        assert batch.num_pending > 0
        proxy.unblackhole()


def test_a_permission_that_is_missing_is_told_at_once():
    config = {
        "authorization": {
            "users": [
                {"user": "all", "password": "x"},
                {
                    "user": "some",
                    "password": "x",
                    "permissions": {"publish": {"deny": ["$JS.API.DIRECT.GET.>"]}},
                },
            ]
        }
    }
    with NatsServer(config=config) as server:
        with jetsync.connect(server.url, user="all", password="x") as nc:
            nc.jetstream().create_stream(name="P", allow_direct=True)
        with jetsync.connect(server.url, user="some", password="x") as nc:
            stream = nc.jetstream(timeout=20).stream("P")
            with pytest.raises(jetsync.PermissionsError):
                stream.get_msgs(1, max_messages=1)
            with pytest.raises(jetsync.PermissionsError):
                stream.get_msg(1, direct=True)
            with pytest.raises(jetsync.MessageNotFoundError):
                stream.get_msg(1)
