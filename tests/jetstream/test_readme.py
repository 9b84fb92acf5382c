"""The README's examples run as they stand, one after the other, on a new and empty server.

Only the server's address is another one. Spark's example is run by ``tests/spark/test_readme.py``.
"""

from __future__ import annotations

import subprocess
import sys

from jetsync.server import NatsServer
from tests.harness.pages import ADDRESS, python_blocks

LIMIT = 120

CHECKS = """
assert table.num_rows == 10_000, table.num_rows
assert future.result(5).stream == "ORDERS"
assert (report.stored, len(report.failed)) == (2, 0)
assert batch.ack.count == 2
assert reply.data == b"here"
assert msg.headers["Lang"] == "en"
assert data == b"..." * 1_000_000
"""


def test_the_examples_of_the_readme_run_as_they_stand(tmp_path):
    blocks = [code for code in python_blocks("README.md") if "pyspark" not in code]
    assert len(blocks) >= 5
    with NatsServer() as server:
        program = "\n".join([*blocks, CHECKS])
        assert ADDRESS in program
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program.replace(ADDRESS, server.url)],
            cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 orders.new b'one'" in done.stdout


def test_the_examples_of_connecting_are_python():
    for code in python_blocks("docs/guide/connect.md"):
        compile(code, "connect.md", "exec")
