"""The examples of the README run as they stand (Spark's own is run by Spark's tests)."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow

import jetsync
from jetsync.server import NatsServer

ROOT = Path(__file__).parents[2]


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def run(code, page, names):
    exec(compile(code, page, "exec"), names)  # the page's own text


def test_the_examples_of_the_readme_run():
    first, *others = [code for code in blocks("README.md") if "pyspark" not in code]
    with NatsServer() as server:
        run(first.replace("nats://127.0.0.1:4222", server.url), "README.md", {})
        with jetsync.connect(server.url) as nc:
            js = nc.jetstream()
            js.update_stream(name="ORDERS", allow_direct=True, allow_atomic=True)
            nc.subscribe("help", callback=lambda msg: msg.respond(b"here"))
            names = {
                "nc": nc,
                "js": js,
                "worker": js.consumer("ORDERS", "worker"),
                "handled": [],
                "rows": [("orders.a", b"1"), ("orders.b", b"2")],
                "record_batch": pyarrow.record_batch(
                    {"subject": ["orders.c"], "data": pyarrow.array([b"3"], pyarrow.binary())}
                ),
            }
            names["handle"] = names["handled"].append
            for code in others:
                run(ending(code), "README.md", names)
            assert len(names["handled"]) > 100
            assert names["table"].num_rows == 10_000
            assert names["future"].result(5).stream == "ORDERS"
            assert names["report"].stored == 2
            assert names["batch"].ack.count == 2
            assert names["reply"].data == b"here"


def ending(code):
    """The endless loops of the examples, made to end."""
    return (
        code.replace("worker.messages()", "worker.messages(stop_after=100)")
        .replace("context.wait(60)", "context.wait(1)")
        .replace("sub.next(timeout=1)", 'nc.publish("greet.x", b"") or sub.next(timeout=5)')
    )


def test_the_examples_of_connecting_are_python():
    for code in blocks("docs/guide/connect.md"):
        compile(code, "connect.md", "exec")
