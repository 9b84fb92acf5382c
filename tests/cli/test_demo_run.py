"""The main job runs end to end, gives the same results through faults, and stops when told to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jetsync import connect
from jetsync.server import NatsServer
from tests.cli.demo_process import Ended, Running, jetsync
from tests.harness.soak import scaled

ROWS = 12_000
LOAD = "load the flights into JetStream"
TO_PARQUET = "Spark: stream to parquet"
TO_RESULTS = "Spark: stream to daily results"
FAULTY_DEMO = str(Path(__file__).with_name("faulty_demo.py"))

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def demo(folder: Path, out: Path, *arguments: str) -> Running:
    batch = str(ROWS // 4)
    return jetsync(
        folder, "demo", "--out", str(out), "--rows", str(ROWS), "--batch-rows", batch, *arguments
    )


def assert_complete(ended: Ended, out: Path) -> None:
    assert ended.code == 0, ended.err
    assert "all checks passed" in ended.out
    assert "Traceback" not in ended.err
    report = json.loads((out / "report.json").read_text())
    assert report["passed"]
    assert [check["expected"] for check in report["checks"]][:2] == [ROWS + 1, ROWS]
    for name in ("delay-by-carrier.png", "flights-by-day.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    assert not (out / "work").exists()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The results of a run in which nothing went wrong."""
    folder = tmp_path_factory.mktemp("undisturbed")
    running = demo(folder, folder / "out")
    assert_complete(running.end(), folder / "out")
    assert running.survivors() == []
    return (folder / "out" / "daily.csv").read_text()


def test_the_results_are_one_row_for_each_day_and_carrier(undisturbed: str) -> None:
    header, *rows = undisturbed.splitlines()
    assert header == "day,carrier,flights,departures,delay_sum,delay_mean,miles"
    keys = [tuple(row.split(",")[:2]) for row in rows]
    assert len(keys) == len(set(keys)) > 200
    assert sum(int(row.split(",")[2]) for row in rows) == ROWS


@pytest.mark.parametrize(
    ("fault", "steps"),
    # What a worker that is killed costs, tests/spark shows on every commit.
    scaled(
        [("server", [LOAD, TO_PARQUET, TO_RESULTS])],
        [("server", [LOAD, TO_PARQUET, TO_RESULTS]), ("worker", [TO_PARQUET, TO_RESULTS])],
    ),
)
def test_the_results_are_the_same_when_something_dies_midway(
    tmp_path: Path, undisturbed: str, fault: str, steps: list[str]
) -> None:
    """Either the nats-server or a Python worker of Spark is killed in the middle of each step."""
    running = Running(tmp_path, FAULTY_DEMO, str(tmp_path / "out"), str(ROWS), fault, *steps)
    assert_complete(running.end(), tmp_path / "out")
    assert (tmp_path / "out" / "daily.csv").read_text() == undisturbed
    assert running.survivors() == []


def test_ctrl_c_at_any_step_leaves_nothing_running_and_a_repeat_completes(
    tmp_path: Path, undisturbed: str
) -> None:
    out = tmp_path / "out"
    every_step = ("start nats-server", LOAD, "start Spark", TO_PARQUET, TO_RESULTS)
    for step in scaled(("start Spark", TO_PARQUET), every_step):
        running = demo(tmp_path, out)
        running.wait_for(f"{step} ...")
        running.press_ctrl_c()
        ended = running.end()
        assert ended.code == 130, (step, ended.err)
        assert ended.said == "jetsync: interrupted; everything it started is stopped.", step
        assert "Traceback" not in ended.err, step
        assert running.survivors() == [], step
    assert_complete(demo(tmp_path, out).end(), out)
    assert (out / "daily.csv").read_text() == undisturbed


def test_sigterm_stops_it_as_tidily(tmp_path: Path) -> None:
    running = demo(tmp_path, tmp_path / "out")
    running.wait_for(f"{TO_PARQUET} ...")
    running.terminate()
    ended = running.end()
    assert (ended.code, running.survivors()) == (143, [])
    assert "Traceback" not in ended.err


def test_even_a_killed_demo_leaves_nothing_running(tmp_path: Path) -> None:
    running = demo(tmp_path, tmp_path / "out")
    running.wait_for(f"{TO_PARQUET} ...")
    running.crash()
    running.wait_until_gone()


def test_on_a_server_of_its_users_it_removes_what_it_made(tmp_path: Path, undisturbed: str) -> None:
    """The streams of an earlier run, kept or left by a crash, are replaced."""
    with NatsServer() as server, connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="OTHER", subjects=["other"])
        for name, subject in (("FLIGHTS", "flights.old"), ("RESULTS", "results.old")):
            js.create_stream(name=name, subjects=[subject], metadata={"made-by": "jetsync-demo"})
            js.publish(subject, b"left over")
        ended = demo(tmp_path, tmp_path / "out", "--servers", server.url).end()
        assert_complete(ended, tmp_path / "out")
        assert (tmp_path / "out" / "daily.csv").read_text() == undisturbed
        assert list(js.stream_names()) == ["OTHER"]
