"""The examples of the guides about ordered consumers and acknowledging run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer

GUIDES = Path(__file__).parents[2] / "docs" / "guide"


@pytest.mark.parametrize("name", ["ordered.md", "acknowledge.md"])
def test_the_examples_run(name, capsys):
    text = (GUIDES / name).read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= 3
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="ORDERS", subjects=["orders.>"])
        js.publish_many((f"orders.eu.{n}", b"%d" % n) for n in range(10))
        names = {"url": server.url, "nc": nc, "js": js}
        for example in examples:
            exec(compile(example, f"{name}: {example[:40]!r}", "exec"), names)
            names.update(nc=nc, js=js)  # the first example has a connection of its own
    capsys.readouterr()
