"""publish_async: futures that always complete, a bounded window, callbacks that harm nothing."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.leaks import library_threads
from tests.harness.waiting import wait_until

ROOT = Path(__file__).parents[2]


def settling_threads():
    return {t for t in library_threads() if t.name.startswith("jetsync-publish")}


def test_a_future_gives_the_confirmation(js, stream):
    future = js.publish_async(f"{stream.name}.a", b"x", headers={"K": "v"})
    ack = future.result(10)
    assert (ack.stream, ack.seq, ack.duplicate) == (stream.name, 1, False)
    assert future.done()
    assert future.exception() is None
    assert future.result(0) == ack
    stored = stream.get_msg(1)
    assert (stored.data, stored.headers["K"]) == (b"x", "v")
    assert stored.headers["Nats-Msg-Id"]
    assert "seq=1" in repr(future)


def test_messages_of_one_thread_are_stored_in_order(js, stream):
    futures = [js.publish_async(f"{stream.name}.a", b"%d" % n) for n in range(10_000)]
    js.publish_async_wait(60)
    assert js.publish_async_pending == 0
    assert [future.result().seq for future in futures] == list(range(1, 10_001))
    assert stream.get_msg(5000).data == b"4999"


def test_ids_are_automatic_ones_own_or_none(nc, js, stream):
    subject = f"{stream.name}.a"
    js.publish_async(subject, msg_id="mine").result()
    js.publish_async(subject, headers={"Nats-Msg-Id": "header"}).result()
    js.publish_async(subject, msg_id=None).result()
    js.publish_async(subject).result()
    nc.jetstream(auto_msg_id=False).publish_async(subject).result()
    ids = [stream.get_msg(seq).headers.get("Nats-Msg-Id") for seq in range(1, 6)]
    assert ids[:3] == ["mine", "header", None]
    assert ids[3]
    assert ids[4] is None


def test_conditions_hold_for_the_future(js, stream):
    subject = f"{stream.name}.a"
    assert js.publish_async(subject, expected_last_seq=0).result().seq == 1
    future = js.publish_async(subject, expected_last_seq=0)
    assert isinstance(future.exception(), jetsync.WrongLastSequenceError)
    with pytest.raises(jetsync.WrongLastSequenceError):
        future.result()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (("bad subject", b""), jetsync.ConfigError),
        (("s", "text"), jetsync.ConfigError),
        (("s", None), jetsync.ConfigError),
        ((b"s", b""), jetsync.ConfigError),
        (("s", b"x" * (2 << 20)), jetsync.MaxPayloadError),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_cannot_be_sent_raises_at_once_and_takes_no_place(js, call, error):
    with pytest.raises(error):
        js.publish_async(*call)
    with pytest.raises(jetsync.ConfigError):
        js.publish_async("s", headers={"K": "a\nb"})
    with pytest.raises(jetsync.ConfigError):
        js.publish_async("s", msg_id="")
    with pytest.raises(TypeError):
        js.publish_async("s", nonsense=1)
    assert js.publish_async_pending == 0


def test_every_payload_that_is_bytes_like(js, stream):
    for data in (b"x", bytearray(b"x"), memoryview(b"xyx")[::2][:1].tobytes(), memoryview(b"x")):
        js.publish_async(f"{stream.name}.a", data).result()
    assert [stream.get_msg(seq).data for seq in (1, 2, 3, 4)] == [b"x"] * 4


# -- time ------------------------------------------------------------------------------------------


@pytest.fixture
def silent(url):
    """A subject on which a subscriber listens that answers nothing."""
    with jetsync.connect(url) as listener:
        subscription = listener.subscribe("nothing.answers.this")
        listener.flush()
        yield subscription.subject


def test_an_outcome_is_known_when_the_time_is_over(js, silent):
    start = time.monotonic()
    futures = [js.publish_async(silent, timeout=0.3) for _ in range(10)]
    futures += [js.publish_async(silent, timeout=0.9) for _ in range(10)]
    assert all(isinstance(f.exception(), jetsync.PublishUnknownError) for f in futures[:10])
    assert not futures[-1].done()
    assert all(isinstance(f.exception(), jetsync.PublishUnknownError) for f in futures)
    assert time.monotonic() - start >= 0.9


def test_a_subject_that_no_stream_takes_is_told_before_the_time_is_over(js, stream):
    future = js.publish_async("nothing.stores.this", timeout=60)
    assert js.publish_async(f"{stream.name}.a").result().seq == 1
    assert isinstance(future.exception(30), jetsync.NotStoredError)
    report = js.publish_many([("nothing.stores.this", b""), (f"{stream.name}.a", b"")], timeout=60)
    assert [type(error) for _, error in report.failed] == [jetsync.NotStoredError]
    assert report.stored == 1
    start = time.monotonic()
    with pytest.raises(jetsync.NotStoredError, match="no stream takes messages"):
        js.publish("nothing.stores.this", timeout=60)
    assert time.monotonic() - start < 30


def test_waiting_keeps_its_own_time(js, silent):
    future = js.publish_async(silent, timeout=60)
    for wait in (future.result, future.exception, js.publish_async_wait):
        start = time.monotonic()
        with pytest.raises(jetsync.TimeoutError) as caught:
            wait(0.1)
        assert not isinstance(caught.value, jetsync.PublishError)
        assert time.monotonic() - start < 10
    assert not future.done()


def test_a_full_window_makes_room_or_says_so(nc, stream, silent):
    js = nc.jetstream(max_pending=3, timeout=30)
    stuck = [js.publish_async(silent) for _ in range(3)]
    assert js.publish_async_pending == 3
    with pytest.raises(jetsync.TooManyPendingError) as caught:
        js.publish_async(f"{stream.name}.a", timeout=0.2)
    assert isinstance(caught.value, jetsync.NotStoredError)
    assert isinstance(caught.value, TimeoutError)
    assert not stuck[0].done()
    js = nc.jetstream(max_pending=3)
    futures = [js.publish_async(f"{stream.name}.a") for _ in range(1000)]
    js.publish_async_wait(30)
    assert sorted(future.result().seq for future in futures) == list(range(1, 1001))


def test_waiting_is_for_what_was_published_before(nc, stream):
    """A thread that goes on publishing does not keep another one waiting."""
    js = nc.jetstream(max_pending=100)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            js.publish_async(f"{stream.name}.a")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            mine = js.publish_async(f"{stream.name}.b")
            js.publish_async_wait(30)
            assert mine.done()
    finally:
        stop.set()
        thread.join(30)


# -- callbacks -------------------------------------------------------------------------------------


def test_callbacks_run_once_each_and_those_that_raise_harm_nothing(url, stream):
    heard: list[BaseException | None] = []
    called: list[int] = []
    with jetsync.connect(url, on_error=lambda event: heard.append(event.error)) as nc:
        js = nc.jetstream()

        def fail(future):
            raise ValueError("from a callback")

        for _ in range(100):
            future = js.publish_async(f"{stream.name}.a")
            future.add_done_callback(fail)
            future.add_done_callback(lambda f: called.append(f.result().seq))
        wait_until(lambda: len(called) == 100 and len(heard) == 100, timeout=30)
        late: list[object] = []
        future.add_done_callback(late.append)
        assert late == [future]  # it was settled already
    assert sorted(called) == list(range(1, 101))
    assert {type(error) for error in heard} == {ValueError}


def test_callbacks_may_publish_wait_and_block(nc, stream):
    js = nc.jetstream(max_pending=2, timeout=30)
    subject = f"{stream.name}.a"
    depth: list[int] = []
    finished = threading.Event()

    def go_on(future):
        depth.append(future.result().seq)
        if len(depth) == 50:
            finished.set()
            return
        futures = [js.publish_async(subject) for _ in range(5)]  # more than the window takes
        assert futures[0].result(30).stream == stream.name
        js.publish(subject)
        js.publish_async_wait(30)
        futures[-1].add_done_callback(lambda _: None)
        js.publish_async(subject).add_done_callback(go_on)

    js.publish_async(subject).add_done_callback(go_on)
    assert finished.wait(60)


def test_many_threads_share_one_window(nc, stream):
    js = nc.jetstream(max_pending=50, timeout=60)
    seqs: list[int] = []

    def work(name):
        futures = [js.publish_async(f"{stream.name}.{name}", b"%d" % n) for n in range(2000)]
        seqs.extend(future.result().seq for future in futures)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(seqs) == list(range(1, 16_001))


# -- ends ------------------------------------------------------------------------------------------


def test_a_lost_connection_sends_again_and_stores_once():
    with NatsServer() as server, jetsync.connect(server.url, reconnect_wait=0.01) as nc:
        js = nc.jetstream(timeout=60, max_pending=20_000)  # never full: this thread starts it again
        stream = js.create_stream(name="S", subjects=["s"])
        futures = []
        for _ in range(3):
            futures += [js.publish_async("s", b"%d" % n) for n in range(3000)]
            server.kill()
            futures += [js.publish_async("s", b"%d" % n) for n in range(500)]  # while it is away
            server.start()
        js.publish_async_wait(60)
        seqs = {future.result().seq for future in futures}
        assert len(seqs) == len(futures) == stream.info().state.messages


def test_closing_settles_every_future(url, stream, silent):
    nc = jetsync.connect(url)
    js = nc.jetstream(timeout=600)
    called: list[object] = []
    futures = [js.publish_async(silent) for _ in range(10)]
    futures += [js.publish_async(f"{stream.name}.a") for _ in range(1000)]
    for future in futures:
        future.add_done_callback(called.append)
    nc.close()
    errors = [future.exception(10) for future in futures]
    for error in errors:
        assert error is None or isinstance(error, jetsync.PublishError)
    assert all(isinstance(error, jetsync.PublishError) for error in errors[:10])
    wait_until(lambda: len(called) == len(futures), timeout=10)
    with pytest.raises(jetsync.ConnectionClosedError):
        js.publish_async(f"{stream.name}.a")
    wait_until(lambda: not settling_threads(), timeout=10)


def test_draining_waits_for_every_outcome_and_callback(url, stream):
    called: list[object] = []
    with jetsync.connect(url) as nc:
        js = nc.jetstream()
        futures = [js.publish_async(f"{stream.name}.a") for _ in range(5000)]
        for future in futures[::10]:
            future.add_done_callback(called.append)
    assert all(future.done() for future in futures)
    assert {future.result().seq for future in futures} == set(range(1, 5001))
    assert len(called) == 500
    assert not settling_threads()


def test_closing_ends_a_publish_that_waits_for_room(url, silent):
    nc = jetsync.connect(url)
    js = nc.jetstream(max_pending=1, timeout=600)
    js.publish_async(silent)
    errors = []

    def work():
        try:
            js.publish_async(silent)
        except jetsync.Error as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    nc.close()
    thread.join(10)
    assert [type(error) for error in errors] == [jetsync.ConnectionClosedError]


def test_a_dropped_jetstream_object_settles_what_is_open_and_ends_its_thread(nc, stream):
    before = settling_threads()
    js = nc.jetstream()
    futures = [js.publish_async(f"{stream.name}.a") for _ in range(100)]
    assert len(settling_threads() - before) == 1
    del js
    gc.collect()
    assert all(future.result(10).stream for future in futures)
    wait_until(lambda: settling_threads() == before, timeout=30)


def test_no_thread_for_a_future(nc, stream):
    before = settling_threads()
    js = nc.jetstream()
    for _ in range(500):
        js.publish_async(f"{stream.name}.a").add_done_callback(lambda _: None)
    assert len(settling_threads() - before) <= 2  # one settles, one calls back
    js.publish_async_wait(30)


def test_futures_hold_nothing_afterwards(js, stream):
    """A window goes round and round without growing; each future kept would be a block."""

    def blocks():
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks()
    for _ in range(50_000):
        js.publish_async(f"{stream.name}.a")
    js.publish_async_wait(60)
    assert blocks() - before < 10_000


def test_a_child_is_told_at_once(nc, stream, silent):
    js = nc.jetstream(timeout=60)
    future = js.publish_async(silent)
    pid = os.fork()
    if pid == 0:
        wrong = 1
        try:
            for call in (
                future.result,
                future.exception,
                js.publish_async_wait,
                lambda: js.publish_async(f"{stream.name}.a"),
            ):
                try:
                    call()
                except jetsync.ForkedError:
                    continue
                os._exit(2)
            wrong = 0
        finally:
            os._exit(wrong)
    assert os.waitpid(pid, 0)[1] == 0
    assert js.publish_async(f"{stream.name}.a").result(30).seq == 1


def test_a_domain_and_a_value_are_told(js):
    made = js.create_stream(
        name="COUNTED", subjects=["counted"], allow_msg_counter=True, allow_direct=True
    )
    assert js.publish_async("counted", incr=5).result().value == "5"
    assert js.publish_async("counted", incr=-2).result().value == "3"
    made.delete()
    with (
        NatsServer(config={"jetstream": {"domain": "hub"}}) as server,
        jetsync.connect(server.url) as nc,
    ):
        js = nc.jetstream()
        js.create_stream(name="S", subjects=["s"], storage="memory")
        assert js.publish("s").domain == "hub"
        assert js.publish_async("s").result().domain == "hub"
        assert js.publish_many([("s", b"")] * 5).stored == 5
