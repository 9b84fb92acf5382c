"""Make the page of figures from the results: ``python -m benchmarks.macro.report``.

Reads every file of benchmarks/results/ and writes docs/performance.md with its plots. The words
come from page.md beside this file, the figures from the results only.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.links import record as links
from benchmarks.macro import plots
from benchmarks.macro.environments import SPECS
from benchmarks.macro.figures import (
    Figure,
    Row,
    Table,
    cpu,
    field,
    growth_points,
    rate,
    readable,
    server_cpu,
)
from benchmarks.macro.goals import compared
from benchmarks.macro.workloads import ALL, BUSY, GROWTH, PLAIN
from benchmarks.spark import record

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).parent / "page.md"
RESULTS = ROOT / "benchmarks" / "results"
TITLES = {spec.name: spec.title for spec in SPECS}
PYTHON_PEERS = tuple(spec.name for spec in SPECS if spec.requires)


def main() -> int:
    files = sorted(RESULTS.glob("*.json"))
    if not files:
        print(f"no results in {RESULTS}", file=sys.stderr)
        return 1
    print(
        write(merge([json.loads(file.read_text()) for file in files]), ROOT / "docs/performance.md")
    )
    return 0


def merge(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put runs together. What several of them measured is what the newest one says, so that no
    figure is of two states of the code; rounds of different runs stay apart."""
    merged: dict[str, Any] = {"runs": [], "rows": [], "growth": [], "failed": {}, "micro": {}}
    results = sorted(results, key=lambda result: str(result["machine"].get("when", "")))
    newest = {what(row): n for n, result in enumerate(results) for row in _measured(result)}
    for number, result in enumerate(results):
        kept = {
            kind: [row for row in result.get(kind, []) if newest[what(row)] == number]
            for kind in ("rows", "growth")
        }
        merged["runs"].append(
            {
                "server": result["server"],
                "rounds": len({row["round"] for rows in kept.values() for row in rows}),
                "rows": sum(map(len, kept.values())),
                "seconds": result.get("seconds", 0.0),
                "cut": result.get("cut", False),
                **result["machine"],
            }
        )
        for kind, rows in kept.items():
            merged[kind] += [{**row, "round": row["round"] + 1000 * number} for row in rows]
        for kind in ("failed", "micro"):
            merged[kind] |= result.get(kind, {})
        merged.setdefault("peers", {}).update(result["peers"])
        merged["server"] = result["server"]
    return merged


