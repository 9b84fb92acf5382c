"""The examples of the guide about key-value buckets run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import jetsync
from jetsync.server import NatsServer

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "keyvalue.md"


def test_the_examples_run(capsys):
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(examples) >= 5
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        names = {"url": server.url, "nc": nc, "js": nc.jetstream()}
        for example in examples:
            exec(compile(example, f"keyvalue.md: {example[:40]!r}", "exec"), names)
            names.update(nc=nc, js=nc.jetstream())  # the first example has a connection of its own
    capsys.readouterr()
