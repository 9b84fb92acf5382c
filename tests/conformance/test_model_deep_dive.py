"""The JetStream model deep dive, section by section, on the real server.

Where server 2.15 differs from the document, the test holds what the server does and says so.
"""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.insides import connection_of
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def js():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="KEPT", subjects=["kept"])
        js.publish_async("kept").result()  # its thread stays
        yield js


@pytest.fixture
def make(js):
    """Create streams with subjects ``ORDERS.*`` that are gone after the test."""
    made = []

    def create(**fields):
        # In memory: a file stream made right after another of its name was deleted was seen to
        # begin with messages of that one.
        fields = {"storage": "memory", **fields}
        made.append(js.create_stream(name="ORDERS", subjects=["ORDERS.*"], **fields))
        return made[-1]

    yield create
    for stream in made:
        stream.delete()


def publish(js, count, subject="ORDERS.processed"):
    for n in range(1, count + 1):
        js.publish(subject, b"order %d" % n)


def messages(stream):
    return stream.info().state.messages


def pyarrow_rows():
    import pyarrow as pa

    return pa.record_batch({"data": [b""]})


# -- Stream Limits, Retention, and Policy ----------------------------------------------------------


def test_limits_hold_back_the_newest(js, make):
    stream = make(max_msgs=3)
    publish(js, 5)
    state = stream.info().state
    assert (state.messages, state.first_seq, state.last_seq) == (3, 3, 5)
    stream = js.update_stream(name="ORDERS", max_msgs=-1, max_bytes=200)
    publish(js, 10)
    assert 0 < stream.info().state.bytes <= 200
    js.update_stream(name="ORDERS", max_age=0.2, duplicate_window=0.2)
    wait_until(lambda: messages(stream) == 0, timeout=20)


def test_discard_new_refuses_what_is_over_a_limit(js, make):
    stream = make(max_msgs=2, discard="new")
    publish(js, 2)
    for call in (js.publish, lambda subject, data: js.publish_async(subject, data).result()):
        with pytest.raises(jetsync.NotStoredError) as caught:
            call("ORDERS.processed", b"3")
        assert isinstance(caught.value.__cause__, jetsync.LimitsExceededError)
    assert messages(stream) == 2


def test_a_message_over_the_stream_s_size_is_refused(js, make):
    stream = make(max_msg_size=100)
    js.publish("ORDERS.processed", b"x" * 10)
    with pytest.raises(jetsync.MessageTooLargeError) as caught:
        js.publish("ORDERS.processed", b"x" * 101)
    assert isinstance(caught.value, jetsync.NotStoredError)
    assert messages(stream) == 1


def test_a_sealed_stream_takes_nothing(js, make):
    make()
    publish(js, 1)
    js.update_stream(name="ORDERS", sealed=True)
    with pytest.raises(jetsync.NotStoredError):
        publish(js, 1)


def test_a_work_queue_keeps_messages_until_its_one_consumer_acknowledged_them(js, make):
    stream = make(retention="workqueue", max_msgs=5)
    publish(js, 7)
    assert messages(stream) == 5  # the limits are upper bounds here too
    consumer = stream.create_consumer(durable_name="W", filter_subject="ORDERS.processed")
    for overlapping in ("ORDERS.processed", "ORDERS.*"):
        with pytest.raises(jetsync.InvalidConsumerConfigError):
            stream.create_consumer(durable_name="V", filter_subject=overlapping)
    assert stream.create_consumer(durable_name="U", filter_subject="ORDERS.other")
    for msg in consumer.fetch(2, timeout=20):
        msg.ack_sync()
    wait_until(lambda: messages(stream) == 3, timeout=20)


def test_a_work_queue_wants_explicit_acknowledgements(js, make):
    stream = make(retention="workqueue")
    for policy in ("none", "all"):
        with pytest.raises(jetsync.InvalidConsumerConfigError):
            stream.create_consumer(durable_name="W", ack_policy=policy)


def test_interest_keeps_messages_until_every_consumer_acknowledged_them(js, make):
    stream = make(retention="interest")
    publish(js, 1)
    assert messages(stream) == 0  # no consumer is interested
    one, two = (stream.create_consumer(durable_name=name) for name in ("one", "two"))
    other = stream.create_consumer(durable_name="other", filter_subject="ORDERS.other")
    publish(js, 3)
    assert messages(stream) == 3
    assert other.info().num_pending == 0
    for msg in one.fetch(3, timeout=20):
        msg.ack_sync()
    assert messages(stream) == 3
    for msg in two.fetch(2, timeout=20):
        msg.ack_sync()
    wait_until(lambda: messages(stream) == 1, timeout=20)


