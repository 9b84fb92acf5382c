"""Publish or take messages, and count how often this process copies their bytes.

``LD_PRELOAD=copies.so python -m tests.client.copying copies.so URL WAY SIZE:COUNT ...``, with the
library that is made of tests/harness/copies.c, prints for each size the copies of each byte of the
payloads, by one of WAYS. A receiver says "ready" when it has subscribed. The stream LARGE keeps
``kept.>``.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from typing import Any

import jetsync

FIRST = 4
"""Messages that come before: the first large one finds buffers that were made for small ones."""


def load(path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("copies", path)
    spec = importlib.util.spec_from_loader("copies", loader)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


def receive(nc: jetsync.Connection, copies: Any, size: int, count: int) -> int:
    sub = nc.subscribe(f"large.{size}")
    nc.flush()
    print("ready", flush=True)
    before = 0
    for number in range(FIRST + count):
        if number == FIRST:
            before = copies.bytes_copied()
        assert len(sub.next(timeout=60).data) == size
    return int(copies.bytes_copied()) - before


def fetch(nc: jetsync.Connection, copies: Any, size: int, count: int) -> int:
    js = nc.jetstream(timeout=60)
    js.publish_many((f"kept.{size}", b"z" * size) for _ in range(FIRST + count)).raise_for_failed()
    consumer = js.create_consumer("LARGE", filter_subjects=[f"kept.{size}"])
    before = 0
    for number in range(FIRST + count):
        if number == FIRST:
            before = copies.bytes_copied()
        assert [len(msg.data) for msg in consumer.fetch(1, timeout=60)] == [size]
    return int(copies.bytes_copied()) - before


def publish(nc: jetsync.Connection, copies: Any, size: int, count: int) -> int:
    data = b"x" * size
    before = 0
    for number in range(FIRST + count):
        if number == FIRST:
            before = int(copies.bytes_copied())
        nc.publish("large", data)
        nc.flush(timeout=60)
    return int(copies.bytes_copied()) - before


def publish_together(nc: jetsync.Connection, copies: Any, size: int, count: int) -> int:
    """All of them wait to be sent before any other ones have, and so in buffers that grow."""
    data = b"x" * size
    before = int(copies.bytes_copied())
    for _ in range(count):
        nc.publish("large", data)
    nc.flush(timeout=60)
    return int(copies.bytes_copied()) - before


def publish_async(nc: jetsync.Connection, copies: Any, size: int, count: int) -> int:
    js = nc.jetstream(timeout=60)
    data = b"x" * size
    before = int(copies.bytes_copied())
    for future in [js.publish_async("kept.async", data) for _ in range(count)]:
        future.result()
    return int(copies.bytes_copied()) - before


def publish_many(nc: jetsync.Connection, copies: Any, size: int, count: int) -> int:
    js = nc.jetstream(timeout=60)
    data = b"x" * size
    before = int(copies.bytes_copied())
    report = js.publish_many((f"kept.{number}", data) for number in range(count))
    assert report.stored == count
    return int(copies.bytes_copied()) - before


WAYS = {
    way.__name__: way
    for way in (receive, fetch, publish, publish_together, publish_async, publish_many)
}


def main(library: str, url: str, way: str, *sizes: str) -> None:
    copies = load(library)
    for words in sizes:
        size, count = map(int, words.split(":"))
        with jetsync.connect(url) as nc:
            print(WAYS[way](nc, copies, size, count) / (size * count), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
