"""Looking after streams and consumers: pages, purging, deleting, pausing, unpinning, resetting."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.insides import api_of, connection_of
from tests.harness.waiting import wait_until


def now() -> datetime:
    return datetime.now(timezone.utc)


# -- listings --------------------------------------------------------------------------------------


def test_listings_go_over_pages(js, stream):
    names = [f"c{n:04}" for n in range(300)]
    for name in names:
        stream.create_consumer(name=name, mem_storage=True, inactive_threshold=600)
    assert sorted(stream.consumer_names()) == names
    assert sorted(info.name for info in stream.consumers()) == names
    # A page more, without making a thousand of them: pages of any size follow each other.
    pages = api_of(js).pages(f"CONSUMER.NAMES.{stream.name}", "consumers")
    assert next(pages) in names


def test_more_streams_than_one_page_holds():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=30)
        names = [f"S{n:03}" for n in range(260)]
        for name in names:
            js.create_stream(name=name, storage="memory", subjects=[f"x.{name}"])
        assert sorted(js.stream_names()) == names
        assert sorted(info.config.name for info in js.streams()) == names
        assert list(js.stream_names("x.S007")) == ["S007"]
        assert [info.config.name for info in js.streams("x.S007")] == ["S007"]
        assert len(list(js.stream_names("x.*"))) == 260


def test_subjects_of_a_stream_come_in_full_whatever_the_page(js, stream):
    count = 100_001  # a server tells 100,000 at a time
    report = js.publish_many((f"{stream.name}.{n}", b"") for n in range(count))
    assert report.stored == count
    state = stream.info(subjects_filter=f"{stream.name}.*", timeout=60).state
    assert len(state.subjects) == count == state.num_subjects


def test_a_wrong_subject_is_refused_before_anything_is_sent(js, nc, stream):
    nc.flush()
    sent = nc.stats.out_messages
    for call in (
        lambda: list(js.streams("a b")),
        lambda: list(js.stream_names("a..b")),
        lambda: js.stream_name_by_subject(""),
        lambda: stream.info(subjects_filter="a b"),
        lambda: stream.get_last_msg("a b"),
        lambda: stream.get_msg(1, next_by_subject=""),
        lambda: stream.get_msg(0),
        lambda: stream.purge(subject="a b"),
        lambda: stream.purge(keep=-1),
        lambda: stream.purge(seq=0),
        lambda: stream.purge(keep=1, seq=1),
        lambda: stream.delete_msg(0),
        lambda: js.unpin_consumer(stream.name, "c", ""),
        lambda: js.reset_consumer(stream.name, "c", 0),
        lambda: js.pause_consumer(stream.name, "c", datetime(2100, 1, 1)),
    ):
        with pytest.raises(jetsync.ConfigError):
            call()
    assert nc.stats.out_messages == sent


# -- messages --------------------------------------------------------------------------------------


def test_purging_keeps_what_it_is_told_to_keep(js, stream):
    name = stream.name

    def fill():
        stream.purge()
        first = js.publish(f"{name}.0", msg_id=None).seq
        for n in range(1, 10):
            js.publish(f"{name}.{n % 2}", msg_id=None)
        return first

    def left():
        state = stream.info().state
        return list(range(state.first_seq, state.last_seq + 1)) if state.messages else []

    first = fill()
    assert stream.purge(seq=first + 3) == 3
    assert left() == [first + n for n in range(3, 10)]
    first = fill()
    assert stream.purge(keep=2) == 8
    assert left() == [first + 8, first + 9]
    fill()
    assert stream.purge(subject=f"{name}.1", keep=1) == 4
    first = fill()
    assert stream.purge(subject=f"{name}.0", seq=first + 4) == 2
    assert stream.purge(subject=f"{name}.*") == 8
    assert stream.purge(subject=f"{name}.none") == 0


def test_deleted_messages_are_told_in_detail(js, stream):
    for _ in range(6):
        js.publish(f"{stream.name}.a", b"secret")
    stream.delete_msg(2)
    stream.delete_msg(4, secure=True)
    state = stream.info(deleted_details=True).state
    assert (state.deleted, state.num_deleted, state.messages) == ([2, 4], 2, 4)
    assert stream.info().state.deleted == []
    with pytest.raises(jetsync.MessageNotFoundError):
        stream.delete_msg(4)


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_message_that_is_not_there_is_told_wherever_it_would_be(js, stream, storage):
    name = f"{stream.name}N"
    made = js.create_stream(name=name, subjects=[name], storage=storage)
    try:
        with pytest.raises(jetsync.MessageNotFoundError):
            made.delete_msg(1)
        for _ in range(5):
            js.publish(name, b"x")
        made.purge(seq=2)
        made.delete_msg(3)
        for gone in (1, 3, 9):
            with pytest.raises(jetsync.MessageNotFoundError, match=f"sequence {gone} not found"):
                made.delete_msg(gone)
    finally:
        js.delete_stream(name)


def test_secure_deletion_overwrites_the_bytes_on_disk(tmp_path):
    with NatsServer(store_dir=tmp_path) as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        files = js.create_stream(name="FILES", subjects=["f"])
        for secret in (b"plain-secret-one", b"plain-secret-two", b"end"):
            js.publish("f", secret)

        def stored(text):
            return any(text in path.read_bytes() for path in tmp_path.rglob("*.blk"))

        wait_until(lambda: stored(b"secret-one") and stored(b"secret-two"), timeout=20)
        files.delete_msg(1, secure=True)
        wait_until(lambda: not stored(b"secret-one"), timeout=20)
        assert stored(b"secret-two")


def test_streams_that_forbid_it_do_not_delete(js, stream):
    name = f"{stream.name}F"
    fixed = js.create_stream(name=name, storage="memory", deny_delete=True, deny_purge=True)
    try:
        js.publish(name, b"x")
        for call in (lambda: fixed.delete_msg(1), fixed.purge):
            with pytest.raises(jetsync.APIError, match="not permitted"):
                call()
        js.update_stream(name=name, sealed=True)
        with pytest.raises(jetsync.NotStoredError):
            js.publish(name, b"y", timeout=20)
    finally:
        fixed.delete()


# -- consumers -------------------------------------------------------------------------------------


def test_pausing_and_resuming(js, stream):
    consumer = stream.create_consumer(durable_name="c")
    js.pause_consumer(stream.name, "c", now() + timedelta(hours=1))
    info = consumer.info()
    assert info.paused
    assert 3000 < info.pause_remaining <= 3600
    js.resume_consumer(stream.name, "c")
    assert not consumer.info().paused
    stream.pause_consumer("c", now() + timedelta(hours=1))
    assert consumer.info().paused
    stream.resume_consumer("c")
    assert not consumer.info().paused
    with pytest.raises(jetsync.ConsumerNotFoundError):
        js.pause_consumer(stream.name, "none", now())


def test_unpinning_takes_the_pin_away(js, stream):
    consumer = stream.create_consumer(
        durable_name="c", priority_policy="pinned_client", priority_groups=["g"]
    )
    js.publish(f"{stream.name}.a")
    with connection_of(js).subscribe(inbox := connection_of(js).new_inbox()) as pinned:
        body = b'{"batch":1,"group":"g","expires":20000000000}'
        connection_of(js).publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.c", body, reply=inbox)
        assert pinned.next(timeout=20).headers["Nats-Pin-Id"]
    (group,) = consumer.info().priority_groups
    assert group.group == "g"
    assert group.pinned_client_id
    stream.unpin_consumer("c", "g")
    (group,) = consumer.info().priority_groups
    assert not group.pinned_client_id
    with pytest.raises(jetsync.PriorityGroupError):
        js.unpin_consumer(stream.name, "c", "other")
    with pytest.raises(jetsync.ConsumerNotFoundError):
        js.unpin_consumer(stream.name, "none", "g")


def test_resetting_delivers_again(js, stream):
    for n in range(5):
        js.publish(f"{stream.name}.a", b"%d" % n)
    consumer = stream.create_consumer(durable_name="c")
    for msg in consumer.fetch(5, timeout=20):
        msg.ack_sync()
    info = js.reset_consumer(stream.name, "c", 3)
    assert (info.name, info.num_pending, info.extra) == ("c", 3, {"reset_seq": 3})
    again = consumer.fetch(3, timeout=20)
    assert [(msg.metadata.stream_seq, msg.metadata.consumer_seq) for msg in again] == [
        (3, 1),
        (4, 2),
        (5, 3),
    ]
    assert stream.reset_consumer("c", 5).num_pending == 1
    assert stream.reset_consumer("c", 3).num_pending == 3
    # Not acknowledged: without a sequence exactly these come again.
    assert js.reset_consumer(stream.name, "c").num_pending == 3
    assert [msg.data for msg in consumer.fetch(3, timeout=20)] == [b"2", b"3", b"4"]
    stream.create_consumer(durable_name="last", deliver_policy="last")
    with pytest.raises(jetsync.ConsumerResetError):
        js.reset_consumer(stream.name, "last", 1)
    with pytest.raises(jetsync.ConsumerNotFoundError):
        js.reset_consumer(stream.name, "none")


# -- servers ---------------------------------------------------------------------------------------


def test_one_server_alone_has_no_leader_to_step_down(js, stream):
    stream.create_consumer(durable_name="c")
    for call in (
        lambda: js.step_down_stream_leader(stream.name),
        lambda: js.remove_stream_peer(stream.name, "x"),
        lambda: js.step_down_consumer_leader(stream.name, "c"),
        lambda: js.remove_consumer_peer(stream.name, "c", "x"),
    ):
        with pytest.raises(jetsync.ClusterError):
            call()
