"""The guides that tell one story run as they stand: all blocks of a page, on a new server.

Only the server's address is another one. What a page takes for granted ("each example has a
connection ``nc``") is made first; what it says comes out is compared.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from jetsync.server import NatsServer
from tests.harness.pages import ADDRESS, ROOT, python_blocks

CONNECTION = f'import jetsync\nnc = jetsync.connect("{ADDRESS}")\n'
ORDERS = CONNECTION + 'nc.jetstream().create_stream(name="ORDERS", subjects=["orders.>"])\n'
WORKER = ORDERS + 'worker = nc.jetstream().create_consumer("ORDERS", durable_name="worker")\n'

PAGES = {
    "workers": ("", "assert sums == [12.5] and worker.wait().dead == 1"),
    "tutorial": ("", "assert again.metadata.num_delivered == 2 and entry.value == b'0.55'"),
    "core": (CONNECTION, "assert seen == [b'1:0']"),
    "web": (ORDERS, "assert order(b'x')[0] == 201"),
    "deployment": ("", "assert nc.is_closed"),
    "troubleshooting": (WORKER, "assert nc.last_error is None"),
    "from-nats-py": (
        ORDERS.replace("ORDERS", "JOBS").replace("orders", "jobs")
        + "nc.jetstream().publish('jobs.a')\n",
        "got = []; main(got.append, stop_after=1); assert len(got) == 1",
    ),
    "from-kafka": ("", "assert report.stored == 1_000 and customer.startswith('c')"),
}


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_guide_run_as_they_stand(page, tmp_path):
    before, after = PAGES[page]
    blocks = python_blocks(f"docs/guide/{page}.md")
    program = "\n".join([before, *blocks, after, 'nc.close() if "nc" in globals() else None'])
    with NatsServer() as server:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program.replace(ADDRESS, server.url)],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for said in comments(blocks):
        assert said in done.stdout, said


def comments(blocks: list[str]) -> list[str]:
    """What the comments behind ``print`` say that it prints."""
    found = [line.split("  # ") for line in "\n".join(blocks).splitlines() if "print(" in line]
    return [
        said for _, *rest in found for said in rest if said[0] not in "NMms" and ":" not in said
    ]


def test_every_guide_is_on_the_site():
    listed = (ROOT / ".ci/docs/mkdocs.yml").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        assert page.relative_to(ROOT / "docs").as_posix() in listed, page
