"""The examples of the guide about services, and the example program, run as they are printed."""

from __future__ import annotations

import subprocess
import sys

import jetsync
from jetsync.server import NatsServer
from tests.harness.pages import ROOT, python_blocks

LONG = 20


def test_the_examples_run(capsys):
    offer, stop, call = python_blocks("docs/guide/services.md")
    with NatsServer(jetstream=False) as server, jetsync.connect(server.url) as nc:
        names = {"nc": nc, "jetsync": jetsync}
        exec(offer, names)
        assert nc.request("orders.price", timeout=LONG).data == b"12.50"
        answer = nc.request("orders.stock.pen", timeout=LONG)
        assert answer.data == b'{"article": "pen", "left": 3}'
        refused = nc.request("orders.price", b"unknown", timeout=LONG)
        assert refused.headers["Nats-Service-Error-Code"] == "404"
        exec(stop, names)
        exec(call, names)
    assert capsys.readouterr().out.splitlines() == ["b'12:00'", "1.0.0 ['clock.now']", "1"]


def test_the_example_program_serves_until_it_is_told_to_end():
    with NatsServer(jetstream=False) as server, jetsync.connect(server.url) as nc:
        command = [sys.executable, str(ROOT / "examples/service.py"), "--servers", server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("service words ")
            assert nc.request("words.count", b"a b  c", timeout=LONG).data == b"3"
            refused = nc.request("words.count", b"\xff", timeout=LONG)
            assert refused.headers["Nats-Service-Error-Code"] == "400"
            process.terminate()
            assert process.wait(LONG) == 0
