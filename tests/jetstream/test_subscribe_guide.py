"""The examples of docs/guide/subscribe.md run as they stand and print what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jetsync
from jetsync.server import NatsServer

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "subscribe.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.S | re.M)
PRINTED = [
    "b'one' 1\n",
    "10\n",
    "{'ack_wait': (60.0, 10.0)}\n",
    "['workers']\n",
    "True\nFalse\n",
    "5000 0\n",
    "True\n",
    "nothing to do\n",
]


def test_every_example_is_known():
    assert len(EXAMPLES) == len(PRINTED)


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_example(number, capsys):
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        for name in ("orders", "jobs"):
            js.create_stream(name=name.upper(), subjects=[f"{name}.>"], storage="memory")
        exec(compile(EXAMPLES[number], str(GUIDE), "exec"), {"nc": nc})
    assert capsys.readouterr().out == PRINTED[number]
