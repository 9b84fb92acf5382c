"""A program that publishes to a real server and reads from it while memory fails.

``LD_PRELOAD=starve.so PYTHONMALLOC=malloc python -m tests.reliability.starving starve.so URL
MESSAGES STRIDE`` prints how many allocations were refused. The library is tests/harness/starve.c.

First every thread of the connection is refused some of what the C code asks for, while one thread
publishes and another reads. Then one thread is refused, in turn, every STRIDE-th allocation of each
call, the interpreter's own ones too. After that, with memory: what was confirmed is stored once and
whole, each stored message is delivered and acknowledged, every future is settled, and the same
connection works on and closes.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib.machinery
import importlib.util
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jetsync
from tests.harness.insides import left_open

PATIENCE = 30.0
SIZES = (10, 300, 5_000, 100_000)


def load(path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("starve", path)
    spec = importlib.util.spec_from_loader("starve", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def payload(number: int) -> bytes:
    """Shows its number, its length and its bytes."""
    head = b"%d:" % number
    return head + bytes([65 + number % 26]) * (SIZES[number % len(SIZES)] - len(head))


def number_of(data: bytes) -> int:
    number = int(data.split(b":", 1)[0])
    assert data == payload(number), f"message {number} is not what was published"
    return number


class Published:
    """What was published, and what is known of it."""

    def __init__(self) -> None:
        self.next = 0
        self.confirmed: dict[int, int] = {}
        self.futures: list[tuple[int, Any]] = []

    def one(self, js: Any) -> None:
        """Publish the next message, waiting for the confirmation or not."""
        number, self.next = self.next, self.next + 1
        if number % 3:
            self.futures.append((number, js.publish_async("s", payload(number), timeout=PATIENCE)))
        else:
            self.confirmed[number] = js.publish("s", payload(number), timeout=1).seq

    def settle(self) -> None:
        for number, future in self.futures:
            try:
                self.confirmed[number] = future.result(PATIENCE).seq
            except (MemoryError, jetsync.Error):
                pass
            assert future.done(), f"nothing is told of message {number}"


class Reader(threading.Thread):
    """Reads all messages and acknowledges them; begins anew where that ends with an error."""

    def __init__(self, js: Any) -> None:
        super().__init__(daemon=True)  # a failed check ends the program
        self.js = js
        self.read: set[int] = set()
        self.ended = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        while not self.ended.is_set() and self.problem is None:
            try:
                self.messages()
            except (MemoryError, jetsync.Error):
                time.sleep(0.01)  # between two attempts
            except BaseException as error:
                self.problem = error

    def messages(self) -> None:
        consumer = self.js.consumer("S", "c", timeout=PATIENCE)
        while not self.ended.is_set():
            for msg in consumer.fetch(50, timeout=1):
                number = number_of(msg.data)
                msg.ack()
                self.read.add(number)


def wait(what: str, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        if time.monotonic() > deadline:
            faulthandler.dump_traceback()
            raise AssertionError(what)
        time.sleep(0.02)  # between two looks


def refused(call: Callable[[], object]) -> bool:
    """Make a call without memory; whether it raised what it may raise then."""
    try:
        call()
    except (MemoryError, jetsync.Error):
        return True
    except SystemError as error:  # what CPython raises where it has no memory for a frame
        if "without setting an exception" not in str(error):
            raise
        return True
    return False


def in_all_threads(starve: Any, js: Any, published: Published, count: int) -> int:
    """Refuse the library's C code one allocation in so many, now more often, now less."""
    total = 0
    for one_in in (4, 50, 3, 7, 11)[: max(2, count // 50)]:
        starve.refuse_core(one_in)
        for _ in range(count // 2):
            refused(lambda: published.one(js))
        total += starve.refuse_core(0)
        # Between two famines the link comes back, and answers.
        wait("no answer after memory failed", lambda: answers(js))
    return total


def answers(js: Any) -> bool:
    try:
        js.stream("S", timeout=2)
    except jetsync.Error:
        return False
    return True


def in_one_thread(starve: Any, nc: Any, js: Any, published: Published, stride: int) -> int:
    """Refuse allocation number n of a call, for one n after the other."""
    total = 0
    sub = nc.subscribe("c")
    nc.flush(timeout=PATIENCE)
    calls: list[Callable[[], object]] = [
        lambda: published.one(js),
        lambda: nc.publish("c", b"data"),
        lambda: sub.next(timeout=0),
        lambda: nc.request("echo", b"data", timeout=5),
        lambda: js.stream("S", timeout=5),
        lambda: nc.subscribe("a.b").unsubscribe(),
        lambda: nc.flush(timeout=5),
    ]
    for call in calls:
        n, some = 1, True
        while some:

            def starved(nth: int = n, call: Callable[[], object] = call) -> None:
                nonlocal total
                starve.refuse_one(nth)
                try:
                    call()
                finally:
                    total += starve.end()

            before = total
            some = refused(starved) or total > before
            n += stride
    sub.unsubscribe()
    return total


def main(library: str, url: str, messages: int, stride: int) -> None:
    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    starve = load(library)
    with jetsync.connect(url) as beside, jetsync.connect(url, reconnect_wait=0.02) as nc:
        js = nc.jetstream(timeout=20)
        stream = js.create_stream(name="S", subjects=["s"], storage="memory", allow_direct=True)
        stream.create_consumer(durable_name="c", ack_wait=1)
        published, reader = Published(), Reader(js)
        responder = beside.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        beside.flush(timeout=PATIENCE)
        nc.request("echo", b"", timeout=PATIENCE)
        for _ in range(3):
            published.one(js)
        published.settle()
        before = left_open(nc)
        reader.start()
        everywhere = in_all_threads(starve, js, published, messages)
        alone = in_one_thread(starve, nc, js, published, stride)
        published.settle()
        stored: dict[int, int] = {}
        truth = beside.jetstream().stream("S")
        for seq in range(1, truth.info().state.last_seq + 1):
            number = number_of(truth.get_msg(seq).data)
            assert number not in stored, f"message {number} is stored twice"
            stored[number] = seq
        assert published.confirmed.items() <= stored.items(), "confirmed, and not stored so"
        wait("a message was not delivered", lambda: reader.read == stored.keys())
        consumer = beside.jetstream().consumer("S", "c")
        wait("an acknowledgement is missing", lambda: consumer.info().num_ack_pending == 0)
        assert reader.problem is None, reader.problem
        reader.ended.set()
        reader.join(PATIENCE)
        gc.collect()
        wait(f"{before} was open, and is {left_open(nc)}", lambda: left_open(nc) == before)
        assert nc.request("echo", b"still", timeout=PATIENCE).data == b"still"
        responder.unsubscribe()
    assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
    json.dump(
        {"in all threads": everywhere, "in one thread": alone, "messages": len(stored)},
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
