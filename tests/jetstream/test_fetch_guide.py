"""The examples of docs/guide/consume.md run, in order, against a server."""

from __future__ import annotations

import re
from pathlib import Path

import jetsync
from jetsync.server import NatsServer

GUIDE = Path(__file__).parents[2] / "docs/guide/consume.md"


def test_the_examples_of_the_guide_run():
    code = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S)
    assert len(code) >= 5
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        names = {"nc": nc, "js": nc.jetstream()}
        exec(compile("\n".join(code), str(GUIDE), "exec"), names)  # the guide's own text
