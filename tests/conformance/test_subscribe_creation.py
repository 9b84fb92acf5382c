"""The subscribe workflow, first half: what is created or bound, and what is refused.

One test per rule of the document, against a real server. Errors are told apart by their class.
"""

from __future__ import annotations

from typing import Any

import pytest

import jetsync
from jetsync.errors import (
    ConfigError,
)
from jetsync.jetstream.config.consumer import ConsumerConfig
from tests.harness.tap import Tap


def sends_nothing(nc, call, **arguments):
    before = nc.stats.out_messages
    with pytest.raises(ConfigError) as caught:
        call(**arguments)
    assert nc.stats.out_messages == before
    return str(caught.value)


# -- misconfiguration: refused before any byte leaves ---------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "neither subject nor stream": ({}, "subject or a stream"),
    "only a consumer": ({"consumer": "c"}, "subject or a stream"),
    "queue and heartbeat": ({"subject": "a", "queue": "q", "heartbeat": 1}, "heartbeats"),
    "queue and flow control": ({"subject": "a", "queue": "q", "flow_control": True}, "flow"),
    "queue and heartbeat in the configuration": (
        {"subject": "a", "queue": "q", "config": ConsumerConfig(idle_heartbeat=1)},
        "heartbeats",
    ),
    "a group in the configuration is a queue": (
        {"subject": "a", "config": {"deliver_group": "q", "flow_control": True}},
        "flow control",
    ),
    "two queues": ({"subject": "a", "queue": "q", "deliver_group": "p"}, "contradict"),
    "two durables": ({"subject": "a", "durable": "d", "durable_name": "e"}, "contradict"),
    "consumer and another durable": (
        {"subject": "a", "consumer": "c", "durable": "d"},
        "contradict",
    ),
    "subject and another filter": ({"subject": "a", "filter_subject": "b"}, "contradict"),
    "heartbeat twice": ({"subject": "a", "heartbeat": 1, "idle_heartbeat": 2}, "contradict"),
    "a bad subject": ({"subject": "a..b"}, "empty token"),
    "a bad stream": ({"stream": "a.b"}, "stream name"),
    "a bad durable": ({"subject": "a", "durable": "a.b"}, "durable name"),
    "a queue that cannot be a durable": ({"subject": "a", "queue": "a.b"}, "durable"),
    "a field of pull consumers": ({"subject": "a", "max_waiting": 5}, "pull_subscribe"),
    "a limit of pulls": ({"subject": "a", "max_batch": 5}, "pull_subscribe"),
    "an unknown field": ({"subject": "a", "ack_polizy": "none"}, "did you mean"),
    "a start without its policy": ({"subject": "a", "opt_start_seq": 5}, "by_start_sequence"),
    "a policy without its start": (
        {"subject": "a", "deliver_policy": "by_start_sequence"},
        "opt_start_seq",
    ),
    "an alarm without heartbeats": ({"subject": "a", "heartbeat_alarm": 3}, "heartbeat"),
    "no callable": ({"subject": "a", "callback": 5}, "function"),
    "a negative limit": ({"subject": "a", "pending_bytes_limit": -1}, "pending_bytes_limit"),
    "ordered and queue": ({"subject": "a", "ordered": True, "queue": "q"}, "queue"),
    "ordered and durable": ({"subject": "a", "ordered": True, "durable": "d"}, "'d'"),
    "ordered and consumer": ({"subject": "a", "ordered": True, "consumer": "c"}, "'c'"),
    "ordered and acknowledged": (
        {"subject": "a", "ordered": True, "ack_policy": "explicit"},
        "ack_policy='none'",
    ),
    "ordered and redelivered": ({"subject": "a", "ordered": True, "max_deliver": 3}, "max_deliver"),
    "ordered to a subject": (
        {"subject": "a", "ordered": True, "deliver_subject": "b"},
        "deliver_subject",
    ),
    "ordered with raw statuses": (
        {"subject": "a", "ordered": True, "manual_status": True},
        "manual_status",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_subscribe_is_refused_before_any_byte_leaves(nc, js, case):
    arguments, said = WRONG[case]
    assert said in sends_nothing(nc, js.subscribe, **arguments)


WRONG_PULL: dict[str, tuple[dict[str, Any], str]] = {
    "neither subject nor stream": ({"durable": "d"}, "subject or a stream"),
    "ack policy none": ({"subject": "a", "ack_policy": "none"}, "ack_policy"),
    "ack policy all": ({"subject": "a", "config": ConsumerConfig(ack_policy="all")}, "ack_policy"),
    "a deliver subject": ({"subject": "a", "deliver_subject": "b"}, "deliver_subject"),
    "a deliver group": ({"subject": "a", "deliver_group": "q"}, "deliver_group"),
    "heartbeats": ({"subject": "a", "idle_heartbeat": 1}, "idle_heartbeat"),
    "flow control": ({"subject": "a", "config": {"flow_control": True}}, "flow_control"),
    "consumer and another durable": (
        {"subject": "a", "consumer": "c", "durable": "d"},
        "contradict",
    ),
}


@pytest.mark.parametrize("case", WRONG_PULL)
def test_a_wrong_pull_subscribe_is_refused_before_any_byte_leaves(nc, js, case):
    arguments, said = WRONG_PULL[case]
    assert said in sends_nothing(nc, js.pull_subscribe, **arguments)


# -- the stream -----------------------------------------------------------------------------------


def test_the_stream_is_found_by_subject(js, stream, subject):
    with js.subscribe(subject) as sub:
        assert sub.stream_name == stream.name


def test_no_stream_for_the_subject_is_an_error(js, stream):
    with pytest.raises(jetsync.StreamNotFoundError, match="no matching stream"):
        js.subscribe("nothing.stores.this")
    with pytest.raises(jetsync.StreamNotFoundError, match="no matching stream"):
        js.pull_subscribe("nothing.stores.this")


def test_several_streams_for_the_subject_are_an_error_that_names_them(js, stream):
    other = js.create_stream(name=f"{stream.name}b", subjects=[f"{stream.name}b.>"])
    with pytest.raises(jetsync.StreamNotFoundError, match=other.name):
        js.subscribe("*.a")
    other.delete()


def test_a_named_stream_is_not_looked_up_and_the_subject_filters(js, stream, subject):
    with js.subscribe(subject, stream=stream.name) as sub:
        assert sub.cached_info.config.filter_subject == subject
    with js.subscribe(stream=stream.name) as sub:
        assert sub.cached_info.config.filter_subject is None
    with pytest.raises(jetsync.StreamNotFoundError):
        js.subscribe(subject, stream="ABSENT")


# -- consumer, durable, queue ---------------------------------------------------------------------


def test_without_a_name_an_ephemeral_push_consumer_is_made_and_bound_at_once(js, stream, subject):
    with js.subscribe(subject) as sub:
        config = sub.cached_info.config
        assert sub.created_consumer
        assert (config.durable_name, config.ack_policy) == (None, "explicit")
        assert config.deliver_subject == sub.subject
        assert sub.info().push_bound


def test_a_durable_is_made_and_found_again(js, stream, subject):
    first = js.subscribe(subject, durable="d", delete_consumer=False)
    assert first.created_consumer
    assert first.cached_info.config.durable_name == "d"
    first.unsubscribe()
    with js.subscribe(subject, durable="d") as second:
        assert not second.created_consumer
        assert second.name == "d"
    assert list(js.consumer_names(stream.name)) == ["d"]


def test_a_consumer_to_bind_to_must_exist(js, stream, subject):
    with pytest.raises(jetsync.ConsumerNotFoundError):
        js.subscribe(subject, consumer="absent")
    with pytest.raises(jetsync.ConsumerNotFoundError):
        js.pull_subscribe(subject, consumer="absent")


def test_a_consumer_is_bound_on_the_deliver_subject_it_has(js, stream, subject):
    stream.create_consumer(durable_name="c", deliver_subject="to.here")
    js.publish(subject, b"one")
    with js.subscribe(stream=stream.name, consumer="c") as sub:
        assert sub.subject == "to.here"
        assert not sub.created_consumer
        assert sub.next(timeout=5).data == b"one"


def test_the_configuration_reaches_the_consumer(js, stream, subject):
    config = ConsumerConfig(description="mine", max_ack_pending=7)
    with js.subscribe(subject, config=config, ack_wait=3, deliver_policy="new") as sub:
        made = sub.cached_info.config
    assert (made.description, made.max_ack_pending, made.ack_wait) == ("mine", 7, 3)
    assert made.deliver_policy == "new"


def test_a_queue_without_a_name_gives_the_durable_its_name(js, stream, subject):
    with (
        js.subscribe(subject, queue="workers") as one,
        js.subscribe(subject, queue="workers") as two,
    ):
        assert one.name == two.name == "workers"
        assert one.cached_info.config.durable_name == "workers"
        assert one.cached_info.config.deliver_group == "workers"
        assert (one.created_consumer, two.created_consumer) == (True, False)


def test_a_queue_shares_each_message_once(js, stream, subject):
    with (
        js.subscribe(subject, queue="q", durable="d") as one,
        js.subscribe(subject, queue="q", durable="d") as two,
    ):
        for n in range(40):
            js.publish(subject, b"%d" % n)
        got = []
        for sub in (one, two):
            while True:
                try:
                    msg = sub.next(timeout=0.5)
                except jetsync.TimeoutError:
                    break
                msg.ack()
                got.append(int(msg.data))
        assert sorted(got) == list(range(40))


def test_flow_control_brings_the_heartbeat_it_needs(js, stream, subject):
    with js.subscribe(subject, flow_control=True) as sub:
        config = sub.cached_info.config
        assert config.flow_control
        assert config.idle_heartbeat > 0


def test_a_message_limit_bounds_what_is_sent_unacknowledged(js, stream, subject):
    with js.subscribe(subject, pending_messages_limit=20) as sub:
        assert sub.cached_info.config.max_ack_pending == 20
        for n in range(60):
            js.publish(subject, b"%d" % n)
        for n in range(60):
            msg = sub.next(timeout=5)
            assert int(msg.data) == n
            msg.ack()
        assert sub.dropped == 0


# -- pull: a lookup without an answer -------------------------------------------------------------


def test_who_may_only_pull_binds_on_trust(server, stream, js, subject):
    """No answer to the lookup: a pull subscription goes on with the name it was given."""
    stream.create_consumer(durable_name="c")
    js.publish(subject, b"one")
    with Tap(server.url) as tap, jetsync.connect(tap.url) as nc:
        blind = nc.jetstream(timeout=0.3)
        tap.to_server = lambda frame: b"" if b".CONSUMER.INFO." in frame.subject else frame.raw
        sub = blind.pull_subscribe(stream=stream.name, consumer="c")
        assert sub.fetch(1, 5)[0].data == b"one"
        with pytest.raises(jetsync.TimeoutError):
            blind.pull_subscribe(stream=stream.name, durable="c")
