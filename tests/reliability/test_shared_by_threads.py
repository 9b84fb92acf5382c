"""Many threads on one connection: every reply reaches the one who asked (G18)."""

from __future__ import annotations

import gc
import random
import threading

import jetsync
from tests.harness.soak import scaled

THREADS = 32
REQUESTS = THREADS * scaled(1_500, 64_000)


def test_no_reply_reaches_another_caller(server, record_figure):
    """With impatient callers, whose replies come when they have gone, and garbage collection."""
    crossed: list[object] = []
    counted = {"answered": 0, "given up": 0}
    lock = threading.Lock()

    def ask(me, nc):
        rng = random.Random(me)
        answered = given_up = 0
        for number in range(REQUESTS // THREADS):
            text = b"%d %d" % (me, number)
            timeout = 0.0005 if rng.random() < 0.05 else 60
            try:
                if rng.random() < 0.1:
                    found = [m.data for m in nc.request_many("echo", text, max_messages=1)]
                else:
                    found = [nc.request("echo", text, timeout=timeout).data]
            except jetsync.TimeoutError:
                given_up += 1
                continue
            answered += 1
            if found != [text]:
                crossed.append((text, found))
        with lock:
            counted["answered"] += answered
            counted["given up"] += given_up

    threshold = gc.get_threshold()
    with jetsync.connect(server.url) as other, jetsync.connect(server.url, timeout=60) as nc:
        other.subscribe("echo", callback=lambda msg: msg.respond(msg.data))
        other.flush()
        threads = [threading.Thread(target=ask, args=(me, nc)) for me in range(THREADS)]
        gc.set_threshold(50)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            gc.set_threshold(*threshold)
        assert nc.stats.reconnects == 0
    record_figure(f"G18 requests by {THREADS} threads", sum(counted.values()))
    record_figure("G18 of them given up", counted["given up"])
    record_figure("G18 crossed replies", len(crossed), goal="0")
    assert crossed == []
    assert sum(counted.values()) == REQUESTS
    assert counted["given up"]
