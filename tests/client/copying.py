"""Publish or take messages, and count how often this process copies their bytes.

``LD_PRELOAD=copies.so python -m tests.client.copying copies.so URL DIRECTION SIZE:COUNT ...``, with
the library that is made of tests/harness/copies.c, prints for each size the copies of each byte of
the payloads. A receiver says "ready" when it has subscribed.
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


def receive(sub: jetsync.Subscription, copies: Any, size: int, count: int) -> int:
    before = 0
    for number in range(FIRST + count):
        if number == FIRST:
            before = copies.bytes_copied()
        assert len(sub.next(timeout=60).data) == size
    return int(copies.bytes_copied()) - before


def publish(nc: jetsync.Connection, copies: Any, size: int, count: int) -> int:
    data = b"x" * size
    before = 0
    for number in range(FIRST + count):
        if number == FIRST:
            before = int(copies.bytes_copied())
        nc.publish("large", data)
        nc.flush(timeout=60)  # what waits to be sent does not grow: growing moves it once more
    return int(copies.bytes_copied()) - before


def main(library: str, url: str, direction: str, *sizes: str) -> None:
    copies = load(library)
    with jetsync.connect(url) as nc:
        sub = nc.subscribe("large") if direction == "receive" else None
        nc.flush()
        print("ready", flush=True)
        for words in sizes:
            size, count = map(int, words.split(":"))
            if sub is None:
                copied = publish(nc, copies, size, count)
            else:
                copied = receive(sub, copies, size, count)
            print(copied / (size * count), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