# -- Message Deduplication -------------------------------------------------------------------------


def test_only_the_id_of_a_message_counts(js, make):
    stream = make()
    acks = [js.publish("ORDERS.new", b"hello%d" % n, msg_id="1") for n in range(4)]
    assert [(ack.seq, ack.duplicate) for ack in acks] == [(1, False)] + [(1, True)] * 3
    assert js.publish("ORDERS.other", b"hello", msg_id="1").duplicate  # of the stream's ids
    assert (messages(stream), stream.get_msg(1).data) == (1, b"hello0")
    assert stream.info().config.duplicate_window == 120


@pytest.mark.parametrize(
    "publish_one",
    [
        lambda js, subject: js.publish(subject),
        lambda js, subject: js.publish_async(subject).result(),
        lambda js, subject: js.publish_many([(subject, b"")]).raise_for_failed(),
        lambda js, subject: js.publish_arrow(pyarrow_rows(), subject=subject),
    ],
    ids=["publish", "publish_async", "publish_many", "publish_arrow"],
)
def test_every_way_of_publishing_has_automatic_ids(js, make, publish_one):
    stream = make()
    publish_one(js, "ORDERS.a")
    assert stream.get_msg(1).headers["Nats-Msg-Id"]


def test_an_id_is_forgotten_after_the_window(js, make):
    stream = make(duplicate_window=0.2)
    js.publish("ORDERS.new", b"x", msg_id="1")
    wait_until(lambda: not js.publish("ORDERS.new", b"x", msg_id="1").duplicate, timeout=20)
    assert messages(stream) == 2


# -- Acknowledgement Models ------------------------------------------------------------------------


def test_the_walk_through_of_acknowledgements(js, make):
    stream = make()
    consumer = stream.create_consumer(durable_name="DISPATCH", ack_wait=0.3)

    def where():
        info = consumer.info()
        return (
            (info.delivered.consumer_seq, info.delivered.stream_seq),
            (info.ack_floor.consumer_seq, info.ack_floor.stream_seq),
            info.num_ack_pending,
            info.num_redelivered,
        )

    # The document shows the next sequences, the server tells the last ones.
    assert where() == ((0, 0), (0, 0), 0, 0)
    js.publish("ORDERS.processed", b"order 4")
    consumer.next(timeout=20).ack_sync()
    assert where() == ((1, 1), (1, 1), 0, 0)
    js.publish("ORDERS.processed", b"order 5")
    consumer.next(timeout=20)
    assert where() == ((2, 2), (1, 1), 1, 0)
    again = consumer.next(timeout=20)
    assert (again.data, again.metadata.num_delivered) == (b"order 5", 2)
    assert where() == ((3, 2), (1, 1), 1, 1)
    again.ack_sync()
    assert where() == ((3, 2), (3, 2), 0, 0)


def test_acknowledging_all_covers_what_came_before(js, make):
    stream = make()
    consumer = stream.create_consumer(durable_name="A", ack_policy="all")
    publish(js, 10)
    batch = consumer.fetch(10, timeout=20)
    batch[6].ack_sync()
    info = consumer.info()
    assert (info.ack_floor.stream_seq, info.num_ack_pending) == (7, 3)


def test_without_acknowledgements_nothing_is_pending(js, make):
    stream = make()
    # The document has explicit acknowledgements only for pull consumers; servers take all policies.
    consumer = stream.create_consumer(durable_name="N", ack_policy="none")
    publish(js, 3)
    assert len(consumer.fetch(3, timeout=20)) == 3
    info = consumer.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 3)


def test_a_stream_can_be_silent(js, make):
    stream = make(no_ack=True)
    connection_of(js).publish("ORDERS.processed", b"x")
    wait_until(lambda: messages(stream) == 1, timeout=20)
    inbox = connection_of(js).new_inbox()
    with connection_of(js).subscribe(inbox) as answers:
        connection_of(js).publish("ORDERS.processed", b"y", reply=inbox)
        wait_until(lambda: messages(stream) == 2, timeout=20)
        connection_of(js).flush()
        assert answers.pending_messages == 0


# -- Exactly Once Semantics ------------------------------------------------------------------------


