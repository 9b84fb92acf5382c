"""Consuming goes on by itself when the server is killed, frozen or left (G3, G6)."""

from __future__ import annotations

import threading
import time

import pytest

import jetsync
from jetsync.server import NatsServer
from tests.harness.soak import scaled
from tests.harness.stalls import Stalls
from tests.harness.waiting import wait_until
from tests.reliability.test_restart import LIVES, when_it_accepts

pytestmark = pytest.mark.timed

TOTAL = scaled(70_000, 2_000_000)
FAULTS = scaled(4, 90)
ROUNDS = scaled(5, 200)
AWAY = 0.2
HEARTBEAT = 1.0
BOUND = 2 * HEARTBEAT + 1  # promise P4


def test_every_sequence_is_delivered_over_faults_and_nothing_stalls(record_figure, keeps_promise):
    """G3: stream sequences never delivered: 0; delivery resumes within P4's bound."""
    with NatsServer() as server, jetsync.connect(server.url) as nc, Stalls() as stalls:
        js = nc.jetstream(timeout=20)
        stream = js.create_stream(name="S", subjects=["S.>"])
        consumer = stream.create_consumer(durable_name="c", ack_wait=5, max_ack_pending=20_000)
        js.publish_many((("S.a", b"x") for _ in range(TOTAL)), timeout=600)
        seen = bytearray(TOTAL + 1)
        count, last = 0, time.monotonic()
        longest = [0.0]  # the stalls: one before the first fault, one after each
        able = [0.0]  # since when the server answers, or 0 while it does not
        stop = threading.Event()

        def faults():
            for number in range(FAULTS):
                part = (number + 1) * TOTAL // (FAULTS + 2)
                while count < part and not stop.wait(0.005):
                    pass
                able[0] = 0.0
                longest.append(0.0)
                if number % 3 == 0:
                    server.kill()
                    stop.wait(AWAY)
                    server.start(timeout=120)  # a killed one reads the whole stream again
                elif number % 3 == 1:
                    server.pause()
                    stop.wait(2.5)
                    server.resume()
                else:
                    nc.force_reconnect()
                able[0] = time.monotonic()

        thread = threading.Thread(target=faults)
        thread.start()
        able[0] = time.monotonic()
        with consumer.messages(max_messages=5_000, expires=10, heartbeat=HEARTBEAT) as messages:
            try:
                for batch in messages.batches(timeout=60):
                    now = time.monotonic()
                    since = max(last, able[0]) if able[0] else now
                    # What is left at the end comes again only after ack_wait.
                    if count < TOTAL * 0.98 and now - since > longest[-1]:
                        longest[-1] = now - since - stalls.during(since, now)
                    last = now
                    assert len(batch), f"nothing for 60 s with {count} of {TOTAL} seen"
                    for msg in batch:
                        seq = msg.metadata.stream_seq
                        count += not seen[seq]
                        seen[seq] = 1
                    batch.ack()
                    if count == TOTAL:
                        break
            finally:
                stop.set()
                thread.join(60)
        missing = seen.count(0) - 1  # there is no sequence 0
    record_figure(f"G3 never delivered of {TOTAL} over {FAULTS} faults", missing, goal="0")
    assert missing == 0
    keeps_promise(
        "G3 longest stall of a fault, while the server answers", longest, BOUND, slack=3.0
    )


class Takers:
    """One consumer for each way to take messages, and a watcher of a bucket, each noting when it
    got which message."""

    def __init__(self, stream, bucket):
        self._stop = threading.Event()
        self.came: dict[str, dict[bytes, float]] = {}
        self.errors: list[Exception] = []
        self._streams = []
        self._threads = []
        consumers = {
            kind: stream.create_consumer(durable_name=kind)
            for kind in ("fetch", "next", "messages", "batches", "consume")
        }
        self._loop("fetch", lambda: consumers["fetch"].fetch(1, timeout=20))
        self._loop("next", lambda: [consumers["next"].next(timeout=20)])
        one, two = consumers["messages"].messages(), consumers["batches"].messages()
        self._streams += [one, two]
        self._loop("messages", lambda: [next(one)])
        many = two.batches()
        self._loop("batches", lambda: next(many))
        watcher = bucket.watch("k")
        self._streams.append(watcher)
        self._loop("watch", lambda: [watcher.next(timeout=20)])
        self.came["consume"] = {}
        self._streams.append(consumers["consume"].consume(lambda msg: self._note("consume", msg)))

    def _note(self, kind, msg):
        now = time.monotonic()
        if kind == "watch":
            self.came[kind].setdefault(msg and msg.value, now)  # None: all that was there has come
        else:
            self.came[kind].setdefault(msg.data, now)
            msg.ack()

    def _loop(self, kind, take):
        self.came[kind] = {}

        def run():
            while not self._stop.is_set():
                try:
                    for msg in take():
                        self._note(kind, msg)
                except (jetsync.ConnectionClosedError, StopIteration):
                    return
                except jetsync.TimeoutError:
                    continue
                except Exception as error:
                    self.errors.append(error)
                    return

        self._threads.append(threading.Thread(target=run, name=kind))
        self._threads[-1].start()

    def wait(self, kind, name):
        wait_until(
            lambda: name in self.came[kind],
            timeout=30,
            message=lambda: f"{kind} did not get message {name!r}: {self.errors}",
        )

    def end(self, nc):
        self._stop.set()
        for stream in self._streams:
            stream.stop()
        nc.close()
        for thread in self._threads:
            thread.join(25)
            assert not thread.is_alive(), thread.name


def test_every_way_to_take_messages_goes_on_after_a_restart(record_figure, keeps_promise):
    """G6: server killed and away for 0.2 s, from "it accepts" to the first message."""
    took: dict[str, list[float]] = {}
    with NatsServer() as server:
        nc, other = jetsync.connect(server.url), jetsync.connect(server.url)
        js = other.jetstream(timeout=20)
        stream = nc.jetstream().create_stream(name="S", subjects=["S.>"])
        js.create_key_value(bucket="B")
        takers = Takers(stream, nc.jetstream().key_value("B"))
        try:
            for number in range(ROUNDS):
                time.sleep(LIVES)  # how long a server lives
                server.kill()
                time.sleep(AWAY)  # the fault itself, not a wait for luck
                accepts: list[float] = []
                watcher = threading.Thread(target=when_it_accepts, args=(server.port, accepts))
                watcher.start()
                server.start()
                watcher.join()
                name = b"%d" % number
                # At once, as what one waits for is no part of the other's time.
                both = [js.publish_async("S.a", name, timeout=20)]
                both.append(js.publish_async("$KV.B.k", name, timeout=20))
                for one in both:
                    one.result()
                for kind, came in takers.came.items():
                    takers.wait(kind, name)
                    took.setdefault(kind, []).append(came[name] - accepts[0])
        finally:
            takers.end(nc)
            other.close()
    assert takers.errors == []
    every = sorted(value for values in took.values() for value in values)
    for kind, values in took.items():
        record_figure(f"G6 restart, {kind}: max", max(values), "s")
    keeps_promise("G6 first message after a restart, every way", every, 1.5, slack=3.0, p95=0.5)
