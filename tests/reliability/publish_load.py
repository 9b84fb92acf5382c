"""Publishers that work through faults and write down what they were told, to be compared with what
is in the stream afterwards."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

import jetsync
from tests.harness.figures import Recorder
from tests.harness.waiting import wait_until

PATIENCE = 60.0  # what one publish may take over all faults; below the duplicate window


class Ledger:
    """What publishers were told, by payload. Each payload is published once."""

    def __init__(self) -> None:
        self.stored: dict[bytes, int] = {}  # payload -> sequence, 0 where a report has only sums
        self.not_stored: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self.reasons: set[str] = set()  # why outcomes are unknown

    @property
    def told(self) -> int:
        return len(self.stored) + len(self.not_stored) + len(self.unknown)

    def note(self, payload: bytes, error: BaseException | None, seq: int = 0) -> None:
        if error is None:
            self.stored[payload] = seq
        elif isinstance(error, jetsync.PublishUnknownError):
            self.unknown.add(payload)
            self.reasons.add(f"{error!r:.300}")
        else:
            assert isinstance(error, jetsync.NotStoredError), repr(error)
            self.not_stored.add(payload)

    def record(self, record_figure: Recorder, found: Counter[bytes], faults: str) -> None:
        """Note what is missing of what was confirmed, and what is stored twice."""
        of = f"of {len(self.stored)} confirmed over {faults}"
        missing = sum(payload not in found for payload in self.stored)
        twice = sum(count > 1 for count in found.values())
        record_figure(f"G1 missing {of}", missing, goal="0")
        record_figure(f"G2 stored twice {of}", twice, goal="0")

    def compare(self, found: Counter[bytes], sequences: dict[bytes, int]) -> None:
        """Nothing that was confirmed is missing, nothing is there twice, every outcome is true."""
        missing = [payload for payload in self.stored if payload not in found]
        assert not missing, f"{len(missing)} confirmed messages are missing: {missing[:5]}"
        twice = [payload for payload, count in found.items() if count > 1]
        assert not twice, f"{len(twice)} messages are stored twice: {twice[:5]}"
        there = [payload for payload in self.not_stored if payload in found]
        assert not there, f"{len(there)} messages were told not to be stored: {there[:5]}"
        wrong = [p for p, seq in self.stored.items() if seq and sequences[p] != seq]
        assert not wrong, f"{len(wrong)} messages have another sequence: {wrong[:5]}"
        foreign = [p for p in found if p not in self.stored and p not in self.unknown]
        assert not foreign, f"{len(foreign)} messages that were not published: {foreign[:5]}"


class Wait(NamedTuple):
    """How long one call, or one future, was under way, and whether its outcomes are certain."""

    kind: str
    seconds: float
    certain: bool


class Load:
    """Publishers of all four kinds on one connection, each on its thread, until the block ends."""

    def __init__(
        self, js: jetsync.JetStream, subject: str, *, burst: int = 1500, patience: float = PATIENCE
    ) -> None:
        self.ledger = Ledger()
        self.waits: list[Wait] = []
        self._js = js
        self._subject = subject
        self._burst = burst
        self._patience = patience
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._problem: BaseException | None = None
        kinds: list[Callable[[str], None]] = [self._sync, self._sync, self._async]
        kinds += [self._many, self._arrow]
        self._threads = [
            threading.Thread(target=self._repeat, args=(kind, f"{kind.__name__}{n}"), daemon=True)
            for n, kind in enumerate(kinds)
        ]

    def _repeat(self, kind: Callable[[str], None], name: str) -> None:
        turn = 0
        try:
            while not self._stop.is_set():
                kind(f"{name}.{turn}")
                turn += 1
        except BaseException as error:
            self._problem = error

    def _note(self, payload: bytes, error: BaseException | None, seq: int = 0) -> None:
        with self._lock:
            self.ledger.note(payload, error, seq)

    def _waited(self, kind: str, begun: float, *errors: BaseException | None) -> None:
        certain = not any(isinstance(error, jetsync.PublishUnknownError) for error in errors)
        self.waits.append(Wait(kind, time.monotonic() - begun, certain))

    def _sync(self, name: str) -> None:
        for n in range(50):
            payload = f"{name}.{n}".encode()
            begun = time.monotonic()
            problem: Exception | None = None
            try:
                ack = self._js.publish(self._subject, payload, timeout=self._patience)
            except jetsync.PublishError as error:
                problem = error
                self._note(payload, error)
            else:
                self._note(payload, None, ack.seq)
            self._waited("sync", begun, problem)

    def _async(self, name: str) -> None:
        futures = []
        for n in range(self._burst):
            payload = f"{name}.{n}".encode()
            settled = partial(self._settled, time.monotonic())
            future = self._js.publish_async(self._subject, payload, timeout=self._patience)
            future.add_done_callback(settled)
            futures.append((payload, future))
        for payload, future in futures:
            error = future.exception()
            self._note(payload, error, 0 if error else future.result().seq)

    def _settled(self, begun: float, future: jetsync.PubAckFuture) -> None:
        self._waited("async", begun, future.exception())

    def _many(self, name: str) -> None:
        payloads = [f"{name}.{n}".encode() for n in range(self._burst)]
        begun = time.monotonic()
        messages = [(self._subject, payload) for payload in payloads]
        report = self._js.publish_many(messages, timeout=self._patience)
        self._report("many", begun, payloads, report)

    def _arrow(self, name: str) -> None:
        payloads = [f"{name}.{n}".encode() for n in range(self._burst)]
        batch = pa.record_batch({"data": payloads})
        begun = time.monotonic()
        report = self._js.publish_arrow(batch, subject=self._subject, timeout=self._patience)
        self._report("arrow", begun, payloads, report)

    def _report(
        self, kind: str, begun: float, payloads: list[bytes], report: jetsync.PublishReport
    ) -> None:
        failed = dict(report.failed)
        self._waited(kind, begun, *failed.values())
        assert report.stored + len(failed) == len(payloads)
        for index, payload in enumerate(payloads):
            self._note(payload, failed.get(index))

    def grow(self, more: int, timeout: float) -> None:
        """Wait until so many more messages have an outcome."""
        goal = self.ledger.told + more

        def enough() -> bool:
            if self._problem is not None:
                raise self._problem
            return self.ledger.told >= goal

        wait_until(
            enough, timeout=timeout, message=lambda: f"stuck at {self.ledger.told} of {goal}"
        )

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE + 10)
            assert not thread.is_alive(), "a publisher is stuck"
        if self._problem is not None:
            raise self._problem


def contents(js: jetsync.JetStream, stream: str) -> tuple[Counter[bytes], dict[bytes, int]]:
    """Everything that is in a stream: how often each payload, and under which sequence."""
    total = js.stream(stream).info().state.messages
    reader: Any = js.create_consumer(
        stream, ack_policy="none", mem_storage=True, inactive_threshold=300
    )
    found: Counter[bytes] = Counter()
    sequences: dict[bytes, int] = {}
    while sum(found.values()) < total:
        # The consumer may be on a server that was killed and has to catch up first.
        batch = reader.fetch(min(5000, total - sum(found.values())), timeout=60)
        assert len(batch), f"only {sum(found.values())} of {total} messages can be read"
        for msg in batch:
            found[msg.data] += 1
            sequences[msg.data] = msg.metadata.stream_seq
    return found, sequences
