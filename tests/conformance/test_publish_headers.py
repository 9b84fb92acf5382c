"""Publish headers: ADR-4 (headers), ADR-22 (publish retries), ADR-43 (TTL of messages), ADR-49
(counters), ADR-51 (schedules)."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import jetsync
from jetsync.jetstream.publish.headers import publish_headers
from jetsync.server import NatsServer
from tests.conformance.publish_room import room
from tests.harness.waiting import wait_until

# -- ADR-4 -----------------------------------------------------------------------------------------


def test_headers_keep_case_order_and_repetition(url):
    given = {"Key": ["1", "2"], "KEY": "3", "Empty": "", "Text": "grüße"}
    with room(url) as (js, stream, name):
        js.publish(f"{name}.a", headers=given, msg_id=None)
        js.publish_async(f"{name}.a", headers=jetsync.Headers({"Key": ["1", "2"]})).result()
        js.publish_many([(f"{name}.a", b"", given)], msg_id=None)
        for seq in (1, 3):
            found = stream.get_msg(seq).headers
            assert found.get_all("Key") == ["1", "2"]
            assert (found["KEY"], found["Empty"], found["Text"]) == ("3", "", "grüße")
        assert stream.get_msg(2).headers.get_all("Key") == ["1", "2"]


# -- ADR-22 and the conditions ---------------------------------------------------------------------


def test_no_responders_are_waited_out(url):
    """A stream that appears while the publish is retried takes the message."""
    with room(url) as (js, _, name):
        future = js.publish_async(f"late{name}", timeout=60)
        wait_until(lambda: js.publish_async_pending == 1)
        late = js.create_stream(name=f"L{name}", subjects=[f"late{name}"], storage="memory")
        assert future.result().stream == f"L{name}"
        late.delete()


@pytest.mark.parametrize(
    ("conditions", "error"),
    [
        ({"expected_stream": "OTHER"}, jetsync.ExpectedStreamMismatchError),
        ({"expected_last_seq": 7}, jetsync.WrongLastSequenceError),
        ({"expected_last_msg_id": "nope"}, jetsync.WrongLastMsgIdError),
        ({"expected_last_subject_seq": 7}, jetsync.WrongLastSequenceError),
        (
            {"expected_last_subject_seq": 0, "expected_last_subject_filter": "{name}.>"},
            jetsync.WrongLastSequenceError,
        ),
    ],
    ids=str,
)
def test_conditions(url, conditions, error):
    with room(url) as (js, stream, name):
        conditions = {
            key: value.format(name=name) if isinstance(value, str) else value
            for key, value in conditions.items()
        }
        js.publish(f"{name}.a", msg_id="first")
        with pytest.raises(error) as caught:
            js.publish(f"{name}.a", **conditions)
        assert isinstance(caught.value, jetsync.NotStoredError)
        with pytest.raises(error):
            js.publish_async(f"{name}.a", **conditions).result()
        fits = {
            "expected_stream": name,
            "expected_last_seq": 1,
            "expected_last_msg_id": "first",
            "expected_last_subject_seq": 1,
        }
        good: dict[str, Any] = {key: fits.get(key, value) for key, value in conditions.items()}
        assert js.publish(f"{name}.a", **good).seq == 2
        assert stream.info().state.messages == 2


def test_a_subject_that_must_be_empty(url):
    with room(url) as (js, _, name):
        assert js.publish(f"{name}.a", expected_last_subject_seq=0).seq == 1
        with pytest.raises(jetsync.WrongLastSequenceError) as caught:
            js.publish(f"{name}.a", expected_last_subject_seq=0)
        assert caught.value.actual_seq == 1


def test_rollup_replaces_what_was_before(url):
    with room(url, allow_rollup_hdrs=True) as (js, stream, name):
        for subject in ("a", "a", "b"):
            js.publish(f"{name}.{subject}")
        js.publish(f"{name}.a", rollup="sub")
        assert stream.info().state.messages == 2
        js.publish(f"{name}.a", rollup="all")
        assert stream.info().state.messages == 1


# -- ADR-43 ----------------------------------------------------------------------------------------


def test_a_message_lives_as_long_as_it_says(url):
    with room(url, allow_msg_ttl=True) as (js, stream, name):
        js.publish(f"{name}.a", ttl=1)
        js.publish(f"{name}.b", ttl="never")
        js.publish_async(f"{name}.c", ttl=timedelta(hours=1)).result()
        assert stream.info().state.messages == 3
        wait_until(lambda: stream.info().state.messages == 2, timeout=30)
        assert stream.info().state.first_seq == 2


def test_a_stream_without_ttls_refuses_them(url):
    with room(url) as (js, _, name):
        with pytest.raises(jetsync.NotStoredError) as caught:
            js.publish(f"{name}.a", ttl=5)
        assert isinstance(caught.value.__cause__ or caught.value, jetsync.TTLError)


# -- ADR-49 ----------------------------------------------------------------------------------------


def test_counters_add_up(url):
    with room(url, allow_msg_counter=True, allow_direct=True) as (js, stream, name):
        values = [js.publish(f"{name}.hits", incr=by).value for by in (1, 10, -4, 0)]
        assert values == ["1", "11", "7", "7"]
        assert js.publish(f"{name}.other", incr=10**30).value == str(10**30)
        assert stream.get_last_msg(f"{name}.hits").data == b'{"val":"7"}'
        wrong: list[dict[str, Any]] = [{}, {"incr": 1, "data": b"x"}]
        for options in wrong:
            with pytest.raises(jetsync.NotStoredError) as caught:
                js.publish(f"{name}.hits", **options)
            assert isinstance(caught.value.__cause__ or caught.value, jetsync.CounterError)


def test_a_repeated_increment_counts_once(url):
    with room(url, allow_msg_counter=True, allow_direct=True) as (js, _, name):
        js.publish(f"{name}.hits", incr=5, msg_id="1")
        assert js.publish(f"{name}.hits", incr=5, msg_id="1").duplicate
        assert js.publish(f"{name}.hits", incr=0).value == "5"


# -- ADR-51 ----------------------------------------------------------------------------------------


def test_a_message_for_later(url):
    with room(url, allow_msg_schedules=True, allow_msg_ttl=True) as (js, stream, name):
        soon = datetime.now(timezone.utc) + timedelta(seconds=1)
        js.publish(
            f"{name}.orders.1",
            b"later",
            schedule=soon,
            schedule_target=f"{name}.out",
            schedule_ttl=60,
        )

        def arrived():
            try:
                return stream.get_last_msg(f"{name}.out")
            except jetsync.MessageNotFoundError:
                return None

        found = wait_until(arrived, timeout=30)
        assert found.data == b"later"
        assert found.headers["Nats-Scheduler"] == f"{name}.orders.1"


def test_a_message_again_and_again(url):
    with room(url, allow_msg_schedules=True) as (js, stream, name):
        js.publish(
            f"{name}.tick", b"x", schedule=timedelta(seconds=1), schedule_target=f"{name}.out"
        )
        wait_until(lambda: stream.info().state.last_seq >= 3, timeout=30)


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "nonsense"},
        {"schedule": "@every 1s", "target": "elsewhere.x"},
        {"schedule": "0 0 0 * * *", "schedule_time_zone": "No/Where"},
    ],
    ids=str,
)
def test_schedules_that_the_server_refuses(url, options):
    with room(url, allow_msg_schedules=True) as (js, _, name):
        target = options.pop("target", f"{name}.out")
        with pytest.raises(jetsync.NotStoredError) as caught:
            js.publish(f"{name}.s", schedule_target=target, **options)
        assert isinstance(caught.value.__cause__ or caught.value, jetsync.ScheduleError)


def test_a_schedule_with_every_field(url):
    with room(url, allow_msg_schedules=True, allow_msg_ttl=True, allow_rollup_hdrs=True) as made:
        js, stream, name = made
        js.publish(
            f"{name}.s",
            schedule="0 0 5 * * *",
            schedule_target=f"{name}.out",
            schedule_source=f"{name}.in",
            schedule_ttl="never",
            schedule_time_zone="Europe/Berlin",
            schedule_rollup="sub",
        )
        headers = stream.get_msg(1).headers
        assert {key: headers[key] for key in headers if key.startswith("Nats-Schedule")} == {
            "Nats-Schedule": "0 0 5 * * *",
            "Nats-Schedule-Target": f"{name}.out",
            "Nats-Schedule-Source": f"{name}.in",
            "Nats-Schedule-TTL": "never",
            "Nats-Schedule-Time-Zone": "Europe/Berlin",
            "Nats-Schedule-Rollup": "sub",
        }


# -- what is refused before anything is sent -------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"rollup": "some"},
        {"ttl": 0.5},
        {"ttl": "5s"},
        {"ttl": -1},
        {"ttl": True},
        {"incr": "1"},
        {"incr": 1.5},
        {"incr": True},
        {"expected_last_seq": -1},
        {"expected_last_seq": "1"},
        {"expected_last_subject_seq": 1.0},
        {"expected_last_subject_filter": "a"},
        {"msg_id": ""},
        {"msg_id": 5},
        {"headers": ["a"]},
        {"headers": {"a": "b\r\nc"}},
        {"schedule": "@hourly"},
        {"schedule_ttl": 5},
        {"schedule_target": "a"},
        {"schedule": datetime.fromtimestamp(1e9), "schedule_target": "a"},
        {"schedule": timedelta(0), "schedule_target": "a"},
        {"schedule": 5, "schedule_target": "a"},
        {"schedule": "@hourly", "schedule_target": "a", "schedule_rollup": "all"},
    ],
    ids=str,
)
def test_wrong_options_are_refused_at_once(url, options):
    with jetsync.connect(url) as nc:
        js = nc.jetstream()
        before = nc.stats.out_messages
        with pytest.raises(jetsync.ConfigError):
            js.publish("s", **options)
        with pytest.raises(jetsync.ConfigError):
            js.publish_async("s", **options)
        assert nc.stats.out_messages == before


def test_times_are_written_as_the_server_reads_them():
    berlin = timezone(timedelta(hours=2))
    at = datetime(2030, 1, 2, 3, 4, 5, 600, tzinfo=berlin)
    merged, _ = publish_headers(None, schedule=at, schedule_target="t", ttl=1.5)
    assert merged["Nats-Schedule"] == "@at 2030-01-02T01:04:05.000600Z"
    assert merged["Nats-TTL"] == "1500ms"
    merged, _ = publish_headers(None, schedule=timedelta(minutes=2), schedule_target="t")
    assert merged["Nats-Schedule"] == "@every 120000ms"


def test_a_stream_that_does_not_confirm_leaves_the_outcome_unknown():
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        stream = js.create_stream(name="S", subjects=["s"], no_ack=True)
        with pytest.raises(jetsync.PublishUnknownError):
            js.publish("s", timeout=0.5)
        assert stream.info().state.messages == 1
