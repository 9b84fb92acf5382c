"""A program that is interrupted at any moment of its requests, not only while it waits.

``python -m tests.reliability.interrupting_anywhere``; arguments: the server's URL, the file of its
authority ("" for a link without TLS), and how many interrupts.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import random
import signal
import sys
import threading
import time

import jetsync


class Interrupter:
    """Sends SIGINT to this process some moments after it was asked to."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._rng = random.Random(1)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            time.sleep(self._rng.uniform(0, 0.003))  # the moment varies
            os.kill(os.getpid(), signal.SIGINT)

    def soon(self) -> None:
        self._go.release()


def main(url: str, ca: str, count: int) -> None:
    tls = jetsync.TLSConfig(ca_file=ca) if ca else None
    interrupter = Interrupter()
    seen: collections.Counter[int] = collections.Counter()

    def answer(msg: jetsync.Msg) -> None:
        seen[int(msg.data)] += 1
        msg.respond(msg.data)

    with jetsync.connect(url, tls=tls) as responder, jetsync.connect(url, tls=tls) as nc:
        responder.subscribe("echo", callback=answer)
        responder.flush()
        marks = nc.subscribe("mark")
        answered: list[int] = []
        numbers = itertools.count()

        def go_there_and_back() -> None:
            number = next(numbers)
            text = b"%d" % number
            assert nc.request("echo", text, timeout=20).data == text
            answered.append(number)
            nc.publish("mark", text)
            nc.flush(timeout=20)
            # What was published before a flush has come back when it returns.
            while marks.next(timeout=0).data != text:
                pass

        for _ in range(count):
            with contextlib.suppress(KeyboardInterrupt):
                interrupter.soon()
                while True:
                    go_there_and_back()
            go_there_and_back()  # whatever was interrupted, the next call works
        nc.flush(timeout=20)
        responder.flush(timeout=20)
        assert nc.stats.reconnects == 0, nc.last_error
        assert all(times == 1 for times in seen.values())
        assert all(seen[number] == 1 for number in answered)
        assert len(answered) >= count


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
