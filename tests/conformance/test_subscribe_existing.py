"""The subscribe workflow: a consumer that exists, or comes into being at the same moment.

One test per rule of the document, against a real server. Errors are told apart by their class.
"""

from __future__ import annotations

import threading

import pytest

import jetsync
from jetsync.errors import (
    ConfigError,
    ConsumerMismatchError,
    DeliverGroupMismatchError,
    DuplicateSubscriptionError,
    PullConsumerError,
    PushConsumerError,
    QueueStatusError,
    SubjectMismatchError,
)
from jetsync.jetstream.subscribe.workflow import Subscriber
from tests.harness.insides import left_open

# -- a consumer that exists: does it fit? ---------------------------------------------------------


def test_a_bound_push_consumer_is_a_duplicate_subscription(js, stream, subject):
    with js.subscribe(subject, durable="d"):
        with pytest.raises(DuplicateSubscriptionError, match="in use"):
            js.subscribe(subject, durable="d")
        with pytest.raises(DuplicateSubscriptionError):
            js.subscribe(subject, consumer="d")


def test_a_group_consumer_refuses_who_gives_no_queue(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="x", deliver_group="g")
    with pytest.raises(DeliverGroupMismatchError, match="made for the queue group 'g'") as caught:
        js.subscribe(subject, consumer="c")
    assert (caught.value.queue, caught.value.deliver_group) == (None, "g")


def test_a_group_consumer_refuses_another_queue(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="x", deliver_group="g")
    with pytest.raises(DeliverGroupMismatchError, match="another queue group") as caught:
        js.subscribe(subject, consumer="c", queue="mine")
    assert (caught.value.queue, caught.value.deliver_group) == ("mine", "g")


def test_a_consumer_without_a_group_refuses_a_queue(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="x")
    with pytest.raises(DeliverGroupMismatchError, match="without a deliver group") as caught:
        js.subscribe(subject, consumer="c", queue="mine")
    assert (caught.value.queue, caught.value.deliver_group) == ("mine", None)


@pytest.mark.parametrize("subscribe", [Subscriber.subscribe, Subscriber.pull_subscribe])
def test_another_filter_subject_is_a_mismatch(js, stream, subject, subscribe):
    push = {"deliver_subject": "x"} if subscribe is Subscriber.subscribe else {}
    stream.create_consumer(durable_name="c", filter_subject=subject, **push)
    with pytest.raises(SubjectMismatchError) as caught:
        subscribe(js, f"{stream.name}.b", consumer="c")
    assert caught.value.subject == f"{stream.name}.b"
    assert caught.value.filter_subjects == (subject,)


def test_a_consumer_without_a_filter_takes_any_subject(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="x")
    with js.subscribe(subject, consumer="c") as sub:
        assert sub.name == "c"


def test_a_pull_subscription_cannot_use_a_push_consumer(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="x")
    for names in ({"consumer": "c"}, {"durable": "c"}):
        with pytest.raises(PushConsumerError, match="use subscribe"):
            js.pull_subscribe(subject, **names)


def test_a_push_subscription_cannot_use_a_pull_consumer(js, stream, subject):
    stream.create_consumer(durable_name="c")
    for names in ({"consumer": "c"}, {"durable": "c"}, {"consumer": "c", "queue": "q"}):
        with pytest.raises(PullConsumerError, match="use pull_subscribe"):
            js.subscribe(subject, **names)


@pytest.mark.parametrize("flow_control", [False, True])
def test_statuses_on_a_group_consumer_are_refused(js, stream, subject, flow_control):
    stream.create_consumer(
        durable_name="c",
        deliver_subject="x",
        deliver_group="g",
        idle_heartbeat=1,
        flow_control=flow_control,
    )
    with pytest.raises(QueueStatusError, match="flow control" if flow_control else "heartbeats"):
        js.subscribe(subject, consumer="c", queue="g")


def test_drift_lists_each_field_with_yours_and_the_servers(js, stream, subject):
    stream.create_consumer(
        durable_name="c", deliver_subject="x", ack_wait=10, max_deliver=3, metadata={"a": "b"}
    )
    with pytest.raises(ConsumerMismatchError) as caught:
        js.subscribe(
            subject, durable="c", ack_wait=20, max_deliver=3, ack_policy="all", metadata={"a": "c"}
        )
    fields = caught.value.fields
    assert set(fields) == {"ack_wait", "ack_policy", "metadata"}
    assert fields["ack_wait"] == (20.0, 10.0)
    assert fields["ack_policy"] == ("all", "explicit")
    for text in ("ack_wait: yours 20.0, the server's 10.0", "ack_policy", "metadata"):
        assert text in str(caught.value)
    assert js.consumer(stream.name, "c").cached_info.config.ack_wait == 10


DRIFT = {
    "deliver_policy": "new",
    "max_ack_pending": 5,
    "headers_only": True,
    "rate_limit_bps": 10_000,
    "replay_policy": "original",
    "sample_freq": "50%",
    "description": "other",
    "inactive_threshold": 60,
    "mem_storage": True,
    "num_replicas": 1,
    "backoff": [1, 2],
    "heartbeat": 2,
    "flow_control": True,
}


@pytest.mark.parametrize("field", DRIFT)
def test_each_field_that_differs_is_found(js, stream, subject, field):
    stream.create_consumer(durable_name="c", deliver_subject="x", max_deliver=5)
    with pytest.raises(ConsumerMismatchError) as caught:
        js.subscribe(subject, durable="c", **{field: DRIFT[field]})
    name = "idle_heartbeat" if field == "heartbeat" else field
    assert set(caught.value.fields) == {name}


