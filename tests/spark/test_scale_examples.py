"""Every program in examples/ runs as it is and does what its page says.

Starting a Spark costs more than all that the small programs do: on every commit they run in the
session's, and in the long form (JETSYNC_SOAK=1) as programs of their own.
"""

from __future__ import annotations

import json
import re
import runpy
import sys

import pyarrow.parquet as pq
import pytest

import jetsync
from tests.harness.soak import SOAKING, scaled
from tests.spark.programs import ROOT, run_program

EXAMPLES = ROOT / "examples"
COUNT = 200

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
if not SOAKING:
    pytestmark.append(pytest.mark.usefixtures("spark"))


@pytest.fixture
def js(fresh_server):
    """A stream ORDERS of its own, with an amount and a customer in every order."""
    with jetsync.connect(fresh_server.url) as nc:
        js = nc.jetstream(timeout=20)
        js.create_stream(name="ORDERS", subjects=["orders.>"])
        publish_orders(js, 0, COUNT)
        yield js


def publish_orders(js, first, last):
    js.publish_many(
        ("orders.eu", json.dumps({"amount": i, "customer": f"c{i % 4}"}).encode())
        for i in range(first, last)
    ).raise_for_failed()


@pytest.fixture
def run_example(fresh_server, monkeypatch, capsys):
    """Run a program of examples/ and return what it printed."""

    def as_program(folder, name, *arguments):
        given = (str(EXAMPLES / name), "--servers", fresh_server.url, *arguments)
        return run_program(folder, *given)

    def here(folder, name, *arguments):
        given = [str(EXAMPLES / name), "--servers", fresh_server.url, *arguments]
        monkeypatch.setattr(sys, "argv", given)
        capsys.readouterr()
        runpy.run_path(given[0], run_name="__main__")
        return capsys.readouterr().out

    if not SOAKING:
        # Its getOrCreate() finds the session, and its stop() leaves that to the other tests.
        monkeypatch.setattr("pyspark.sql.SparkSession.stop", lambda _: None)
    return scaled(here, as_program)


def test_the_page_has_a_line_for_every_example():
    page = (EXAMPLES / "README.md").read_text()
    listed = set(re.findall(r"\]\((\S+\.py)\)", page))
    assert listed == {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}


def test_etl_goes_on_where_it_stopped(tmp_path, run_example, js):
    out = tmp_path / "out"
    files = ("--out", str(out), "--checkpoint", str(tmp_path / "checkpoint"))
    said = run_example(tmp_path / "1", "etl_to_parquet.py", *files)
    assert said == f"{COUNT} messages in {out}\n"
    publish_orders(js, COUNT, COUNT + 50)
    said = run_example(tmp_path / "2", "etl_to_parquet.py", *files)
    assert said == f"{COUNT + 50} messages in {out}\n"
    rows = pq.read_table(out).to_pylist()
    assert sorted(row["seq"] for row in rows) == list(range(1, COUNT + 51))
    assert all(json.loads(row["body"])["amount"] == row["seq"] - 1 for row in rows)


def test_orders_get_the_names_that_the_bucket_has(tmp_path, run_example, js):
    bucket = js.create_key_value(bucket="customers")
    for number in range(3):  # the fourth customer is unknown
        bucket.put(f"c{number}", f"Customer {number}".encode())
    out = tmp_path / "out"
    said = run_example(tmp_path, "enrich_in_udf.py", "--out", str(out))
    assert said == f"{COUNT * 3 // 4} of {COUNT} orders have a name\n"
    for row in pq.read_table(out).to_pylist():
        number = (row["seq"] - 1) % 4
        expected = (f"c{number}", f"Customer {number}" if number < 3 else None)
        assert (row["customer"], row["name"]) == expected


def test_the_work_queue_is_empty_afterwards(tmp_path, run_example, js):
    js.create_stream(name="JOBS", subjects=["jobs.>"], retention="workqueue")
    jobs = [("jobs.a", b"unreadable" if i == 7 else b"%d" % i) for i in range(COUNT)]
    js.publish_many(jobs).raise_for_failed()
    js.create_consumer("JOBS", durable_name="workers", ack_policy="explicit")
    said = run_example(tmp_path, "work_queue.py")
    assert said == f"{COUNT} messages done, 0 given back\n"
    assert js.stream("JOBS").info().state.messages == 0


def test_stream_to_stream_stores_once_even_when_it_starts_anew(tmp_path, run_example, js):
    js.create_stream(name="LARGE", subjects=["large.>"], duplicate_window=3600)
    for number in range(2):
        folder = tmp_path / str(number)
        checkpoint = ("--checkpoint", str(folder / "checkpoint"))
        said = run_example(folder, "stream_to_stream.py", *checkpoint)
        assert said == f"{COUNT} orders read\n"
    state = js.stream("LARGE").info().state
    assert state.messages == COUNT - 100
    amounts = [
        json.loads(js.stream("LARGE").get_msg(seq).data)["amount"]
        for seq in range(1, state.last_seq + 1)
    ]
    assert sorted(amounts) == list(range(100, COUNT))


@pytest.mark.skipif(not SOAKING, reason="make soak; each commit runs the other examples")
def test_a_standalone_cluster_starts_works_and_ends(tmp_path, run_example, js):
    said = run_example(tmp_path, "standalone/run.py")
    assert said == f"{COUNT} messages, {COUNT} distinct, in 4 tasks\n"
