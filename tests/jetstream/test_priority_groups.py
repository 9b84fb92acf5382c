"""Priority groups (pull-consumer-priority-groups, ADR-42): overflow, pinned client, prioritized."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import jetsync
from jetsync import ConfigError
from tests.harness.insides import api_of, connection_of
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, numbers

PATIENCE = 30.0


def grouped(stream, policy, **fields):
    return stream.create_consumer(
        durable_name="c",
        ack_policy="explicit",
        priority_policy=policy,
        priority_groups=["jobs"],
        **fields,
    )


def pinned(stream, timeout=120.0, **fields):
    return grouped(stream, "pinned_client", priority_timeout=timeout, **fields)


# -- what may be asked for -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        ("overflow", {}, "give group="),
        ("overflow", {"group": "other"}, "no priority group 'other'"),
        ("overflow", {"group": "jobs", "priority": 1}, "priority needs .* 'prioritized'"),
        ("prioritized", {"group": "jobs", "min_pending": 1}, "min_pending needs .* 'overflow'"),
        ("pinned_client", {"group": "jobs", "min_ack_pending": 1}, "min_ack_pending needs"),
        ("prioritized", {"group": "jobs", "priority": 10}, "0 to 9"),
        ("prioritized", {"group": "jobs", "priority": -1}, "0 or more"),
        ("overflow", {"group": "jobs", "min_pending": -1}, "0 or more"),
        ("overflow", {"min_pending": 1}, "need a group"),
        ("none", {"group": "jobs"}, "has no priority groups"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(nc, stream, policy, options, words):
    """The group is "mandatory field. If consumer has configured PriorityGroups, every Pull Request
    needs to provide it"; the other options belong to one policy each."""
    if policy == "none":
        consumer = stream.create_consumer(durable_name="c")
    else:
        consumer = grouped(stream, policy)
    sent = nc.stats.out_messages
    for call in (
        lambda: consumer.fetch(1, timeout=1, **options),
        lambda: consumer.fetch_no_wait(1, **options),
        lambda: consumer.next(timeout=1, **options),
        lambda: consumer.messages(**options),
        lambda: consumer.consume(print, **options),
    ):
        with pytest.raises(ConfigError, match=words):
            call()
    assert nc.stats.out_messages == sent


# -- overflow --------------------------------------------------------------------------------------


def test_overflow_delivers_from_min_pending_on(js, stream):
    """ "min_pending - this Pull request will only receive messages when the consumer has at least
    this many pending messages"."""
    consumer = grouped(stream, "overflow")
    fill(js, stream, 5)
    assert len(consumer.fetch(1, timeout=0.4, group="jobs", min_pending=10)) == 0
    fill(js, stream, 5, start=5)
    assert numbers(consumer.fetch(1, timeout=5, group="jobs", min_pending=10)) == [0]
    assert numbers(consumer.fetch(1, timeout=5, group="jobs")) == [1]


def test_overflow_delivers_from_min_ack_pending_on(js, stream):
    """ "boolean OR": either being satisfied results in delivery."""
    consumer = grouped(stream, "overflow")
    fill(js, stream, 6)
    options = {"group": "jobs", "min_ack_pending": 2}
    assert len(consumer.fetch(1, timeout=0.4, **options)) == 0
    assert len(consumer.fetch(2, timeout=5, group="jobs")) == 2
    assert numbers(consumer.fetch(1, timeout=5, **options)) == [2]
    assert numbers(consumer.fetch(1, timeout=5, min_pending=1000, **options)) == [3]


def test_an_overflow_stream_waits_in_silence_and_takes_over_the_rest(js, stream):
    """ "otherwise those Pull requests will sit idle ... receiving heartbeats"."""
    consumer = grouped(stream, "overflow")
    warnings: list[Exception] = []
    fill(js, stream, 5)
    with consumer.messages(
        group="jobs",
        min_pending=20,
        expires=1,
        heartbeat=0.2,
        max_messages=5,
        on_warning=warnings.append,
    ) as messages:
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=1.5)
        fill(js, stream, 20, start=5)
        assert numbers(messages.next(timeout=PATIENCE) for _ in range(5)) == list(range(5))
    assert warnings == []


# -- prioritized -----------------------------------------------------------------------------------


def test_the_lowest_priority_number_is_served_first(js, stream):
    """prioritized (server 2.12): 0 first."""
    consumer = grouped(stream, "prioritized")
    got: dict[int, list[int]] = {0: [], 5: []}
    threads = []
    for priority in (5, 0):
        thread = threading.Thread(
            target=lambda priority=priority: got[priority].extend(
                numbers(consumer.fetch(3, timeout=8, group="jobs", priority=priority))
            )
        )
        thread.start()
        threads.append(thread)
        wait_until(lambda: consumer.info().num_waiting == len(threads), timeout=PATIENCE)
    fill(js, stream, 3)
    threads[1].join(PATIENCE)
    assert got == {0: [0, 1, 2], 5: []}
    fill(js, stream, 3, start=3)
    threads[0].join(PATIENCE)
    assert got[5] == [3, 4, 5]


