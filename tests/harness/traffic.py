"""Publishers and readers that go on through whatever a test does to the servers.

``with Traffic(js, "S", "s.a") as traffic: disturb(); traffic.goes_on()``; at the end nothing that
was confirmed is missing, nothing is there twice, every reader has had every message (ordered ones
each once and in order, the others none that was sent again after a confirmed acknowledgement), and
every call kept its time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection

import jetsync
from tests.harness.soak import scaled
from tests.harness.stalls import Stalls
from tests.harness.waiting import wait_until
from tests.reliability.publish_load import Ledger, contents

PATIENCE = 30.0
"""Seconds that a publish or an acknowledgement may take; below the duplicate window."""
A_LOOK = 1.0
ACK_WAIT = 30.0
GRACE = scaled(5.0, 0.25)
"""A call may take so much longer than it was given. The short form runs beside other tests, and
shows only that no call hangs."""
BUFFERED = 50
"""Messages that a reader takes ahead at most."""
STUCK = 60.0
"""Seconds in which a reader that lacks something has to get some of it. How fast it gets all of it
is a matter of the machine: the publishers may be faster than one that confirms each message."""
REST = scaled(0.01, 0.005)
"""Seconds between two messages of a publisher."""
READERS = ("messages", "fetch", "ordered", "ordered push")


class Traffic:
    """Two publishers and a reader of each kind on one stream, until the block ends."""

    def __init__(
        self,
        js: jetsync.JetStream,
        stream: str,
        subject: str,
        *,
        readers: Collection[str] = READERS,
        owner: jetsync.JetStream | None = None,
        rest: float = REST,
        ack_wait: float = ACK_WAIT,
    ) -> None:
        self.ledger = Ledger()
        self.seen: dict[str, list[int]] = {name: [] for name in readers}
        self.acked: dict[str, dict[int, int]] = {name: {} for name in readers}
        """How many messages the reader had taken when an acknowledgement was confirmed."""
        self.again: list[tuple[str, int]] = []
        """Deliveries after a confirmed acknowledgement, but for copies that were buffered then: a
        new leader may send once more what the old one sent."""
        self.late: list[tuple[str, float]] = []
        """Calls that took longer than they were given, with the seconds beyond that."""
        self.lost: list[bytes] = []
        """Confirmed messages that are not in the stream."""
        self.slowest = 0.0
        self.longest_wait = 0.0
        """Seconds that a reader waited for a message at most, from when that was confirmed: a
        message that comes before its confirmation, or again, does not count."""
        self._waits: dict[str, dict[int, float]] = {name: {} for name in readers}
        """When a message was confirmed that the reader may get; infinity when it had it."""
        self._waits_since = dict.fromkeys(readers, time.monotonic())
        self._js, self._stream, self._subject = js, stream, subject
        self._owner = owner or js
        self._rest = rest
        self._ack_wait = ack_wait
        self._stalls = Stalls()
        self._stop_writing, self._stop_reading = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._problems: list[BaseException] = []
        ways = {
            "messages": self._messages,
            "fetch": self._fetch,
            "ordered": self._ordered,
            "ordered push": self._ordered_push,
        }
        self._writers = [self._thread(self._sync), self._thread(self._async)]
        self._readers = [self._thread(ways[name]) for name in readers]

    # -- one call ----------------------------------------------------------------------------------

    def timed(
        self, name: str, timeout: float, call: Callable[[], object]
    ) -> jetsync.Error | object:
        """Make a call that was given so many seconds; return its result, or its error."""
        began = time.monotonic()
        result: jetsync.Error | object
        try:
            result = call()
        except jetsync.Error as error:
            result = error
        ended = time.monotonic()
        beyond = ended - began - timeout
        self.slowest = max(self.slowest, ended - began)
        if beyond > GRACE:
            beyond -= self._stalls.during(began, ended)
        if beyond > GRACE:
            self.late.append((name, beyond))
        return result

    # -- writing -----------------------------------------------------------------------------------

    def _note(self, payload: bytes, result: object) -> None:
        error = result if isinstance(result, BaseException) else None
        seq = result.seq if isinstance(result, jetsync.PubAck) else 0
        with self._lock:
            for waits in self._waits.values():
                waits.setdefault(seq, time.monotonic())
            self.ledger.note(payload, error, seq)

    def _sync(self) -> None:
        number = 0
        while not self._stop_writing.wait(self._rest):
            payload = b"sync.%d" % number
            number += 1
            self._note(
                payload,
                self.timed(
                    "publish",
                    PATIENCE,
                    lambda payload=payload: self._js.publish(  # type: ignore[misc]
                        self._subject, payload, timeout=PATIENCE
                    ),
                ),
            )

    def _async(self) -> None:
        number = 0
        while not self._stop_writing.wait(10 * self._rest):
            payloads = [b"async.%d" % n for n in range(number, number + 10)]
            number += 10
            futures = [
                (p, self._js.publish_async(self._subject, p, timeout=PATIENCE)) for p in payloads
            ]
            for payload, future in futures:
                self._note(
                    payload,
                    self.timed("future", PATIENCE, lambda future=future: future.result()),  # type: ignore[misc]
                )

    # -- reading -----------------------------------------------------------------------------------

    def _durable(self, name: str) -> jetsync.Consumer:
        return self._js.create_consumer(
            self._stream,
            durable_name=name,
            ack_wait=self._ack_wait,
            max_ack_pending=1000,
            timeout=PATIENCE,
        )

    def _see(self, name: str, msg: jetsync.JetStreamMsg) -> None:
        """Note a message that a reader has got, and how long it waited for it."""
        now, seq = time.monotonic(), msg.metadata.stream_seq
        with self._lock:
            waited = now - max(self._waits_since[name], self._waits[name].get(seq, now))
            self._waits[name][seq] = math.inf
            self.longest_wait = max(self.longest_wait, waited)
        self._waits_since[name] = now
        self.seen[name].append(seq)

    def _take(self, name: str, msg: jetsync.JetStreamMsg) -> None:
        seq = msg.metadata.stream_seq
        taken = len(self.seen[name])
        if taken - self.acked[name].get(seq, taken) > BUFFERED:
            self.again.append((name, seq))
        self._see(name, msg)
        done = self.timed("ack_sync", PATIENCE, lambda: msg.ack_sync(timeout=PATIENCE))
        if not isinstance(done, jetsync.Error):
            self.acked[name].setdefault(seq, len(self.seen[name]))
        self._waits_since[name] = time.monotonic()

    def _nothing_is_buffered(self, name: str) -> None:
        self.acked[name] = dict.fromkeys(self.acked[name], -BUFFERED - 1)

    def _messages(self) -> None:
        with self._durable("messages").messages(max_messages=BUFFERED) as messages:
            while not self._stop_reading.is_set():
                msg = self.timed("next", A_LOOK, lambda: messages.next(timeout=A_LOOK))
                if isinstance(msg, jetsync.JetStreamMsg):
                    self._take("messages", msg)
                else:
                    self._excuse(msg)
                    self._nothing_is_buffered("messages")

    def _fetch(self) -> None:
        consumer = self._durable("fetch")
        while not self._stop_reading.is_set():
            batch = self.timed("fetch", 0.5, lambda: consumer.fetch(20, timeout=0.5))
            if isinstance(batch, jetsync.MsgBatch):
                for msg in batch:
                    self._take("fetch", msg)
            else:
                self._excuse(batch)
                self._nothing_is_buffered("fetch")

    def _ordered(self) -> None:
        with self._js.ordered_consumer(self._stream, timeout=PATIENCE) as ordered:
            messages = ordered.messages()
            self._in_order("ordered", lambda: messages.next(timeout=A_LOOK))

    def _ordered_push(self) -> None:
        with self._js.subscribe(self._subject, stream=self._stream, ordered=True) as push:
            self._in_order("ordered push", lambda: push.next(timeout=A_LOOK))

    def _in_order(self, name: str, take: Callable[[], jetsync.JetStreamMsg]) -> None:
        while not self._stop_reading.is_set():
            msg = self.timed(name, A_LOOK, take)
            if isinstance(msg, jetsync.JetStreamMsg):
                self._see(name, msg)
            else:
                self._excuse(msg)

    def _excuse(self, error: object) -> None:
        """That nothing came in time is no failure of a reader while servers are away."""
        if not isinstance(error, jetsync.TimeoutError):
            assert isinstance(error, BaseException)
            raise error

    # -- the whole ---------------------------------------------------------------------------------

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._problems.append(error)

        return threading.Thread(target=run, name=f"traffic{work.__name__}", daemon=True)

    @property
    def faults(self) -> int:
        """What was lost, came again, or was late; known when the block has ended."""
        return len(self.lost) + len(self.again) + len(self.late)

    def check(self) -> None:
        """Raise what ended a publisher or reader."""
        if self._problems:
            raise self._problems[0]

    def goes_on(self, more: int = 30, *, timeout: float = 60.0) -> None:
        """Wait until so many more messages were confirmed and every reader has had some more."""
        stored = len(self.ledger.stored) + more
        counts = {name: len(seen) + more // 3 for name, seen in self.seen.items()}

        def enough() -> bool:
            self.check()
            return len(self.ledger.stored) >= stored and all(
                len(self.seen[name]) >= count for name, count in counts.items()
            )

        wait_until(enough, timeout=timeout, message=lambda: f"stuck: {self!r}")

    def record(self, record_figure: Callable[..., object], what: str) -> None:
        """Note what the traffic came to, in figures that begin with ``what``."""
        record_figure(f"{what}: confirmed", len(self.ledger.stored))
        record_figure(f"{what}: outcome unknown", len(self.ledger.unknown))
        record_figure(f"{what}: lost, doubled, late calls", self.faults, goal="0")
        record_figure(f"{what}: longest call", self.slowest, "s")
        record_figure(f"{what}: longest wait of a reader", self.longest_wait, "s")

    def __repr__(self) -> str:
        counts = {name: len(set(seen)) for name, seen in self.seen.items()}
        return f"{len(self.ledger.stored)} stored, {len(self.ledger.unknown)} unknown, {counts}"

    def __enter__(self) -> Traffic:
        self._stalls.__enter__()
        for thread in (*self._readers, *self._writers):
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._end(self._stop_writing, self._writers)
            if kind is None:
                self._judge()
        finally:
            self._end(self._stop_reading, self._readers)
            self._stalls.__exit__(None, None, None)
        if kind is None:
            self.check()

    def _end(self, stop: threading.Event, threads: list[threading.Thread]) -> None:
        stop.set()
        for thread in threads:
            thread.join(2 * PATIENCE)
            assert not thread.is_alive(), f"{thread.name} is stuck: {self!r}"

    def _await_all(self, there: set[int], seen: list[int]) -> None:
        """Wait until a reader has got everything; raise when nothing of it comes any more."""
        missing, looked_at = set(there), 0

        def some_came() -> bool:
            nonlocal looked_at
            self.check()
            new = seen[looked_at:]
            looked_at += len(new)
            found = missing.intersection(new)
            missing.difference_update(found)
            return bool(found)

        while missing:
            wait_until(some_came, timeout=STUCK, message=lambda: f"nothing more came: {self!r}")

    def _judge(self) -> None:
        self.check()
        found, sequences = contents(self._owner, self._stream)
        self.lost = [payload for payload in self.ledger.stored if payload not in found]
        self.ledger.compare(found, sequences)
        there = set(sequences.values())
        for seen in self.seen.values():
            self._await_all(there, seen)
        for name, seen in self.seen.items():
            if name.startswith("ordered"):
                assert seen == sorted(there), f"{name}: not each once and in order"
        assert not self.again, f"came again after a confirmed acknowledgement: {self.again[:5]}"
        assert not self.late, f"calls beyond their time: {self.late[:5]}"
