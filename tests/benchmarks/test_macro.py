"""The side-by-side benchmarks run, count everything, and make a page of what came out."""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.macro import environments, plots, report
from benchmarks.macro.figures import Figure, Table, cpu, readable
from benchmarks.macro.measure import Bench
from benchmarks.macro.run import Plan
from benchmarks.macro.workloads import ALL, FETCH, GROWTH, PLAIN, SHORT

RAW, JETSYNC = (spec for spec in environments.SPECS if spec.name in ("raw", "jetsync"))


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    made = {spec.name: environments.prepare(spec, folder) for spec in (RAW, JETSYNC)}
    assert [peer.missing for peer in made.values()] == ["", ""]
    made["growth"] = environments.prepare(environments.GROWTH[0], folder)
    return made


@pytest.fixture(scope="module")
def bench(peers):
    with Bench(peers["raw"].command) as running:
        yield running


def test_jetsync_has_every_workload(peers):
    assert peers["jetsync"].workloads == {workload.name for workload in PLAIN}
    assert peers["growth"].workloads == set(GROWTH)


def test_other_peers_have_only_workloads_that_are_defined(peers):
    assert peers["raw"].workloads <= {workload.name for workload in PLAIN}
    assert set(SHORT) <= set(ALL)


@pytest.mark.parametrize("name", ["publish", "sub_next", "js_many", "fetch_ack_batch", "push"])
@pytest.mark.parametrize("peer", ["raw", "jetsync"])
def test_a_measurement_handles_every_message(bench, peers, peer, name):
    figures = bench.run(peers[peer], ALL[name], size=16, count=2 * FETCH)
    assert figures["messages"] == 2 * FETCH
    assert figures["wall"] > 0
    assert figures["cpu"] >= 0


def test_beside_a_busy_thread_all_is_done_too(bench, peers):
    figures = bench.run(peers["jetsync"], ALL["messages+busy"], size=16, count=FETCH)
    assert figures["messages"] == FETCH


def test_latencies_have_a_middle_and_a_tail(bench, peers):
    figures = bench.run(peers["jetsync"], ALL["request"], size=16, count=20)
    assert 0 < figures["p50_us"] <= figures["p99_us"]


def test_a_growing_cost_is_measured_at_a_point(bench, peers):
    figures = bench.grow(peers["growth"], GROWTH["subscriptions"], point=4, scale=0.005)
    assert figures["messages"] == 1000


def test_growth_is_measured_of_the_wanted_peers_only(monkeypatch, tmp_path):
    prepared = []

    def prepare(spec: environments.Spec, folder: Path) -> environments.Peer:
        prepared.append(spec.name)
        return environments.Peer(spec, workloads=frozenset(GROWTH))

    monkeypatch.setattr(environments, "prepare", prepare)
    wanted = {"growth": ["subscriptions"], "peers": ["jetsync"], "rounds": 1}
    options = argparse.Namespace(**wanted, scale=1.0, budget=60.0, out=tmp_path)
    result: dict[str, Any] = {"failed": {}}
    bench = SimpleNamespace(grow=lambda *_: {"messages": 1})
    Plan(cast("Bench", bench), [], options, time.monotonic(), result).growth()
    assert prepared == ["jetsync"]
    assert {row["peer"] for row in result["growth"]} == {"jetsync"}


def test_a_peer_that_cannot_be_had_is_named_with_the_reason(tmp_path):
    spec = environments.Spec("none", "raw.c", "none", libraries=("-lnone",))
    peer = environments.prepare(spec, tmp_path)
    assert "-lnone" in peer.missing


def rows(peer: str, cpu: tuple[float, ...]) -> list[dict[str, object]]:
    return [
        {"workload": "publish", "peer": peer, "size": 128, "round": number, "messages": 1_000_000,
         "wall": 1.0, "cpu": seconds, "server_cpu": 0.1}
        for number, seconds in enumerate(cpu)
    ]  # fmt: skip


