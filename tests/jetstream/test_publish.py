"""Publishing: confirmed, deduplicated, three known outcomes; in bulk the same."""

from __future__ import annotations

import pickle
import threading
import time

import pyarrow as pa
import pytest

import jetsync
from jetsync.jetstream.publish import many
from jetsync.server import NatsServer
from tests.harness.conditioner import Link
from tests.harness.waiting import wait_until


def _reaches(items, count):
    wait_until(lambda: len(items) > count, timeout=60)


def _grows(items, more):
    _reaches(items, len(items) + more)


def test_a_puback_means_stored(js, stream):
    ack = js.publish(f"{stream.name}.a", b"x", headers={"K": "v"})
    assert (ack.stream, ack.seq, ack.duplicate) == (stream.name, 1, False)
    stored = stream.get_msg(1)
    assert stored.data == b"x"
    assert stored.headers["K"] == "v"
    assert stored.headers["Nats-Msg-Id"]


def test_the_same_id_is_stored_once(js, stream):
    subject = f"{stream.name}.a"
    assert js.publish(subject, msg_id="7").seq == 1
    again = js.publish(subject, msg_id="7")
    assert (again.seq, again.duplicate) == (1, True)
    assert js.publish(subject, msg_id=None).seq == 2
    assert "Nats-Msg-Id" not in stream.get_msg(2).headers


def test_no_stream_stores_the_subject(js):
    with pytest.raises(jetsync.NotStoredError):
        js.publish("nothing.stores.this", timeout=0.6)


def test_expectations_that_do_not_hold_refuse_the_message(js, stream):
    subject = f"{stream.name}.a"
    js.publish(subject, expected_last_seq=0)
    with pytest.raises(jetsync.WrongLastSequenceError) as caught:
        js.publish(subject, expected_last_seq=0)
    assert isinstance(caught.value, jetsync.NotStoredError)
    assert isinstance(caught.value, jetsync.APIError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), jetsync.WrongLastSequenceError)
    with pytest.raises(jetsync.WrongLastSequenceError):
        js.publish(subject, expected_last_subject_seq=9)
    with pytest.raises(jetsync.NotStoredError):
        js.publish(subject, expected_stream="OTHER")
    with pytest.raises(jetsync.NotStoredError):
        js.publish(subject, expected_last_msg_id="nope")
    assert stream.info().state.messages == 1


def test_publish_goes_on_after_a_restart_and_never_doubles():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=20)
        stream = js.create_stream(name="S", subjects=["s"])
        stop = threading.Event()
        acked: list[int] = []

        def work():
            while not stop.is_set():
                acked.append(js.publish("s", b"%d" % len(acked)).seq)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(3):
            _grows(acked, 50)
            server.kill()
            server.start()
        _grows(acked, 50)
        stop.set()
        thread.join(30)
        state = stream.info().state
        assert len(set(acked)) == len(acked)
        assert state.messages == len(acked)


def test_publish_many_stores_everything_in_order(js, stream):
    report = js.publish_many(
        ((f"{stream.name}.{n % 3}", b"%d" % n) for n in range(20_000)), max_pending=500
    )
    assert (report.stored, report.duplicates, report.failed) == (20_000, 0, [])
    assert (report.first_seq, report.last_seq) == (1, 20_000)
    assert report.raise_for_failed() is report
    for seq in (1, 777, 20_000):
        assert stream.get_msg(seq).data == b"%d" % (seq - 1)


def test_publish_many_takes_headers_and_ids_of_the_users_own(js, stream):
    rows = [(f"{stream.name}.a", b"x", {"Nats-Msg-Id": "one", "K": ["1", "2"]})] * 2
    report = js.publish_many(rows)
    assert (report.stored, report.duplicates) == (2, 1)
    assert stream.get_msg(1).headers.get_all("K") == ["1", "2"]


def test_publish_many_of_nothing(js):
    assert js.publish_many([]).stored == 0


def test_bad_messages_are_reported_by_index_and_the_others_are_stored(js, stream):
    good = f"{stream.name}.a"
    rows = [(good, b""), ("b ad", b""), (good, "text"), (good, b"x" * (2 << 20)), (good, b""), 5]
    report = js.publish_many(rows)
    assert report.stored == 2
    assert [index for index, _ in report.failed] == [1, 2, 3, 5]
    assert isinstance(report.failed[2][1], jetsync.MaxPayloadError)
    with pytest.raises(jetsync.NotStoredError, match="4 of 6"):
        report.raise_for_failed()


def test_publish_many_reports_refused_and_unroutable_messages(js, stream):
    js.update_stream(
        name=stream.name,
        subjects=[f"{stream.name}.>"],
        storage="memory",
        max_msgs=3,
        discard="new",
    )
    report = js.publish_many([(f"{stream.name}.a", b"")] * 5, max_pending=1)
    assert report.stored == 3
    assert all(isinstance(error, jetsync.NotStoredError) for _, error in report.failed)
    for seconds in (0.6, 2.6):  # shorter and longer than it waits for silent servers
        lost = js.publish_many([("nothing.stores.this", b"")] * 2, timeout=seconds)
        assert lost.stored == 0
        assert [type(error) for _, error in lost.failed] == [jetsync.NotStoredError] * 2


