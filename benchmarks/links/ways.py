"""The ways of reading and writing that are measured. Each prepares and returns what is timed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jetsync.client import next_nuid

__all__ = ["LINES", "OBJECT", "STREAM", "WAYS"]

STREAM = "FILLED"
OBJECT = "large"
PATIENCE = 120.0

Way = Callable[[], int]
"""Does it once; returns how many messages (or bytes of an object) that were."""


def _consumer(js: Any) -> Any:
    return js.create_consumer(STREAM, ack_policy="none", mem_storage=True)


def messages(js: Any, count: int, size: int) -> Way:
    consumer = _consumer(js)

    def run() -> int:
        with consumer.messages(stop_after=count) as stream:
            return sum(1 for _ in stream)

    return run


def consume(js: Any, count: int, size: int) -> Way:
    consumer = _consumer(js)
    done = threading.Event()
    left = [count]

    def callback(_msg: Any) -> None:
        left[0] -= 1
        if not left[0]:
            done.set()

    def run() -> int:
        with consumer.consume(callback):
            if not done.wait(PATIENCE):
                raise TimeoutError(f"{left[0]} messages are missing")
        return count

    return run


def fetch(js: Any, count: int, size: int) -> Way:
    consumer = _consumer(js)

    def run() -> int:
        got = 0
        while got < count:
            got += sum(1 for _ in consumer.fetch(min(5000, count - got), timeout=PATIENCE))
        return got

    return run


def ordered(js: Any, count: int, size: int) -> Way:
    def run() -> int:
        with js.ordered_consumer(STREAM) as consumer, consumer.messages() as stream:
            for got, _msg in enumerate(stream, 1):
                if got == count:
                    return got
        raise AssertionError("the stream of messages has ended")

    return run


def push(js: Any, count: int, size: int) -> Way:
    consumer = js.create_consumer(
        STREAM,
        deliver_subject=next_nuid(),
        ack_policy="none",
        flow_control=True,
        idle_heartbeat=5,
        mem_storage=True,
    )

    def run() -> int:
        with js.subscribe(stream=STREAM, consumer=consumer.name) as subscription:
            for got, _msg in enumerate(subscription, 1):
                if got == count:
                    return got
        raise AssertionError("the subscription has ended")

    return run


def publish_async(js: Any, count: int, size: int) -> Way:
    payload = b"x" * size

    def run() -> int:
        futures = [js.publish_async("sink.a", payload) for _ in range(count)]
        return len([future.result(PATIENCE) for future in futures])

    return run


def publish_many(js: Any, count: int, size: int) -> Way:
    payload = b"x" * size

    def run() -> int:
        report = js.publish_many((("sink.a", payload) for _ in range(count)), timeout=PATIENCE)
        return int(report.stored)

    return run


def publish_arrow(js: Any, count: int, size: int) -> Way:
    import pyarrow as pa

    batch = pa.record_batch(
        {"subject": pa.array(["sink.a"] * count), "data": pa.array([b"x" * size] * count)}
    )

    def run() -> int:
        return int(js.publish_arrow(batch, subject="subject", timeout=PATIENCE).stored)

    return run


def get_msgs(js: Any, count: int, size: int) -> Way:
    stream = js.stream(STREAM)

    def run() -> int:
        return sum(1 for _ in stream.get_msgs(1, max_messages=count, timeout=PATIENCE))

    return run


def object_put(js: Any, count: int, size: int) -> Way:
    store = js.object_store("objects")
    payload = store.get_bytes(OBJECT)

    def run() -> int:
        store.put(f"{OBJECT}-copy", payload)
        return len(payload)

    return run


def object_get(js: Any, count: int, size: int) -> Way:
    store = js.object_store("objects")
    return lambda: len(store.get_bytes(OBJECT))


WAYS: dict[str, Callable[[Any, int, int], Way]] = {
    way.__name__: way
    for way in (
        messages,
        consume,
        fetch,
        ordered,
        push,
        publish_async,
        publish_many,
        publish_arrow,
        get_msgs,
        object_put,
        object_get,
    )
}

_PULLED, _PUBLISHED, _READ, _OBJECTS = 103e6, 22e6, 32e6, 240e6
LINES = {
    "messages": _PULLED,
    "consume": _PULLED,
    "fetch": _PULLED,
    "ordered": _PULLED,
    "push": _PULLED,
    "publish_async": _PUBLISHED,
    "publish_many": _PUBLISHED,
    "publish_arrow": _PUBLISHED,
    "get_msgs": _READ,
    "object_put": _OBJECTS,
    "object_get": _OBJECTS,
}
"""Bytes a second that each way carries in its busier direction on loopback, on two processors with
nothing else to do; messages of 128 bytes."""