def result() -> dict[str, Any]:
    machine = {
        "when": "today", "processor": "one", "processors": 1, "system": "Linux", "python": "3",
        "load_before": [0.5, 0, 0], "note": "A note.",
    }  # fmt: skip
    grown = [
        {"growth": "publish_threads", "point": point, "round": 1, "messages": 10, "wall": 1.0,
         "cpu": 1.0, "server_cpu": 0.0}
        for point in (1, 2)
    ]  # fmt: skip
    peers = {
        "raw": {"version": "raw socket", "runs": "C", "missing": ""},
        "nats_c": {"version": "", "runs": "", "missing": "needs -lnats"},
    }
    both = rows("raw", (0.1, 0.1, 0.4)) + rows("jetsync", (0.2, 0.3, 0.2))
    return {
        "machine": machine, "server": "nats-server 1", "peers": peers, "rows": both,
        "growth": grown, "failed": {"fetch, 16 B, natsio": "exit 1"}, "micro": {},
    }  # fmt: skip


def recorded() -> dict[str, object]:
    files = sorted(report.RESULTS.glob("*.json"))
    assert files
    return report.merge([json.loads(file.read_text()) for file in files])


@pytest.fixture(scope="module")
def recorded_page(tmp_path_factory):
    return report.write(recorded(), tmp_path_factory.mktemp("page") / "performance.md").read_text()


@pytest.fixture(scope="module")
def fonts(tmp_path_factory):
    """matplotlib keeps each font's file open from its first use on: they are used before."""
    report.write(result(), tmp_path_factory.mktemp("fonts") / "performance.md")


def test_figures_are_medians_with_their_spread():
    figure = Figure.of([3.0, 1.0, 2.0])
    assert figure is not None
    assert (figure.median, figure.spread) == (2.0, 0.5)
    assert Figure.of([]) is None
    assert [readable(value) for value in (0.123, 12.34, 456.7, 1234567)] == [
        "0.12", "12.3", "457", "1,230,000",
    ]  # fmt: skip


def test_ratios_are_taken_within_a_round():
    table = Table(result()["rows"])
    assert table.ratio("publish", "jetsync", "raw") == 2.0


def test_the_page_shows_figures_misses_and_what_is_left_out(fonts, tmp_path):
    page = report.write(result(), tmp_path / "performance.md").read_text()
    assert "| `publish` | 0.1 | 0.20 ±25% | missed, 2.00x | 2x | - | - |" in page
    assert "| nats.c | left out | needs -lnats |" in page
    assert "fetch, 16 B, natsio: `exit 1`" in page
    assert "A note." in page
    assert not re.search(r"<!--", page)


def test_the_same_results_give_the_same_plots(fonts, tmp_path):
    merged = report.merge([result()])
    for folder in ("one", "two"):
        assert set(plots.draw(merged, tmp_path / folder)) == {"cpu", "growth"}
    for name in ("cpu.svg", "growth.svg"):
        assert (tmp_path / "one" / name).read_text() == (tmp_path / "two" / name).read_text()


def test_what_several_runs_measured_is_what_the_newest_says():
    """A median over two states of the code would be a figure of neither."""
    new, old = result(), result()
    new["machine"] = {**new["machine"], "when": "2030-01-02"}
    old["machine"] = {**old["machine"], "when": "2030-01-01"}
    old["rows"] = [{**row, "cpu": 10 * row["cpu"]} for row in old["rows"]]
    old["rows"] += [{**row, "workload": "push"} for row in old["rows"]]
    merged = report.merge([new, old])
    table = Table(merged["rows"])
    alone = Table(report.merge([result()])["rows"])
    for name in {row["workload"] for row in new["rows"]}:
        assert str(table.figure(cpu, name, "jetsync")) == str(alone.figure(cpu, name, "jetsync"))
    assert any(row["workload"] == "push" for row in merged["rows"])
    assert len({row["round"] for row in merged["rows"]}) == 6
    old_run, new_run = merged["runs"]
    assert new_run["rows"] == len(new["rows"]) + len(new.get("growth", []))
    assert old_run["rows"] == len(new["rows"])


def test_the_recorded_page_is_made_from_the_recorded_results(recorded_page):
    assert recorded_page == (Path(report.ROOT) / "docs/performance.md").read_text()