def test_a_stream_carries_its_priority(js, stream):
    consumer = grouped(stream, "prioritized")
    with (
        consumer.messages(group="jobs", priority=9, max_messages=5) as second,
        consumer.messages(group="jobs", priority=0, max_messages=5) as first,
    ):
        for messages in (second, first):
            with pytest.raises(jetsync.TimeoutError):
                messages.next(timeout=0.1)
        wait_until(lambda: consumer.info().num_waiting == 2, timeout=PATIENCE)
        fill(js, stream, 2)
        assert numbers(first.next(timeout=PATIENCE) for _ in range(2)) == [0, 1]
        assert second.pending == 0


# -- pinned client ---------------------------------------------------------------------------------


class Log:
    """What on_pinned and on_unpinned were called with."""

    def __init__(self):
        self.pinned: list[str] = []
        self.unpinned: list[str] = []

    @property
    def options(self):
        return {"on_pinned": self.pinned.append, "on_unpinned": self.unpinned.append}


def state(consumer):
    (group,) = consumer.info().priority_groups
    return group.pinned_client_id


def test_the_first_message_brings_the_pin_and_every_pull_carries_it(url, js, stream):
    """The document: "it needs to store it and use it in every subsequent pull request for this
    group"."""
    consumer = pinned(stream)
    log = Log()
    fill(js, stream, 50)
    with (
        jetsync.connect(url) as other,
        other.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.c") as wire,
        consumer.messages(group="jobs", max_messages=10, **log.options) as messages,
    ):
        other.flush()
        assert numbers(messages.next(timeout=PATIENCE) for _ in range(50)) == list(range(50))
        pin = state(consumer)
        assert log.pinned == [pin]
        assert log.unpinned == []
        assert consumer._shared.pins == {"jobs": pin}
        other.flush()
        bodies = [wire.next(timeout=5).data for _ in range(wire.pending_messages)]
    assert b'"id"' not in bodies[0]
    assert all(f'"id":"{pin}"'.encode() in body for body in bodies[2:])
    assert all(b'"group":"jobs"' in body for body in bodies)


def test_a_standby_gets_nothing_until_the_pin_is_taken_away(js, stream):
    """ "A single client should receive all messages from a consumer and if it fails another should
    take over"; an admin's unpin makes both hear of it."""
    consumer, standby = pinned(stream), js.consumer(stream.name, "c")
    mine, theirs = Log(), Log()
    fill(js, stream, 5)
    options = {"group": "jobs", "expires": 4, "heartbeat": 0.5, "max_messages": 5}
    with (
        consumer.messages(**options, **mine.options) as first,
        standby.messages(**options, **theirs.options) as second,
    ):
        assert numbers(first.next(timeout=PATIENCE) for _ in range(5)) == list(range(5))
        with pytest.raises(jetsync.TimeoutError):
            second.next(timeout=0.3)
        fill(js, stream, 1, start=5)
        assert numbers([first.next(timeout=PATIENCE)]) == [5]
        with pytest.raises(jetsync.TimeoutError):
            first.next(timeout=0.1)
        (before,) = mine.pinned
        api_of(js).request(f"CONSUMER.UNPIN.{stream.name}.c", {"group": "jobs"})
        fill(js, stream, 4, start=6)
        got: dict[int, str] = {}
        deadline = time.monotonic() + PATIENCE
        while len(got) < 4 and time.monotonic() < deadline:
            for name, messages in (("first", first), ("second", second)):
                try:
                    got[int(messages.next(timeout=0.2).data)] = name
                except jetsync.TimeoutError:
                    continue
        assert sorted(got) == [6, 7, 8, 9]
        assert len(set(got.values())) == 1, "one client has them all"
        wait_until(lambda: _poll(first) or mine.unpinned == [before], timeout=PATIENCE)
        assert state(consumer) != before
        assert (mine.pinned + theirs.pinned)[-1] == state(consumer)


def _poll(messages):
    with pytest.raises(jetsync.TimeoutError):
        messages.next(timeout=0.05)


