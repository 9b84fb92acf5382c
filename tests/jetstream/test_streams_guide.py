"""The examples of the guide to streams run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import jetsync
from jetsync.server import NatsServer

GUIDE = Path(__file__).parents[2] / "docs/guide/streams.md"


def test_every_example_runs_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for the backup that the guide makes
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) > 7
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        nc.jetstream().create_stream(name="KEPT")
        names: dict[str, object] = {}
        try:
            for block in blocks:
                code = block.replace("nats://127.0.0.1:4222", server.url)
                exec(compile(code, GUIDE.name, "exec"), names)
        finally:
            opened = names.get("nc")
            if isinstance(opened, jetsync.Connection):
                opened.close()
