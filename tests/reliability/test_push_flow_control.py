"""A push consumer under flow control with a slow callback: bounded memory, nothing lost."""

from __future__ import annotations

import threading

import jetsync
from jetsync.server import NatsServer
from tests.harness.memory import MIB, resident, settled
from tests.harness.soak import scaled

TOTAL = scaled(60_000, 1_000_000)
SIZE = scaled(1024, 128)
WINDOW = 32 * MIB  # the largest one of the server
ALLOWED = 32.0
SLOW_EVERY = 500


def test_a_slow_callback_under_flow_control_gets_every_message_in_order(record_figure):
    told: list[BaseException | None] = []
    with (
        NatsServer() as server,
        jetsync.connect(server.url, on_error=lambda event: told.append(event.error)) as nc,
        jetsync.connect(server.url) as sender,
    ):
        js = nc.jetstream()
        js.create_stream(name="F", subjects=["f"])
        body = b"x" * (SIZE - 10)
        pause, done = threading.Event(), threading.Event()
        state = {"next": 0, "wrong": 0, "peak": 0.0, "pending": 0}
        before = settled()

        def callback(msg: jetsync.JetStreamMsg) -> None:
            if int(msg.data[:10]) != state["next"]:
                state["wrong"] += 1
            state["next"] += 1
            if state["next"] % SLOW_EVERY == 0:
                pause.wait(0.005)  # slower than the server can send
                state["peak"] = max(state["peak"], resident() - before)
                state["pending"] = max(state["pending"], sub.pending_bytes)
            if state["next"] == TOTAL:
                done.set()

        ready = threading.Event()

        def first_ready(msg: jetsync.JetStreamMsg) -> None:
            ready.wait(60)
            callback(msg)

        js_sender = sender.jetstream()
        report = js_sender.publish_many(("f", b"%010d" % n + body) for n in range(TOTAL))
        assert report.stored == TOTAL
        sub = js.subscribe(
            "f", flow_control=True, heartbeat=0.5, ack_policy="none", callback=first_ready
        )
        ready.set()
        assert done.wait(scaled(240, 1800)), f"{state['next']} of {TOTAL} came"
        dropped, over = sub.dropped, state["peak"] - WINDOW / MIB
        most = WINDOW / MIB + 4
        name = "push flow control:"
        record_figure(f"{name} messages", TOTAL)
        record_figure(f"{name} wrong or dropped", state["wrong"] + dropped, goal="0")
        record_figure(
            f"{name} most bytes waiting", state["pending"] / MIB, "MiB", goal=f"<= {most:g} MiB"
        )
        record_figure(f"{name} memory over the window", over, "MiB", goal=f"<= {ALLOWED:g} MiB")
        assert state["wrong"] == dropped == 0
        assert state["next"] == TOTAL == sub.delivered
        sub.drain(timeout=30)
    assert told == []
    assert state["pending"] / MIB <= most
    assert over <= ALLOWED
