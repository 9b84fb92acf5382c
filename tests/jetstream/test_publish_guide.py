"""The examples of the guide run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/guide/publish.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(n) for n in range(len(EXAMPLES))])
def test_the_example_runs(fresh_server, example):
    assert "nats://127.0.0.1:4222" in example
    exec(compile(example.replace("nats://127.0.0.1:4222", fresh_server.url), str(PAGE), "exec"), {})


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