def test_what_was_double_acknowledged_never_comes_again(js, make):
    """The publisher repeats what it is not sure of, and the consumer what it did not confirm."""
    stream = make()
    consumer = stream.create_consumer(durable_name="C", ack_wait=1)
    for n in range(20):
        for _ in range(1 + n % 3):
            js.publish("ORDERS.processed", b"%d" % n, msg_id=str(n))
    batch = consumer.fetch(20, timeout=20)
    assert [int(msg.data) for msg in batch] == list(range(20))
    batch[0].ack_sync()
    connection_of(js).flush()
    confirmed = {1}
    again = consumer.fetch(19, timeout=20)
    assert confirmed.isdisjoint(msg.metadata.stream_seq for msg in again)
    again.ack_sync()
    assert consumer.info().num_ack_pending == 0
    assert len(consumer.fetch(1, timeout=1.5)) == 0


# -- Consumer Starting Position --------------------------------------------------------------------


def test_every_starting_position(js, make):
    stream = make()
    publish(js, 100)
    half = stream.get_msg(50).time
    assert half is not None

    def first(**fields):
        consumer = stream.create_consumer(ack_policy="none", **fields)
        msg = consumer.fetch_no_wait(1)
        return msg[0].metadata.stream_seq if len(msg) else None

    assert first(deliver_policy="all") == 1
    assert first(deliver_policy="last") == 100
    assert first(deliver_policy="new") is None
    assert first(deliver_policy="by_start_sequence", opt_start_seq=10) == 10
    assert first(deliver_policy="by_start_time", opt_start_time=half) in (50, 51)
    later = half + timedelta(days=1)
    assert first(deliver_policy="by_start_time", opt_start_time=later) is None
    # Not in the document: the last one of each subject.
    assert first(deliver_policy="last_per_subject", filter_subject="ORDERS.*") == 100


def test_a_position_is_only_where_it_begins(js, make):
    stream = make()
    publish(js, 3)
    consumer = stream.create_consumer(durable_name="L", deliver_policy="last", ack_policy="none")
    publish(js, 2)
    assert [m.metadata.stream_seq for m in consumer.fetch(3, timeout=20)] == [3, 4, 5]


# -- Ephemeral Consumers ---------------------------------------------------------------------------


def test_an_ephemeral_consumer_goes_away_by_itself_and_a_durable_one_stays(js, make):
    stream = make()
    short = stream.create_consumer(inactive_threshold=0.2)
    stream.create_consumer(durable_name="stays")
    assert short.info().config.durable_name is None
    wait_until(lambda: set(stream.consumer_names()) == {"stays"}, timeout=20)
    with pytest.raises(jetsync.ConsumerNotFoundError):
        short.info()


# -- Consumer Message Rates ------------------------------------------------------------------------


def test_messages_can_be_replayed_with_their_pauses(js, make):
    stream = make()
    publish(js, 1)
    first = stream.get_msg(1).time_ns
    wait_until(lambda: time.time_ns() - first > 400_000_000, timeout=20)
    publish(js, 1)
    pause = (stream.get_msg(2).time_ns - first) / 1e9
    # The document has this for push consumers only; pull consumers can do it too.
    began = time.monotonic()
    consumer = stream.create_consumer(ack_policy="none", replay_policy="original")
    assert len(consumer.fetch(2, timeout=20)) == 2
    assert time.monotonic() - began > pause * 0.5


# -- Ack Sampling ----------------------------------------------------------------------------------


def test_acknowledgements_are_sampled(js, make):
    stream = make()
    consumer = stream.create_consumer(durable_name="NEW", sample_freq="100%")
    with connection_of(js).subscribe("$JS.EVENT.METRIC.CONSUMER.ACK.ORDERS.NEW") as samples:
        publish(js, 1)
        consumer.next(timeout=20).ack()
        assert b'"stream_seq":1' in samples.next(timeout=20).data


# -- Storage Overhead ------------------------------------------------------------------------------


def test_a_message_takes_the_bytes_of_the_formula(js, make):
    stream = make(storage="file")
    subject, data = "ORDERS.a", b"hello"
    js.publish(subject, data, msg_id=None)
    fixed = 4 + 8 + 8 + 2 + 8
    assert stream.info().state.bytes == fixed + len(subject) + len(data)
    js.publish(subject, data, headers={"A": "b"}, msg_id=None)
    block = len(b"NATS/1.0\r\nA: b\r\n\r\n")
    assert stream.info().state.bytes == 2 * (fixed + len(subject) + len(data)) + 4 + block
