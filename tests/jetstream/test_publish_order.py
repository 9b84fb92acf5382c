"""What one thread publishes is stored in that order, whichever calls it mixes."""

from __future__ import annotations

import random
import threading
from functools import partial

import pytest

import jetsync
from tests.harness.proxy import Proxy
from tests.harness.soak import scaled
from tests.harness.waiting import wait_until

CALLS = ("publish", "publish_async", "publish_many", "publish_arrow", "core")


class Writer:
    """One thread's publishes, numbered; keeps the futures and checks them at the end."""

    def __init__(self, nc, subject, seed, calls=CALLS):
        self.nc = nc
        self.js, self.other = nc.jetstream(timeout=30), nc.jetstream(timeout=30)
        self.subject = subject
        self.random = random.Random(seed)
        self.calls = calls
        self.count = 0
        self.futures = []
        self.unconfirmed = set()  # numbers of core publishes, which may be lost with a link

    def payload(self, size):
        self.count += 1
        return (b"%d " % self.count).ljust(size, b".")

    def publish(self, size):
        self.js.publish(self.subject, self.payload(size))

    def publish_async(self, size):
        for _ in range(self.random.choice((1, 3, 50))):
            self.futures.append(self.js.publish_async(self.subject, self.payload(size)))

    def other_async(self, size):
        """Messages of two JetStream objects in turn."""
        for number in range(self.random.choice((1, 3, 50))):
            js = (self.other, self.js)[number % 2]
            self.futures.append(js.publish_async(self.subject, self.payload(size)))

    def publish_many(self, size):
        rows = [(self.subject, self.payload(size)) for _ in range(self.random.choice((1, 20)))]
        self.js.publish_many(rows).raise_for_failed()

    def publish_arrow(self, size):
        pyarrow = pytest.importorskip(
            "pyarrow", reason="the extra arrow; rows of Python objects run"
        )
        data = pyarrow.array([self.payload(size) for _ in range(5)], pyarrow.binary())
        batch = pyarrow.record_batch([data], names=["data"])
        self.js.publish_arrow(batch, subject=self.subject).raise_for_failed()

    def core(self, size):
        self.nc.publish(self.subject, self.payload(size))
        self.unconfirmed.add(self.count)

    def run(self, rounds, sizes):
        for _ in range(rounds):
            getattr(self, self.random.choice(self.calls))(self.random.choice(sizes))

    def settle(self):
        assert all(future.result(30).seq for future in self.futures)


@pytest.fixture
def stream(js, request):
    """A memory stream whose messages can be read directly."""
    name = f"O{abs(hash(request.node.nodeid)) % 10**9}"
    made = js.create_stream(name=name, subjects=[f"{name}.>"], storage="memory", allow_direct=True)
    yield made
    made.delete()


def all_stored(stream, writer):
    return len(stored(stream, writer.subject)) == writer.count


def stored(stream, subject):
    """The numbers of the messages on a subject, in the order of the stream."""
    numbers = []
    last = stream.info().state.last_seq
    seq = 1
    while seq <= last:
        batch = stream.get_msgs(seq, max_messages=500, timeout=30)
        numbers += [int(m.data[:20].split()[0]) for m in batch if m.subject == subject]
        seq = batch[-1].metadata.stream_seq + 1
    return numbers


def check(writer, stream):
    numbers = stored(stream, writer.subject)
    assert numbers == sorted(set(numbers))
    assert set(range(1, writer.count + 1)) - set(numbers) <= writer.unconfirmed
    return numbers


@pytest.mark.parametrize(
    ("count", "size"), [(60, 900_000), (60, 300_000), (60, 131_072), (2000, 5000), (20_000, 500)]
)
def test_asynchronous_publishes_of_any_size_are_stored_in_order(js, stream, count, size):
    for _ in range(scaled(1, 12)):
        futures = [js.publish_async(f"{stream.name}.a", b"x" * size) for _ in range(count)]
        sequences = [future.result().seq for future in futures]
        assert sequences == sorted(sequences)
        stream.purge()


def test_a_publish_does_not_overtake_asynchronous_ones_before_it(js, stream):
    for _ in range(scaled(5, 50)):
        futures = [js.publish_async(f"{stream.name}.a", b"x" * 50_000) for _ in range(80)]
        after = js.publish(f"{stream.name}.a")
        assert max(future.result().seq for future in futures) < after.seq
        stream.purge()


def test_two_objects_of_one_thread_take_turns(nc, stream):
    first, second = nc.jetstream(), nc.jetstream()
    for _ in range(scaled(5, 50)):
        futures = [
            (first, second)[number % 2].publish_async(f"{stream.name}.a", b"x" * 30_000)
            for number in range(100)
        ]
        sequences = [future.result().seq for future in futures]
        assert sequences == sorted(sequences)
        stream.purge()


def test_every_mixture_of_calls_keeps_the_order_of_each_thread(nc, stream):
    writers = [Writer(nc, f"{stream.name}.{n}", seed=n) for n in range(3)]
    threads = [
        threading.Thread(target=w.run, args=(scaled(40, 1000), (0, 100, 5000, 60_000, 400_000)))
        for w in writers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.settle()
        nc.flush()
        wait_until(partial(all_stored, stream, writer))
        assert check(writer, stream) == list(range(1, writer.count + 1))


def test_without_a_link_what_waits_leaves_in_order_when_it_is_back(server, stream):
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.01) as nc:
        writer = Writer(nc, f"{stream.name}.a", seed=1)
        writer.publish(10)
        proxy.stop()
        wait_until(lambda: not nc.is_connected)
        for size in (10, 300_000, 10):
            writer.publish_async(size)
            writer.core(size)
        proxy.restart()
        writer.publish(10)
        writer.publish_many(10)
        writer.settle()
        assert check(writer, stream) == list(range(1, writer.count + 1))


def test_without_a_link_core_publishes_wait_behind_a_window_that_is_full(server, stream):
    """`max_pending` bounds what is unconfirmed. They counted too, and failed at the second one."""
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.01) as nc:
        proxy.stop()
        wait_until(lambda: not nc.is_connected)
        first = nc.jetstream(timeout=30, max_pending=1).publish_async(f"{stream.name}.a", b"1")
        for number in range(2, 102):
            nc.publish(f"{stream.name}.a", b"%d" % number)
        proxy.restart()
        assert first.result(30).seq == 1
        wait_until(lambda: stream.info().state.messages == 101)
        assert stored(stream, f"{stream.name}.a") == list(range(1, 102))


@pytest.mark.parametrize("size", [100, 60_000])
def test_cut_links_do_not_change_the_order(server, stream, size):
    """Core publishes are left out: one that waits in the outbound buffer when a link breaks leaves
    before what that link has lost."""
    calls = ("publish", "publish_async", "other_async", "publish_many", "publish_arrow")
    with Proxy(server.url) as proxy, jetsync.connect(proxy.url, reconnect_wait=0.01) as nc:
        writer = Writer(nc, f"{stream.name}.a", seed=size, calls=calls)
        thread = threading.Thread(target=writer.run, args=(scaled(60, 2000), (0, size)))
        thread.start()
        while thread.is_alive():
            thread.join(0.15)
            proxy.cut()
        writer.settle()
        assert check(writer, stream) == list(range(1, writer.count + 1))