def _measured(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [*result["rows"], *result.get("growth", [])]


def what(row: dict[str, Any]) -> tuple[object, ...]:
    """What a measurement is of, in whichever run and round: a workload of a size, or a point of a
    curve, of one client."""
    names = ("workload", "size", "growth", "point")
    return (*(row.get(name) for name in names), row.get("peer", "jetsync"))


def write(result: dict[str, Any], path: Path) -> Path:
    """Write the page and its plots from one result."""
    merged = result if "runs" in result else merge([result])
    text = re.sub(r"<!-- (\w+) -->", lambda m: _PARTS[m[1]](merged), PAGE.read_text())
    folder = path.with_suffix("")
    for name, drawn in plots.draw(merged, folder).items():
        text = text.replace(f"<!-- plot {name} -->", f"![{drawn}]({folder.name}/{name}.svg)")
    text = re.sub(r"<!-- plot \w+ -->\n?", "", text)
    path.write_text(text)
    return path


def summary(result: dict[str, Any]) -> str:
    """The main table as plain text, for the terminal."""
    return _costs(merge([result]), cpu)


# --- the parts of the page -------------------------------------------------------------------


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "(not measured in this run)"
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(figure: Figure | None) -> str:
    return "-" if figure is None else str(figure)


def _costs(result: dict[str, Any], measure: Callable[[Row], float]) -> str:
    table, names = Table(result["rows"]), _names(result)
    rows = []
    for name, workload in ALL.items():
        cells = [_cell(table.figure(measure, name, peer)) for peer in names]
        if any(cell != "-" for cell in cells):
            rows.append([f"`{name}` {workload.does}" if not workload.busy else f"`{name}`", *cells])
    return _grid(["workload", *(TITLES[name] for name in names)], rows)


def _names(result: dict[str, Any]) -> list[str]:
    have = {row["peer"] for row in result["rows"]}
    return [spec.name for spec in SPECS if spec.name in have]


def _latencies(result: dict[str, Any]) -> str:
    table, names = Table(result["rows"]), _names(result)
    rows = []
    for name in ("request", "js_publish", "request" + BUSY):
        cells = []
        for peer in names:
            middle = table.figure(field("p50_us"), name, peer)
            tail = table.figure(field("p99_us"), name, peer)
            cells.append(f"{readable(middle.median)} / {readable(tail.median)}"
                         if middle and tail else "-")  # fmt: skip
        if set(cells) != {"-"}:
            rows.append([f"`{name}`", *cells])
    return _grid(["us, p50 / p99", *(TITLES[name] for name in names)], rows)


def _memory(result: dict[str, Any]) -> str:
    table, names = Table(result["rows"]), _names(result)
    cells = [_cell(table.figure(field("bytes_per_message"), "memory", peer)) for peer in names]
    rows = [["bytes per message", *cells]] if set(cells) != {"-"} else []
    return _grid(["200,000 x 128 B pending", *(TITLES[name] for name in names)], rows)


def _sizes(result: dict[str, Any]) -> str:
    table = Table(result["rows"])
    sizes = sorted({row["size"] for row in result["rows"]})
    rows = []
    for workload in PLAIN:
        for peer in ("raw", "jetsync", "nats_c", "nats_py"):
            cells = [_cell(table.figure(cpu, workload.name, peer, size)) for size in sizes]
            if sum(cell != "-" for cell in cells) > 1:
                rows.append([f"`{workload.name}`", TITLES[peer], *cells])
    return _grid(["workload", "client", *(f"{size:,} B" for size in sizes)], rows)


def _goals(result: dict[str, Any]) -> str:
    table = Table(result["rows"])
    rows = []
    for workload in PLAIN:
        mine = table.figure(cpu, workload.name, "jetsync")
        if workload.goal is None or mine is None:
            continue
        best = min(
            (r for peer in PYTHON_PEERS if (r := table.ratio(workload.name, peer, "jetsync"))),
            default=None,
        )
        raw = table.ratio(workload.name, "jetsync", "raw")
        nats_c = table.ratio(workload.name, "nats_c", "jetsync")
        rows.append([
            f"`{workload.name}`", f"{workload.goal:g}", str(mine),
            _verdict(mine.median / workload.goal),
            *("-" if r is None else f"{r:.2g}x" for r in (raw, nats_c, best)),
        ])  # fmt: skip
    head = ["workload", "goal", "jetsync", "", "jetsync / raw", "nats.c / jetsync",
            "best Python peer / jetsync"]  # fmt: skip
    return _grid(head, rows)


def _verdict(share: float) -> str:
    return "met" if share <= 1 else f"missed, {share:.2f}x"


def _growth(result: dict[str, Any]) -> str:
    parts = []
    for name, growth in GROWTH.items():
        found = growth_points(result, name)
        if found:
            head = [growth.axis, *(f"{point:,}" for point in found)]
            rows = [[growth.unit, *(str(figure) for figure in found.values())]]
            for peer in ("nats_py", "nats_c"):
                if beside := growth_points(result, name, peer):
                    cells = (_cell(beside.get(point)) for point in found)
                    rows.append([f"the same with {TITLES[peer]}", *cells])
            parts.append(f"**{growth.does}** (wanted: {growth.goal})\n\n{_grid(head, rows)}")
    return "\n\n".join(parts) or "(not measured in this run)"


def _micro(result: dict[str, Any]) -> str:
    rows = [
        [name.removeprefix("test_").replace("_", " "), readable(figures["median_ns"])]
        for name, figures in result["micro"].items()
    ]
    return _grid(["1000 messages, median of one", "ns"], rows)


def _machine(result: dict[str, Any]) -> str:
    number = len(result["runs"])
    how = "one run" if number == 1 else f"{number} separate runs, put together"
    lines = [f"The figures come from {how}:", ""]
    for run in result["runs"]:
        load = run["load_before"][0]
        rounds = f"{run['rounds']} round{'s' if run['rounds'] != 1 else ''}"
        ended = ", ended before its time was over" if run["cut"] else ""
        lines.append(
            f"- {run['when']}: {run['processors']} x {run['processor']}, {run['system']}, "
            f"{run['python']}, {run['server']}; commit {run.get('commit', 'not recorded')}; "
            f"{rounds}, {run['rows']} measurements kept, {run['seconds']:.0f} s{ended}; "
            f"load before the run {load:.1f}." + (f" {run['note']}" if run["note"] else "")
        )
    return "\n".join(lines)


def _compared(result: dict[str, Any]) -> str:
    return _grid(["goal", "promised", "measured", ""], compared(result))


def _peers(result: dict[str, Any]) -> str:
    rows = [
        [TITLES[name], peer["version"] or "left out", peer["runs"] or peer["missing"]]
        for name, peer in result["peers"].items()
    ]
    return _grid(["client", "version", "runs on"], rows)


def _failed(result: dict[str, Any]) -> str:
    lines = [f"- {what}: `{why}`" for what, why in result["failed"].items()]
    return "\n".join(lines) or "None failed."


def _spark(result: dict[str, Any]) -> str:  # it has a record of its own, of one run
    grid = _grid(["goal", "promised", "measured", "met", "run"], record.rows())
    return f"{grid}\n\n{record.about()}"


def _links(result: dict[str, Any]) -> str:  # it has a record of its own
    return f"{_grid(*links.rows())}\n\n{links.about()}"


_PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "goals": _goals,
    "cpu": lambda result: _costs(result, cpu),
    "rate": lambda result: _costs(result, rate),
    "server": lambda result: _costs(result, server_cpu),
    "latencies": _latencies,
    "memory": _memory,
    "sizes": _sizes,
    "growth": _growth,
    "micro": _micro,
    "machine": _machine,
    "peers": _peers,
    "compared": _compared,
    "failed": _failed,
    "spark": _spark,
    "links": _links,
}


if __name__ == "__main__":
    sys.exit(main())