def test_what_the_server_fills_in_is_no_drift(js, stream, subject):
    asked = {"backoff": [1, 2], "max_deliver": 5, "ack_wait": 30, "metadata": {"a": "b"}}
    start = {"deliver_policy": "by_start_time", "opt_start_time": stream.info().created}
    for created in (True, False):
        sub = js.subscribe(subject, durable="d", delete_consumer=False, **asked, **start)
        assert sub.created_consumer is created
        sub.unsubscribe()


def test_drift_counts_for_pull_consumers_too(js, stream, subject):
    js.pull_subscribe(subject, durable="d", delete_consumer=False, max_deliver=3)
    with pytest.raises(ConsumerMismatchError, match="max_deliver: yours 4, the server's 3"):
        js.pull_subscribe(subject, durable="d", max_deliver=4)
    assert not js.pull_subscribe(subject, durable="d", max_deliver=3).created_consumer


def test_filter_subjects_are_compared_as_a_set(js, stream):
    one, two = f"{stream.name}.1", f"{stream.name}.2"
    stream.create_consumer(durable_name="c", deliver_subject="x", filter_subjects=[one, two])
    js.subscribe(stream=stream.name, durable="c", filter_subjects=[two, one]).unsubscribe()
    with pytest.raises(ConsumerMismatchError) as caught:
        js.subscribe(stream=stream.name, durable="c", filter_subjects=[one])
    assert set(caught.value.fields) == {"filter_subjects"}
    with pytest.raises(SubjectMismatchError):
        js.subscribe(f"{stream.name}.3", durable="c")


def test_the_deliver_subject_alone_can_change_while_no_client_is_bound(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="old.place")
    js.publish(subject, b"one")
    with js.subscribe(subject, durable="c", deliver_subject="new.place") as sub:
        assert sub.next(timeout=5).data == b"one"
        assert sub.info().config.deliver_subject == "new.place"


def test_the_deliver_subject_of_a_group_in_use_cannot_change(js, stream, subject):
    with js.subscribe(subject, queue="q", deliver_subject="one.place"):
        with pytest.raises(ConsumerMismatchError) as caught:
            js.subscribe(subject, queue="q", deliver_subject="other.place")
        assert caught.value.fields == {"deliver_subject": ("other.place", "one.place")}


# -- the race: not found, then "already exists" ---------------------------------------------------


class Racing:
    """Lets another client make the consumer between the lookup and the creation."""

    def __init__(self, js, other):
        self.other = other
        self.real = js.create_consumer
        js.create_consumer = self

    def __call__(self, *args, **kwargs):
        if self.other is not None:
            other, self.other = self.other, None
            other()
        return self.real(*args, **kwargs)


def test_a_queue_member_that_loses_the_race_joins_the_winner(nc, js, stream, subject):
    winner = []
    Racing(js, lambda: winner.append(nc.jetstream().subscribe(subject, queue="q")))
    with js.subscribe(subject, queue="q") as loser:
        assert (winner[0].created_consumer, loser.created_consumer) == (True, False)
        assert loser.subject == winner[0].subject
        winner[0].unsubscribe()
        js.publish(subject, b"one")
        assert loser.next(timeout=5).data == b"one"


def test_a_subscription_without_a_queue_that_loses_the_race_is_refused(nc, js, stream, subject):
    winner = []
    Racing(js, lambda: winner.append(nc.jetstream().subscribe(subject, durable="d")))
    with pytest.raises(DuplicateSubscriptionError):
        js.subscribe(subject, durable="d")
    assert winner[0].info().push_bound
    winner[0].unsubscribe()


def test_it_is_refused_even_when_the_winner_left(nc, js, stream, subject):
    def win_and_leave():
        nc.jetstream().subscribe(subject, durable="d", delete_consumer=False).unsubscribe()

    Racing(js, win_and_leave)
    with pytest.raises(jetsync.ConsumerExistsError):
        js.subscribe(subject, durable="d")


def test_the_loser_of_the_race_is_checked_like_any_client(nc, js, stream, subject):
    Racing(js, lambda: nc.jetstream().create_consumer(stream.name, durable_name="d"))
    with pytest.raises(PullConsumerError):
        js.subscribe(subject, durable="d")


def test_a_pull_subscription_that_loses_the_race_uses_the_consumer(nc, js, stream, subject):
    def win():
        nc.jetstream().create_consumer(stream.name, durable_name="d", max_deliver=2)

    Racing(js, win)
    js.publish(subject, b"one")
    sub = js.pull_subscribe(subject, durable="d")
    assert not sub.created_consumer
    assert sub.fetch(1, 5)[0].data == b"one"


def test_many_members_may_start_at_the_same_moment(nc, js, stream, subject):
    subs, failures = [], []

    def join():
        try:
            subs.append(nc.jetstream().subscribe(subject, queue="q", timeout=20))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=join) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sum(sub.created_consumer for sub in subs) == 1
    assert len({sub.subject for sub in subs}) == 1


def test_a_consumer_can_be_bound_again_as_soon_as_it_was_left(js, stream, subject):
    """The server needs a moment to see that the subscriber has left; that is no duplicate."""
    stream.create_consumer(durable_name="c", deliver_subject="x")
    for number in range(50):
        with js.subscribe(subject, consumer="c") as sub:
            js.publish(subject, b"%d" % number)
            sub.next(timeout=10).ack()


def test_an_alarm_needs_a_consumer_with_heartbeats(nc, js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="x")
    with pytest.raises(ConfigError, match="no heartbeats"):
        js.subscribe(subject, consumer="c", heartbeat_alarm=5)
    assert left_open(nc)["subscriptions"] == 0