def test_what_was_never_sent_in_time_is_told(js, stream):
    def slow():
        for n in range(1_000_000):
            time.sleep(0.001)  # a source that is slow and has no end in time
            yield f"{stream.name}.a", b"%d" % n

    report = js.publish_many(slow(), timeout=0.5)
    assert not report.complete
    # The last ones may be under way still.
    known = report.stored + len(report.failed)
    wait_until(lambda: stream.info().state.messages == known, timeout=20)
    with pytest.raises(jetsync.PublishError):
        report.raise_for_failed()


def test_a_source_that_takes_its_time_is_not_a_server_that_does(js, stream, monkeypatch):
    """Without a timeout silence of the server ends it; the source's own silence does not count."""
    monkeypatch.setattr(many, "STALL", 1.0)

    def slow():
        for n in range(2):
            time.sleep(1.5)  # a source slower than the limit
            yield f"{stream.name}.a", b"%d" % n

    report = js.publish_many(slow())
    assert (report.stored, report.complete, report.failed) == (2, True, [])


def test_a_confirmation_has_its_time_although_the_source_is_slow_meanwhile(
    js, stream, server, monkeypatch
):
    monkeypatch.setattr(many, "STALL", 2.0)
    with Link(server.url) as link, jetsync.connect(link.url) as nc:
        resuming = threading.Timer(0.3, link.resume)

        def rows():
            for n in range(600):
                if n == 512:  # those before are sent; what follows is read before they are heard of
                    time.sleep(2.5)  # a source slower than the limit
                    resuming.start()
                yield f"{stream.name}.a", b"%d" % n

        link.stall(way="to_client")
        report = nc.jetstream().publish_many(rows())
        resuming.join()
    assert (report.stored, report.complete, report.failed) == (600, True, [])


def test_an_outage_ends_it_although_other_messages_of_the_thread_wait_as_well(monkeypatch):
    monkeypatch.setattr(many, "STALL", 0.5)
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"], storage="memory")
        server.pause()
        earlier = js.publish_async("s", b"a", timeout=60)  # it goes first

        def rows():
            for n in range(1000):
                if n == 900:  # what came before is read ahead, and some of it has been sent
                    server.kill()
                    wait_until(lambda: not nc.is_connected, timeout=20)
                yield "s", b"b"

        report = js.publish_many(rows())
        assert not report.complete or report.failed
        assert not earlier.done()
        nc.close()


def test_publish_many_survives_kills_and_stores_each_message_once():
    total = 30_000
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="S", subjects=["s"])
        sent = []

        def rows():
            for n in range(total):
                sent.append(n)
                yield "s", b"%d" % n

        def faults():
            for part in (1, 2, 3):
                _reaches(sent, part * total // 4)
                server.kill()
                server.start()

        thread = threading.Thread(target=faults)
        thread.start()
        report = js.publish_many(rows())
        thread.join(60)
        assert report.failed == []
        assert report.stored == total
        assert stream.info().state.messages == total


def test_publish_many_without_ids_reports_what_it_does_not_know():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"])
        server.pause()
        report = js.publish_many([("s", b"")] * 3, msg_id=None, timeout=0.5)
        assert [type(error) for _, error in report.failed] == [jetsync.PublishUnknownError] * 3
        with pytest.raises(jetsync.PublishUnknownError):
            report.raise_for_failed()
        server.resume()


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.binary()])
def test_publish_arrow_takes_columns_of_each_width(js, stream, text):
    batch = pa.record_batch(
        {
            "to": pa.array([f"{stream.name}.{n}".encode() for n in range(4)], pa.binary()).cast(
                text
            ),
            "data": pa.array([b"0", None, b"2", b"3"], pa.binary()),
            "headers": pa.array(
                [[("K", ["v", "w"])], None, [], [("L", [])]],
                pa.map_(pa.string(), pa.list_(pa.string())),
            ),
        }
    )
    report = js.publish_arrow(batch, subject="to", headers="headers")
    assert (report.stored, report.failed) == (4, [])
    assert stream.get_msg(1).headers.get_all("K") == ["v", "w"]
    assert [stream.get_msg(seq).data for seq in (1, 2, 3, 4)] == [b"0", b"", b"2", b"3"]


def test_publish_arrow_with_constant_subject_ids_and_slices(js, stream):
    numbers = range(1000)
    table = pa.table({"data": [b"%d" % n for n in numbers], "id": [str(n) for n in numbers]})
    subject = f"{stream.name}.a"
    report = js.publish_arrow(table.slice(100, 500), subject=subject, msg_id="id")
    assert (report.stored, report.duplicates) == (500, 0)
    assert stream.get_msg(1).data == b"100"
    again = js.publish_arrow(table, subject=subject, msg_id="id")
    assert (again.stored, again.duplicates) == (1000, 500)


def test_publish_arrow_finds_the_column_of_subjects(js, stream):
    rows = {"subject": [f"{stream.name}.{n}" for n in "ab"], "data": [b"1", b"2"]}
    assert js.publish_arrow(pa.table(rows)).stored == 2
    assert stream.get_msg(2).subject == f"{stream.name}.b"
    with pytest.raises(jetsync.ConfigError, match="give subject="):
        js.publish_arrow(pa.record_batch({"data": [b"1"]}))


def test_publish_arrow_names_wrong_columns(js):
    batch = pa.record_batch({"data": [1]})
    with pytest.raises(jetsync.ConfigError, match="string or binary"):
        js.publish_arrow(batch, subject="s")
    with pytest.raises(jetsync.ConfigError, match="no column 'body'"):
        js.publish_arrow(batch, subject="s", data="body")
