"""What a connection does: its events, its figures, and why a consumer gets nothing."""

import sys
import threading

import jetsync

events: list[str] = []
back = threading.Event()


def told(event: jetsync.Event) -> None:
    events.append(event.kind)
    if event.kind == "reconnected":
        back.set()


with jetsync.connect(*sys.argv[1:], name="watched", on_event=told) as nc:
    js = nc.jetstream()
    js.create_or_update_stream(name="WATCHED", subjects=["watched"])
    worker = js.create_or_update_consumer("WATCHED", durable_name="worker", max_ack_pending=1)
    for n in range(3):
        js.publish("watched", b"%d" % n)
    worker.fetch(1, timeout=5)  # taken, and never acknowledged

    lag = worker.lag()
    print("waiting:", lag.num_pending, "taken and not acknowledged:", lag.num_ack_pending)
    print(worker.explain_stall())

    nc.force_reconnect()
    back.wait(10)
    print("stored after the reconnect:", js.publish("watched", b"3").seq)
    print("reconnects:", nc.stats.reconnects)
print("events:", " ".join(kind for kind in events if kind != "reconnecting"))