def test_a_pin_that_timed_out_is_lost_and_pulling_goes_on_without_it(js, stream):
    """ "If client receives 423 Status error, it should clear the id and continue pulling without
    it"."""
    consumer = pinned(stream, timeout=1.0)
    other = js.consumer(stream.name, "c")
    fill(js, stream, 1)
    first = consumer.next(timeout=PATIENCE, group="jobs")
    pin = consumer._shared.pins["jobs"]
    first.ack()
    wait_until(lambda: state(consumer) is None, timeout=PATIENCE)
    fill(js, stream, 1, start=1)
    assert numbers([other.next(timeout=PATIENCE, group="jobs")]) == [1]
    wait_until(lambda: state(consumer) is None, timeout=PATIENCE)
    fill(js, stream, 1, start=2)
    assert numbers(consumer.fetch(1, timeout=PATIENCE, group="jobs")) == [2]
    assert consumer._shared.pins["jobs"] not in (pin, None)


def test_a_pinned_client_that_waits_keeps_its_pin(js, stream):
    """Only a new pull restarts priority_timeout: pulls last at most half of it."""
    consumer = pinned(stream, timeout=2.0)
    log = Log()
    fill(js, stream, 1)
    with consumer.messages(group="jobs", **log.options) as messages:
        messages.next(timeout=PATIENCE).ack()
        with pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=5)
        assert state(consumer) == log.pinned[0]
        fill(js, stream, 1, start=1)
        assert messages.next(timeout=PATIENCE).data == b"1"
    assert len(log.pinned) == 1
    assert log.unpinned == []


def test_fetch_and_next_share_the_pin_of_their_consumer_object(js, stream):
    consumer = pinned(stream)
    fill(js, stream, 6)
    assert numbers([consumer.next(timeout=PATIENCE, group="jobs")]) == [0]
    pin = consumer._shared.pins["jobs"]
    assert numbers(consumer.fetch(2, timeout=PATIENCE, group="jobs")) == [1, 2]
    assert numbers(consumer.fetch_no_wait(2, group="jobs")) == [3, 4]
    assert state(consumer) == pin
    standby = js.consumer(stream.name, "c")
    assert len(standby.fetch(1, timeout=0.4, group="jobs")) == 0


def test_functions_that_raise_do_not_end_the_stream(js, stream):
    consumer = pinned(stream)
    fill(js, stream, 2)

    def broken(pin):
        raise ValueError(pin)

    with consumer.messages(group="jobs", on_pinned=broken) as messages:
        assert numbers(messages.next(timeout=PATIENCE) for _ in range(2)) == [0, 1]
    assert isinstance(connection_of(js).last_error, ValueError)


WORKER = """
    import sys, jetsync

    url, stream = sys.argv[1:]
    with jetsync.connect(url) as nc:
        consumer = nc.jetstream().consumer(stream, "c")
        with consumer.messages(
            group="jobs", max_messages=5, expires=2, heartbeat=0.5,
            on_pinned=lambda pin: print("pinned", pin, flush=True),
        ) as messages:
            print("ready", flush=True)
            for msg in messages:
                msg.ack_sync(timeout=10)
                print("got", int(msg.data), flush=True)
"""


class Worker:
    def __init__(self, url, stream):
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER), url, stream],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def got(self):
        # A process that is killed may leave half a line.
        found = (re.fullmatch(r"got (\d+)\n", line) for line in list(self.lines))
        return [int(line[1]) for line in found if line]

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_two_processes_hand_over_under_kill_9(url, js, stream):
    """ "if it fails another should take over": the pinned client is killed, three times; nothing
    that was confirmed comes twice, and nothing is missing."""
    pinned(stream, timeout=1.0, ack_wait=1.0)
    workers = [Worker(url, stream.name) for _ in range(2)]
    ended: list[Worker] = []
    sent = 0
    try:
        wait_until(lambda: all("ready\n" in w.lines for w in workers), timeout=60)
        for _ in range(3):
            fill(js, stream, 20, start=sent)
            sent += 20
            _wait_for(workers + ended, sent - 10)
            active = max(workers, key=lambda w: len(w.got) and max(w.got))
            workers.remove(active)
            active.kill()
            ended.append(active)
            workers.append(Worker(url, stream.name))
        fill(js, stream, 10, start=sent)
        sent += 10
        total = sent
        wait_until(
            lambda: (
                {n for w in workers + ended for n in w.got} | _unseen(ended) >= set(range(total))
            ),
            timeout=60,
        )
        every = [n for w in workers + ended for n in w.got]
        assert len(every) == len(set(every)), "confirmed, and delivered again"
    finally:
        for worker in workers:
            worker.kill()


def _wait_for(workers, count):
    wait_until(lambda: len({n for w in workers for n in w.got}) >= count, timeout=60)


def _unseen(ended):
    """A worker that was killed between its confirmation and its line has confirmed one more."""
    return {max(w.got, default=-1) + 1 for w in ended}
