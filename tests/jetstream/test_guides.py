"""The examples of the guides run as they stand, on new servers.

Only the server's address is another one. What a page takes for granted ("each example has a
connection ``nc``") is made first; what it says comes out is compared.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import jetsync
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
# Pages whose examples follow one another, and whether they take a stream ORDERS for granted.
CHAPTERS = {
    "consume": False,
    "ordered": True,
    "acknowledge": True,
    "streams": False,
    "keyvalue": False,
}
# Pages whose examples stand alone, and what each one prints if that is said.
PUBLISH = python_blocks("docs/guide/publish.md")
SUBSCRIBE = {
    0: "b'one' 1\n",
    1: "10\n",
    2: "{'ack_wait': (60.0, 10.0)}\n",
    3: "['workers']\n",
    4: "True\nFalse\n",
    5: "5000 0\n",
    6: "True\n",
    7: "nothing to do\n",
}


@pytest.mark.parametrize("page", CHAPTERS)
def test_the_examples_of_a_guide_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for files that they write
    blocks = python_blocks(f"docs/guide/{page}.md")
    assert len(blocks) >= 3
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="KEPT")
        if CHAPTERS[page]:
            js.create_stream(name="ORDERS", subjects=["orders.>"])
            js.publish_many((f"orders.eu.{n}", b"%d" % n) for n in range(10))
        names: dict[str, Any] = {"url": server.url, "nc": nc, "js": js}
        for block in blocks:
            try:
                run(page, block, server, names)
            finally:
                if names["nc"] is not nc:  # a connection of its own
                    names["nc"].close()
            names.update(nc=nc, js=js)


@pytest.mark.parametrize("number", range(5))
def test_an_example_of_publishing_runs(number, fresh_server):
    assert len(PUBLISH) == 5
    assert ADDRESS in PUBLISH[number]
    run("publish", PUBLISH[number], fresh_server, {})


@pytest.mark.parametrize("number", SUBSCRIBE)
def test_an_example_of_subscribing_prints_what_it_says(number, capsys):
    blocks = python_blocks("docs/guide/subscribe.md")
    assert len(blocks) == len(SUBSCRIBE)
    with NatsServer() as server, jetsync.connect(server.url) as nc:
        js = nc.jetstream()
        for name in ("orders", "jobs"):
            js.create_stream(name=name.upper(), subjects=[f"{name}.>"], storage="memory")
        run("subscribe", blocks[number], server, {"nc": nc})
    assert capsys.readouterr().out == SUBSCRIBE[number]


def run(page, block, server, names):
    code = block.replace(ADDRESS, server.url)
    exec(compile(code, f"{page}: {block[:40]!r}", "exec"), names)  # the guide's own text


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
