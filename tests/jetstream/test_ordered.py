"""The ordered consumer: every message exactly once and in order, by every way of reading."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import time
from datetime import datetime, timezone

import pytest

import jetsync
from tests.harness.waiting import wait_until
from tests.jetstream.messages import sequences

LONG = 20.0


def fill(js, stream, count, start=0, subjects=3):
    js.publish_many(
        (f"{stream.name}.{n % subjects}", b"%d" % n) for n in range(start, start + count)
    )


def lose(js, ordered):
    """Delete the server consumer under the reader: the mildest of faults."""
    # At some moments there is none.
    with contextlib.suppress(jetsync.ConsumerNotFoundError):
        js.delete_consumer(ordered.stream_name, ordered.name)


# -- where it begins, with which filters, over resets ---------------------------------------------

STORED = 60
MOMENT = 20
"""``by_start_time`` begins behind this sequence."""
FILTERS = {
    "all": ([], {0, 1, 2}),
    "one": (["{}.1"], {1}),
    "several": (["{}.0", "{}.2"], {0, 2}),
    "wildcard": (["{}.*"], {0, 1, 2}),
}
POLICIES = ["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]


def expected(policy, wanted):
    """What a reader has to get that was opened when ``STORED`` messages of twice as many were
    there."""
    mine = [seq for seq in range(1, 2 * STORED + 1) if (seq - 1) % 3 in wanted]
    before, after = [s for s in mine if s <= STORED], [s for s in mine if s > STORED]
    chosen = {
        "all": before,
        "last": before[-1:],
        "new": [],
        "by_start_sequence": [s for s in before if s >= 10],
        "by_start_time": [s for s in before if s > MOMENT],
        "last_per_subject": before[-len(wanted) :],
    }
    return chosen[policy] + after


@pytest.mark.parametrize("headers_only", [False, True], ids=["bodies", "headers"])
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_start_and_filter_survives_resets(js, stream, policy, filters, headers_only):
    templates, wanted = FILTERS[filters]
    subjects = [each.format(stream.name) for each in templates]
    fill(js, stream, MOMENT)
    wait_until(lambda: datetime.now(timezone.utc) > stream.get_msg(MOMENT).time)
    fill(js, stream, STORED - MOMENT, start=MOMENT)
    start = {}
    if policy == "by_start_sequence":
        start["opt_start_seq"] = 10
    if policy == "by_start_time":
        start["opt_start_time"] = stream.get_msg(MOMENT + 1).time
    with js.ordered_consumer(
        stream.name,
        deliver_policy=policy,
        filter_subjects=subjects or None,
        headers_only=headers_only,
        **start,
    ) as ordered:
        if policy != "last_per_subject":  # whose values would be replaced: see below
            lose(js, ordered)  # before anything was read: the start may not move
        fill(js, stream, STORED, start=STORED)
        due, got = expected(policy, wanted), list[int]()
        for count in itertools.cycle([1, 5, 2]):
            batch = ordered.fetch(min(count, len(due) - len(got)), timeout=LONG)
            assert len(batch), f"{got} came, and nothing more"
            got.extend(sequences(batch))
            if headers_only:
                assert all(not m.data and m.headers["Nats-Msg-Size"] for m in batch)
            if len(got) >= len(due):
                break
            if len(got) % 4 == 0:
                lose(js, ordered)
        assert got == due
        assert ordered.resets >= 1
        assert len(ordered.fetch_no_wait(10)) == 0


def test_new_means_new_when_it_was_opened(js, stream):
    fill(js, stream, 5)
    with stream.ordered_consumer(deliver_policy="new") as ordered:
        fill(js, stream, 2, start=5)
        assert sequences(ordered.fetch(2, timeout=LONG)) == [6, 7]


def test_a_start_beyond_the_end_waits_for_it(js, stream):
    fill(js, stream, 5)
    with stream.ordered_consumer(deliver_policy="by_start_sequence", opt_start_seq=9) as ordered:
        lose(js, ordered)
        fill(js, stream, 5, start=5)
        assert sequences(ordered.fetch(2, timeout=LONG)) == [9, 10]


def test_last_per_subject_goes_on_exactly_when_reset_in_its_first_part(js, stream):
    """Those first values that were due when it was opened, then everything behind, each once: also
    when subjects change between the resets."""
    fill(js, stream, 100, subjects=50)  # the last ones of each subject: 51 to 100
    with stream.ordered_consumer(deliver_policy="last_per_subject") as ordered:
        got = sequences(ordered.fetch(10, timeout=LONG))
        assert got == list(range(51, 61))
        # Subjects that are still due change twice, and one that was delivered already.
        fill(js, stream, 3, start=100, subjects=1)
        js.publish(f"{stream.name}.20", b"again")
        js.publish(f"{stream.name}.20", b"and again")
        lose(js, ordered)
        while len(got) < 10 + 39 + 5:
            batch = ordered.fetch(min(7, 54 - len(got)), timeout=LONG)
            got.extend(sequences(batch))
            if len(got) in (15, 16, 30):
                lose(js, ordered)
        # Sequence 71 was the value of subject 20; it was replaced before it could be read again.
        assert got == [seq for seq in range(51, 106) if seq != 71]
        js.publish(f"{stream.name}.7", b"new")
        assert ordered.next(timeout=LONG).metadata.stream_seq == 106


def test_last_per_subject_of_an_empty_stream_takes_what_comes(js, stream):
    with stream.ordered_consumer(deliver_policy="last_per_subject") as ordered:
        assert len(ordered.fetch_no_wait(1)) == 0
        lose(js, ordered)
        fill(js, stream, 4, subjects=2)
        assert sequences(ordered.fetch(4, timeout=LONG)) == [1, 2, 3, 4]


# -- fetch, next ----------------------------------------------------------------------------------


@pytest.mark.timed
def test_fetch_keeps_the_time_and_the_limits(js, stream, in_time):
    fill(js, stream, 10)
    with stream.ordered_consumer() as ordered:
        assert len(ordered.fetch(max_bytes=200, timeout=LONG)) in range(1, 5)
        with in_time(0.4):
            rest = ordered.fetch(100, timeout=0.4)
        assert rest.last_seq == 10
        begun = time.monotonic()
        assert len(ordered.fetch(5, timeout=0.3)) == 0
        assert len(ordered.fetch_no_wait(5)) == 0
        assert time.monotonic() - begun < 2.5
        with pytest.raises(jetsync.TimeoutError):
            ordered.next(timeout=0.1)
        fill(js, stream, 3, start=10)
        begun = time.monotonic()
        assert sequences(ordered.fetch(100, timeout=LONG, eager=True)) == [11, 12, 13]
        assert time.monotonic() - begun < LONG / 2
        assert ordered.resets == 0


def test_one_fetch_goes_on_over_a_reset_in_its_middle(js, stream):
    fill(js, stream, 3)
    with stream.ordered_consumer() as ordered:

        def later():
            wait_until(lambda: ordered.info().delivered.stream_seq == 3, timeout=LONG)
            lose(js, ordered)
            fill(js, stream, 3, start=3)

        helper = threading.Thread(target=later)
        helper.start()
        batch = ordered.fetch(6, timeout=LONG)
        helper.join()
        assert sequences(batch) == [1, 2, 3, 4, 5, 6]
        assert ordered.resets == 1


def test_a_gap_is_noticed_and_read_again(url, js, stream):
    """Another client takes messages from the same server consumer: real gaps, in the middle and at
    the end, where only a heartbeat can tell."""
    fill(js, stream, 100)
    with jetsync.connect(url) as other, stream.ordered_consumer() as ordered:
        assert len(ordered.fetch(10, timeout=LONG)) == 10
        thief = other.jetstream().consumer(stream.name, ordered.name)
        assert len(thief.fetch(5, timeout=LONG)) == 5
        assert sequences(ordered.fetch(20, timeout=LONG)) == list(range(11, 31))
        assert ordered.resets == 1
        thief = other.jetstream().consumer(stream.name, ordered.name)
        assert len(thief.fetch(70, timeout=LONG)) == 70
        assert sequences(ordered.fetch(70, timeout=LONG, heartbeat=0.2)) == list(range(31, 101))
        assert ordered.resets == 2


def test_bad_options_are_refused_before_anything_is_asked(js, stream):
    with stream.ordered_consumer() as ordered:
        for call in (
            lambda: ordered.fetch(),
            lambda: ordered.fetch(0),
            lambda: ordered.fetch(1, timeout=1, heartbeat=1),
            lambda: ordered.fetch_no_wait(0),
            lambda: ordered.messages(max_messages=0),
            lambda: ordered.messages(expires=0.5),
            lambda: ordered.messages(heartbeat=20),
            lambda: ordered.messages(max_messages=5, threshold_messages=6),
            lambda: ordered.messages(max_messages=5, max_bytes=5),
        ):
            with pytest.raises(jetsync.ConfigError):
                call()
        with pytest.raises(jetsync.ConfigError):
            stream.ordered_consumer(deliver_policy="by_start_sequence")
        with pytest.raises(jetsync.ConfigError):
            stream.ordered_consumer(opt_start_seq=4)
    with pytest.raises(jetsync.StreamNotFoundError):
        js.ordered_consumer("NOWHERE")
    with pytest.raises(jetsync.ConfigError, match="overlap"):
        stream.ordered_consumer(filter_subjects=[f"{stream.name}.>", f"{stream.name}.1"])


# -- messages, consume ----------------------------------------------------------------------------


def test_all_ways_of_reading_share_one_place(js, stream):
    fill(js, stream, 200)
    got = []
    with stream.ordered_consumer() as ordered:
        got.append(ordered.next(timeout=LONG).metadata.stream_seq)
        with ordered.messages(max_messages=20) as messages:
            got.append(messages.next(timeout=LONG).metadata.stream_seq)
            got.append(next(messages).metadata.stream_seq)
            for msg in messages:
                got.append(msg.metadata.stream_seq)
                if len(got) == 50:
                    break
            for msg in messages:
                got.append(msg.metadata.stream_seq)
                if len(got) == 77:
                    break
        got.extend(sequences(ordered.fetch(3, timeout=LONG)))
        for batch in ordered.messages(max_messages=20, stop_after=33).batches(timeout=LONG):
            got.extend(sequences(batch))
        for msg in ordered.messages(stop_after=20):
            got.append(msg.metadata.stream_seq)
        for msg in ordered.messages():  # left behind in the middle of a buffer
            got.append(msg.metadata.stream_seq)
            if len(got) == 150:
                break
        del msg
        gc.collect()
        ended = threading.Event()

        begun = threading.Event()

        def callback(msg):
            begun.wait(LONG)  # until `context` has its value
            got.append(msg.metadata.stream_seq)
            if len(got) == 175:
                context.stop()
                ended.set()
            elif len(got) % 7 == 0:
                raise ValueError("the next one comes all the same")

        context = ordered.consume(callback, max_messages=10)
        begun.set()
        assert ended.wait(LONG)
        assert context.wait(LONG)
        got.extend(sequences(ordered.fetch(25, timeout=LONG)))
    assert got == list(range(1, 201))


def test_draining_hands_out_what_is_buffered_and_nothing_is_missed(js, stream):
    fill(js, stream, 100)
    with stream.ordered_consumer() as ordered:
        messages = ordered.messages(max_messages=40)
        got = [messages.next(timeout=LONG)]
        wait_until(lambda: messages.pending > 0, timeout=LONG)
        messages.drain()
        got.extend(messages)
        assert 2 <= len(got) <= 40
        got.extend(ordered.fetch(100 - len(got), timeout=LONG))
        assert sequences(got) == list(range(1, 101))


def test_the_buffer_is_bounded_in_messages_and_bytes(js, stream):
    js.publish_many((f"{stream.name}.a", b"x" * 1000) for _ in range(500))
    with stream.ordered_consumer() as ordered:
        with ordered.messages(max_messages=50, stop_after=250) as messages:
            for _ in messages:
                assert messages.pending <= 50
        assert ordered.last_seq == 250
        with ordered.messages(max_bytes=20_000, stop_after=250) as messages:
            for _ in messages:
                assert messages.pending <= 20
        assert ordered.last_seq == 500


def test_a_message_over_max_bytes_is_told(js, stream):
    js.publish(f"{stream.name}.a", b"x" * 10_000)
    warnings: list[Exception] = []
    with stream.ordered_consumer() as ordered:
        messages = ordered.messages(max_bytes=1_000, on_warning=warnings.append)
        with messages, pytest.raises(jetsync.TimeoutError):
            messages.next(timeout=0.5)
        assert 1 <= len(warnings) <= 5
        assert "max_bytes" in str(warnings[0])
        assert len(ordered.next(timeout=LONG).data) == 10_000


def test_one_reader_at_a_time(js, stream):
    fill(js, stream, 10)
    with stream.ordered_consumer() as ordered:
        messages = ordered.messages()
        assert messages.next(timeout=LONG).metadata.stream_seq == 1
        for call in (lambda: ordered.fetch(1, timeout=1), ordered.messages):
            with pytest.raises(jetsync.ConfigError, match="stop"):
                call()
        assert sequences(next(messages.batches(max_messages=3))) == [2, 3, 4]
        messages.stop()
        with pytest.raises(jetsync.ConnectionClosedError):
            messages.next(timeout=1)
        assert ordered.next(timeout=LONG).metadata.stream_seq == 5


def test_fetches_of_several_threads_take_turns(js, stream):
    fill(js, stream, 400)
    got: list[list[int]] = []
    with stream.ordered_consumer() as ordered:

        def work():
            for _ in range(10):
                got.append(sequences(ordered.fetch(10, timeout=LONG)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(itertools.chain(*got)) == list(range(1, 401))
        assert all(part == list(range(part[0], part[0] + 10)) for part in got)
        assert ordered.resets == 0


def test_stopping_from_another_thread_ends_a_wait(js, stream):
    with stream.ordered_consumer() as ordered:
        messages = ordered.messages()
        helper = threading.Timer(0.3, messages.stop)
        helper.start()
        assert list(messages) == []
        helper.join()
        fill(js, stream, 1)
        assert ordered.next(timeout=LONG).metadata.stream_seq == 1


def test_acknowledging_does_nothing(js, nc, stream):
    fill(js, stream, 3)
    with stream.ordered_consumer() as ordered:
        batch = ordered.fetch(3, timeout=LONG)
        before = nc.stats.out_messages
        batch.ack()
        batch[0].ack()
        batch[1].nak()
        batch[2].ack_sync(timeout=1)
        assert nc.stats.out_messages == before
