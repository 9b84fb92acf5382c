"""What becomes of each job: done, tried again, a dead letter; and nothing is lost between."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import jetsync
from jetsync import ConfigError, ConsumerNotFoundError
from jetsync.prometheus import render
from jetsync.worker import NEVER, Backoff, Reject, Retry, Worker, WorkSource, replay, run, task
from tests.harness.raw import RawClient
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until
from tests.worker.conftest import Place

QUICK = Backoff(0.02, limit=0.1)
COUNT = scaled(600, 10_000)
READER = Path(__file__).parent / "nats_py_reader.py"


def _read_by_nats_py(url: str, stream: str) -> object:
    command = [sys.executable, str(READER), url, stream]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


def test_each_job_is_done_and_the_dead_letters_are_exactly_those_that_always_fail(place: Place):
    place.fill(COUNT)
    calls: collections.Counter[int] = collections.Counter()
    done: set[int] = set()

    def handle(msg: jetsync.JetStreamMsg) -> None:
        number = int(msg.data)
        calls[number] += 1
        if number % 100 == 7 or (number % 5 == 0 and calls[number] == 1):
            raise ValueError(number)
        done.add(number)

    consumer = place.consumer()
    with Worker(consumer, handle, dead_letter=place.dead, retry=QUICK) as worker:
        wait_until(lambda: worker.stats.done + worker.stats.dead == COUNT, timeout=60)
        report = worker.drain()
    poison = set(range(7, COUNT, 100))
    assert done == set(range(COUNT)) - poison
    assert {int(letter.data) for letter in place.letters()} == poison
    assert len(place.letters()) == len(poison) == report.dead
    assert report.done == COUNT - len(poison)
    assert report.unfinished == report.released == report.terminated == 0
    assert {calls[number] for number in poison} == {5}
    wait_until(lambda: consumer.info().num_ack_pending == 0)


def test_a_dead_letter_tells_where_it_comes_from_and_carries_no_orders(place: Place):
    place.js.publish(
        f"{place.name}.a",
        b"poison",
        headers={"Trace": "t", "Dead-Letter-Reason": "older"},
        msg_id="mine",
        expected_stream=place.name,
    )

    def handle(msg: jetsync.JetStreamMsg) -> None:
        raise Reject("no\nsuch \x1b[0m account " + "x" * 2000)

    with Worker(place.consumer(), handle, dead_letter=place.dead) as worker:
        wait_until(lambda: worker.stats.dead)
    (letter,) = place.letters()
    assert letter.headers is not None
    headers = {name: values[0] for name, values in letter.headers.to_dict().items()}
    assert _read_by_nats_py(place.url, f"DEAD-{place.name}") == [headers, "poison"]
    stored = place.js.stream(place.name).get_msg(1)
    stamp = int(headers["Nats-Msg-Id"].rpartition(":")[2])
    assert headers.pop("Nats-Msg-Id") == f"dl:{place.name}:w:1:{stamp}"
    assert stored.time is not None
    assert abs(stamp / 1e9 - stored.time.timestamp()) < 0.001
    assert headers.pop("Dead-Letter-Time").endswith("Z")
    error = headers.pop("Dead-Letter-Error")
    assert error.startswith("Reject: no\\nsuch \\x1b[0m account")
    assert len(error.encode()) == 1024
    assert headers == {
        "Trace": "t",
        "Dead-Letter-Reason": "rejected",
        "Dead-Letter-Stream": place.name,
        "Dead-Letter-Consumer": "w",
        "Dead-Letter-Subject": f"{place.name}.a",
        "Dead-Letter-Sequence": "1",
        "Dead-Letter-Deliveries": "1",
    }
    assert letter.data == b"poison"


HOSTILE = {
    b"*": b"",
    b">": b"",
    b"a\x00\x01\x7f": b"",
    b"name": b"My Header: x\r\nMy_Header: y\r\n\xc3\xa9\xff: z\r\n",
    b"value": b"Odd: a\x00b\xff\r\n",
}
"""Ends of subjects and header lines that the server stores and this library publishes none of."""


def test_what_no_client_should_publish_becomes_a_dead_letter_too(place: Place):
    """It would come back for ever otherwise, and with a key hold up all that is behind it."""
    prefix = place.name.encode()
    with RawClient(place.url) as raw:
        raw.handshake()
        for end, lines in HOSTILE.items():
            block = b"NATS/1.0\r\n" + lines + b"\r\n"
            head = b"HPUB %s.%s %d %d\r\n" % (prefix, end, len(block), len(block) + 1)
            raw.send(head + block + b"x\r\n")
        raw.send(b"PING\r\n")
        raw.read_until(b"PONG\r\n")

    def refuse(msg: jetsync.JetStreamMsg) -> None:
        raise Reject("no")

    with Worker(place.consumer(), refuse, dead_letter=place.dead, key=lambda msg: 1) as worker:
        wait_until(lambda: worker.stats.dead == len(HOSTILE))
    letters = {letter.headers["Dead-Letter-Subject"]: letter for letter in place.letters()}
    subjects = {subject: letter.subject for subject, letter in letters.items()}
    assert subjects == {
        f"{place.name}.{was}": f"dead.{place.name}.{place.name}.{now}"
        for was, now in {
            "*": "_", ">": "_", "a \x01\x7f": "a___", "name": "name", "value": "value"
        }.items()
    }  # fmt: skip
    assert letters[f"{place.name}.name"].headers.get_all("My_Header") == ["x", "y"]
    assert letters[f"{place.name}.name"].headers["__"] == "z"
    assert letters[f"{place.name}.value"].headers["Odd"] == "a b\udcff"


def test_nothing_is_terminated_while_dead_letters_cannot_be_stored(server, place: Place):
    """No stream takes the subject: the message stays, and the user is told."""
    events: list[jetsync.Event] = []
    place.fill(3)
    consumer = place.consumer()
    options = jetsync.ConnectOptions(servers=server.url, on_event=events.append)

    def handle(msg: jetsync.JetStreamMsg) -> None:
        raise Reject

    source = WorkSource(place.name, "w", options=options)
    with Worker(
        source, handle, dead_letter="nowhere.{subject}", retry=Backoff(0.1, limit=0.2)
    ) as worker:
        wait_until(lambda: worker.stats.retried > 3, timeout=10)
    assert worker.stats.dead == worker.stats.terminated == 0
    assert consumer.info().num_ack_pending == 3
    failed = [event for event in events if event.kind == "dead_letter_failed"]
    assert {event.stream for event in failed} == {place.name}
    assert {event.subject for event in failed} == {f"{place.name}.0"}


def test_the_exception_and_the_count_of_deliveries_decide_about_the_next_try(place: Place):
    place.fill(4)
    calls: collections.Counter[int] = collections.Counter()

    def handle(msg: jetsync.JetStreamMsg) -> None:
        number = int(msg.data)
        calls[number] += 1
        raise [KeyError, ZeroDivisionError, Retry, OSError][number]("no")

    outcomes = []
    retry: dict[type[BaseException], Any] = {
        LookupError: Backoff(0.01, tries=2),
        ArithmeticError: NEVER,
        Exception: Backoff(0.01, tries=3, jitter=0),
    }

    def handle_all(msg: jetsync.JetStreamMsg) -> None:
        if int(msg.data) == 2:
            calls[2] += 1
            raise Retry(0.03)
        handle(msg)

    with Worker(place.consumer(), handle_all, retry=retry, on_outcome=outcomes.append) as worker:
        wait_until(lambda: worker.stats.terminated == 4, timeout=10)
    assert calls == {0: 2, 1: 1, 2: 3, 3: 3}
    assert {o.delay for o in outcomes if o.kind == "retried" and o.msg.data == b"2"} == {0.03}
    assert [o.delay for o in outcomes if o.kind == "retried" and o.msg.data == b"3"] == [0.01, 0.02]


def test_a_function_may_decide_about_the_next_try(place: Place):
    place.fill(2)
    with Worker(
        place.consumer(),
        lambda msg: 1 / 0,
        retry=lambda msg, error: None if msg.metadata.num_delivered > 1 else 0.01,
    ) as worker:
        wait_until(lambda: worker.stats.terminated == 2, timeout=10)
    assert worker.stats.retried == 2


def test_a_handler_may_settle_its_message_itself(place: Place):
    place.fill(2)

    def handle(msg: jetsync.JetStreamMsg) -> None:
        msg.term("mine") if msg.data == b"0" else msg.ack_sync()
        if msg.data == b"1":
            raise ValueError("after it was settled")

    consumer = place.consumer()
    with Worker(consumer, handle, dead_letter=place.dead) as worker:
        wait_until(lambda: worker.stats.done == worker.stats.terminated == 1)
    assert place.letters() == []
    assert consumer.info().num_ack_pending == 0


def test_held_messages_are_kept_alive_for_longer_than_ack_wait(place: Place):
    """The running one, and those that wait behind it."""
    place.fill(3)
    go = threading.Event()
    consumer = place.consumer(ack_wait=0.5)
    with Worker(consumer, lambda msg: go.wait(10), threads=1, prefetch=3, max_runtime=60) as worker:
        wait_until(lambda: consumer.info().num_ack_pending == 3)
        go.wait(1.5)
        assert consumer.info().num_redelivered == 0
        go.set()
        wait_until(lambda: worker.stats.done == 3)
    assert consumer.info().num_redelivered == 0


def test_a_handler_that_runs_too_long_is_not_kept_alive_and_not_ready(place: Place, server):
    place.fill(1)
    go = threading.Event()
    events: list[jetsync.Event] = []
    place.consumer(ack_wait=0.5)
    options = jetsync.ConnectOptions(servers=server.url, on_event=events.append)
    source = WorkSource(place.name, "w", options=options)
    with Worker(source, lambda msg: go.wait(20), max_runtime=0.5) as worker:
        wait_until(lambda: [e for e in events if e.kind == "stuck"], timeout=10)
        health = worker.health()
        assert not health.ready
        assert health.alive
        assert "max_runtime" in health.problems[0]
        go.set()


def test_no_more_messages_are_taken_than_may_be_held(place: Place):
    place.fill(100)
    go = threading.Event()
    consumer = place.consumer()
    with Worker(consumer, lambda msg: go.wait(10), threads=2, prefetch=10) as worker:
        wait_until(lambda: consumer.info().num_ack_pending == 10)
        info = consumer.info()
        assert (info.num_ack_pending, info.num_pending) == (10, 90)
        go.set()
        wait_until(lambda: worker.stats.done == 100, timeout=10)


def test_dead_letters_go_back_to_where_they_came_from(place: Place):
    place.fill(5)
    with Worker(place.consumer(), lambda msg: 1 / 0, retry={}, dead_letter=place.dead) as worker:
        worker.drain()
    with Worker(
        place.consumer(), lambda msg: 1 / 0, retry={Exception: NEVER}, dead_letter=place.dead
    ) as worker:
        wait_until(lambda: worker.stats.dead == 5)
    assert replay(place.js, f"DEAD-{place.name}", subject=f"dead.{place.name}.>") == 5
    assert place.js.stream(f"DEAD-{place.name}").info().state.messages == 0
    got = []
    with Worker(place.consumer(), lambda msg: got.append(msg)) as worker:
        wait_until(lambda: len(got) == 5)
    assert sorted(int(msg.data) for msg in got) == [0, 1, 2, 3, 4]
    assert not any(name.startswith("Dead-Letter") for msg in got for name in msg.headers or ())


def test_dead_letters_in_a_work_queue_go_back_too_and_one_that_cannot_holds_up_no_other(
    place: Place,
):
    name, js = f"QUEUE-{place.name}", place.js
    js.create_stream(
        name=name, subjects=[f"queue.{place.name}"], retention="workqueue", storage="memory"
    )
    try:
        for subject in (f"{place.name}.*", f"{place.name}.a"):
            js.publish(f"queue.{place.name}", b"x", headers={"Dead-Letter-Subject": subject})
        assert replay(js, name) == 1
        assert js.stream(name).get_msg(1).headers["Dead-Letter-Subject"] == f"{place.name}.*"
        assert js.stream(name).info().state.messages == 1
        assert js.stream(place.name).get_last_msg(f"{place.name}.a").data == b"x"
    finally:
        js.delete_stream(name)


def test_the_end_of_the_consumer_ends_the_worker_with_a_reason(place: Place):
    consumer = place.consumer()
    worker = Worker(consumer, print).start()
    wait_until(lambda: consumer.info().num_waiting)
    place.js.delete_consumer(place.name, "w")
    report = worker.wait(10)
    assert "ConsumerDeletedError" in report.reason
    assert not worker.health().alive


@pytest.mark.parametrize(
    ("fields", "options", "about"),
    [
        ({"ack_policy": "none"}, {}, "ack_policy"),
        ({"max_deliver": 5}, {}, "max_deliver"),
        ({"max_ack_pending": 10}, {}, "max_ack_pending"),
        ({"deliver_subject": "x"}, {}, "push"),
        (
            {"priority_groups": ["g"], "priority_policy": "pinned_client", "priority_timeout": 5},
            {},
            "priority groups",
        ),
    ],
)
def test_a_consumer_that_does_not_suit_is_refused(place: Place, fields, options, about):
    if "deliver_subject" in fields:
        place.js.create_consumer(place.name, durable_name="w", **fields)
    else:
        place.consumer(**fields)
    source = WorkSource(place.name, "w", options=place.nc.options)
    with pytest.raises((ConfigError, jetsync.Error), match=about):
        Worker(source, print, **options).start()


async def _coroutine(msg):
    """What a worker cannot call."""


@pytest.mark.parametrize(
    ("handler", "options"),
    [
        (_coroutine, {}),
        ("text", {}),
        (print, {"threads": 0}),
        (print, {"prefetch": 2}),
        (print, {"crash_tries": 5}),
        (print, {"key": "token:2"}),
        (print, {"key": "subject", "processes": 2}),
        (print, {"processes": 2}),
        (print, {"dead_letter": "dead.{other}"}),
        (print, {"dead_letter": "dead.*"}),
        (print, {"retry": 3}),
        (print, {"http": "8080"}),
        (print, {"http": 8080}),
        (print, {"max_runtime": 0}),
        (print, {"start_method": "fork"}),
        (print, {"codec": "json"}),
    ],
)
def test_options_that_make_no_sense_are_refused(place: Place, handler, options):
    with pytest.raises(ConfigError):
        Worker(place.consumer(), handler, **options)


def test_a_worker_starts_once_and_belongs_to_its_consumer(place: Place):
    with pytest.raises(ConsumerNotFoundError):
        run(WorkSource(place.name, "missing", options=place.nc.options), print)
    worker = Worker(place.consumer(), print)
    with pytest.raises(ConfigError, match="not started"):
        worker.wait()
    with worker, pytest.raises(ConfigError, match="starts once"):
        worker.start()
    assert worker.drain() is worker.wait()


def test_a_worker_and_its_counts_are_shown_in_one_line(place: Place):
    place.fill(1)
    worker = Worker(place.consumer(), print)
    assert repr(worker) == "Worker(not started)"
    with worker:
        assert repr(worker) == f"Worker({place.name!r}, 'w', running)"
        wait_until(lambda: worker.stats.done == 1)
    assert repr(worker) == f"Worker({place.name!r}, 'w', ended)"
    counts = "done=1, retried=0, dead=0, terminated=0, released=0"
    assert repr(worker.stats) == f"WorkerStats({counts})"


def test_a_marked_function_is_itself():
    @task(stream="S", consumer="C", threads=2)
    def handle(msg: object) -> int:
        return 7

    assert handle(None) == 7


def test_an_option_that_is_none_is_refused_in_the_name_of_the_call():
    with pytest.raises(TypeError, match=r"^task\(\) got .* 'thread'; did you mean 'threads'\?$"):
        task(stream="S", consumer="C", thread=2)
    with pytest.raises(TypeError, match=r"^Worker\(\) got .* 'thread'; did you mean 'threads'\?$"):
        Worker(None, print, thread=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Worker\(\) got an unexpected keyword argument 'zzz'$"):
        Worker(None, print, zzz=2)  # type: ignore[call-arg]


def test_the_counts_of_a_worker_are_measurements(place: Place):
    place.fill(2)
    worker = Worker(place.consumer(), lambda msg: 1 / int(msg.data), retry=Backoff(tries=1))
    assert worker.measurements() == []
    with worker:
        wait_until(lambda: worker.stats.done == worker.stats.terminated == 1)
        found = {(one.name, one.labels.get("outcome")): one for one in worker.measurements()}
    assert {one.labels["stream"] for one in found.values()} == {place.name}
    assert {one.labels["consumer"] for one in found.values()} == {"w"}
    values = {key: one.value for key, one in found.items()}
    assert values["jetsync_worker_messages_total", "done"] == 1
    assert values["jetsync_worker_messages_total", "terminated"] == 1
    assert found["jetsync_worker_handle_duration_seconds", None].count == 2
    assert values["jetsync_worker_ready", None] == 1
    assert 'outcome="done"' in render(worker)
