"""Message streams and callbacks on a real server: ends, misuse, exceptions, back-pressure."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import jetsync
from jetsync import ConfigError
from tests.harness.waiting import wait_until
from tests.jetstream.messages import fill, numbers

PATIENCE = 30.0


@pytest.fixture
def consumer(stream):
    with stream.create_consumer(durable_name="c", ack_wait=30, max_ack_pending=20_000) as made:
        yield made


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_messages": 0}, "max_messages must be 1"),
        ({"max_bytes": 0}, "max_bytes must be 1"),
        ({"max_messages": 1, "max_bytes": 1}, "not both"),
        ({"expires": 0.5}, "expires"),
        ({"heartbeat": 0}, "heartbeat"),
        ({"expires": 2, "heartbeat": 1.5}, "heartbeat"),
        ({"max_messages": 5, "threshold_messages": 6}, "threshold_messages"),
        ({"max_bytes": 5, "threshold_bytes": 6}, "threshold_bytes"),
        ({"threshold_messages": -1}, "threshold_messages"),
        ({"stop_after": 0}, "stop_after"),
        ({"on_missed_heartbeat": "ignore"}, "on_missed_heartbeat"),
    ],
)
def test_options_that_make_no_sense_are_refused(consumer, options, words):
    with pytest.raises(ConfigError, match=words):
        consumer.messages(**options)


def test_a_second_thread_is_told(js, stream, consumer):
    """P1: an iterator belongs to one thread at a time, and says so when misused."""
    messages = consumer.messages()
    waiting = threading.Thread(target=lambda: list(messages))
    waiting.start()
    wait_until(lambda: consumer.info().num_waiting == 1, timeout=PATIENCE)
    for misuse in (messages.next, lambda: next(messages), lambda: next(messages.batches())):
        with pytest.raises(ConfigError, match="one thread at a time"):
            misuse()
    messages.stop()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_another_thread_can_take_over_when_the_first_is_done(js, stream, consumer):
    fill(js, stream, 10)
    got = []
    with consumer.messages(max_messages=4) as messages:
        got.append(int(next(messages).data))
        thread = threading.Thread(target=lambda: got.extend(numbers([next(messages)] * 1)))
        thread.start()
        thread.join(PATIENCE)
        got.append(int(messages.next(timeout=PATIENCE).data))
    assert got == [0, 1, 2]


@pytest.mark.parametrize("held", [0, 1, 50])
def test_stop_from_another_thread_ends_the_loop_and_hands_the_rest_back(js, stream, consumer, held):
    """Promptly: also when the hand is full and no slow step is due."""
    fill(js, stream, held)
    messages = consumer.messages(max_messages=100)
    taken: list[int] = []
    asked, stopped = threading.Event(), threading.Event()

    def work():
        for msg in messages:
            taken.append(int(msg.data))
            msg.ack_sync(timeout=PATIENCE)
            asked.set()
            stopped.wait(PATIENCE)

    thread = threading.Thread(target=work)
    thread.start()
    if held:
        assert asked.wait(PATIENCE)
    else:
        wait_until(lambda: consumer.info().num_waiting == 1, timeout=PATIENCE)
    messages.stop()
    stopped.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert taken == list(range(min(held, 1)))
    if held > 1:
        start = time.monotonic()
        rest = consumer.fetch(held - 1, timeout=PATIENCE)
        assert sorted(numbers(rest)) == list(range(1, held))
        assert time.monotonic() - start < 15, "not after ack_wait (30 s)"
    wait_until(lambda: consumer.info().num_waiting == 0, timeout=PATIENCE)


def test_drain_takes_what_is_buffered_and_asks_for_nothing_more(js, stream, consumer):
    fill(js, stream, 100)
    messages = consumer.messages(max_messages=20)
    first = messages.next(timeout=PATIENCE)
    messages.drain()
    rest = numbers(messages)
    assert [int(first.data), *rest] == list(range(1 + len(rest)))
    assert len(rest) < 40
    messages.stop()


def test_stop_after_counts_over_every_way_to_take(js, stream, consumer):
    fill(js, stream, 100)
    with consumer.messages(max_messages=10, stop_after=37) as messages:
        got = numbers([messages.next(timeout=PATIENCE) for _ in range(5)])
        for batch in messages.batches(max_messages=8):
            got += numbers(batch)
            if len(got) > 20:
                break
        got += numbers(messages)
    assert got == list(range(37))
    wait_until(lambda: consumer.info().num_waiting == 0, timeout=PATIENCE)
    assert consumer.info().delivered.consumer_seq == 37, "nothing was asked for in vain"


def test_batches_begin_with_what_is_in_the_hand(js, stream, consumer):
    fill(js, stream, 30)
    with consumer.messages(max_messages=30) as messages:
        got = [int(messages.next(timeout=PATIENCE).data)]
        for batch in messages.batches(max_messages=7, timeout=2):
            assert len(batch) <= 7
            got += numbers(batch)
            if len(got) == 30:
                break
    assert got == list(range(30))


def test_batches_say_when_nothing_came(consumer):
    with consumer.messages() as messages:
        assert len(next(messages.batches(timeout=0.2))) == 0
        with pytest.raises(ConfigError):
            next(messages.batches(max_messages=0))


def test_pulls_shrink_to_what_is_taken(js, stream, consumer):
    """Back-pressure: what is buffered and on its way never exceeds max_messages."""
    fill(js, stream, 1_000)
    with consumer.messages(max_messages=50) as messages:
        for n in range(300):
            assert int(messages.next(timeout=PATIENCE).data) == n
            assert messages._buffered + messages._inbox.waiting <= 50
        assert consumer.info().num_ack_pending <= 300 + 50


def test_a_callback_that_raises_gets_the_next_message_and_the_error_is_told(url, js, stream):
    """Error to on_error, the message is not acknowledged, the next one comes."""
    told: list[object] = []
    with jetsync.connect(url, on_error=lambda event: told.append(event.error)) as nc:
        theirs = nc.jetstream().stream(stream.name).create_consumer(durable_name="x", ack_wait=60)
        fill(js, stream, 10)
        seen = []

        def callback(msg):
            seen.append(int(msg.data))
            if msg.data in (b"3", b"4"):
                raise ValueError(msg.data)
            msg.ack_sync(timeout=PATIENCE)  # counted by the server when it is asked below

        with theirs.consume(callback, max_messages=4):
            wait_until(lambda: len(seen) == 10, timeout=PATIENCE)
        wait_until(lambda: len(told) == 2, timeout=PATIENCE)
        assert seen == list(range(10))
        wait_until(lambda: theirs.info().num_ack_pending == 2, timeout=PATIENCE)
    assert all(isinstance(error, ValueError) for error in told)


def test_consume_can_be_stopped_and_drained_from_its_callback(js, stream, consumer):
    """All of it is callable from any callback."""
    fill(js, stream, 20)
    seen: list[int] = []
    contexts: list = []
    known = threading.Event()  # the callback begins once its context is in the list

    def work(msg, end):
        assert known.wait(PATIENCE)
        seen.append(int(msg.data))
        msg.ack()
        end()

    def stop_at_three():
        if len(seen) == 3:
            contexts[0].stop()

    contexts.append(consumer.consume(lambda msg: work(msg, stop_at_three), max_messages=10))
    known.set()
    assert contexts[0].wait(PATIENCE)
    known.clear()
    assert seen == [0, 1, 2]
    contexts.append(
        consumer.consume(lambda msg: work(msg, lambda: contexts[1].drain()), max_messages=5)
    )
    known.set()
    assert contexts[1].wait(PATIENCE)
    assert contexts[1].error is None
    assert 4 <= len(seen) <= 20


def test_consume_takes_every_option_and_stops_after(js, stream, consumer):
    fill(js, stream, 50)
    seen = []
    context = consumer.consume(
        lambda msg: seen.append(int(msg.data)), stop_after=30, max_messages=8
    )
    assert context.wait(PATIENCE)
    assert seen == list(range(30))
    assert not context.is_active


INTERRUPTED = """
    import sys, jetsync

    url, stream = sys.argv[1:]
    with jetsync.connect(url) as nc:
        messages = nc.jetstream().consumer(stream, "c").messages(max_messages=50)
        count = 0
        try:
            print("ready", flush=True)
            for msg in messages:
                msg.ack()
                count += 1
        except KeyboardInterrupt:
            messages.stop()
            nc.flush(timeout=5)
            print("interrupted", count, flush=True)
"""


@pytest.mark.parametrize("messages", [0, 3_000])
def test_ctrl_c_interrupts_a_stream_and_nothing_is_lost(url, js, stream, consumer, messages):
    """G11: waiting or busy; what was not taken comes to the next one at once."""
    fill(js, stream, messages)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), url, stream.name],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
        if messages:
            wait_until(lambda: consumer.info().delivered.consumer_seq > 50, timeout=PATIENCE)
        else:
            wait_until(lambda: consumer.info().num_waiting == 1, timeout=PATIENCE)
        process.send_signal(signal.SIGINT)
        word, count = process.stdout.readline().split()
        assert process.wait(PATIENCE) == 0
    assert word == "interrupted"
    left = messages - int(count)
    if left > 1:
        assert len(consumer.fetch(left - 1, timeout=15)) == left - 1
