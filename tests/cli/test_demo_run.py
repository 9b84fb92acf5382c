"""The main job runs end to end, gives the right results through faults, and stops when told to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jetsync import connect
from jetsync.cli.demo_check import Reference, check_results
from jetsync.cli.demo_data import find_flights_csv
from jetsync.server import NatsServer
from tests.cli.demo_process import Ended, Running, jetsync
from tests.cli.only_demo import without_others
from tests.harness.soak import SOAKING, scaled

ROWS = scaled(3_000, 12_000)
BATCH = ROWS // scaled(2, 4)
START_SPARK = "start Spark"
LOAD = "load the flights into JetStream"
TO_PARQUET = "Spark: stream to parquet"
TO_RESULTS = "Spark: stream to daily results"
FAULTY_DEMO = str(Path(__file__).with_name("faulty_demo.py"))
# Starting quickly matters for few rows, speed for many.
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": scaled("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "")}

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def reference() -> Reference:
    """The answers, which pandas computes from the CSV file."""
    return Reference.compute(find_flights_csv(), ROWS)


def demo(folder: Path, out: Path, *arguments: str, **environment: str) -> Running:
    sizes = ("--rows", str(ROWS), "--batch-rows", str(BATCH))
    given = {**QUICK_JAVA, **environment}
    return jetsync(folder, "demo", "--out", str(out), *sizes, *arguments, **given)


def assert_complete(ended: Ended, out: Path, reference: Reference) -> None:
    """The demo is content with itself, and its table is that of pandas."""
    import pandas as pd

    assert ended.code == 0, ended.err
    assert "all checks passed" in ended.out
    assert "Traceback" not in ended.err
    report = json.loads((out / "report.json").read_text())
    assert report["passed"]
    assert [check["expected"] for check in report["checks"]][:2] == [ROWS + 1, ROWS]
    for name in ("delay-by-carrier.png", "flights-by-day.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    assert not (out / "work").exists()
    table = pd.read_csv(out / "daily.csv")
    assert list(table.columns) == list(reference.daily.columns)
    assert table["flights"].sum() == ROWS
    check = check_results(reference.daily, table)
    assert check.passed, check
    assert check.expected > scaled(40, 200)


@pytest.mark.skipif(not SOAKING, reason="make soak; a short run is that after Ctrl-C")
def test_an_undisturbed_run_is_complete(tmp_path: Path, reference: Reference) -> None:
    running = demo(tmp_path, tmp_path / "out")
    assert_complete(running.end(), tmp_path / "out", reference)
    assert running.survivors() == []


@pytest.mark.skipif(
    not SOAKING, reason="make soak; each commit, tests/spark/test_pipeline_faults.py kills the like"
)
@pytest.mark.parametrize(
    ("fault", "steps"),
    [("server", [LOAD, TO_PARQUET, TO_RESULTS]), ("worker", [TO_PARQUET, TO_RESULTS])],
)
def test_the_results_are_right_although_something_dies_midway(
    tmp_path: Path, reference: Reference, fault: str, steps: list[str]
) -> None:
    """Either the nats-server or a Python worker of Spark is killed in the middle of each step."""
    out = tmp_path / "out"
    sizes = (str(ROWS), str(BATCH))
    running = Running(tmp_path, FAULTY_DEMO, str(out), *sizes, fault, *steps, **QUICK_JAVA)
    assert_complete(running.end(), out, reference)
    assert running.survivors() == []


def test_a_program_beside_the_extra_finds_no_other_package(tmp_path: Path) -> None:
    """What the test of the whole demo relies on."""
    alone = without_others(tmp_path / "alone")
    code = "import sys, pandas, jetsync; sys.exit('hypothesis' in sys.modules)"
    assert Running(tmp_path / "one", "-c", code, **alone).end().code == 0
    other = Running(tmp_path / "other", "-c", "import hypothesis", **alone).end()
    assert other.said == "ModuleNotFoundError: No module named 'hypothesis'"


def stop_by_ctrl_c(running: Running, step: str) -> None:
    """Press Ctrl-C as soon as the step begins; it ends tidily and leaves nothing running."""
    running.wait_for(f"{step} ...")
    running.press_ctrl_c()
    ended = running.end()
    assert ended.code == 130, (step, ended.err)
    assert ended.said == "jetsync: interrupted; everything it started is stopped.", step
    assert "Traceback" not in ended.err, step
    assert running.survivors() == [], step


@pytest.mark.parametrize(
    "step", scaled([LOAD], ["start nats-server", LOAD, START_SPARK, TO_PARQUET, TO_RESULTS])
)
def test_ctrl_c_leaves_nothing_running(tmp_path: Path, step: str) -> None:
    stop_by_ctrl_c(demo(tmp_path, tmp_path / "out"), step)


def test_on_a_server_of_its_users_it_removes_what_it_made_and_a_repeat_after_ctrl_c_completes(
    tmp_path: Path, reference: Reference
) -> None:
    """The streams of an earlier run, kept or left by a crash, are replaced.

    The repeat finds no packages but those of the extra ``demo``.
    """
    out = tmp_path / "out"
    with NatsServer() as server, connect(server.url) as nc:
        js = nc.jetstream()
        js.create_stream(name="OTHER", subjects=["other"])
        for name, subject in (("FLIGHTS", "flights.old"), ("RESULTS", "results.old")):
            js.create_stream(name=name, subjects=[subject], metadata={"made-by": "jetsync-demo"})
            js.publish(subject, b"left over")
        stop_by_ctrl_c(demo(tmp_path, out, "--servers", server.url), TO_PARQUET)
        assert list(js.stream_names()) == ["OTHER"]
        alone = without_others(tmp_path / "alone")
        ended = demo(tmp_path, out, "--servers", server.url, **alone).end()
        assert_complete(ended, out, reference)
        assert list(js.stream_names()) == ["OTHER"]


def test_sigterm_stops_it_as_tidily(tmp_path: Path) -> None:
    running = demo(tmp_path, tmp_path / "out")
    running.wait_for(f"{scaled(LOAD, TO_PARQUET)} ...")
    running.terminate()
    ended = running.end()
    assert (ended.code, running.survivors()) == (143, [])
    assert "Traceback" not in ended.err


def test_even_a_killed_demo_leaves_nothing_running(tmp_path: Path) -> None:
    running = demo(tmp_path, tmp_path / "out")
    running.wait_for(f"{TO_PARQUET} ...")
    running.crash()
    running.wait_until_gone()
